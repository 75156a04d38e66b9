"""Pictures and videos for people: with captions, as files, and as data URIs for a page."""

import base64
import io
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from gsvc.codec.bitstream.frames import Frame, Picture, VideoFormat
from gsvc.codec.media.color import yuv_from_rgb
from gsvc.codec.media.video_writer import open_writer
from gsvc.encoders.coding.svt_av1 import quiet_and_ordinary
from gsvc.eval.baselines.conventional import BT709

_BAR = 26
_INK, _PAPER = (240, 240, 240), 24


def captioned(picture: Picture, text: str) -> Picture:
    """The picture, RGB uint8 (H, W, 3), over a bar of 26 lines with `text`, cut at its width."""
    bar = np.full((_BAR, picture.shape[1], 3), _PAPER, np.uint8)
    cv2.putText(bar, text, (6, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.42, _INK, 1, cv2.LINE_AA)
    return np.vstack([picture, bar])


def image_file(picture: Picture, suffix: str, *options: int) -> bytes:
    """An RGB picture (H, W, 3) uint8 as an image file; `options`: of `cv2.imencode`."""
    _, coded = cv2.imencode(suffix, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), options)
    return coded.tobytes()


def write_video(target: Path, form: VideoFormat, frames: Sequence[Picture]) -> None:
    """Replace a video, one tick of time from each frame to the next. Raises OutputError."""
    with open_writer(target, form, overwrite=True) as writer:
        for pts, frame in enumerate(frames):
            writer.write(Frame(frame, pts))


NEAR_TRANSPARENT = 19
LOSSLESS_TO_THE_EYE = 10
"""Of H.264, at a preset that keeps detail."""
_SEEKABLE = 48
"""Frames between key frames: a page jumps to a frame at once."""
_JPEG_QUALITY = 88
_BLOCK = 16
"""Panes of a stack begin on a macroblock, so that none is coded with parts of its neighbour."""


def picture_uri(picture: Picture) -> str:
    """An RGB picture (H, W, 3) uint8 as a JPEG."""
    return data_uri(
        "image/jpeg", image_file(picture, ".jpg", cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY)
    )


def pane_height(height: int) -> int:
    """Lines from one pane of a stack to the next."""
    return -(-height // _BLOCK) * _BLOCK


def stacked_video(
    clips: Sequence[Sequence[Picture]], frame_rate: Fraction, crf: int = NEAR_TRANSPARENT
) -> bytes:
    """Clips of one size and length, one under the other, as one H.264 MP4.

    One video cannot fall out of step with itself: that is what keeps the panes synchronised.
    """
    panes = len(clips)
    height, width = clips[0][0].shape[:2]
    size = pane_height(width), panes * pane_height(height)
    target = io.BytesIO()
    with av.open(target, mode="w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=frame_rate)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": str(crf), "preset": "medium", "g": str(_SEEKABLE), "threads": "2"}
        with quiet_and_ordinary():
            stream.codec_context.open()
        for index in range(len(clips[0])):
            stack = np.vstack([_padded(clip[index], size[0]) for clip in clips])
            frame = yuv_from_rgb(stack, BT709, "yuv420p")
            frame.pts, frame.time_base = index, 1 / frame_rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return target.getvalue()


def _padded(picture: Picture, width: int) -> Picture:
    height = pane_height(picture.shape[0])
    edges = ((0, height - picture.shape[0]), (0, width - picture.shape[1]), (0, 0))
    return np.pad(picture, edges, mode="edge")


def data_uri(kind: str, data: bytes) -> str:
    """A file of that media type."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
