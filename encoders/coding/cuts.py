"""Where scenes begin, and flicker: frames whose brightness jumps within one.

A jump is a change that one factor for the whole picture explains, which motion is not. It is taken
from the source before keyframes are placed and coded: where brightness comes back soon, no keyframe
is a flash, and where it stays changed, as when a lamp goes off, no motion is found between a bright
and a dark keyframe, which bends what it draws. Every frame is sent the factor that it lacks.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.brightness import MAX_BRIGHTNESS, STEPS, Brightness, brightened
from gsvc.codec.bitstream.scaffold import Place
from gsvc.decoders.interpolation.optical_flow import gray, shrunk
from gsvc.encoders import frame_buffer, tuning
from gsvc.encoders.plans import PlannedInterval, Probe

Thumbnail = NDArray[np.float32]
"""Luma of a picture, float32 (18, 32), 0 to 255."""
_THUMBNAIL = (32, 18)
_FLICKER = 64
"""Levels by which brightness may change within a shot: from black to white is a cut."""


def thumbnail(picture: Picture) -> Thumbnail:
    """Luma of RGB uint8 (H, W, 3), float32 (18, 32)."""
    return shrunk(gray(picture), _THUMBNAIL).astype(np.float32)


class CutDetector:
    """Tells, frame by frame, whether a new scene begins.

    Both structure and histogram must change: a pan changes only the first, a flash or a flicker of
    brightness only the second. A very large change of structure is a cut whatever the histogram.
    """

    def __init__(self) -> None:
        self._last: Thumbnail | None = None
        self._usual = 0.0

    def __call__(self, picture: Picture) -> bool:
        """True when `picture` (RGB uint8) does not continue the one before."""
        now = thumbnail(picture)
        last, self._last = self._last, now
        if last is None:
            return False
        brighter = np.clip(now.mean() - last.mean(), -_FLICKER, _FLICKER)
        change = float(np.abs(now - last - brighter).mean())
        spread = float(np.abs(np.sort(now, axis=None) - np.sort(last, axis=None)).mean())
        is_cut = change > max(tuning.LEAST_CUT, tuning.CUT_RATIO * self._usual) and (
            change > tuning.SURE_CUT or spread > tuning.LEAST_SPREAD
        )
        self._usual = 0.0 if is_cut else 0.8 * self._usual + 0.2 * change
        return is_cut


_AROUND = 7
"""Frames before and after one whose median brightness is its usual one: longer changes stay."""
_CLIPPED = 0.01  # share of a frame that may be brightened beyond white
_LEAST = 2.0  # steps below which nothing is a jump
_EXPLAINED = 0.6  # share of the difference that a jump leaves at most
_DARKEST, _BRIGHTEST, _SEEN = 16, 240, 0.2
"""Levels between which brightness can be told, and the share of pixels that must lie there."""


class Flicker:
    """Flicker of a shot's pictures."""

    def __init__(self, thumbnails: Sequence[Thumbnail], *, open_ended: bool) -> None:
        """`thumbnails`: of its pictures; `open_ended`: the last is the next group's first, which is
        no flash to either group."""
        self._thumbnails, self._jumps = _measured(thumbnails)
        self._changes = _changes(self._thumbnails, self._jumps)
        if open_ended:
            self._changes[:] = 0
        self._thumbnails *= np.exp2(-self._changes / STEPS, dtype=np.float32)[:, None, None]
        self._jumps -= np.diff(self._changes, prepend=0)
        self._jumps[np.abs(self._jumps) < _LEAST] = 0
        curve = np.cumsum(self._jumps)
        around = np.lib.stride_tricks.sliding_window_view(
            np.pad(curve, _AROUND, "edge"), 2 * _AROUND + 1
        )
        self._steps = np.rint(curve - np.median(around, axis=1)).astype(int)
        self._steps[0] = 0
        if open_ended:
            self._steps[-1] = 0
        self._removed = np.clip(self._steps + self._changes, -MAX_BRIGHTNESS, MAX_BRIGHTNESS)

    def steady(self, pictures: Sequence[Picture], *, low_memory: bool) -> Sequence[Picture]:
        """Its pictures, RGB uint8 (H, W, 3), without it; `low_memory`: as of `FrameBuffer`."""
        if not self._removed.any():
            return pictures
        others = np.flatnonzero(self._removed).tolist()
        steady = (brightened(pictures[k], -int(self._removed[k])) for k in others)
        mended = frame_buffer.FrameBuffer(steady, low_memory=low_memory)
        runs = {k: mended[n : n + 1] for n, k in enumerate(others)}
        frames = range(len(pictures))
        return frame_buffer.JoinedFrames(*(runs.get(k) or pictures[k : k + 1] for k in frames))

    def signalled(self, probe: Probe) -> Probe:
        """The probe, whose intervals are drawn with the brightness of their frames."""
        drawings = {
            planned: replace(drawing, brightness=self._brightness(planned))
            for planned, drawing in probe.drawings.items()
        }
        return replace(probe, drawings=drawings)

    def _brightness(self, planned: PlannedInterval) -> Brightness | None:
        """Brightness of the frames of an interval; None if all are as their keyframes."""
        first = planned.start + (planned.place is not Place.BEFORE)
        frames = range(first, first + planned.length)
        steps = self._changes[first : frames.stop].copy()
        if self._jumps[planned.start + 1 : frames.stop].any():
            steps += [self._lacked(index, planned) for index in frames]
        told = tuple(np.clip(steps, -MAX_BRIGHTNESS, MAX_BRIGHTNESS).tolist())
        return told if any(told) else None

    def _lacked(self, index: int, planned: PlannedInterval) -> int:
        """Steps that a frame is brighter than its keyframes show it, but for lasting changes."""
        if index == planned.end and planned.place is not Place.AFTER:
            return int(self._steps[index])
        left = planned.end if planned.place is Place.BEFORE else planned.start
        right = planned.start if planned.place is Place.AFTER else planned.end
        share = np.float32((index - planned.start) / max(1, planned.end - planned.start))
        drawn = (1 - share) * self._steady_thumbnail(left) + share * self._steady_thumbnail(right)
        return round(_jump(drawn, self._thumbnails[index]))

    def _steady_thumbnail(self, index: int) -> Thumbnail:
        shown = self._thumbnails[index] * 2 ** (-self._steps[index] / STEPS)
        return np.asarray(shown, np.float32)


def lasting_changes(thumbnails: Sequence[Thumbnail]) -> list[int]:
    """The frames of a shot where it becomes brighter or darker for good."""
    return np.flatnonzero(np.diff(_changes(*_measured(thumbnails)), prepend=0)).tolist()


def _changes(thumbnails: Thumbnail, jumps: NDArray[np.float64]) -> NDArray[np.int64]:
    """Steps that each frame is brighter than the first for good: that much before a jump and after
    it there is no other. None where that would brighten frames beyond white."""
    alone = np.zeros_like(jumps)
    for k in range(_AROUND, len(jumps) - _AROUND + 1):
        if np.count_nonzero(jumps[k - _AROUND : k + _AROUND]) == 1:
            alone[k] = jumps[k]
    changes = np.rint(np.cumsum(alone)).astype(int)
    white = 255 * 2 ** (changes[:, None, None] / STEPS)
    clipped = (thumbnails > white).mean(axis=(1, 2)) > _CLIPPED
    return np.zeros_like(changes) if clipped.any() else changes


def _measured(thumbnails: Sequence[Thumbnail]) -> tuple[Thumbnail, NDArray[np.float64]]:
    """Thumbnails of a shot's frames, and how many steps brighter than the last one each jumps."""
    pairs = zip([thumbnails[0], *thumbnails], thumbnails, strict=False)
    return np.stack(thumbnails), np.array([_jump(*pair) for pair in pairs])


def _jump(before: Thumbnail, now: Thumbnail) -> float:
    """How many steps brighter `now` is, 0 where that does not explain how they differ."""
    seen = (np.minimum(before, now) > _DARKEST) & (np.maximum(before, now) < _BRIGHTEST)
    if seen.mean() < _SEEN:
        return 0.0
    before, now = before[seen], now[seen]
    steps = STEPS * float(np.median(np.log2(now / before)))
    if abs(steps) < _LEAST:
        return 0.0
    left = np.abs(now - before * 2 ** (steps / STEPS)).mean()
    return steps if left < _EXPLAINED * np.abs(now - before).mean() else 0.0
