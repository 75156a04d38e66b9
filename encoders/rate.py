"""Rate: what a group may spend, and the quality and size of key pictures that come to it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gsvc.codec.scaffold.geometry import Geometry
from gsvc.encoders.pictures import MAX_CRF, can_code
from gsvc.encoders.search import Plan

_LEAST_CRF = 10.0
_SMALLEST = 4  # eighths
CRF_SLOPE = 0.055  # by how much the logarithm of the bits falls with one crf
_CLOSE = 0.01
_FAR = 0.03
_ROUNDS = 6

Code = Callable[[Plan], Sequence[bytes]]


@dataclass(frozen=True)
class Budget:
    """`bits` that a group may take, framing included; `exact`: it should take them all, not only at most."""

    bits: float
    exact: bool


class RateControl:
    """Hands out budgets; what a group over- or underspends, later ones make up for."""

    def __init__(
        self, bpp: float, pixels: int, *, exact: bool, header_bits: int, second: float
    ) -> None:
        """`bpp`: bits per pixel over the stream; `pixels` of a frame; `header_bits` are spent already;
        `second`: frames a second."""
        self.bpp, self._pixels = bpp, pixels
        self._rate = bpp * pixels
        self._exact = exact
        self._least = second
        self._debt = float(header_bits)
        self._frames = 0
        self._bits = 0
        self._usual: float | None = None

    def retarget(self, bpp: float, *, exact: bool) -> None:
        """Another rate from here on; what was over- or underspent at the old one is forgotten."""
        if self._frames >= self._least or self._usual is None:
            self._usual = self._bits / self._frames if self._frames else None
        self.bpp, self._rate, self._exact = bpp, bpp * self._pixels, exact
        self._debt, self._frames, self._bits = 0.0, 0, 0

    def budget(self, frames: int) -> Budget:
        """What `frames` frames may take."""
        # A short group may take as much as a second: its intra picture costs what it costs.
        share = self._rate * (frames if self._exact else max(frames, self._least))
        # A level's limit is no target: what an easy group leaves is not for later ones to waste.
        debt = self._debt if self._exact else max(self._debt, -0.5 * share)
        return Budget(max(0.3 * share, share - debt), self._exact)

    def spent(self, bits: int, frames: int) -> None:
        """Tell what a group took in all."""
        self._debt += bits - self._rate * frames
        self._frames += frames
        self._bits += bits

    def excess(self) -> float | None:
        """What was spent in proportion to what was to be spent; None where that is not known or not aimed at."""
        if (
            not self._frames and self._usual is not None
        ):  # A new rate: what the old one took is known.
            usual, self._usual = self._usual, self._rate
            return usual / self._rate
        share = self._rate * self._frames
        if not self._frames or math.isinf(share) or (self._debt <= 0 and not self._exact):
            return None
        return max(0.1, 1 + self._debt / share)


class WindowCap:
    """A hard limit over any second of the stream: packets count at the time when their last frame is shown."""

    def __init__(self, bitrate: float, header_bits: int) -> None:
        """`bitrate`: bits that any second may take; `header_bits` are sent at time 0."""
        self._most = bitrate
        self._sent: list[tuple[float, int]] = [(0.0, header_bits)]

    @property
    def advice(self) -> str:
        """What to tell a user whose cap cannot be kept."""
        return (
            f"no second of this video can be kept under {self._most:.0f} bits: raise the cap, shrink the video "
            "or lower its frame rate"
        )

    def fits(self, packets: Sequence[tuple[float, int]]) -> bool:
        """Whether these packets, (seconds, bits) in order, may follow those added before."""
        every = [*self._sent, *packets]
        window = start = 0
        for time, bits in every:
            window += bits
            while every[start][0] <= time - 1:
                window -= every[start][1]
                start += 1
            if window > self._most:
                return False
        return True

    def add(self, packets: Sequence[tuple[float, int]]) -> None:
        """Send them."""
        last = packets[-1][0]
        self._sent = [p for p in (*self._sent, *packets) if p[0] > last - 1]


def fit_pictures(
    plan: Plan,
    units: Sequence[bytes],
    goal: float,
    code: Code,
    *,
    exact: bool,
    geometry: Geometry,
) -> tuple[Plan, Sequence[bytes]]:
    """Change `plan`, whose key pictures are `units`, until they take `goal` bits, or at most so many.

    The quantiser is moved first, then the size. If even the smallest are too large, those are returned.
    """
    if not exact and _bits(units) <= goal:
        return plan, units
    fit = _Fit(goal, code, exact, geometry)
    best = fit.walked(plan, units)
    # Of few pictures a step of the quantiser can take a tenth: another size has other steps.
    other = best[0].eighths - 1
    is_off = abs(math.log(_bits(best[1]) / max(goal, 1.0))) > _FAR
    if not (exact and is_off and other >= _SMALLEST and can_code(geometry.coded_size(other))):
        return best
    plan = replace(best[0], eighths=other, crf=max(_LEAST_CRF, best[0].crf - 2))
    tried = fit.walked(plan, code(plan))
    return tried if fit.is_better(_bits(tried[1]), _bits(best[1])) else best


@dataclass(frozen=True)
class _Fit:
    """What `fit_pictures` aims at."""

    goal: float
    code: Code
    exact: bool
    geometry: Geometry

    def walked(self, plan: Plan, units: Sequence[bytes]) -> tuple[Plan, Sequence[bytes]]:
        """The nearest plan that the quantiser, then the size lead to, and its units."""
        # Too many bits at `low` and below, few enough at `high` and above.
        low, high = _LEAST_CRF, float(MAX_CRF)
        best = plan, units
        for _ in range(_ROUNDS):
            miss = math.log(_bits(units) / max(self.goal, 1.0))
            if abs(miss) < _CLOSE or (not self.exact and -4 * _CLOSE < miss <= 0):
                break
            if miss > 0 and plan.crf >= MAX_CRF:
                smaller = plan.eighths - 2
                if smaller < _SMALLEST or not can_code(self.geometry.coded_size(smaller)):
                    break
                plan = replace(plan, eighths=smaller, crf=64.0)
                low, high = _LEAST_CRF, float(MAX_CRF)
            else:
                low, high = (plan.crf, high) if miss > 0 else (low, plan.crf)
                crf = min(max(plan.crf + miss / CRF_SLOPE, low), high)
                if not low < crf < high and high < MAX_CRF:
                    crf = (low + high) / 2
                crf = round(4 * crf) / 4
                if crf == plan.crf or (crf in (low, high) and high - low <= 0.25):
                    break
                plan = replace(plan, crf=crf)
            units = self.code(plan)
            if self.is_better(_bits(units), _bits(best[1])):
                best = plan, units
        return best

    def is_better(self, bits: int, than: int) -> bool:
        """Whether `bits` are nearer to the goal."""
        goal = self.goal
        if self.exact:
            return (
                abs(math.log(bits / goal)) < abs(math.log(than / goal)) if goal > 0 else bits < than
            )
        return (bits <= goal, bits if bits <= goal else -bits) > (
            than <= goal,
            than if than <= goal else -than,
        )


def _bits(units: Sequence[bytes]) -> int:
    return 8 * sum(map(len, units))
