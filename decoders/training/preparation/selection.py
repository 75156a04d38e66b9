"""Which clips are taken: within limits, and no two that show the same."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from gsvc.decoders.training.preparation.clips import Clip
from gsvc.decoders.training.preparation.settings import Settings

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
