"""The search over a group: where key pictures go, how large and how good they are, by D + lambda R.

Every trial is a real one: the key pictures are coded (with a fast preset), decoded, and the other frames are
drawn about as the decoder will draw them without a scaffold. D is measured on a few frames spread so that
no spacing can hide behind them; see `distortion`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Color, Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.camera import CAMERA, Camera
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval
from gsvc.decoders.motion.camera import camera_field
from gsvc.decoders.motion.estimation import Flow, gray, pixel_grid, warp
from gsvc.decoders.pictures import decode_pictures
from gsvc.decoders.rendering import dissolved, held_picture
from gsvc.encoders.distortion import Reference, quarter
from gsvc.encoders.emphasis import emphasised
from gsvc.encoders.layers.camera import CameraPath, camera_bits
from gsvc.encoders.motion import half_size_motion
from gsvc.encoders.pictures import MAX_CRF, Planes, can_code, encode_planes, planes_of
from gsvc.encoders.rate_model import best_change, changed_crf

FRAMING_BYTES = 8
"""What a packet takes beside its payload: type, length, frames and CRC-32C, at most."""
FRAMING_BITS = 8 * (FRAMING_BYTES + 1)
"""The same with the length of the scaffold."""
_USUAL_COUNT = 42.0
"""Key pictures of 100 frames that searches on development clips end at, times the root of the price."""
_RARER, _BETTER = 4, 11.0
"""How many times rarer key pictures are in the other plan that a search begins with, and how much finer their
quantiser is."""
_JUDGED = 3
_SHORTEST = 2
_CRF_STEP = 8.0
"""First step of the walk; with it the number of key pictures doubles or halves."""
_LEAST_CRF = 24.0
_SIZES = (8, 6, 4)
TRIAL_PRESET = 8
_AT_ONCE = 2
_GOLDEN = 0.6180339887
_FADED = 4.0
"""Mean difference of luma from either end, 0-255, from which a frame may be a mixture of both."""
_MIXED = 0.4
"""Of that difference, what is left when the mixture is taken away."""


@dataclass(frozen=True)
class Plan:
    """Key pictures of a group: their indices; quantiser (1-70, in quarters); size in eighths."""

    keys: tuple[int, ...]
    crf: float
    eighths: int


@dataclass(frozen=True)
class Stretch:
    """Frames that are not sent as pictures, by index: those between the key pictures `start` and `end`; before
    the scene's first key picture `end`, from `start` on; or after its last one `start`, up to `end`."""

    start: int
    end: int
    place: Place = Place.BETWEEN

    @property
    def length(self) -> int:
        """Of the interval that carries them."""
        return self.end - self.start + (self.place is Place.BEFORE)

    @property
    def frames(self) -> range:
        """Their indices."""
        first = self.start + (self.place is not Place.BEFORE)
        return range(first, self.end + (self.place is Place.AFTER))

    def time(self, index: int) -> int:
        """As of `camera_nodes`."""
        return self.end - index if self.place is Place.BEFORE else index - self.start


@dataclass(frozen=True)
class Way:
    """What the frames of a stretch are drawn by, beside the decoder's own motion: the camera's path, if there is one, or
    a dissolve."""

    camera: Camera | None = None
    dissolves: bool = False


PLAIN = Way()
"""By that motion alone."""


def stretches(keys: Sequence[int], last: int) -> list[Stretch]:
    """What lies around the key pictures of a group whose last frame is `last`."""
    found = [Stretch(0, keys[0], Place.BEFORE)] if keys[0] else []
    found += [Stretch(start, end) for start, end in pairwise(keys)]
    return found + ([Stretch(keys[-1], last, Place.AFTER)] if keys[-1] < last else [])


@dataclass(frozen=True)
class Trial:
    """What a plan costs: `units` of its key pictures; `bits` of its packets, the scaffold left out but for the camera;
    `texture`: distortion in texture, `distortion`: all of it, summed over all pixels and frames of the group; `ways` of
    its stretches; `unmoved`: share of the distortion that the key pictures do not have themselves."""

    plan: Plan
    units: Sequence[bytes]
    bits: float
    texture: float
    distortion: float
    ways: Mapping[Stretch, Way]
    unmoved: float

    def cost(self, price: float) -> float:
        """D + lambda R; `price` is what a bit must save."""
        return self.distortion + price * self.bits


class GroupSearch:
    """Trials over one group, each made once."""

    def __init__(
        self,
        pictures: Sequence[Picture],
        color: Color,
        pool: Executor,
        *,
        begins: bool,
        open_ended: bool,
        samples: int,
        longest: int,
        with_camera: bool,
    ) -> None:
        """`begins`: a scene begins with the group; `open_ended`: the last picture is the next group's first and not
        paid for here; `samples`: frames that D is measured on; `longest`: most frames from one key picture to the
        next; `with_camera`: the camera's path may be sent."""
        height, width = pictures[0].shape[:2]
        self._pictures, self._color, self._pool = pictures, color, pool
        self._begins, self._open_ended = begins, open_ended
        self._geometry = Geometry(width, height)
        self._last = len(pictures) - 1
        self._longest = longest
        spread = {int(len(pictures) * ((k + 0.5) * _GOLDEN % 1)) for k in range(samples)}
        self._planes: dict[tuple[int, int], Planes] = {}
        self._references: dict[int, Reference] = {}
        self._samples = {i: self.reference(i) for i in sorted(spread)}
        self._path = CameraPath(pictures, pool) if with_camera else None
        self._thumbnails = [quarter(gray(picture)) for picture in pictures]
        changes = _changes(self._thumbnails)
        self._different = 1 + int((changes > 0).sum())
        self._progress = _progress(changes)
        self._made: dict[Plan, Trial] = {}
        self._sizes = [e for e in _SIZES if e == 8 or can_code(self._geometry.coded_size(e))]

    def best(self, price: float, start: Plan | None, trials: int) -> Plan:
        """The plan with the least D + lambda R that `trials` trials, or one more, find.

        From the better of the usual plan and `start` or one with fewer and better pictures, it leaps to where a model
        says the least is; where that gives nothing new, it walks to better neighbours. Two are tried at a time.
        """
        usual = self._usual(price)
        first = [usual, self._fitted(start) if start else self._rarer(usual)][:trials]
        tried = dict.fromkeys(first)
        best = min(self._all(price, first), key=lambda trial: trial.cost(price))
        step = _CRF_STEP
        while len(tried) < trials and step >= 1:
            near = chain(self._leaps(best, price), self._neighbours(best.plan, step))
            ahead = list(islice((plan for plan in near if plan not in tried), _AT_ONCE))
            if not ahead:
                step /= 2
                continue
            tried.update(dict.fromkeys(ahead))
            best = min([best, *self._all(price, ahead)], key=lambda trial: trial.cost(price))
        return best.plan

    def _usual(self, price: float) -> Plan:
        count = self._share_of(_USUAL_COUNT / math.sqrt(price))
        return Plan(self.even(count), usual_crf(price), 8)

    def _share_of(self, count: float) -> int:
        """Of `count` key pictures in 100 frames, those of this group; repeated frames need none."""
        return round(count * self._different / 100)

    def trial(self, price: float, plan: Plan) -> Trial:
        """Code, decode and draw as `plan` says."""
        return self._all(price, [plan])[0]

    def _all(self, price: float, plans: Sequence[Plan]) -> list[Trial]:
        """Trials of `plans`, new ones side by side; each result is the same however many run at once.

        A trial that was made at another price keeps the camera's paths that paid then.
        """
        new = [plan for plan in dict.fromkeys(plans) if plan not in self._made]
        made = self._pool.map(lambda plan: self._try(plan, price), new)
        self._made.update(zip(new, made, strict=True))
        return [self._made[plan] for plan in plans]

    def emphasised(self, trial: Trial) -> list[Picture]:
        """The trial's key pictures but for the next group's, as they are to be coded: what they lacked raised (see
        `emphasis`)."""
        count = self._count(trial.plan)
        keys = trial.plan.keys[:count]
        sources = [self._pictures[k] for k in keys]
        references = [self.reference(k) for k in keys]
        # Decoded once more: the pictures of all trials together would take much memory, their units take none.
        decoded = self._decoded(trial.plan, trial.units[:count])
        raised = partial(emphasised, crf=trial.plan.crf)
        return list(self._pool.map(raised, sources, references, decoded))

    def mean_texture_distortion(self, price: float, plan: Plan) -> float:
        """Distortion in texture of a plan per pixel and frame."""
        height, width = self._pictures[0].shape[:2]
        total = self.trial(price, plan).texture
        return total / float(height * width * len(self._pictures))

    def even(self, count: int) -> tuple[int, ...]:
        """Indices of `count` key pictures in the middle of equal cells; a group that goes on from another begins
        with one, one that goes on in another ends with one more, which is the other's."""
        return self._placed(self._last * self._shares(count))

    def uneven(self, count: int) -> tuple[int, ...]:
        """The same, closer where more changes from frame to frame."""
        frames = np.arange(len(self._pictures))
        keys = self._placed(np.interp(self._shares(count), self._progress, frames))
        gaps = [stretch.length for stretch in stretches(keys, self._last)]
        return keys if max(gaps, default=0) <= self._longest else self.even(count)

    def _shares(self, count: int) -> NDArray[np.float64]:
        """Where in the group its key pictures lie, 0 to 1."""
        count = max(
            1, -(-self._last // self._longest), min(count, len(self._pictures) // _SHORTEST)
        )
        lead = 0.5 if self._begins else 0.0
        cells = lead + count - (0.0 if self._open_ended else 0.5)
        return np.asarray((np.arange(count) + lead) / max(cells, 0.5), np.float64)

    def _placed(self, positions: NDArray[np.float64]) -> tuple[int, ...]:
        keys = {round(position) for position in positions.tolist()}
        return tuple(sorted(keys | ({self._last} if self._open_ended else set())))

    def _rarer(self, plan: Plan) -> Plan:
        """Far fewer pictures, and better ones."""
        keys = self.even(round(self._count(plan) / _RARER))
        return replace(plan, keys=keys, crf=max(_LEAST_CRF, plan.crf - _BETTER))

    def _fitted(self, plan: Plan) -> Plan:
        """A plan of another group, its key pictures as far apart in this one."""
        gaps = len(plan.keys) - 1
        count = gaps * len(self._pictures) / (plan.keys[-1] - plan.keys[0]) if gaps else 1
        return replace(plan, keys=self.even(round(count)))

    def _leaps(self, trial: Trial, price: float) -> Iterator[Plan]:
        """Where D + lambda R should be least, and half-way there."""
        if trial.distortion <= 0:
            return
        finer, more = best_change(trial.distortion, trial.unmoved, price * trial.bits)
        for share in (1.0, 0.5):
            count = round(self._count(trial.plan) * math.exp(share * more))
            crf = changed_crf(trial.plan.crf, share * finer)
            yield replace(trial.plan, keys=self.even(count), crf=crf)

    def _neighbours(self, plan: Plan, step: float) -> Iterator[Plan]:
        """Plans one step away: rarer and better key pictures, closer and worse ones, other sizes and places."""
        count = self._count(plan)
        even = self.even(count)
        place, other = (self.even, self.uneven) if plan.keys == even else (self.uneven, self.even)
        for way in (-1, 1):
            keys = place(round(count * 2 ** (way * step / _CRF_STEP)))
            if keys != plan.keys:
                yield replace(plan, keys=keys)
            yield replace(plan, crf=min(MAX_CRF, max(_LEAST_CRF, plan.crf + way * step)))
        for eighths in self._sizes:
            if abs(eighths - plan.eighths) == 2 and plan.crf >= 58:
                crf = min(MAX_CRF, plan.crf + 4 * (eighths - plan.eighths))
                yield replace(plan, eighths=eighths, crf=crf)
        if (keys := other(count)) != plan.keys:
            yield replace(plan, keys=keys)

    def _count(self, plan: Plan) -> int:
        """Its key pictures, but for the next group's."""
        return len(plan.keys) - self._open_ended

    def _try(self, plan: Plan, price: float) -> Trial:
        size = self._geometry.coded_size(plan.eighths)
        units = encode_planes(
            [self._planes_of(k, plan.eighths) for k in plan.keys],
            size=size,
            crf=plan.crf,
            color=self._color,
            preset=TRIAL_PRESET,
            threads=1,
        )
        decoded = dict(zip(plan.keys, self._decoded(plan, units), strict=True))
        bits: float = sum(
            8 * len(u) + FRAMING_BITS for u in (units[:-1] if self._open_ended else units)
        )
        parts = [self._samples[k].totals(decoded[k]) for k in plan.keys if k in self._samples]
        ways = {}
        for stretch in stretches(plan.keys, self._last):
            way, found = self._draw(_Drawing(stretch, decoded, self._geometry), price)
            ways[stretch] = way
            parts += found
            if way.camera is not None:
                bits += camera_bits(way.camera, stretch.place, stretch.length)
        bits += FRAMING_BITS * (plan.keys[-1] < self._last)
        frames = len(self._pictures) / len(self._samples)
        texture, misplaced = (frames * sum(one) for one in zip(*parts, strict=True))
        total = texture + misplaced
        own = self._own_distortion(decoded) * len(self._pictures)
        unmoved = 1 - own / total if total else 0.0
        return Trial(plan, units, bits, texture, total, ways, unmoved)

    def _decoded(self, plan: Plan, units: Sequence[bytes]) -> list[Picture]:
        """Luma of the plan's first key pictures, as they come out."""
        return list(map(gray, decode_pictures(units, self._geometry, plan.eighths, self._color)))

    def _own_distortion(self, decoded: Mapping[int, Picture]) -> float:
        """Mean distortion of a few of the key pictures."""
        seen = list(decoded)[:: -(-len(decoded) // _JUDGED)]
        return sum(self.reference(k).total(decoded[k]) for k in seen) / len(seen)

    def _planes_of(self, index: int, eighths: int) -> Planes:
        """A frame as it is coded, made once."""
        if (index, eighths) not in self._planes:
            size = self._geometry.coded_size(eighths)
            self._planes[index, eighths] = planes_of(self._pictures[index], size, self._color)
        return self._planes[index, eighths]

    def reference(self, index: int) -> Reference:
        """A frame to compare with, made once."""
        if index not in self._references:
            self._references[index] = Reference(self._pictures[index])
        return self._references[index]

    def _draw(self, drawing: "_Drawing", price: float) -> tuple[Way, list[tuple[float, float]]]:
        """Distortion of the sampled frames of a stretch, dissolving or moved along the camera's path if that pays."""
        stretch = drawing.stretch
        seen = [index for index in self._samples if index in stretch.frames]
        plain = [self._samples[i].totals(drawing.frame(i, None)) for i in seen]
        if self._fades(stretch):
            faded = [self._samples[i].totals(drawing.dissolved(i)) for i in seen]
            if sum(map(sum, faded)) <= sum(map(sum, plain)):
                return Way(dissolves=True), faded
        camera = self._camera(stretch)
        if camera is None:
            return PLAIN, plain
        # Where no sample falls into a stretch, one in its middle decides.
        middle = stretch.frames[len(stretch.frames) // 2]
        judged = {i: self._samples[i] for i in seen} or {middle: self.reference(middle)}
        still = plain or [r.totals(drawing.frame(i, None)) for i, r in judged.items()]
        moved = [r.totals(drawing.frame(i, camera)) for i, r in judged.items()]
        saved = sum(map(sum, still)) - sum(map(sum, moved))
        worth = price * camera_bits(camera, stretch.place, stretch.length)
        if saved * len(stretch.frames) / len(judged) <= worth:
            return PLAIN, plain
        return Way(camera), moved if seen else []

    def _fades(self, stretch: Stretch) -> bool:
        """Whether the frame in the middle is much nearer to the mean of those at the ends than to either of them."""
        if stretch.place is not Place.BETWEEN or not stretch.frames:
            return False
        middle = (stretch.start + stretch.end) // 2
        left, now, right = (self._thumbnails[k] for k in (stretch.start, middle, stretch.end))
        share = np.float32((middle - stretch.start) / stretch.length)
        error = np.abs(now - (left + share * (right - left))).mean()
        apart = min(np.abs(now - left).mean(), np.abs(now - right).mean())
        return bool(apart > _FADED and error < _MIXED * apart)

    def _camera(self, stretch: Stretch) -> Camera | None:
        if self._path is None or not stretch.frames:
            return None
        if stretch.place is Place.BETWEEN:
            return self._path.between(stretch.start, stretch.end)
        if stretch.place is Place.BEFORE:
            return self._path.held(stretch.end, stretch.start)
        return self._path.held(stretch.start, stretch.end)


class _Drawing:
    """Luma of the frames of a stretch, about as the decoder draws them: motion is estimated at half size."""

    def __init__(
        self, stretch: Stretch, decoded: Mapping[int, Picture], geometry: Geometry
    ) -> None:
        self.stretch, self._decoded, self._geometry = stretch, decoded, geometry
        self._flows: dict[int, Flow] = {}

    def dissolved(self, index: int) -> Picture:
        """One frame, the key pictures fading into each other."""
        start, end = self.stretch.start, self.stretch.end
        return dissolved(
            self._decoded[start], self._decoded[end], (index - start) / self.stretch.length
        )

    def frame(self, index: int, camera: Camera | None) -> Picture:
        """One frame, moved along the camera's path if there is one."""
        stretch, time = self.stretch, self.stretch.time(index)
        if stretch.place is not Place.BETWEEN:
            key = stretch.end if stretch.place is Place.BEFORE else stretch.start
            held = Interval((1,) * stretch.length, values={CAMERA: camera}, place=stretch.place)
            return held_picture(self._decoded[key], held, time)
        is_left = 2 * index <= stretch.start + stretch.end
        near, far = (stretch.start, stretch.end) if is_left else (stretch.end, stretch.start)
        if near not in self._flows:
            ends = self._decoded[far], (self._decoded[near],)
            (self._flows[near],) = half_size_motion(*ends, cv2.DISOPTICAL_FLOW_PRESET_FAST)
        share = np.float32(abs(index - near) / stretch.length)
        picture = self._decoded[near]
        positions = pixel_grid(*picture.shape) + share * self._flows[near]
        if camera is not None:
            path = camera_field(camera, stretch.place, stretch.length, time, self._geometry)
            positions = positions if path is None else positions + path
        return warp(picture, positions, cv2.INTER_CUBIC)


def _changes(thumbnails: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
    """How far each frame but the first is from the one before: mean difference of luma at a quarter of the size, 0 if
    it repeats that."""
    apart = (cv2.absdiff(old, new) for old, new in pairwise(thumbnails))
    return np.array([float(d.mean()) if d.max() > 1 else 0.0 for d in apart])


def _progress(changes: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of a group lies before each frame, 0 to 1: half of it in time, half in change."""
    time = np.linspace(0, 1, len(changes) + 1)
    changed = np.concatenate([[0.0], np.cumsum(changes)])
    return time if changed[-1] == 0 else (time + changed / changed[-1]) / 2


def usual_crf(price: float) -> float:
    """The quantiser that searches on development clips end at, about."""
    return min(68.0, max(_LEAST_CRF, round(54 + 3.2 * math.log2(price / 9))))
