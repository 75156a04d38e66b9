"""A group's packets, with keyframes that fit what the group, a second and a packet may take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice

from gsvc.codec.bitstream.container import PacketType
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.group import Coding, GroupWriter
from gsvc.codec.bitstream.layers import GROUP_LAYERS
from gsvc.codec.bitstream.scaffold import Interval, Place, nominal_time
from gsvc.encoders.coding.keyframes import Keyframes, fit_quantizer
from gsvc.encoders.config import PACKET_BYTES, PACKET_SECONDS, CodedPacket, CodingConfig
from gsvc.encoders.search.rate_control import FIXED_BITS, WindowCap

_FULLNESS = 1.0, 0.5, 0.25, 0.0
"""Shares of what a packet may hold, tried where a limit is missed; at 0 each has one interval."""
_CLOSE = 1.03
"""Share of a budget to be met that other intervals may take; nothing else pays for it."""


@dataclass(frozen=True)
class PackedGroup:
    """A group, ready to be sent."""

    keys: Keyframes
    """The coded pictures that are in its packets."""
    intervals: Sequence[Interval]
    """The group's intervals, with their scaffold."""
    packets: list[CodedPacket]
    """The packets to send, in order."""
    rest: float
    """Bits that the packets take beside coded pictures, about."""

    @property
    def bits(self) -> int:
        """Size of all packets."""
        return sum(packet.bits for packet in self.packets)


class Packer:
    """Packs groups in order."""

    def __init__(self, config: CodingConfig) -> None:
        self._config = config
        most = config.max_bitrate
        self._cap = None if most is None else WindowCap(most, FIXED_BITS)
        self._scaffold_share = 0.02
        # The first frame, one nominal step later, is shown at 0.
        self._clock = -nominal_time(1, config.header.frame_ticks)

    def picture_bits(self, budget: float) -> float:
        """The part of a budget, in bits, that the scaffold is likely to leave for pictures."""
        return budget * (1 - self._scaffold_share)

    def packed(
        self, keys: Keyframes, intervals: Sequence[Interval], budget: float, *, exact: bool
    ) -> PackedGroup:
        """The group, packed. Does not commit: try several packings, then call `sent` with one.

        `budget`: the bits to take or, unless `exact`, to stay under.
        Raises ConfigError where the limit on a second or on a packet cannot be kept.
        """
        rest = self.scaffold_bits(keys, intervals)
        keys = fit_quantizer(keys, budget - rest, exact=exact)
        while (coded := self._within_limits(keys, intervals)) is None:
            keys = self._smaller(keys, intervals)
        return PackedGroup(keys, intervals, coded, rest)

    def repacked(
        self, group: PackedGroup, intervals: Sequence[Interval], budget: float, *, exact: bool
    ) -> PackedGroup | None:
        """Other intervals between the same coded pictures; None where these leave too few bits.
        Arguments as of `packed`."""
        packets = self._within_limits(group.keys, intervals)
        if packets is None:
            return None
        rest = group.rest + sum(packet.bits for packet in packets) - group.bits
        found = replace(group, intervals=intervals, packets=packets, rest=rest)
        most = max(group.bits, budget * (_CLOSE if exact else 1))
        return found if found.bits <= most else None

    def sent(self, group: PackedGroup, rest: float, budget: float) -> None:
        """Go on from a group for which `budget` bits were there; `rest`: those beside coded
        pictures that the next group is likely to take, too."""
        self._scaffold_share = 0.5 * (self._scaffold_share + min(0.5, rest / budget))
        if self._cap is not None:
            self._cap.add(self._timed(group.packets))
        self._clock += sum(packet.ticks for packet in group.packets)

    def scaffold_bits(self, keys: Keyframes, intervals: Sequence[Interval]) -> float:
        """Bits of the packets beside coded pictures."""
        coded = self._written(keys, intervals, _FULLNESS[0])
        return sum(packet.bits for packet in coded) - keys.bits

    def _within_limits(
        self, keys: Keyframes, intervals: Sequence[Interval]
    ) -> list[CodedPacket] | None:
        """The fullest packets that keep the cap on any second and on packets; None if none do."""
        for fullness in _FULLNESS:
            coded = self._written(keys, intervals, fullness)
            keeps_cap = self._cap is None or self._cap.fits(self._timed(coded))
            if keeps_cap and self._config.packet_excess(coded) <= 1:
                return coded
        return None

    def _smaller(self, keys: Keyframes, intervals: Sequence[Interval]) -> Keyframes:
        """Coded pictures nearer to the limits; ConfigError if there are none."""
        excess = self._config.packet_excess(self._written(keys, intervals, _FULLNESS[-1]))
        goal = (0.95 / excess if excess > 1 else 0.85) * keys.bits
        fewer = fit_quantizer(keys, goal, exact=False)
        if fewer.bits < keys.bits:
            return fewer
        if excess > 1:
            raise ConfigError(self._config.packet_advice)
        raise ConfigError(self._cap_advice(keys, intervals))

    def _cap_advice(self, keys: Keyframes, intervals: Sequence[Interval]) -> str:
        """The message for a cap that even the smallest coded pictures exceed."""
        assert self._cap is not None
        packets = (self._timed(self._written(keys, intervals, fullness)) for fullness in _FULLNESS)
        least, level = min(map(self._cap.busiest, packets)), self._config.header.level
        # A lower level sends fewer pictures.
        lower = f"choose level {level - 1}, " if level else ""
        return (
            f"level {level} cannot keep a cap of {self._config.max_bitrate:.0f} bit/s, a second "
            f"here takes {least}: {lower}raise the cap, shrink the video or lower its frame rate"
        )

    def _timed(self, coded: Sequence[CodedPacket]) -> list[tuple[float, int]]:
        """The time of each packet, when its last frame is shown, in seconds, and its bits."""
        tick = float(self._config.header.format.time_base)
        _, *ends = accumulate((packet.ticks for packet in coded), initial=self._clock)
        return [(end * tick, packet.bits) for end, packet in zip(ends, coded, strict=True)]

    def _written(
        self, keys: Keyframes, intervals: Sequence[Interval], fullness: float
    ) -> list[CodedPacket]:
        """The packets; `fullness`: share of what one may hold that each takes, 0 to 1."""
        plan = keys.plan
        layers = (one.name for one in GROUP_LAYERS if any(interval[one] for interval in intervals))
        coding = Coding(
            round(plan.crf), plan.scale, layers=frozenset(layers), companded=plan.companded
        )
        writer = GroupWriter(self._config.header, coding)
        units = iter(keys.units)
        coded: list[CodedPacket] = []
        at = 0
        for batch in self._batches(keys, intervals, fullness):
            pictures = sum(interval.place is not Place.AFTER for interval in batch)
            kind, slot = PacketType.INTER, keys.openings.get(at)
            if at in keys.openings:
                kind = PacketType.INTRA if slot is None else PacketType.SHOT
            payload = writer.write(batch, list(islice(units, pictures)), slot)
            frames = sum(interval.length for interval in batch)
            ticks = sum(sum(interval.ticks) for interval in batch)
            coded.append(CodedPacket(frames, ticks, payload, kind))
            at += len(batch)
        return coded

    def _batches(
        self, keys: Keyframes, intervals: Sequence[Interval], fullness: float
    ) -> Iterator[list[Interval]]:
        """The intervals of each packet; none has those of several shots."""
        config, sizes = self._config, iter(keys.units)
        most_frames = fullness * PACKET_SECONDS * float(config.header.format.frame_rate)
        most_bytes = fullness * min(PACKET_BYTES, config.packet_bytes or PACKET_BYTES)
        batch: list[Interval] = []
        frames = size = 0
        for number, interval in enumerate(intervals):
            more = 0 if interval.place is Place.AFTER else len(next(sizes))
            frames, size = frames + interval.length, size + more
            # A picture that fills packets by itself leaves none nearly empty before it.
            is_full = size > most_bytes and size - more > most_bytes / 10
            is_full |= frames > min(most_frames, config.longest_interval)
            if batch and (is_full or number in keys.openings):
                yield batch
                batch, frames, size = [], interval.length, more
            batch.append(interval)
        yield batch
