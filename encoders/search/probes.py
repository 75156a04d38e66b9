"""Probes of plans: keyframes really coded, with a fast preset, and decoded; frames really drawn.

The frames between are drawn about as the decoder draws them without a scaffold: plainly, along the
camera's path, or dissolving. D is measured on a few frames, spread so that no spacing of keyframes
can hide behind them. Of a long group a probe looks at parts, a quarter of it; the plan that is
chosen is probed on all of it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import lru_cache, partial
from statistics import fmean

import cv2
import numpy as np

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.group import picture_bits
from gsvc.codec.bitstream.layers.camera import CAMERA, Camera
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place, Site
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.keyframes.keyframe import KeyframeDecoder
from gsvc.encoders import svt_av1, tuning
from gsvc.encoders.config import CodingConfig
from gsvc.encoders.distortion import Distortion, Reference, quarter
from gsvc.encoders.plans import (
    PLAIN,
    DrawingMode,
    DrawnInterval,
    GroupPlan,
    PlannedInterval,
    Probe,
    planned_intervals,
)
from gsvc.encoders.scaffold.camera_path import CameraPath, tracked_luma

Parts = list[tuple[float, float]]
"""Distortion of frames, as of `Reference.totals`."""


class DrawingChoice:
    """Chooses how the intervals of a group are drawn."""

    def __init__(
        self,
        thumbnails: Sequence[Picture],
        samples: Mapping[int, Reference],
        reference: Callable[[int], Reference],
        path: CameraPath | None,
    ) -> None:
        """`thumbnails`: luma of every frame at a quarter of the size, uint8; `samples`: frames, by
        index, that distortion is measured on; `reference`: gives any frame; `path`: the camera's,
        where it may be sent."""
        self._thumbnails, self._samples = thumbnails, samples
        self._reference, self._path = reference, path

    def choose(
        self, planned: PlannedInterval, decoded: Mapping[int, Picture], lmbda: float
    ) -> tuple[DrawingMode, Parts, float]:
        """How an interval is drawn best, the distortion of the samples in it, and the bits of the
        camera's path, which is sent if it pays. `decoded`: luma of the coded pictures by index."""
        draw = _drawing(planned, decoded)
        judged = {i: one for i, one in self._samples.items() if i in planned.frames}
        plain = [one.totals(draw(i)) for i, one in judged.items()]
        if self._fades(planned):
            faded = [one.totals(draw(i, dissolves=True)) for i, one in judged.items()]
            if _sum(faded) <= _sum(plain):
                return DrawingMode(dissolves=True), faded, 0.0
        camera = None if self._path is None else self._path.over(planned)
        if camera is None:
            return PLAIN, plain, 0.0
        still = plain
        if not judged:
            # Where no sample falls into an interval, a frame in its middle decides.
            middle = planned.frames[len(planned.frames) // 2]
            judged = {middle: self._reference(middle)}
            still = [judged[middle].totals(draw(middle))]
        moved = [one.totals(draw(i, camera)) for i, one in judged.items()]
        saved = _sum(still) - _sum(moved)
        # The bits of a path do not depend on the grids.
        site = Site(Geometry(1, 1), planned.place, planned.length)
        bits = CAMERA.bits(site, None, camera)
        if saved * len(planned.frames) / len(judged) <= lmbda * bits:
            return PLAIN, plain, 0.0
        return DrawingMode(camera), moved if plain else [], bits

    def _fades(self, planned: PlannedInterval) -> bool:
        """Whether the middle frame is much nearer to the mean of those at the ends than to them."""
        if planned.place is not Place.BETWEEN or planned.length < tuning.SHORTEST_FADE:
            return False
        middle = (planned.start + planned.end) // 2
        left, now, right = (
            self._thumbnails[k].astype(np.float32) for k in (planned.start, middle, planned.end)
        )
        share = np.float32((middle - planned.start) / planned.length)
        error = np.abs(now - (left + share * (right - left))).mean()
        apart = min(np.abs(now - left).mean(), np.abs(now - right).mean())
        return bool(apart > tuning.FADED and error < tuning.MIXED * apart)


def _drawing(planned: PlannedInterval, decoded: Mapping[int, Picture]) -> Callable[..., Picture]:
    """Draws a frame by its index, about as the decoder will: plainly, or as further arguments say,
    moved along the camera's path or dissolving. `decoded`: luma of the coded pictures by index."""
    plain = Interval((1,) * planned.length, place=planned.place)
    key = planned.start if planned.place is Place.AFTER else planned.end
    drawn = DrawnInterval(plain, decoded[key], decoded.get(planned.start), quick=True)

    def draw(index: int, camera: Camera | None = None, *, dissolves: bool = False) -> Picture:
        interval = replace(plain, values={CAMERA: camera}, dissolves=dissolves)
        return drawn.picture(interval, planned.time(index))

    return draw


def _sum(parts: Parts) -> float:
    return sum(map(sum, parts))


_GOLDEN = 0.6180339887
_WHOLE, _PART, _SHARE = 128, 48, 0.25
"""Frames of a group up to which probes look at all of it; frames of a part of a longer one; share
of the group that parts make up, at least two of them."""
_KEPT_BYTES = 1 << 26
"""Bytes of prepared pictures, and of references, that are kept for other plans."""


def emphasised(source: Picture, reference: Reference, decoded: Picture, crf: float) -> Picture:
    """Pre-emphasis: the source with the detail of luma that a probe lacks raised, at most doubled.

    A quantiser drops weak detail and keeps strong detail: raised, it passes for fewer bits than a
    finer quantiser takes (docs/logs/search.md, "Pre-emphasis").

    `source`: RGB uint8 (H, W, 3); `reference`: made of it; `decoded`: luma of the probe, uint8
    (H, W), coded at `crf`. Returns a picture like `source`.
    """
    height, width = decoded.shape
    share = float(np.interp(crf, tuning.EMPHASIS_CRFS, (tuning.EMPHASIS_SHARE, 0.0)))
    raised = np.clip(share * np.expm1(reference.weaker(decoded)), 0, tuning.EMPHASIS_MOST)
    gain = cv2.resize(raised, (width, height), interpolation=cv2.INTER_LINEAR)
    luma = gray(source).astype(np.float32)
    finer, coarser = (cv2.GaussianBlur(luma, (0, 0), spread) for spread in tuning.EMPHASIS_BAND)
    shown = np.rint(source + (gain * (finer - coarser))[..., None])
    return np.asarray(np.clip(shown, 0, 255, out=shown), np.uint8)


class Probes:
    """Makes probes over one group, each once."""

    def __init__(
        self,
        pictures: Sequence[Picture],
        config: CodingConfig,
        distortion: Distortion,
        pool: Executor,
        *,
        open_ended: bool,
    ) -> None:
        """`pictures`: of the group, RGB uint8 (H, W, 3); `pool`: draws side by side;
        `open_ended`: the last picture is the next group's first and not paid for here."""
        self._pictures, self._pool, self._open_ended = pictures, pool, open_ended
        self._geometry, self._color = config.header.geometry, config.header.format.color
        self._framing_bits, self._visual = config.framing_bits, config.tune.visual
        # At 8, plans of four and more pictures come out up to a quarter worse than they are.
        self._preset = config.effort.probe - config.exact
        size, color = self._geometry.coded_size, self._color

        def planes(key: int, scale: int) -> svt_av1.Planes:
            return svt_av1.planes_of(pictures[key], size(scale), color)

        pixels = self._geometry.width * self._geometry.height
        self._low_memory = config.low_memory
        kept = 0 if self._low_memory else _KEPT_BYTES // (2 * pixels)
        self._planes = lru_cache(1 + kept)(planes)
        self.reference = lru_cache(1 + kept)(lambda index: distortion.reference(pictures[index]))
        """Gives a frame to compare with."""
        self.made: dict[GroupPlan, Probe] = {}
        """All probes so far."""
        self._parts = _parts(len(pictures))
        seen = [index for part in self._parts for index in part]
        count = config.effort.samples_of(len(seen))
        spread = {seen[int(len(seen) * ((k + 0.5) * _GOLDEN % 1))] for k in range(count)}
        self._samples = {i: self.reference(i) for i in sorted(spread)}
        self._weight = fmean(one.weight for one in self._samples.values())
        # Whole numbers: bytes take a quarter of the memory.
        looks = pool.map(lambda index: _look(pictures[index]), range(len(pictures)))
        self.thumbnails, tracked = zip(*looks, strict=True)
        """Luma of every frame at a quarter of the size, uint8."""
        has_path = CAMERA.name in config.header.tools
        path = CameraPath(tracked, self._geometry, pool) if has_path else None
        self._drawer = DrawingChoice(self.thumbnails, self._samples, self.reference, path)

    def make(self, lmbda: float, plan: GroupPlan) -> Probe:
        """The probe of a plan, made if there is none yet.

        One that was made at another lambda keeps the camera's paths that paid then.
        """
        if plan not in self.made:
            self.made[plan] = self._try(plan, lmbda)
        return self.made[plan]

    def whole(self, probe: Probe, lmbda: float) -> Probe:
        """The probe, made on all of the group."""
        keys = probe.plan.keys
        return probe if self._near(keys) == keys else self._try(probe.plan, lmbda, keys)

    def own_keys(self, plan: GroupPlan) -> tuple[int, ...]:
        """Its coded pictures but for the next group's."""
        return plan.keys[:-1] if self._open_ended else plan.keys

    def emphasised(self, probe: Probe) -> Iterator[Picture]:
        """The sources of the probe's own coded pictures, with what the probe lacked raised."""
        keys = self.own_keys(probe.plan)
        if probe.plan.crf >= tuning.EMPHASIS_CRFS[1]:
            return map(self._pictures.__getitem__, keys)  # Nothing would be raised.
        # Decoded once more: pictures of all probes would take much memory, their units take none.
        decoded = self._decoded(probe.plan, probe.units[: len(keys)])

        def raised(key: int, decoded: Picture) -> Picture:
            return emphasised(self._pictures[key], self.reference(key), decoded, probe.plan.crf)

        each = map if self._low_memory else self._pool.map  # a pool runs ahead of its reader
        return each(raised, keys, decoded)

    def _try(self, plan: GroupPlan, lmbda: float, keys: tuple[int, ...] | None = None) -> Probe:
        """A probe of the plan with some of its coded pictures, `keys`; None: those that the frames
        looked at are drawn from, all of a short group's. D is measured on the samples, each in two
        parts: texture, and misplaced structure."""
        keys = keys or self._near(plan.keys)
        units = self._coded(plan, keys)
        decoded = dict(zip(keys, self._decoded(plan, units), strict=True))
        frames = len(self._pictures)
        parts = [self._samples[k].totals(decoded[k]) for k in keys if k in self._samples]
        drawings: dict[PlannedInterval, DrawingMode] = {}
        path_bits = 0.0
        drawn = [
            one
            for one in planned_intervals(plan.keys, frames - 1)
            # Others lie between the parts.
            if one.place is not Place.BETWEEN or {one.start, one.end} <= decoded.keys()
        ]
        choose = partial(self._drawer.choose, decoded=decoded, lmbda=lmbda)
        for planned, chosen in zip(drawn, self._pool.map(choose, drawn), strict=True):
            drawings[planned], found, more = chosen
            parts += found
            path_bits += more
        texture, misplaced = (
            frames / len(self._samples) * sum(p) for p in zip(*parts, strict=True)
        )
        pixels = float(self._geometry.width * self._geometry.height * frames)
        mean_texture = texture / (self._weight * pixels)
        bits = self._bits(plan, keys, units, path_bits)
        return Probe(plan, units, bits, mean_texture, texture + misplaced, drawings)

    def _near(self, keys: tuple[int, ...]) -> tuple[int, ...]:
        """The coded pictures of the parts, and next to them."""
        found: set[int] = set()
        for part in self._parts:
            first = max(0, bisect_right(keys, part[0]) - 1)
            found.update(keys[first : bisect_left(keys, part[-1]) + 1])
        return tuple(sorted(found))

    def _coded(self, plan: GroupPlan, keys: Sequence[int]) -> list[bytes]:
        return svt_av1.encode_pictures(
            [self._planes(key, plan.scale) for key in keys],
            size=self._geometry.coded_size(plan.scale),
            crf=plan.crf,
            color=self._color,
            preset=self._preset,
            threads=1 if self._low_memory else 2,
            visual=self._visual,
        )

    def _bits(
        self, plan: GroupPlan, keys: Sequence[int], units: Sequence[bytes], path_bits: float
    ) -> float:
        """Bits of the group: its intra picture, and the others as those that were coded.
        `path_bits`: bits of the camera paths of the intervals that were drawn."""
        own = self.own_keys(plan)
        units = units[: len(set(keys) & set(own))]
        coded = picture_bits(units, plan.crf)
        if len(keys) < len(plan.keys):
            # What follows a gap is predicted from far away: it is no measure.
            before = dict(zip(own[1:], own, strict=False))
            follow = zip(keys, keys[1:], units[1:], strict=False)
            near = [len(unit) for last, key, unit in follow if before[key] == last]
            intra, sizes = picture_bits(units[:1], plan.crf), sum(map(len, units[1:]))
            more = (len(own) - 1) / max(1, len(near))
            coded = intra + more * (coded - intra) * sum(near) / max(1, sizes)
            path_bits *= more
        return coded + self._framing_bits(len(self._pictures), len(own), coded) + path_bits

    def _decoded(self, plan: GroupPlan, units: Sequence[bytes]) -> list[Picture]:
        """Luma of the plan's first coded pictures, as they come out."""
        decoder = KeyframeDecoder((self._geometry.width, self._geometry.height), self._color)
        size = self._geometry.coded_size(plan.scale)
        return [decoder.decode(unit, size, luma=True) for unit in units]


def _look(picture: Picture) -> tuple[Picture, Picture]:
    """Of a frame that may have to be unpacked: its luma for the search, and for the camera."""
    luma = gray(picture)
    return quarter(luma).astype(np.uint8), tracked_luma(luma)


def _parts(frames: int) -> list[range]:
    """The frames of a group that probes look at."""
    if frames <= _WHOLE:
        return [range(frames)]
    count = max(2, round(_SHARE * frames / _PART))
    starts = (round(n * (frames - _PART) / (count - 1)) for n in range(count))
    return [range(start, start + _PART) for start in starts]
