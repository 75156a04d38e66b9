"""Clips as files: what processes of their own read."""

from pathlib import Path

from gsvc.codec.frames import Frame, Picture, VideoFormat
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.media.video_writer import open_writer
from gsvc.datasets.clips import TestClip


def written(clip: TestClip, folder: Path) -> tuple[Path, list[Picture]]:
    """The clip as y4m in a folder; and what reads back from there, RGB uint8 (H, W, 3)."""
    path, form, rate = folder / "source.y4m", clip.format, clip.frame_rate
    with open_writer(path, VideoFormat(form.width, form.height, 1 / rate, rate)) as writer:
        for index, picture in enumerate(clip.frames):
            writer.write(Frame(picture, index))
    with open_video(path) as video:
        return path, [frame.pixels for frame in video]
