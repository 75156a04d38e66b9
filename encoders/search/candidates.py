"""Candidates: plans of a group, where its keyframes may lie, and what each plan should cost.

How well motion draws a frame depends on the motion: a camera that pans steadily needs few
keyframes, one that shakes needs each frame. `Placement` tries intervals on the source, small and
uncoded, and finds by dynamic programming the positions with the least error, once for each price
of a keyframe: the time is linear in the frames.

`predicted_costs` predicts bits and distortion of a plan from the probes made so far: a Bayesian
linear regression (Bishop, Pattern Recognition and Machine Learning, 2006, section 3.3). The
logarithms of bits and of distortion, per pixel, are quadratic in the logarithms of how many
keyframes there are, of their size and of what their quantiser leaves of the bits, and, for
distortion, of the error of `Placement`. Coefficients have a normal prior, fitted to grids of
probes (docs/logs/search.md, "Foretelling trials"); each probe narrows it.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.interpolation.optical_flow import dense_flow, pixel_grid, shrunk, warp
from gsvc.decoders.interpolation.rendering import dissolved
from gsvc.encoders import tuning
from gsvc.encoders.distortion import FloatMap, Structure

_LINES = 72
"""Short side at which intervals are tried: motion found there is rough, and fast."""
_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 192)
"""Frames of intervals that are tried; longer ones begin at fewer frames."""
_FINE = 6  # frames up to which intervals may begin anywhere
_PRICES = np.geomspace(100.0, 1e-4, 160)
"""Errors that a picture must save: for each the best positions are found."""
_KEPT = 2 * _LENGTHS[-1]  # frames whose structure is kept
_LONG = 24  # frames of an interval from which four are drawn; of shorter ones two at most
_LOOKED_AT = 2  # frames, about, that are looked at where a picture is held


@dataclass(frozen=True)
class _Edges:
    """Intervals as edges from frame to frame, ordered by their ends."""

    starts: NDArray[np.intp]
    ends: NDArray[np.intp]
    errors: NDArray[np.float64]
    """Summed over the frames between, each 0 to 2."""


class Placement:
    """Places the pictures of a group.

    A group that goes on from another begins with a coded picture; one that goes on in another ends
    with one more, which is the other's.
    """

    def __init__(
        self,
        thumbnails: Sequence[Picture],
        weights: Sequence[FloatMap | None],
        pool: Executor,
        *,
        begins: bool,
        open_ended: bool,
        longest: int,
        grid: int = 1,
        is_rough: bool = False,
    ) -> None:
        """`thumbnails`: luma of every frame, small, uint8; `weights`: of the parts of each, None:
        all 1; `begins`: a scene begins with the group;
        `open_ended`: the last frame is the next group's; `longest`: most frames from one coded
        picture to the next; an interval with a multiple of `grid` inside it must start and
        end at multiples (the last may end early); `is_rough`: short intervals by one frame."""
        self._frames = [_smaller(one) for one in thumbnails]
        # Intervals are tried in the order of their ends: only frames near by are needed.
        self._structure = lru_cache(_KEPT)(
            lambda index: Structure(self._frames[index].astype(np.float32))
        )
        size = self._frames[0].shape[1], self._frames[0].shape[0]
        self._weights = [None if one is None else shrunk(one, size) for one in weights]
        self._pool, self._begins, self._open_ended = pool, begins, open_ended
        self._last, self._longest, self._grid = len(thumbnails) - 1, longest, grid
        self._simple, self._shortest_fade = (6, tuning.SHORTEST_FADE) if is_rough else (3, 2)
        self._fine = 3 if is_rough else _FINE

    @property
    def counts(self) -> Sequence[int]:
        """Numbers of pictures that a group can have, the next group's aside."""
        return tuple(self._placed)

    def placed(self, count: int) -> tuple[int, ...]:
        """Indices of `count` pictures, and of the next group's, where they leave least error."""
        return self._placed[self._possible(count)][0]

    def error(self, count: int) -> float:
        """The least error of `count` pictures: mean of 1 - SSIM over the frames."""
        return self._placed[self._possible(count)][1] / len(self._frames)

    def _possible(self, count: int) -> int:
        if count in self._placed:
            return count
        return min(self._placed, key=lambda one: abs(one - count))

    @cached_property
    def _placed(self) -> dict[int, tuple[tuple[int, ...], float]]:
        """Indices and summed error by number of pictures."""
        edges = self._edges
        before, after = self._held()
        totals = before[:, None] + _PRICES
        origins = np.full(totals.shape, -1, np.int32)
        each = np.arange(len(_PRICES))
        groups = np.flatnonzero(np.diff(edges.ends, prepend=-1)).tolist()
        for first, stop in pairwise([*groups, len(edges.ends)] if groups else ()):
            starts, end = edges.starts[first:stop], edges.ends[first]
            ways = totals[starts] + edges.errors[first:stop, None]
            best = ways.argmin(axis=0)
            cost = ways[best, each] + _PRICES
            wins = cost < totals[end]
            totals[end, wins], origins[end, wins] = cost[wins], starts[best][wins]
        whole = totals + after[:, None]
        found = {}
        for price, end in enumerate(whole.argmin(axis=0).tolist()):
            keys = _path(origins[:, price], end)
            count = len(keys) - self._open_ended
            if count and np.isfinite(whole[end, price]):
                found[count] = keys, float(whole[end, price] - len(keys) * _PRICES[price])
        return dict(sorted(found.items()))

    def _held(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Error of the frames before a first picture, and after a last one, at each frame."""
        none = np.full(self._last + 1, np.inf)
        before, after = none.copy(), none.copy()
        before[0] = after[self._last] = 0.0
        reach = min(self._longest, len(self._frames), _FINE * 4)
        if self._begins and self._grid == 1:
            # A group has a picture of its own: the next one's is not enough.
            for key in range(1, min(reach, self._last + (not self._open_ended))):
                before[key] = self._still(key, range(key))
        if not self._open_ended:
            for key in range(self._last + 1 - reach, self._last):
                after[key] = self._still(key, range(key + 1, self._last + 1))
        return before, after

    def _still(self, key: int, frames: range) -> float:
        seen = frames[:: max(1, len(frames) // _LOOKED_AT)]
        errors = [self._misplaced(index, self._frames[key]) for index in seen]
        return len(frames) * sum(errors) / len(errors)

    @cached_property
    def _edges(self) -> _Edges:
        ends = sorted(filter(self._fits_grid, self._intervals()), key=lambda one: one[1])
        errors = self._pool.map(lambda one: self._drawn_error(*one), ends)
        starts, stops = np.array(ends, np.intp).reshape(-1, 2).T
        return _Edges(starts, stops, np.fromiter(errors, np.float64, len(ends)))

    def _fits_grid(self, ends: tuple[int, int]) -> bool:
        (start, end), grid = ends, self._grid
        within = (start // grid) == ((end - 1) // grid)
        return within or (start % grid == 0 and (end % grid == 0 or end == self._last))

    def _intervals(self) -> Iterator[tuple[int, int]]:
        for length in _LENGTHS:
            if length <= min(self._longest, self._last):
                step = 1 if length <= self._fine else length // (2 if length <= _FINE else 4)
                starts = range(0, self._last - length + 1, step)
                yield from ((start, start + length) for start in starts)
                if step > 1 and (self._last - length) % step:
                    yield self._last - length, self._last

    def _drawn_error(self, start: int, end: int) -> float:
        """1 - SSIM summed over the frames of an interval."""
        length = end - start
        if length == 1:
            return 0.0
        left, right = self._frames[start], self._frames[end]
        grid = pixel_grid(*left.shape)
        # Of long ones more frames: what comes back after a third of it would be taken for still.
        parts = 2 if length <= self._simple else 3 if length < _LONG else 5
        seen = {
            -(-n * length // parts) if 2 * n > parts else n * length // parts
            for n in range(1, parts)
        }
        to_left, to_right = (
            cache(partial(dense_flow, *ends, cv2.DISOPTICAL_FLOW_PRESET_FAST, least_width=92))
            for ends in ((right, left), (left, right))
        )
        errors = []
        for offset in seen:
            near, flow = (left, to_left) if 2 * offset <= length else (right, to_right)
            share = np.float32(min(offset, length - offset) / length)
            ways = [warp(near, grid + share * flow())]
            if length >= self._shortest_fade:
                ways.append(dissolved(left, right, offset / length))
            errors.append(min(self._misplaced(start + offset, one) for one in ways))
        return (length - 1) * sum(errors) / len(errors)

    def _misplaced(self, index: int, drawn: Picture) -> float:
        error = self._structure(index).misplaced(drawn.astype(np.float32))
        weights = self._weights[index]
        return float((error if weights is None else weights * error).mean())


def _path(came_from: NDArray[np.int32], end: int) -> tuple[int, ...]:
    keys = [end]
    while (origin := int(came_from[keys[-1]])) >= 0:
        keys.append(origin)
    return tuple(reversed(keys))


def _smaller(thumbnail: Picture) -> Picture:
    share = min(1.0, _LINES / min(thumbnail.shape))
    small = cv2.resize(
        thumbnail.astype(np.float32), None, fx=share, fy=share, interpolation=cv2.INTER_AREA
    )
    return np.asarray(np.clip(np.rint(small), 0, 255), np.uint8)


_Floats = NDArray[np.float64]


class PlanFeatures:
    """Plans as the model sees them, one a row."""

    def __init__(
        self,
        shares: Sequence[float],
        crfs: Sequence[float],
        scales: Sequence[float],
        errors: Sequence[float],
    ) -> None:
        """`shares`: pictures a frame; `crfs`: quantisers; `scales`: eighths of the side;
        `errors`: of drawing the frames between, mean of 1 - SSIM."""
        one = np.ones(len(shares))
        count = np.log(shares)
        fine = np.interp(crfs, *tuning.LOG_BITS_OF_CRF)
        size = np.log(np.array(scales) / 8)
        drawn = np.log(np.array(errors) + tuning.MODEL_LEAST_ERROR)
        bits = one, count, fine, size, count**2, fine**2, count * fine, count * size, fine * size
        own = one, count, fine, size, fine**2, fine * size
        self.bits: _Floats = np.stack(bits, 1)
        self.distortion: _Floats = np.stack([*own, drawn, drawn**2, drawn * fine, drawn * size], 1)
        self.place: _Floats = np.stack([count, fine, size], 1)
        """Where they lie: plans that are near to each other come to about the same."""


def predicted_costs(
    features: PlanFeatures, tried: Sequence[int], bits: Sequence[float], distortion: Sequence[float]
) -> tuple[_Floats, _Floats]:
    """Bits and distortion of every plan, in the units of those `tried`, rows of `features`.

    `bits`, `distortion`: per pixel, of the plans tried.
    """
    rows = list(tried)
    return (
        np.exp(_posterior(tuning.MODEL_BITS, features.bits, rows, np.log(np.maximum(bits, 1e-9)))),
        np.exp(
            _posterior(
                tuning.MODEL_DISTORTION,
                features.distortion,
                rows,
                np.log(np.maximum(distortion, 1e-9)),
            )
        ),
    )


def _posterior(prior: tuning.Prior, features: _Floats, tried: list[int], seen: _Floats) -> _Floats:
    """Mean of what is expected for every row of `features`."""
    mean: _Floats = features @ np.array(prior.mean)
    if not tried:
        return mean
    spread = features * np.array(prior.deviation)
    known = spread[tried]
    noise = prior.noise**2 * np.eye(len(tried))
    missed = np.linalg.solve(known @ known.T + noise, seen - mean[tried])
    return np.asarray(mean + spread @ known.T @ missed, np.float64)
