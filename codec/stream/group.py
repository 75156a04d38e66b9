"""The packets of a group: intervals and coded pictures to payloads, and back.

The payload of a picture packet is the length of the scaffold (varint), the scaffold, and what of
the coded pictures is not in it. The scaffold has, in this order: the coding of the group where one
begins, the packet's layout, its coded pictures, and its intervals. Models and predictions are reset
at each group.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from gsvc.codec.errors import BitstreamError, LimitError
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.scaffold.coder import Coder, Reader, Trace, Writer
from gsvc.codec.scaffold.layout import LAYOUT_ELEMENTS, LayoutCoder, Span
from gsvc.codec.scaffold.syntax import Coding, IntervalCoder, code_coding
from gsvc.codec.scaffold.types import Interval
from gsvc.codec.scaffold.unit import UNIT_ELEMENTS, Unit, UnitCoder, plain_bytes
from gsvc.codec.stream.av1_units import joined, parted, sequence_size, usual_sequence
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet
from gsvc.codec.stream.varint import Cutter, read_varint, varint

_FIRST_ELEMENTS = frozenset(element.name for element in (*LAYOUT_ELEMENTS, *UNIT_ELEMENTS))


class _PacketCoder:
    """Codes the packets of one group, in order: the same for writing and reading."""

    def __init__(self, coder: Coder, header: Header, coding: Coding, *, begins: bool) -> None:
        """`begins`: whether the first packet to come opens the group."""
        self.coding = coding
        self._coder, self._begins = coder, begins
        self._opens_group = False
        self._layout = LayoutCoder(coder, header.frame_ticks, holds=header.holds)
        self._units = UnitCoder(coder, usual_sequence(header.geometry.coded_size(coding.scale)))
        self._intervals = IntervalCoder(coder, header.geometry, header.tools, faces=coding.faces)

    def layout(self, frames: int, intervals: Sequence[Interval] | None) -> tuple[Span, ...]:
        """Where a packet's frames lie; comes first."""
        if self.coding.alone:
            self._coder.forget(_FIRST_ELEMENTS)
            self._layout.forget()
            self._units.forget()
        self._opens_group, self._begins = self._begins, False
        return self._layout.code(frames, intervals, opens_group=self._opens_group)

    def units(
        self, spans: Sequence[Span], units: Sequence[Unit] | None, plain: bytes
    ) -> tuple[Unit, ...]:
        """Its coded pictures; come second."""
        count = sum(span.has_picture for span in spans)
        return self._units.code(count, units, plain, opens_group=self._opens_group)

    def intervals(
        self, spans: Sequence[Span], intervals: Sequence[Interval] | None
    ) -> tuple[Interval, ...]:
        """Their scaffold; comes last."""
        given: Iterable[Interval | None] = intervals or repeat(None)
        return tuple(map(self._intervals.code, spans, given))


class GroupWriter:
    """Writes the payloads of one group's packets, in order."""

    def __init__(self, header: Header, coding: Coding) -> None:
        self._writer = Writer()
        code_coding(self._writer, coding)
        self._coder = _PacketCoder(self._writer, header, coding, begins=True)

    def write(self, intervals: Sequence[Interval], units: Sequence[bytes]) -> bytes:
        """The payload with these intervals, from one on, and the pictures at their ends.

        `units`: AV1 temporal units, one for each interval but those AFTER. Raises ConfigError for
        an interval that cannot be stored, BitstreamError for a unit that cannot.
        """
        parts = tuple(map(parted, units))
        plain = plain_bytes(parts)
        spans = self._coder.layout(sum(one.length for one in intervals), intervals)
        self._coder.units(spans, parts, plain)
        self._coder.intervals(spans, intervals)
        scaffold = self._writer.finish()
        return varint(len(scaffold)) + scaffold + plain


def picture_bits(units: Sequence[bytes]) -> float:
    """What the pictures of a group, given as temporal units, take in its packets."""
    coder, parts = Coder(), tuple(map(parted, units))
    plain = plain_bytes(parts)
    usual = usual_sequence(sequence_size(parts[0].sequence))
    UnitCoder(coder, usual).code(len(parts), parts, plain, opens_group=True)
    return coder.total + 8 * len(plain)


@dataclass(frozen=True)
class ParsedPacket:
    """A picture packet after parsing; its pictures are not decoded."""

    is_intra: bool
    """Whether it opens a group."""
    coding: Coding
    """Of the group's pictures."""
    intervals: tuple[Interval, ...]
    """Its frames and their scaffold, at least one; only the last may lie AFTER."""
    units: tuple[bytes, ...]
    """AV1 temporal units of the pictures that end the intervals, in order."""
    scaffold_size: int
    """Bytes of the scaffold."""
    plain_size: int
    """Bytes of the pictures that are not entropy-coded."""
    bits: dict[str, float]
    """Bits of the scaffold before rounding to bytes, by layer of the ledger."""

    @property
    def ticks(self) -> tuple[int, ...]:
        """Time from the frame before, in units of the time base, of each of its frames."""
        return tuple(tick for interval in self.intervals for tick in interval.ticks)


@dataclass(frozen=True)
class _Group:
    reader: Reader
    coder: _PacketCoder


class GroupReader:
    """Reads the scaffold of picture packets, group after group."""

    def __init__(
        self, header: Header, limits: Limits = DEFAULT_LIMITS, trace: Trace | None = None
    ) -> None:
        self._header, self._limits, self._trace = header, limits, trace
        self._longest = limits.longest_interval(header.format.width, header.format.height)
        self._group: _Group | None = None

    def read(self, packet: Packet) -> ParsedPacket:
        """Parse the next INTRA or INTER packet. An error, BitstreamError, ends the group."""
        group, scaffold, plain = self._started(packet)
        spans = group.coder.layout(packet.frames, None)
        units = group.coder.units(spans, None, plain)
        intervals = group.coder.intervals(spans, None)
        self._group = group
        return ParsedPacket(
            is_intra=packet.is_key,
            coding=group.coder.coding,
            intervals=intervals,
            units=tuple(map(joined, units)),
            scaffold_size=len(scaffold),
            plain_size=len(plain),
            bits=dict(group.reader.bits),
        )

    def read_layout(self, packet: Packet) -> tuple[Span, ...]:
        """Where the packet's frames lie: a faster substitute for `read` of a whole stream."""
        group, _, _ = self._started(packet)
        spans = group.coder.layout(packet.frames, None)
        self._group = group
        return spans

    def read_pictures(self, packet: Packet, coding: Coding) -> tuple[list[int], list[bytes]]:
        """Lengths of the intervals and temporal units of an INTER packet after a lost one.

        Raises BitstreamError unless the group's `coding` is such that packets are read alone.
        """
        scaffold, plain = split_payload(packet.payload)
        if packet.is_key or not coding.alone or not 1 <= packet.frames <= self._longest:
            raise BitstreamError("a picture lacks the intra picture it builds on: begin at one")
        reader = Reader(most_bits=self._limits.scaffold_bits)
        reader.start(scaffold)
        coder = _PacketCoder(reader, self._header, coding, begins=False)
        spans = coder.layout(packet.frames, None)
        units = coder.units(spans, None, plain)
        return [span.length for span in spans], list(map(joined, units))

    def end_group(self) -> None:
        """Refuse INTER packets up to the next INTRA packet."""
        self._group = None

    def _started(self, packet: Packet) -> tuple[_Group, bytes, bytes]:
        """The packet's group, ready to read; its scaffold and its plain bytes."""
        group, self._group = self._group, None  # Damage ends the group.
        if not 1 <= packet.frames <= self._longest:
            raise LimitError(
                f"a packet of {packet.frames} frames: 1 to {self._longest} can be of this size"
            )
        scaffold, plain = split_payload(packet.payload)
        if packet.is_key:
            group = self._opened(scaffold)
        elif group is None:
            raise BitstreamError("a picture lacks the intra picture it builds on: begin at one")
        else:
            group.reader.bits.clear()
            group.reader.start(scaffold)
        return group, scaffold, plain

    def _opened(self, scaffold: bytes) -> _Group:
        reader = Reader(self._trace, self._limits.scaffold_bits)
        reader.start(scaffold)
        coding = code_coding(reader, None)
        return _Group(reader, _PacketCoder(reader, self._header, coding, begins=True))


def split_payload(payload: bytes) -> tuple[bytes, bytes]:
    """Scaffold and plain bytes of a payload. Raises BitstreamError for a scaffold cut short."""
    cutter = Cutter(payload)
    return cutter.take(read_varint(cutter.take)), cutter.rest()
