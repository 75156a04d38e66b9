"""The search over a group: where key pictures go, how large and how good they are, by D + lambda R.

Every trial is a real one: the key pictures are coded (with a fast preset), decoded, and frames between them are
drawn as the decoder will draw them without a scaffold. D is `distortion.Texture` over a few frames spread so that
no spacing can hide behind them.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import cv2
import numpy as np

from gsvc.codec.frames import Color, Picture
from gsvc.codec.scaffold import Geometry
from gsvc.decoders.motion import dense_flow, gray, pixel_grid, warp
from gsvc.decoders.pictures import PictureDecoder
from gsvc.encoders.distortion import Texture
from gsvc.encoders.pictures import MAX_CRF, can_code, encode_pictures

_LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""Numbers of intervals in a group that are tried."""
_SEEDS = (4, 8, 2, 16)
"""Numbers of intervals that a search without a precedent begins with."""
_SHORTEST = 2
_CRF_STEP = 4.0
_LEAST_CRF = 24.0
_SIZES = (8, 6, 4)
_TRIAL_PRESET = 8
_AT_ONCE = 2
_GOLDEN = 0.6180339887


@dataclass(frozen=True)
class Plan:
    """Key pictures of a group: their indices, the first being 0; quantiser (1-70, in quarters); size in eighths."""

    keys: tuple[int, ...]
    crf: float
    eighths: int


@dataclass(frozen=True)
class Trial:
    """What a plan costs: `bits` of its pictures; `distortion` summed over all pixels and frames of the group."""

    plan: Plan
    bits: int
    distortion: float

    def cost(self, price: float) -> float:
        """D + lambda R; `price` is what a bit must save."""
        return self.distortion + price * self.bits


class GroupSearch:
    """Trials over one group, each made once."""

    def __init__(
        self,
        pictures: Sequence[Picture],
        color: Color,
        *,
        open_ended: bool,
        samples: int,
        longest: int,
    ) -> None:
        """`open_ended`: the last picture is the next group's first and not paid for here; `samples`: frames
        that D is measured on; `longest`: most frames from one key picture to the next."""
        height, width = pictures[0].shape[:2]
        self._pictures, self._color, self._open_ended = pictures, color, open_ended
        self._geometry = Geometry(width, height)
        self._last = len(pictures) - 1
        self._longest = longest
        spread = {int(len(pictures) * ((k + 0.5) * _GOLDEN % 1)) for k in range(samples)}
        self._samples = {i: Texture(pictures[i]) for i in sorted(spread)}
        self._made: dict[Plan, Trial] = {}
        self._sizes = [e for e in _SIZES if e == 8 or can_code(self._geometry.coded_size(e))]

    def best(self, price: float, start: Plan | None, trials: int) -> Plan:
        """The plan with the least D + lambda R that about `trials` trials find.

        From `start`, or from the best of several spacings, it walks to better neighbours, two tried at a time.
        """
        first = [self._fitted(start)] if start else self._spacings(price)
        best = min(self._all(first), key=lambda trial: trial.cost(price))
        tried = {trial.plan for trial in self._made.values()} if start is None else {best.plan}
        step = _CRF_STEP
        while len(tried) < trials and step >= 1:
            ahead = [p for p in self._neighbours(best.plan, step) if p not in tried][:_AT_ONCE]
            if not ahead:
                step /= 2
                continue
            tried.update(ahead)
            best = min([best, *self._all(ahead)], key=lambda trial: trial.cost(price))
        return best.plan

    def _spacings(self, price: float) -> list[Plan]:
        """Even spacings at the quantiser usual for the price."""
        return [Plan(keys, usual_crf(price), 8) for keys in dict.fromkeys(map(self.even, _SEEDS))]

    def trial(self, plan: Plan) -> Trial:
        """Code, decode and draw as `plan` says."""
        return self._all([plan])[0]

    def _all(self, plans: Sequence[Plan]) -> list[Trial]:
        """Trials of `plans`, new ones side by side; each result is the same however many run at once."""
        new = [plan for plan in plans if plan not in self._made]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            self._made.update(zip(new, pool.map(self._try, new), strict=True))
        return [self._made[plan] for plan in plans]

    def mean_distortion(self, plan: Plan) -> float:
        """D of a plan per pixel and frame."""
        height, width = self._pictures[0].shape[:2]
        return self.trial(plan).distortion / float(height * width * len(self._pictures))

    def even(self, pieces: int) -> tuple[int, ...]:
        """Indices of key pictures that cut the group into equal intervals."""
        pieces = max(1, -(-self._last // self._longest), min(pieces, self._last // _SHORTEST))
        return tuple(sorted({round(self._last * k / pieces) for k in range(pieces + 1)}))

    def _fitted(self, start: Plan) -> Plan:
        return replace(start, keys=self.even(len(start.keys) - 1))

    def _neighbours(self, plan: Plan, step: float) -> Iterator[Plan]:
        """Plans one step away: rarer and closer key pictures, better and worse ones, other sizes."""
        pieces = len(plan.keys) - 1
        fewer = [p for p in _LADDER if p < pieces]
        more = [p for p in _LADDER if p > pieces]
        if fewer:
            yield replace(plan, keys=self.even(fewer[-1]))
        yield replace(plan, crf=min(MAX_CRF, plan.crf + step))
        if more:
            yield replace(plan, keys=self.even(more[0]))
        yield replace(plan, crf=max(_LEAST_CRF, plan.crf - step))
        for eighths in self._sizes:
            if abs(eighths - plan.eighths) == 2 and plan.crf >= 58:
                yield replace(
                    plan, eighths=eighths, crf=min(MAX_CRF, plan.crf + 4 * (eighths - plan.eighths))
                )

    def _try(self, plan: Plan) -> Trial:
        size = self._geometry.coded_size(plan.eighths)
        units = encode_pictures(
            [self._pictures[k] for k in plan.keys],
            size=size,
            crf=plan.crf,
            color=self._color,
            preset=_TRIAL_PRESET,
            threads=1,
        )
        decoder = PictureDecoder((self._geometry.width, self._geometry.height), self._color)
        decoded = {k: gray(decoder.decode(u, size)) for k, u in zip(plan.keys, units, strict=True)}
        paid = units[:-1] if self._open_ended else units
        total = sum(texture.total(picture) for texture, picture in self._drawn(plan, decoded))
        frames = len(self._pictures) / len(self._samples)
        return Trial(plan, 8 * sum(map(len, paid)), total * frames)

    def _drawn(self, plan: Plan, decoded: dict[int, Picture]) -> Iterator[tuple[Texture, Picture]]:
        """Each sampled frame's texture in the source, and its luma about as the decoder draws it."""
        for index, texture in self._samples.items():
            if index in decoded:
                yield texture, decoded[index]
        for start, end in pairwise(plan.keys):
            for index in (i for i in self._samples if start < i < end):
                near, far = (start, end) if 2 * index <= start + end else (end, start)
                share = abs(index - near) / (end - start)
                yield self._samples[index], _drawn_from(decoded[near], decoded[far], share)


def _drawn_from(near: Picture, far: Picture, share: float) -> Picture:
    """Luma `near` moved by `share` of the way from `far`; motion at half size, which is near enough here."""
    height, width = near.shape
    half = max(1, width // 2), max(1, height // 2)
    small = [cv2.resize(x, half, interpolation=cv2.INTER_AREA) for x in (far, near)]
    motion = cv2.resize(dense_flow(*small), (width, height), interpolation=cv2.INTER_LINEAR)
    scale = np.array([width / half[0] * share, height / half[1] * share], np.float32)
    return warp(near, pixel_grid(height, width) + motion * scale, cv2.INTER_CUBIC)


def usual_crf(price: float) -> float:
    """The quantiser that searches on development clips end at, about."""
    return min(68.0, max(_LEAST_CRF, round(54 + 3.2 * math.log2(price / 6))))
