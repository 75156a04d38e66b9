"""Which clips are taken: what they are measured by, limits, and no two that show the same."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.detection.people import SingleShotDetector
from gsvc.decoders.interpolation.optical_flow import dis_flow, gray
from gsvc.decoders.training.preparation.settings import Settings
from gsvc.decoders.training.preparation.sources import Clip
from gsvc.encoders.scaffold.face_landmarks import FACE_MODEL, FACE_STRIDES

_BLACK, _WHITE, _BORDER = 2, 253, 24
"""Levels; of a border no pixel is brighter in any frame."""
_HASHED, _KEPT = 32, 8
"""Sides of the picture whose DCT is taken, and of the low frequencies that count."""
_SURE_FACE = 0.75
_STROKE, _LETTERS = 0.3, (17, 3)
"""Of text: share of the strongest possible gradient; width and height that close gaps of words."""
_TEXT_SHAPE = 2.5, 0.35, 5
"""Least width for its height, least share of strokes, least height of a line of text."""


def measures(frames: Sequence[Picture]) -> dict[str, float]:
    """Those of `settings.MEASURES`, of frames in RGB uint8 (H, W, 3)."""
    looked = [frames[0], frames[len(frames) // 2], frames[-1]]
    lumas = [gray(frame) for frame in looked]
    middle = len(frames) // 2
    pairs = [(frames[n], frames[n + 1]) for n in (0, middle - 1, len(frames) - 2)]
    return {
        "motion": float(np.mean([_motion(*pair) for pair in pairs])),
        "sharpness": float(np.median([cv2.Laplacian(y, cv2.CV_32F).var() for y in lumas])),
        "luma": float(np.mean(lumas)),
        "clipped": float(np.mean([(y <= _BLACK) | (y >= _WHITE) for y in lumas])),
        "letterbox": _letterbox(np.max(lumas, 0)),
        "text": float(np.mean([_text(y) for y in lumas])),
        "faces": float(max(len(_faces()(frame)) for frame in looked)),
    }


def _motion(one: Picture, other: Picture) -> float:
    flow = dis_flow(gray(one), gray(other), cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
    return float(np.linalg.norm(flow, axis=2).mean())


def _letterbox(brightest: NDArray[np.uint8]) -> float:
    """Share of the picture in rows and columns at its borders that are black throughout."""
    lit = brightest >= _BORDER
    rows, columns = np.flatnonzero(lit.any(1)), np.flatnonzero(lit.any(0))
    if not len(rows):
        return 1.0
    inner = int(rows[-1] - rows[0] + 1) * int(columns[-1] - columns[0] + 1)
    return 1 - inner / brightest.size


def _text(luma: NDArray[np.uint8]) -> float:
    """Share of the picture in flat, wide boxes full of strokes: morphological gradient, then
    closing. It finds captions and titles; rows of windows or leaves may look alike."""
    small = np.ones((3, 3), np.uint8)
    strokes = cv2.morphologyEx(luma, cv2.MORPH_GRADIENT, small) > 255 * _STROKE
    mask = strokes.astype(np.uint8)
    joined = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones(_LETTERS[::-1], np.uint8))
    _, _, boxes, _ = cv2.connectedComponentsWithStats(joined)
    wide, full, high = _TEXT_SHAPE
    area = 0
    for left, top, width, height, _ in boxes[1:]:
        inside = mask[top : top + height, left : left + width]
        if height >= high and width >= wide * height and inside.mean() > full:
            area += width * height
    return float(area / luma.size)


@cache
def _faces() -> SingleShotDetector:
    return SingleShotDetector(FACE_MODEL, FACE_STRIDES, _SURE_FACE)


def clip_hash(frames: Sequence[Picture]) -> int:
    """192 bits: those of the first, the middle and the last frame.

    Of each the signs of the 64 lowest frequencies about their median (C. Zauner, "Implementation
    and Benchmarking of Perceptual Image Hash Functions", 2010): coding and scaling change few.
    """
    value = 0
    for frame in (frames[0], frames[len(frames) // 2], frames[-1]):
        small = cv2.resize(gray(frame), (_HASHED, _HASHED), interpolation=cv2.INTER_AREA)
        low = cv2.dct(small.astype(np.float32))[:_KEPT, :_KEPT].ravel()
        bits = low > np.median(low[1:])
        value = value << 64 | int.from_bytes(np.packbits(bits).tobytes())
    return value


HASH_BITS = 192
_BANDS = 12
"""Clips that differ in at most 11 bits agree in one of 12 bands: only such are compared."""
_BAND_BITS = HASH_BITS // _BANDS


@dataclass(frozen=True, slots=True)
class Found:
    """A clip that the survey found."""

    clip: Clip
    measures: dict[str, float]
    hash: int


def outside(found: Found, settings: Settings) -> str:
    """Why a clip is outside the limits; "" where it is within."""
    for name, (least, most) in settings.limits.items():
        value = found.measures[name]
        if not least <= value <= most:
            return f"{name} {value:.3g} is not within {least:g} to {most:g}"
    return ""


def chosen(clips: Iterable[Found], settings: Settings) -> tuple[list[Found], dict[str, str]]:
    """Clips to take, in the order given, and for the key of each other one the reason.

    Of the clips only those that are taken are kept in memory.
    """
    taken: list[Found] = []
    reasons: dict[str, str] = {}
    bands: dict[int, array[int]] = {}
    for found in clips:
        why = outside(found, settings)
        own = [band << _BAND_BITS | _band(found.hash, band) for band in range(_BANDS)]
        same = None
        if not why:
            numbers = {number for key in own for number in bands.get(key, ())}
            same = _same(found, [taken[number] for number in sorted(numbers)])
        if same and same.clip.key == found.clip.key:
            continue  # the very file, at another address
        if same and _distance(same, found) <= settings.nearest:
            why = f"shows the same as {same.clip.key}"
        if why:
            reasons[found.clip.key] = why
            continue
        for key in own:
            bands.setdefault(key, array("I")).append(len(taken))
        taken.append(found)
    return taken, reasons


def _band(value: int, band: int) -> int:
    return value >> band * _BAND_BITS & (1 << _BAND_BITS) - 1


def _same(found: Found, others: list[Found]) -> Found | None:
    """The nearest one."""
    return min(others, key=lambda other: _distance(other, found), default=None)


def _distance(one: Found, other: Found) -> int:
    return (one.hash ^ other.hash).bit_count()
