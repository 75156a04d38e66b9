"""The search over a group: where its keyframes go, their size and quantiser, by D + lambda R.

`GroupSearch` finds the best plan of one group by probes. `GroupPlanner` goes from group to group
and chooses the lambda that brings each to the rate or the quality asked for.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.encoders import svt_av1, tuning
from gsvc.encoders.config import CodingConfig
from gsvc.encoders.distortion import Distortion, FloatMap
from gsvc.encoders.plans import GroupPlan, Probe
from gsvc.encoders.search.candidates import Placement, PlanFeatures, predicted_costs
from gsvc.encoders.search.probes import Probes

_SCALES = (8, 6, 4)
_CRF_STEP = 2
_LEAST_SAVED = 1e-4
"""Least fall of the drawing error, mean of 1 - SSIM, that pays for more pictures."""
_NEAR, _BEYOND = 0.05, 2.0
"""Logarithm of the bits by which a probe may miss those that are to be taken, and what each unit
beyond that adds to the logarithm of its distortion: what it would come to there is a guess."""
_MOVES = 4  # how often the quantiser of the best plan is moved towards these bits
_WEIGHED = 4
"""Frames from one whose parts are weighed for the placement to the next: faces hardly go far."""

_Array = NDArray[np.float64]


class GroupSearch:
    """Finds the best plan for one group."""

    def __init__(
        self,
        pictures: Sequence[Picture],
        config: CodingConfig,
        distortion: Distortion,
        pool: Executor,
        *,
        begins: bool,
        open_ended: bool,
        tell: Callable[[int], None],
    ) -> None:
        """Arguments as of `Probes`; `begins`: a scene begins with the group; `tell` is told of how
        many probes were made."""
        self.begins, self.frames, self._tell = begins, len(pictures), tell
        self.probes = Probes(pictures, config, distortion, pool, open_ended=open_ended)
        self._placement = Placement(
            self.probes.thumbnails,
            _weights(pictures, distortion),
            pool,
            begins=begins,
            open_ended=open_ended,
            longest=config.longest_interval,
            grid=config.grid,
            is_rough=config.effort.is_rough,
        )
        self._pixels = config.header.geometry.width * config.header.geometry.height * len(pictures)
        self._scales = [scale for scale in _SCALES if config.can_scale(scale)]

    def search_at_lambda(self, lmbda: float, start: GroupPlan | None, probes: int) -> Probe:
        """The probe with the least D + lambda R, after at most `probes` new ones.

        Tried is `start`, a plan of another group, and then each plan that a model, which learns
        from all probes, expects to cost least.
        """
        for _ in range(probes):
            bits, distortion = self._predict(self._grid)  # per pixel
            self._try(self._propose(distortion + lmbda * bits, start), lmbda)
        return min(self.probes.made.values(), key=lambda probe: probe.cost(lmbda))

    def search_at_rate(self, goal: float, start: GroupPlan | None, probes: int) -> Probe:
        """The probe with the least D where its quantiser is moved until it takes `goal` bits.

        After `probes` new ones and some of moved quantisers; `start`: as of `search_at_lambda`. No
        lambda leads there: the best plans of all lambdas lie far apart in bits, and a plan that is
        best between two of these rates is optimal for no lambda.
        """
        for _ in range(probes):
            costs = self._costs_at(goal, *self._predict(self._grid))
            self._try(self._propose(costs, start), price(costs.min() * self._pixels, goal))
        for _ in range(_MOVES):
            probe, moved = self._best_at_rate(goal)
            if abs(math.log(probe.bits / goal)) < _NEAR or moved in self.probes.made:
                break
            self._try(moved, price(probe.distortion, goal))
        return self._best_at_rate(goal)[0]

    def _try(self, plan: GroupPlan | None, lmbda: float) -> None:
        if plan is not None:
            self.probes.make(lmbda, plan)
            self._tell(len(self.probes.made))

    def _best_at_rate(self, goal: float) -> tuple[Probe, GroupPlan]:
        """The probe that should have the least D at `goal` bits, and its plan moved there. Of
        probes that differ in their quantiser alone the nearest to `goal` stands for all."""
        made = sorted(self.probes.made.values(), key=lambda one: -abs(math.log(one.bits / goal)))
        probes = list({(one.plan.keys, one.plan.scale): one for one in made}.values())
        moved = [self._plan_at_rate(probe, goal) for probe in probes]
        own, there = self._predict([one.plan for one in probes]), self._predict(moved)
        tried = np.array([(one.bits, one.distortion) for one in probes]).T / self._pixels
        costs = self._costs_at(goal, *(tried * there / own))
        best = int(costs.argmin())
        return probes[best], moved[best]

    def _plan_at_rate(self, probe: Probe, goal: float) -> GroupPlan:
        """A probe's plan with the quantiser that should bring it to `goal` bits."""
        crfs = np.arange(tuning.LEAST_PROBE_CRF, svt_av1.MAX_CRF + 1)
        plans = [probe.plan, *(replace(probe.plan, crf=float(crf)) for crf in crfs)]
        own, *each = np.log(self._predict(plans)[0])
        crf = np.interp(own - math.log(probe.bits / goal), each[::-1], crfs[::-1])
        return replace(probe.plan, crf=round(4 * float(crf)) / 4)

    def _costs_at(self, goal: float, bits: _Array, distortion: _Array) -> _Array:
        """Distortion per pixel of plans with these bits per pixel, brought to `goal` bits."""
        miss = np.log(bits * self._pixels / goal)
        beyond = np.maximum(0.0, np.abs(miss) - _NEAR)
        costs = distortion * np.exp(tuning.DISTORTION_OF_BITS * miss + _BEYOND * beyond)
        return np.asarray(costs, np.float64)

    def _predict(self, plans: Sequence[GroupPlan]) -> _Array:
        """Bits and distortion per pixel that plans should come to, (2, plans)."""
        made = list(self.probes.made.values())
        features = self._features([*plans, *(probe.plan for probe in made)])
        found = predicted_costs(
            features,
            range(len(plans), len(plans) + len(made)),
            [probe.bits / self._pixels for probe in made],
            [probe.distortion / self._pixels for probe in made],
        )
        return np.asarray(found, np.float64)[:, : len(plans)]

    def _propose(self, costs: _Array, start: GroupPlan | None) -> GroupPlan | None:
        """`start` to begin with; else the cheapest plan of `_grid` by `costs`, those too close to a
        tried one aside, if there is one."""
        if start and not self.probes.made:
            return self._transferred(start)
        places = self._features([*self._grid, *self.probes.made]).place
        own, tried = np.split(places, [len(self._grid)])
        near = np.abs(own[:, None] - tried) < tuning.PLANS_APART
        far = np.flatnonzero(~np.any(np.all(near, axis=2), axis=1))
        return self._grid[far[costs[far].argmin()]] if far.size else None

    @cached_property
    def _grid(self) -> list[GroupPlan]:
        crfs = np.arange(tuning.LEAST_PROBE_CRF, svt_av1.MAX_CRF + 1, _CRF_STEP)
        keys = [self._placement.placed(count) for count in self._counts]
        return [GroupPlan(*one) for one in product(keys, map(float, crfs), self._scales)]

    @property
    def _counts(self) -> list[int]:
        """Numbers of pictures that differ by a sixth at least, where more of them help at all."""
        first, *others = self._placement.counts
        found = [first]
        for count in others:
            saved = self._placement.error(found[-1]) - self._placement.error(count)
            is_other = count >= found[-1] * 7 / 6 or count == others[-1]
            if is_other and saved > _LEAST_SAVED:
                found.append(count)
        return found

    def _features(self, plans: Sequence[GroupPlan]) -> PlanFeatures:
        counts = [len(self.probes.own_keys(plan)) for plan in plans]
        return PlanFeatures(
            [count / len(self.probes.thumbnails) for count in counts],
            [plan.crf for plan in plans],
            [plan.scale for plan in plans],
            [self._placement.error(count) for count in counts],
        )

    def _transferred(self, plan: GroupPlan) -> GroupPlan:
        """A plan of another group, with as many pictures a frame."""
        gaps = len(plan.keys) - 1
        count = gaps * len(self.probes.thumbnails) / (plan.keys[-1] - plan.keys[0]) if gaps else 1
        return replace(plan, keys=self._placement.placed(round(count)))


def price(distortion: float, bits: float) -> float:
    """Distortion, over pixels and frames, that one more bit in coded pictures saves."""
    return tuning.DISTORTION_OF_BITS * float(distortion) / bits


def _weights(pictures: Sequence[Picture], distortion: Distortion) -> list[FloatMap | None]:
    """Approximate weights of the parts of every picture."""
    found = [distortion.weights(picture) for picture in pictures[::_WEIGHED]]
    return [found[index // _WEIGHED] for index in range(len(pictures))]


_BEYOND_GOAL, _MORE_PROBES = 1.15, 2
"""What a plan may take in proportion to a limit, as final coding may take less; probes made first
where it takes more: those made before tell where the best plan lies."""
_QUALITY_ROUNDS = 6
_NEAR_QUALITY = 0.03
"""Logarithm of the texture by which a quality may be missed without another probe."""
_QUALITY_PLANS, _QUALITY_MOVES = 3, 4
"""Plans whose quantiser is moved towards a quality, and how often."""


class GroupPlanner:
    """Plans groups in order: what one came to is where the next one's search begins."""

    def __init__(self, config: CodingConfig) -> None:
        self.lmbda = config.level.lmbda
        """Lambda of the last group planned."""
        self._level, self._effort = config.level, config.effort
        self._texture: float | None = None
        """Texture that the quality asked for stands for."""
        if config.quality is not None:
            slope, offset = tuning.TEXTURE_OF_ST_LPIPS
            self._texture = (config.quality + offset) / slope
        self._is_limited = bool(config.max_bitrate or config.packet_bytes)
        self._plan: GroupPlan | None = None
        self._textures, self._frames = 0.0, 0

    @property
    def quality(self) -> float | None:
        """ST-LPIPS AlexNet of the frames planned so far, estimated from their texture.

        None without frames or a quality: other goals and limits move pictures after planning.
        """
        if self._texture is None or self._is_limited or not self._frames:
            return None
        slope, offset = tuning.TEXTURE_OF_ST_LPIPS
        return max(0.0, slope * self._textures / self._frames - offset)

    def plan_group(self, search: GroupSearch, goal: float, *, exact: bool) -> Probe:
        """The best plan that takes about `goal` bits or, unless `exact`, at most so many.

        Where the config has a quality, the best plan that comes to it, whatever it takes.
        """
        if search.begins:
            self._plan = None  # Another scene moves otherwise.
        if self._texture is not None:
            probe = self._search_by_quality(search, self._texture)
        elif exact:
            probes = self._effort.probes_of(self._plan is None) + tuning.MORE_AT_RATE
            probe = search.search_at_rate(goal, self._plan, probes)
            self.lmbda = price(probe.distortion, probe.bits)
        else:
            probe = self._search_by_lambda(search, goal)
        probe = search.probes.whole(probe, self.lmbda)
        self._plan = probe.plan
        self._textures += probe.texture * search.frames
        self._frames += search.frames
        return probe

    def _search_by_lambda(self, search: GroupSearch, goal: float) -> Probe:
        """The best plan at the level's lambda; where that takes more than `goal`, at this rate."""
        self.lmbda = max(self._level.lmbda, tuning.EASIER * self.lmbda)
        probes = self._effort.probes_of(self._plan is None)
        probe = search.search_at_lambda(self.lmbda, self._plan, probes)
        if probe.bits < _BEYOND_GOAL * goal:
            return probe
        probe = search.search_at_rate(goal, None, _MORE_PROBES)
        self.lmbda = max(self.lmbda, price(probe.distortion, probe.bits))
        return probe

    def _search_by_quality(self, search: GroupSearch, texture: float) -> Probe:
        """The best plan that comes to the quality."""
        probe = search.search_at_lambda(self.lmbda, self._plan, self._effort.probes)
        visited = [probe]
        for _ in range(_QUALITY_ROUNDS):
            excess = probe.texture / texture
            if abs(math.log(excess)) < _NEAR_QUALITY:
                break
            self.lmbda /= min(8.0, max(0.125, excess**4))
            probe = search.search_at_lambda(self.lmbda, None, self._effort.probes)
            visited.append(probe)
        return self._at_texture(search, visited, texture)

    def _at_texture(self, search: GroupSearch, visited: Sequence[Probe], goal: float) -> Probe:
        """The probe nearest to a texture: best plans lie far apart, so quantisers are moved."""

        def miss(probe: Probe) -> float:
            return abs(math.log(probe.texture / goal))

        found = sorted({probe.plan: probe for probe in visited}.values(), key=miss)
        if miss(found[0]) < _NEAR_QUALITY:
            return found[0]
        for begin in found[:_QUALITY_PLANS]:
            found += self._requantize(search, begin, goal)
        near = [probe for probe in found if miss(probe) < _NEAR_QUALITY]
        return min(near, key=lambda probe: probe.bits) if near else min(found, key=miss)

    def _requantize(self, search: GroupSearch, probe: Probe, goal: float) -> Iterator[Probe]:
        """Probes of a plan with other quantisers, nearer and nearer to a texture."""
        low, high = tuning.LEAST_PROBE_CRF, float(svt_av1.MAX_CRF)
        for _ in range(_QUALITY_MOVES):
            plan, miss = probe.plan, math.log(probe.texture / goal)
            low, high = (low, plan.crf) if miss > 0 else (plan.crf, high)
            crf = plan.crf - miss / tuning.TEXTURE_SLOPE
            crf = round(4 * (crf if low < crf < high else (low + high) / 2)) / 4
            if abs(miss) < _NEAR_QUALITY or crf in (low, high):
                return
            plan = replace(plan, crf=crf)
            yield (probe := search.probes.make(self.lmbda, plan))
