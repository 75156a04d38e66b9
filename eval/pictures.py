"""Pictures and videos for people: a line of text under a picture, and files of them."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from gsvc.codec.frames import Frame, Picture, VideoFormat
from gsvc.codec.media.video_writer import open_writer

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
