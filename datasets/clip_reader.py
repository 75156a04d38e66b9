"""Reading a clip for the evaluation protocol: raw YUV, a folder of images, or any video.

YUV is converted by the matrix and range that its file states, else as players assume: limited
range, BT.601 up to 576 lines, BT.709 above. The RGB is then taken as BT.709, full range.
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
    """The first `frames` pictures (None: all), RGB uint8 (H, W, 3), and the frame rate.

    The short side becomes `short_side` pixels, by `protocol_size` and `resized` (None: the clip's
    own size); the pixel aspect stays. `path` is raw YUV (`raw` is its format, None: as its name
    tells), a folder of images (25 fps, in the order of their numbers), or anything FFmpeg reads.
    Raises InputError when it is no video, ConfigError for `frames` below 1.
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


def image_pattern(folder: Path) -> str:
    """A pattern of the folder's images of the commonest suffix. Raises InputError without any."""
    suffix = image_suffix(folder)
    if suffix is None:
        raise InputError(f"{folder}: a folder without images: give a video, or images in a folder")
    return f"{glob.escape(str(folder))}/*{suffix}"


def image_suffix(folder: Path) -> str | None:
    """The commonest suffix of the folder's images, its subfolders aside; None without any."""
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
