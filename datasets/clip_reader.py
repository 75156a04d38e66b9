"""Reading a clip as the evaluation protocol wants it, from whatever it is kept in.

Pictures become RGB uint8, full range; YUV is converted by the matrix and range its file states, else by
what players assume (limited range, BT.601 up to 576 lines, BT.709 above). RGB is then taken for BT.709.
"""

import glob
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from gsvc.codec.errors import ConfigError, InputError
from gsvc.codec.frames import Picture
from gsvc.codec.media.video_reader import open_video
from gsvc.datasets.raw_format import RawFormat, format_from_name
from gsvc.datasets.raw_video import RAW_SUFFIXES, read_raw
from gsvc.datasets.resizing import protocol_size, resized

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"}


def load_clip(
    path: str | Path,
    frames: int | None = 97,
    short_side: int | None = 288,
    raw: RawFormat | None = None,
) -> tuple[list[Picture], Fraction]:
    """The first `frames` pictures (None: all) as the evaluation protocol wants them, and the frame rate.

    RGB uint8 (H, W, 3). The short side becomes `short_side` pixels, by Lanczos upwards and area
    averaging downwards, both sides even (None: the clip's own size); pixel aspect is left as it is.
    `path` is raw YUV (`raw` is its format, None: as its name says), a folder of images (25 frames a
    second, in the order of their numbers), or anything FFmpeg reads. No more is read than the frames
    asked for. Raises InputError when it is not video, ConfigError for a number of frames below 1.
    """
    if frames is not None and frames < 1:
        raise ConfigError(f"frames {frames}: must be 1 or more")
    path = Path(path)
    if path.suffix.lower() in RAW_SUFFIXES and not path.is_dir():
        form = raw or format_from_name(path)
        return _at_size(read_raw(path, form, frames), short_side), form.frame_rate
    source = image_pattern(path) if path.is_dir() else path
    with open_video(source, frames=frames) as video:
        pictures = (frame.pixels for frame in video)
        return _at_size(pictures, short_side), video.format.frame_rate


def has_images(folder: Path) -> bool:
    """Whether the folder itself holds images."""
    return _image_suffix(folder) is not None


def image_pattern(folder: Path) -> str:
    """A pattern for the images of the kind the folder has most of. Raises InputError without any."""
    suffix = _image_suffix(folder)
    if suffix is None:
        raise InputError(f"{folder}: a folder without images: give a video, or images in a folder")
    return f"{glob.escape(str(folder))}/*{suffix}"


def _image_suffix(folder: Path) -> str | None:
    try:
        suffixes = Counter(path.suffix for path in folder.iterdir() if not path.is_dir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror}): check the path") from error
    images = [(count, kind) for kind, count in suffixes.items() if kind.lower() in IMAGE_SUFFIXES]
    return max(images)[1] if images else None


def _at_size(pictures: Iterable[Picture], short_side: int | None) -> list[Picture]:
    def fitted(picture: Picture) -> Picture:
        return resized(picture, *protocol_size(picture.shape[1], picture.shape[0], short_side))

    return [fitted(picture) for picture in pictures]
