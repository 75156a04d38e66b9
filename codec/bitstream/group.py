"""The packets of a group: intervals and coded pictures to payloads, and back.

The payload of a picture packet is the length of the scaffold (varint), the scaffold, and what of
the coded pictures is not in it. The scaffold has, in this order: the coding of the group where one
begins, the packet's layout, its coded pictures, and its intervals. Models and predictions are reset
at each group. Where shots come back, a group has up to four AV1 sequences side by side, each in a
*slot* with its own models and predictions: a lost packet spoils no slot but its own.

A function of the syntax takes the value to write, or None for a reader, and returns the value.
Contexts and predictions depend on integers that were coded before, never on floating point.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from gsvc.codec.bitstream.coded_pictures import (
    UNIT_ELEMENTS,
    TemporalUnit,
    UnitCoder,
    joined,
    parted,
    sequence_size,
    usual_sequence,
)
from gsvc.codec.bitstream.container import Cutter, Packet, PacketType, read_varint, varint
from gsvc.codec.bitstream.entropy_coding import (
    FLAG,
    UNSIGNED,
    Coder,
    Element,
    Reader,
    Trace,
    Writer,
)
from gsvc.codec.bitstream.errors import (
    DEFAULT_LIMITS,
    BitstreamError,
    ConfigError,
    LimitError,
    Limits,
)
from gsvc.codec.bitstream.header import Header, Tools
from gsvc.codec.bitstream.layers import ALL_LAYERS, GROUP_LAYERS
from gsvc.codec.bitstream.scaffold import (
    LAYOUT_ELEMENTS,
    FrameSpan,
    Geometry,
    Interval,
    Layer,
    LayoutCoder,
    Place,
    Sample,
    Scope,
    Site,
    Values,
)

SLOTS = 4
"""AV1 sequences of a group, side by side."""
_TURNS = 63

MAX_SAMPLES = 15
"""Most samples of an interval."""

_CRF = Element("picture.crf", "key pictures", UNSIGNED, 70)
_EIGHTHS = 8
_SCALE = Element("picture.eighths", "key pictures", UNSIGNED, _EIGHTHS << len(GROUP_LAYERS) + 1)
_ALONE = Element("packet.alone", "key pictures", FLAG)
_DISSOLVES = Element("interval.dissolves", "timing", FLAG)
_MORE = Element("sample.more", "timing", FLAG)
_GAP = Element("sample.gap", "timing", UNSIGNED, 2048)


@dataclass(frozen=True)
class Coding:
    """How the pictures of a group are coded."""

    crf: int
    """Their quantiser, 1 to 70."""
    scale: int
    """Their size in eighths of the display size, 1 to 8."""
    alone: bool = False
    """Whether layout and pictures of each packet can be read without the packets before: where
    packets get lost, what is shown is not lost with them."""
    layers: frozenset[str] = frozenset()
    """Names of those of `GROUP_LAYERS` that the group has."""
    companded: bool = False
    """Whether their chroma was companded: decoders expand it."""


def code_coding(coder: Coder, coding: Coding | None) -> Coding:
    """The coding of a group. Raises BitstreamError when its quantiser or size is read as 0."""
    crf = coder.code(_CRF, None if coding is None else coding.crf)
    # A scale beyond 8 says what there is; older decoders refuse what they do not know.
    more = None
    if coding is not None:
        switches = *(layer.name in coding.layers for layer in GROUP_LAYERS), coding.companded
        more = coding.scale + sum(_EIGHTHS * is_on << n for n, is_on in enumerate(switches))
    scale = coder.code(_SCALE, more)
    if not (1 <= crf and 1 <= scale):
        raise BitstreamError("a group's picture size or quantiser is zero: the stream is damaged")
    alone = bool(coder.code(_ALONE, None if coding is None else coding.alone))
    switched, eighths = divmod(scale - 1, _EIGHTHS)
    layers = (layer.name for n, layer in enumerate(GROUP_LAYERS) if switched >> n & 1)
    return Coding(crf, eighths + 1, alone, frozenset(layers), bool(switched >> len(GROUP_LAYERS)))


class IntervalCoder:
    """Codes the intervals of one group, in order, with `coder`."""

    def __init__(
        self, coder: Coder, geometry: Geometry, tools: Tools, layers: frozenset[str] = frozenset()
    ) -> None:
        """`tools`: layers that the header switches on; `layers`: names of those of the group."""
        names = tools.names | layers
        self._coder, self._geometry = coder, geometry
        self._layers = {
            scope: [layer for layer in ALL_LAYERS if layer.scope is scope and layer.name in names]
            for scope in Scope
        }
        self._before: dict[Layer[Any], Any] = {}
        """The last value of each layer."""

    def code(self, span: FrameSpan, interval: Interval | None) -> Interval:
        """The interval with this layout.

        Raises ConfigError for an interval that cannot be stored, BitstreamError for invalid bytes.
        """
        dissolves = self._code_dissolve(span, interval)
        site = Site(self._geometry, span.place, span.length)
        wanted = None if interval is None else interval.values
        values = self._code_layers(Scope.INTERVAL, site, wanted)
        samples: tuple[Sample, ...] = ()
        if span.has_picture:
            values |= self._code_layers(Scope.PICTURE, site, wanted)
            samples = self._code_samples(site, None if interval is None else interval.samples)
        return Interval(span.ticks, samples, values, span.place, dissolves)

    def _code_samples(self, site: Site, wanted: tuple[Sample, ...] | None) -> tuple[Sample, ...]:
        samples: list[Sample] = []
        while True:
            index = len(samples)
            value = None if wanted is None else wanted[index : index + 1]
            if not self._coder.code(_MORE, None if value is None else len(value)):
                return tuple(samples)
            if index == MAX_SAMPLES:
                raise LimitError(f"an interval has more than {MAX_SAMPLES} scaffold samples")
            sample = value[0] if value else None
            gap = self._coder.code(_GAP, None if sample is None else site.length - sample.offset)
            last = samples[-1].offset if samples else 0
            if not last < site.length - gap:
                raise LimitError("scaffold samples lie outside their interval or out of order")
            values = self._code_layers(Scope.SAMPLE, site, sample.values if sample else None)
            samples.append(Sample(site.length - gap, values))

    def _code_layers(
        self, scope: Scope, site: Site, wanted: Values | None
    ) -> dict[Layer[Any], Any]:
        values, before = {}, self._before
        for layer in self._layers[scope]:
            value = None if wanted is None else wanted.get(layer)
            values[layer] = before[layer] = layer.code(self._coder, site, before.get(layer), value)
        return values

    def _code_dissolve(self, span: FrameSpan, interval: Interval | None) -> bool:
        may_dissolve = span.place is Place.BETWEEN and span.length > 1
        if interval is not None and interval.dissolves and not may_dissolve:
            raise ConfigError("nothing can dissolve here")
        if not may_dissolve:
            return False
        return bool(self._coder.code(_DISSOLVES, None if interval is None else interval.dissolves))


_FIRST_ELEMENTS = frozenset(element.name for element in (*LAYOUT_ELEMENTS, *UNIT_ELEMENTS))


class _PacketCoder:
    """Codes the packets of one sequence, in order: the same for writing and reading."""

    def __init__(self, coder: Coder, header: Header, coding: Coding, *, begins: bool) -> None:
        """`begins`: whether the first packet to come opens the sequence."""
        self.coding = coding
        self._coder, self._header = coder, header
        self.open_shot()
        self._begins = self._opens_shot = begins
        usual = usual_sequence(header.geometry.coded_size(coding.scale))
        self._units = UnitCoder(coder, usual, base_q_idx(coding.crf) if header.fitted else None)
        self._intervals = IntervalCoder(coder, header.geometry, header.tools, coding.layers)

    def open_shot(self) -> None:
        """The next packet opens another shot."""
        header, self._opens_shot = self._header, True
        self._layout = LayoutCoder(self._coder, header.frame_ticks, holds=header.holds)

    def layout(self, frames: int, intervals: Sequence[Interval] | None) -> tuple[FrameSpan, ...]:
        """Where a packet's frames lie; comes first."""
        if self.coding.alone:
            self._coder.forget(_FIRST_ELEMENTS)
            self._layout.forget()
            self._units.forget()
        opens, self._opens_shot = self._opens_shot, False
        return self._layout.code(frames, intervals, opens_group=opens)

    def units(
        self, spans: Sequence[FrameSpan], units: Sequence[TemporalUnit] | None, plain: bytes = b""
    ) -> tuple[TemporalUnit, ...]:
        """Its coded pictures; come second."""
        count, begins = sum(span.has_picture for span in spans), self._begins
        self._begins = False
        return self._units.code(count, units, plain, opens_group=begins)

    @property
    def plain(self) -> bytes:
        """What of the last pictures written is not entropy-coded."""
        return self._units.plain

    def intervals(
        self, spans: Sequence[FrameSpan], intervals: Sequence[Interval] | None
    ) -> tuple[Interval, ...]:
        """Their scaffold; comes last."""
        given: Iterable[Interval | None] = intervals or repeat(None)
        return tuple(map(self._intervals.code, spans, given))


class GroupWriter:
    """Writes the payloads of the packets of a group, or of one of its slots, in order."""

    def __init__(self, header: Header, coding: Coding) -> None:
        self._writer = Writer(fitted=header.fitted)
        code_coding(self._writer, coding)
        self._coder = _PacketCoder(self._writer, header, coding, begins=True)
        self._packets = 0

    def write(
        self, intervals: Sequence[Interval], units: Sequence[bytes], slot: int | None = None
    ) -> bytes:
        """The payload with these intervals, from one on, and the pictures at their ends.

        `units`: AV1 temporal units, one for each interval but those AFTER; `slot`: of SHOT packets.
        Raises ConfigError for intervals that cannot be stored, BitstreamError for such units.
        """
        head = b""
        if slot is not None:
            head = bytes([slot + SLOTS * _turn(self._packets)])
            self._coder.open_shot()
        self._packets += 1
        parts = tuple(map(parted, units))
        spans = self._coder.layout(sum(one.length for one in intervals), intervals)
        self._coder.units(spans, parts)
        self._coder.intervals(spans, intervals)
        scaffold = self._writer.finish()
        return head + varint(len(scaffold)) + scaffold + self._coder.plain


def _turn(packets: int) -> int:
    """Number, 0 to 63, by which a SHOT packet counts those before it in its slot; 0: none."""
    return packets and 1 + (packets - 1) % _TURNS


def base_q_idx(crf: float) -> int:
    """AV1's quantiser, 0 to 255, of pictures that none other needs."""
    return min(255, 4 * round(crf))


def picture_bits(units: Sequence[bytes], crf: float) -> float:
    """Bits in its packets of the pictures of a group, given as temporal units."""
    coder, parts = Coder(fitted=True), tuple(map(parted, units))
    usual = usual_sequence(sequence_size(parts[0].sequence))
    pictures = UnitCoder(coder, usual, base_q_idx(crf))
    pictures.code(len(parts), parts, opens_group=True)
    return coder.total + 8 * len(pictures.plain)


@dataclass(frozen=True)
class ParsedPacket:
    """A picture packet after parsing; its pictures are not decoded."""

    is_intra: bool
    """Whether it opens a group."""
    opens_shot: bool
    """Whether it opens a shot, of a group or within it."""
    slot: int
    """The slot of its pictures."""
    begins: bool
    """Whether their AV1 sequence begins with it."""
    coding: Coding
    """How the pictures of that sequence are coded."""
    intervals: tuple[Interval, ...]
    """The frames and their scaffold, at least one; only the last may lie AFTER."""
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


@dataclass
class _Sequence:
    """The reader of the packets of one slot."""

    reader: Reader
    coder: _PacketCoder
    packets: int = 0


_LACKS = "a picture lacks the intra picture it builds on: begin at one"


class GroupReader:
    """Reads the scaffold of picture packets, group after group."""

    def __init__(
        self, header: Header, limits: Limits = DEFAULT_LIMITS, trace: Trace | None = None
    ) -> None:
        self._header, self._limits, self._trace = header, limits, trace
        self._longest = limits.longest_interval(header.format.width, header.format.height)
        self.forget()

    def read(self, packet: Packet) -> ParsedPacket:
        """Parse the next picture packet. An error, BitstreamError, ends its slot."""
        slot, sequence, scaffold, plain = self._started(packet)
        coder = sequence.coder
        spans = _spans(packet, coder)
        units = coder.units(spans, None, plain)
        intervals = coder.intervals(spans, None)
        self._go_on(slot, sequence)
        return ParsedPacket(
            is_intra=packet.is_intra,
            opens_shot=packet.type != PacketType.INTER,
            slot=slot,
            begins=sequence.packets == 1,
            coding=coder.coding,
            intervals=intervals,
            units=tuple(map(joined, units)),
            scaffold_size=len(scaffold),
            plain_size=len(plain),
            bits=dict(sequence.reader.bits),
        )

    def read_layout(self, packet: Packet) -> tuple[FrameSpan, ...]:
        """Where the packet's frames lie: a faster substitute for `read` of a whole stream."""
        slot, sequence, _, _ = self._started(packet)
        spans = _spans(packet, sequence.coder)
        self._go_on(slot, sequence)
        return spans

    def read_pictures(self, packet: Packet, coding: Coding) -> tuple[list[int], list[bytes]]:
        """Lengths of the intervals and temporal units of an INTER packet after a lost one.

        Raises BitstreamError unless the group's `coding` is such that packets are read alone.
        """
        is_alone = coding.alone and packet.type == PacketType.INTER and not self._header.returns
        if not (is_alone and 1 <= packet.frames <= self._longest):
            raise BitstreamError(_LACKS)
        scaffold, plain = split_payload(packet.payload)
        reader = Reader(most_bits=self._limits.scaffold_bits, fitted=self._header.fitted)
        reader.start(scaffold)
        coder = _PacketCoder(reader, self._header, coding, begins=False)
        spans = coder.layout(packet.frames, None)
        units = coder.units(spans, None, plain)
        return [span.length for span in spans], list(map(joined, units))

    def forget(self) -> None:
        """Refuse everything up to the next INTRA packet or sequence."""
        self._slots: dict[int, _Sequence] = {}
        self._slot: int | None = None  # of INTER packets
        self._group: int | None = None  # number of its INTRA packet, where packets have numbers

    def end_sequence(self) -> None:
        """Refuse what goes on from the last packet."""
        if self._slot is not None:
            del self._slots[self._slot]
        self._slot = None

    def lose_track(self) -> None:
        """Packets are missing: refuse INTER packets up to the next shot of which none is."""
        self._slot = None
        if self._group is None:  # Without its number, nobody knows which group comes next.
            self._slots = {}

    def _started(self, packet: Packet) -> tuple[int, _Sequence, bytes, bytes]:
        """The packet's slot, its sequence, ready to read, its scaffold and its plain bytes."""
        slot, self._slot, payload = self._slot, None, packet.payload
        if packet.is_intra:
            self._slots, self._group, slot = {}, packet.group, 0
        elif packet.type == PacketType.SHOT:
            slot, payload = self._slot_of(packet), payload[1:]
        if slot is None:
            raise BitstreamError(_LACKS)
        sequence = self._slots.pop(slot, None)  # Damage ends it.
        if not 1 <= packet.frames <= self._longest:
            why = f"a packet of {packet.frames} frames: 1 to {self._longest} can be of this size"
            raise LimitError(why)
        scaffold, plain = split_payload(payload)
        if sequence is None:
            return slot, self._opened(scaffold), scaffold, plain
        if packet.type == PacketType.SHOT:
            sequence.coder.open_shot()
        sequence.reader.bits.clear()
        sequence.reader.start(scaffold)
        return slot, sequence, scaffold, plain

    def _slot_of(self, packet: Packet) -> int:
        """The slot that a SHOT packet names: empty where a sequence begins there."""
        if not (self._header.returns and packet.payload):
            raise BitstreamError("a shot comes back where none may: the stream is damaged")
        if packet.group != self._group:  # Its INTRA packet is missing.
            self._slots, self._group = {}, packet.group
        slot, turn = packet.payload[0] % SLOTS, packet.payload[0] // SLOTS
        sequence = self._slots.get(slot)
        if not turn:
            self._slots.pop(slot, None)
        elif sequence is None or turn != _turn(sequence.packets):
            raise BitstreamError(_LACKS)
        return slot

    def _opened(self, scaffold: bytes) -> _Sequence:
        reader = Reader(self._trace, self._limits.scaffold_bits, fitted=self._header.fitted)
        reader.start(scaffold)
        coding = code_coding(reader, None)
        return _Sequence(reader, _PacketCoder(reader, self._header, coding, begins=True))

    def _go_on(self, slot: int, sequence: _Sequence) -> None:
        """A packet of the sequence was read."""
        sequence.packets += 1
        self._slots[slot], self._slot = sequence, slot


def _spans(packet: Packet, coder: _PacketCoder) -> tuple[FrameSpan, ...]:
    spans = coder.layout(packet.frames, None)
    is_drawn = spans[0].place is Place.BETWEEN and spans[0].length > 1
    if packet.type == PacketType.SHOT and is_drawn:
        raise BitstreamError("a shot begins before its first picture: the stream is damaged")
    return spans


def split_payload(payload: bytes) -> tuple[bytes, bytes]:
    """Scaffold and plain bytes of a payload. Raises BitstreamError for a scaffold cut short."""
    cutter = Cutter(payload)
    return cutter.take(read_varint(cutter.take)), cutter.rest()
