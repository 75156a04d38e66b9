"""A group's packets, with key pictures that fit what the group, a second and a packet may take."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat

from gsvc.codec.errors import ConfigError
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval
from gsvc.codec.stream.group import GroupWriter
from gsvc.encoders.fitting import fit_pictures
from gsvc.encoders.group_coder import CodedInterval, Recipe
from gsvc.encoders.key_pictures import KeyPictures
from gsvc.encoders.plan import Plan
from gsvc.encoders.rate import FIXED_BITS, WindowCap

Packed = tuple[KeyPictures, list[CodedInterval]]


class Packer:
    """Packs groups in order."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        most = recipe.max_bitrate
        self._cap = None if most is None else WindowCap(most, FIXED_BITS)
        self._scaffold_share = 0.1
        self._clock = 0

    def picture_bits(self, budget: float) -> float:
        """What the scaffold is likely to leave of a budget in bits."""
        return budget * (1 - self._scaffold_share)

    def packed(
        self, keys: KeyPictures, intervals: Sequence[Interval], budget: float, *, exact: bool
    ) -> Packed:
        """The group's packets, and the key pictures that are in them.

        `budget`: the bits to take or, unless `exact`, to stay under.
        Raises ConfigError where the limit on a second or on a packet cannot be kept.
        """
        rest = self.scaffold_bits(keys.plan, intervals)
        self._scaffold_share = 0.5 * (self._scaffold_share + min(0.5, rest / budget))
        keys = fit_pictures(keys, budget - rest, exact=exact)
        coded = self._written(keys.plan, intervals, keys.units)
        while (excess := self._recipe.packet_excess(coded)) > 1:
            goal = 0.95 * keys.bits / excess
            keys, coded = self._smaller(keys, intervals, goal, self._recipe.packet_advice)
        if self._cap is not None:
            advice = (
                f"no second of this video can be kept under {self._recipe.max_bitrate:.0f} bits: "
                "raise the cap, shrink the video or lower its frame rate"
            )
            while not self._cap.fits(self._timed(coded)):
                keys, coded = self._smaller(keys, intervals, 0.85 * keys.bits, advice)
            self._cap.add(self._timed(coded))
        self._clock += sum(interval.ticks for interval in coded)
        return keys, coded

    def scaffold_bits(self, plan: Plan, intervals: Sequence[Interval]) -> int:
        """What the packets take beside key pictures."""
        return sum(coded.bits for coded in self._written(plan, intervals, repeat(b"")))

    def _smaller(
        self, keys: KeyPictures, intervals: Sequence[Interval], goal: float, advice: str
    ) -> Packed:
        """The packets with key pictures nearer to `goal` bits; ConfigError with `advice` if none
        are smaller."""
        fewer = fit_pictures(keys, goal, exact=False)
        if fewer.bits >= keys.bits:
            raise ConfigError(advice)
        return fewer, self._written(fewer.plan, intervals, fewer.units)

    def _timed(self, coded: Sequence[CodedInterval]) -> list[tuple[float, int]]:
        """The time of each packet, when its last frame is shown, in seconds, and its bits."""
        tick = float(self._recipe.header.format.time_base)
        _, *ends = accumulate((interval.ticks for interval in coded), initial=self._clock)
        return [(end * tick, interval.bits) for end, interval in zip(ends, coded, strict=True)]

    def _written(
        self, plan: Plan, intervals: Sequence[Interval], units: Iterable[bytes]
    ) -> list[CodedInterval]:
        writer = GroupWriter(self._recipe.header, round(plan.crf), plan.scale)
        left = iter(units)
        coded: list[CodedInterval] = []
        for interval in intervals:
            unit = b"" if interval.place is Place.AFTER else next(left)
            payload = writer.write(interval, unit)
            ticks = sum(interval.ticks)
            coded.append(CodedInterval(interval.length, ticks, payload, is_intra=not coded))
        return coded
