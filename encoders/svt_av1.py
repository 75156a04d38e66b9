"""AV1 by SVT-AV1: one closed sequence per group, at a low frame rate.

Predicted from each other, keyframes cost a fraction of as many intra pictures.

Opening SVT-AV1 must not print, and must not take over the machine. It prints a banner unless
`SVT_LOG` says otherwise. Run by root (as in most containers), it gives the thread that opens it,
and every thread that it starts, real-time priority 99: nothing else on those cores runs until it
is done, and the caller keeps the priority for the rest of its life.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial

import av
import cv2
import numpy as np
from av.video.reformatter import ColorRange
from numpy.typing import NDArray

from gsvc.codec.bitstream import coded_pictures, errors, scaffold
from gsvc.codec.bitstream.frames import Color, Picture
from gsvc.codec.media.color import compand_chroma, yuv_from_rgb
from gsvc.encoders.frame_buffer import malloc_trim


@contextmanager
def quiet_and_ordinary() -> Iterator[None]:
    """Open an encoder inside this block: it prints nothing, as FFmpeg reports its errors, and the
    calling and new threads get the caller's old scheduling."""
    os.environ.setdefault("SVT_LOG", "0")
    if sys.platform != "linux":
        yield
        return
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    before = _threads()
    yield
    if os.sched_getscheduler(0) == policy:
        return
    os.sched_setscheduler(0, policy, parameter)
    for thread in _threads() - before:
        # One that has ended meanwhile needs nothing.
        with suppress(ProcessLookupError):
            os.sched_setscheduler(thread, policy, parameter)


def _threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}


Planes = NDArray[np.uint8]
"""YUV 4:2:0 as FFmpeg packs it: (H * 3 / 2, W), luma above, then both chroma planes."""
_FORMAT = "yuv420p"
_SHORT = 33
"""Pictures of a sequence up to which three temporal layers above the base are best ("Layers")."""

_TRIES = 3
"""SVT-AV1 4.1 once ended without the pictures of its last, incomplete mini-group, on a busy CPU;
the same sequence coded again is whole. It is too rare to be made to happen."""

_FAITHFUL = "tune=1:enable-restoration=0"
_VISUAL = "tune=0:sharpness=7:enable-cdef=0:enable-restoration=0"
"""What each is worth: docs/logs/search.md, "How SVT-AV1 is tuned". Tuned for texture it never takes
CDEF or restoration filters, whose flags cost bits and whose search costs time."""
_EVENER = ":qp-scale-compress-strength=1"
"""Quantisers of temporal layers lie closer together: 3 to 6 % fewer bits at equal PSNR and SSIM
with _FAITHFUL ("Final coding")."""

_FINER, _INTRA_FINER, _LAYERS = 4, 59, ":qindex-offsets=[-32,0,12,16,16,16]"
"""Offsets of quantiser indices that code about as SVT-AV1's own do without look-ahead."""
MOST_COARSER = 30.0
MAX_CRF = 70
"""SVT-AV1 since 3.1: beyond 63 the coarsest quantiser also codes less of the prediction error."""


def can_code(size: tuple[int, int]) -> bool:
    """Whether SVT-AV1 takes pictures of this (width, height): long thin ones make 3.1 hang."""
    return min(size) >= 4 and (min(size) >= 32 or max(size) <= 64)


def check_size(width: int, height: int) -> None:
    """Raise InputError for a video that is too large to code, too small, or too thin."""
    limits = errors.DEFAULT_LIMITS
    if width * height > limits.pixels or max(width, height) > limits.side:
        raise errors.InputError(
            f"pictures of {width}x{height}: at most {limits.pixels} pixels and {limits.side} a "
            "side can be coded, shrink the video"
        )
    if not can_code(scaffold.Geometry(width, height).coded_size(8)):
        why = f"pictures of {width}x{height} are too small or thin: make both sides 3 to 64"
        raise errors.InputError(f"{why}, or both 31 or more")


def encode_pictures(
    pictures: Sequence[Picture | Planes],
    *,
    size: tuple[int, int],
    crf: float,
    color: Color,
    preset: int = 4,
    threads: int = 2,
    visual: bool = False,
    companded: bool = False,
    more: str = "",
) -> list[bytes]:
    """Code `pictures` (RGB uint8, equal shapes) as one AV1 sequence, the first one intra.

    They may also be what `planes_of` made of them for `size` and `color`, the (width, height) to
    code at and the source's colour. `crf`: 1-70 in quarters, higher is smaller; `preset`:
    SVT-AV1's, 0-13; `threads`: that it runs on, with the same bytes for any number; `visual`: tuned
    for texture, not for fidelity; `companded`: with companded chroma; `more`: further parameters of
    SVT-AV1, each after a colon.
    Returns one temporal unit a picture, in display order, without temporal delimiters. Raises
    ConfigError where `crf` or `size` is out of range.
    """
    if not 1 <= crf <= MAX_CRF:
        raise errors.ConfigError(f"crf {crf} is out of range: 1 to {MAX_CRF}")
    if not can_code(size):
        why = f"pictures of {size[0]}x{size[1]} are too small or thin: enlarge the video"
        raise errors.ConfigError(why)
    planes = [one if one.ndim == 2 else planes_of(one, size, color) for one in pictures]
    planes = list(map(compand_chroma, planes)) if companded else planes
    # With SVT-AV1's usual 32 pictures a mini-group, the second picture of a short sequence is as
    # expensive as the first.
    layers = 3 if len(planes) <= _SHORT else 4
    spread = "" if visual else _EVENER
    more = f":lp={threads}:hierarchical-levels={layers}{spread}{more}"
    units = _units(planes, color, partial(_open, size, crf, preset, color, visual, more))
    if size[0] * size[1] > 1 << 18:
        malloc_trim()  # .1 to .6 GB of small blocks
    return units


def _units(
    pictures: Sequence[Planes], color: Color, open_coder: Callable[[], av.VideoCodecContext]
) -> list[bytes]:
    for _ in range(_TRIES):
        coder, packets = open_coder(), []
        for index, picture in enumerate(pictures):
            packets += coder.encode(_frame(picture, index, color, coder))
        packets += coder.encode(None)
        if len(packets) == len(pictures):
            packets.sort(key=lambda packet: packet.pts or 0)
            return [coded_pictures.strip_temporal_unit(bytes(packet)) for packet in packets]
    raise RuntimeError(f"SVT-AV1 gave {len(packets)} units for {len(pictures)} pictures")


class PictureStream:
    """One AV1 sequence coded picture by picture, each predicted from earlier ones; no delay."""

    def __init__(
        self,
        size: tuple[int, int],
        crf: float,
        color: Color,
        preset: int,
        visual: bool,
        intra: float | None,
    ) -> None:
        """Arguments as of `encode_pictures`; `intra`: of which quantiser's sequence the intra
        picture is to be, up to `MOST_COARSER` above `crf`; None: as SVT-AV1 finds best."""
        self._size, self._color, self._count = size, color, 0
        more = ":lp=2:pred-struct=1:lookahead=0"
        if intra is not None:
            crf, offset = crf - _FINER, round(4 * (intra - crf)) - _INTRA_FINER
            more += f":use-fixed-qindex-offsets=1:key-frame-qindex-offset={offset}{_LAYERS}"
        self._coder = _open(size, crf, preset, color, visual, more)

    def encode(self, picture: Picture) -> bytes:
        """The picture's temporal unit."""
        planes = planes_of(picture, self._size, self._color)
        frame = _frame(planes, self._count, self._color, self._coder)
        self._count += 1
        packets = self._coder.encode(frame)
        if len(packets) != 1:
            raise RuntimeError(f"SVT-AV1 gave {len(packets)} units for one picture")
        return coded_pictures.strip_temporal_unit(bytes(packets[0]))

    def close(self) -> None:
        """End the sequence; without it SVT-AV1 complains when it goes."""
        self._coder.encode(None)


def planes_of(picture: Picture, size: tuple[int, int], color: Color) -> Planes:
    """A picture as it is coded: scaled to `size`, YUV 4:2:0."""
    color = color.resolved(picture.shape[0])
    frame = yuv_from_rgb(_resize(picture, size), color, pixel_format=_FORMAT)
    return np.asarray(frame.to_ndarray(), np.uint8)


def _frame(planes: Planes, index: int, color: Color, coder: av.VideoCodecContext) -> av.VideoFrame:
    frame = av.VideoFrame.from_ndarray(planes, format=_FORMAT)
    frame.color_range, frame.colorspace = coder.color_range, color.matrix
    frame.pts, frame.time_base = index, coder.time_base
    return frame


def _open(
    size: tuple[int, int], crf: float, preset: int, color: Color, visual: bool, more: str
) -> av.VideoCodecContext:
    coder = av.CodecContext.create("libsvtav1", "w")
    assert isinstance(coder, av.VideoCodecContext)
    coder.width, coder.height = size
    coder.pix_fmt = _FORMAT
    coder.time_base, coder.framerate = Fraction(1, 4), Fraction(4)
    coder.color_range = ColorRange.JPEG if color.full_range else ColorRange.MPEG
    # One intra picture, no scene detection of its own: groups are cut by gsvc.
    parameters = f"crf={round(4 * crf) / 4}:keyint=-1:scd=0:{_VISUAL if visual else _FAITHFUL}"
    coder.options = {"preset": str(preset), "svtav1-params": parameters + more}
    with quiet_and_ordinary():
        coder.open()
    return coder


def _resize(picture: Picture, size: tuple[int, int]) -> Picture:
    height, width = picture.shape[:2]
    if (width, height) == size:
        return picture
    if (width + width % 2, height + height % 2) == size:
        border = 0, height % 2, 0, width % 2
        return np.asarray(cv2.copyMakeBorder(picture, *border, cv2.BORDER_REPLICATE), np.uint8)
    shrinks = size[0] <= width and size[1] <= height
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LANCZOS4
    return np.asarray(cv2.resize(picture, size, interpolation=how), np.uint8)
