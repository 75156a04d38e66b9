"""What is in a stream: header, packets, the ledger of bits, the scaffold's hash, and an index.

No picture is decoded for it. The ledger has the bits of each layer, which sum to the stream's size
exactly. The index tells where everything in a file is, so that any range can be decoded without the
rest. It is read in one pass, which checks every packet; of the scaffold it reads only the layout,
which stands first in each packet. (An hour takes about a second.)
"""

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import BinaryIO

import numpy as np

from gsvc.codec.bitstream import audio_and_text, container, errors, objects, scaffold
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.group import GroupReader, ParsedPacket
from gsvc.codec.bitstream.header import HEADER_BYTES, TOOLS, Header
from gsvc.codec.bitstream.layers import ALL_LAYERS
from gsvc.codec.bitstream.scaffold import FrameSpan, Scope, nominal_time

_DECISIVE = ("width", "height", "frame_ticks_num", "frame_ticks_den", "holds", "motion_estimator")


@dataclass(frozen=True)
class IndexedPacket:
    """A picture packet in a file; `number` to `duration` are those of `Packet`."""

    offset: int
    """Where its bytes begin in the file."""
    first: int
    """Number of its first frame in the stream."""
    frames: int
    """Frames that it completes."""
    number: int
    group: int
    pts: int
    duration: int
    lead: int
    """How many of its first frames also need the group before."""


@errors.typed
class StreamIndex:
    """Where every frame of a stream file is, so that any range decodes without the rest."""

    def __init__(
        self,
        file: BinaryIO,
        limits: errors.Limits = errors.DEFAULT_LIMITS,
        *,
        partial: bool = False,
    ) -> None:
        """Index a seekable file, if `partial` up to damage. Raises BitstreamError otherwise."""
        self._file, self._limits = file, limits
        file.seek(0)
        reader = container.StreamReader(file, limits)
        self.header = reader.header
        """The stream's header."""
        self.entries: list[IndexedPacket] = []
        """The picture packets, in order."""
        self.times = array("q")
        """The pts of every frame, in ticks."""
        self.damage: errors.BitstreamError | None = None
        """What is wrong after the last packet; None: nothing."""
        try:
            self._take_all(reader)
        except errors.BitstreamError as error:
            if not partial:
                raise type(error)(f"{error}; partial=True indexes what is before") from error
            self.damage = error

    def _take_all(self, reader: container.StreamReader) -> None:
        groups, offset = GroupReader(self.header, self._limits), self._file.tell()
        clock = -nominal_time(1, self.header.frame_ticks)
        held = errors.HeldBytes(self._limits)
        for packet in reader:
            if packet.is_picture:
                held.add(400 + self.times.itemsize * packet.frames)  # an entry takes 400
                spans = groups.read_layout(packet)
                ticks = [tick for span in spans for tick in span.ticks]
                self.entries.append(self._entry(packet, offset, spans[0], clock, sum(ticks)))
                self.times.extend(clock + t for t in accumulate(ticks))
                clock = self.times[-1]
            offset = self._file.tell()

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.times)

    @errors.typed
    def frame_at(self, seconds: float) -> int:
        """Number of the frame that is shown `seconds` after frame 0. Raises InputError after the
        last one's time, or what is damaged there, ConfigError below 0."""
        if not 0 <= seconds <= float("inf"):
            raise errors.ConfigError(f"seconds is {seconds}: give 0 or more")
        time = (self.times or [0])[0] + round(seconds / self.header.format.time_base, 6)
        if not self.times or time >= self.times[-1] + self.header.frame_ticks:
            raise self.damage or errors.InputError(
                f"the stream ends before {seconds:g} s: choose an earlier time"
            )
        return max(0, bisect_right(self.times, time) - 1)

    @errors.typed
    def decode(self, decoder: container.PacketDecoder, first: int, count: int) -> Iterator[Frame]:
        """Yield `count` frames from number `first` on, fewer at the end of the stream.

        `decoder` has this stream's header; it is reset first. The frames equal those of decoding
        the whole stream, except with a `WindowRefiner`, which sees other windows. Raises
        BitstreamError for a damaged file, ConfigError for numbers below 0 or another decoder.
        """
        if first < 0 or count < 0:
            why = f"{count} frames from number {first} on: give numbers of 0 or more"
            raise errors.ConfigError(why)
        other = getattr(decoder, "header", self.header).fields()
        for name, own in self.header.fields().items():
            if name in (*_DECISIVE, *TOOLS) and other[name] != own:
                told = f"the decoder is for {name} {other[name]}, this stream has {own}"
                raise errors.ConfigError(f"{told}: make it with index.header")
        decoder.reset()
        times = self.times[first : first + count]
        wanted = range(times[0], times[-1] + 1) if times else range(0)
        for frame in container.decoded_frames(decoder, self.packets(first, count), wanted):
            if frame.pts in wanted:
                yield frame

    @errors.typed
    def packets(self, first: int, count: int) -> Iterator[tuple[container.Packet, bool]]:
        """The packets to decode for `count` frames from number `first` on, in order.

        Each comes with whether it holds any of those frames. Raises BitstreamError if the file has
        changed since it was indexed.
        """
        if count < 1 or not 0 <= first < self.frames:
            return
        wanted = self._entry_of(first)
        start = wanted.group
        # Up to its first coded picture, an intra packet may build on the group before.
        if first < wanted.first + wanted.lead:
            start = self.entries[start - 1].group
        last = self._entry_of(min(first + count, self.frames) - 1)
        for entry in self.entries[start : last.number + 1]:
            self._file.seek(entry.offset)
            packet = container.read_packet(self._file.read, self._limits)
            place = entry.pts, entry.duration, entry.number, entry.group
            packet = container.Packet(packet.type, packet.frames, packet.payload, *place)
            yield packet, entry.number >= wanted.number

    def _entry_of(self, frame: int) -> IndexedPacket:
        return self.entries[bisect_right(self.entries, frame, key=lambda entry: entry.first) - 1]

    def _entry(
        self, packet: container.Packet, offset: int, span: FrameSpan, clock: int, duration: int
    ) -> IndexedPacket:
        number, group = packet.number, packet.group
        if number is None or group is None:
            why = "the stream does not begin with an intra picture: it is damaged"
            raise errors.BitstreamError(why)
        lead = span.length - 1 if packet.is_intra and span.place is scaffold.Place.BETWEEN else 0
        if lead and number == 0:
            raise errors.BitstreamError(errors.BEGINS_IN_THE_MIDDLE)
        times = clock + duration, duration
        return IndexedPacket(offset, len(self.times), packet.frames, number, group, *times, lead)


def scaffold_bytes(interval: scaffold.Interval) -> bytes:
    """All integers of an interval, 8 bytes each, little-endian; each array follows its shape."""
    parts = [
        scaffold.digest(np.asarray(interval.ticks, np.int64), len(interval.samples)),
        *(_sample_bytes(sample) for sample in interval.samples),
        *(one.hashed(interval[one]) for one in ALL_LAYERS if one.scope is not Scope.SAMPLE),
    ]
    if interval.place is not scaffold.Place.BETWEEN:
        parts.append(scaffold.digest(interval.place.value))
    if interval.dissolves:
        parts.append(scaffold.digest(-2))
    return b"".join(parts)


def _sample_bytes(sample: scaffold.Sample) -> bytes:
    layers = (one.hashed(sample[one]) for one in ALL_LAYERS if one.scope is Scope.SAMPLE)
    return scaffold.digest(sample.offset) + b"".join(layers)


LEDGER = (
    "header",
    "key pictures",
    *(layer.name for layer in ALL_LAYERS),
    "timing",
    "objects",
    "audio",
    "text",
    "overhead",
)
"""Layers of the ledger; "overhead" is packet framing and the rounding of the coder to bytes."""

Ledger = dict[str, int]
"""Bits by layer of `LEDGER`."""

_LAYER_OF: Mapping[int, str] = {
    container.PacketType.AUDIO: "audio",
    container.PacketType.TEXT: "text",
    container.PacketType.OBJECTS: "objects",
}
"""Of packets that hold nothing else."""
HEADER_LEDGER: Mapping[str, int] = {"header": 8 * HEADER_BYTES}


def packet_ledger(
    packet: container.Packet, size: int, parsed: ParsedPacket | None = None
) -> Ledger:
    """Split a packet of `size` bytes, framing included.

    `parsed`: the packet, if it has frames and could be parsed; without it the payload is all
    pictures. The fractional bits of the entropy coder are rounded to integers that fit the
    scaffold's size; framing and the rest are overhead, and so are packets of unknown types.
    """
    bits: Ledger = {}
    if parsed is not None:
        bits = whole_bits(parsed.bits, 8 * parsed.scaffold_size)
        bits["key pictures"] = bits.get("key pictures", 0) + 8 * parsed.plain_size
    elif packet.is_picture or packet.type in _LAYER_OF:
        bits = {_LAYER_OF.get(packet.type, "key pictures"): 8 * len(packet.payload)}
    return {**bits, "overhead": 8 * size - sum(bits.values())}


def total(ledgers: Iterable[Mapping[str, int]]) -> Ledger:
    """The sum of ledgers, with every layer present."""
    result = dict.fromkeys(LEDGER, 0)
    for ledger in ledgers:
        for layer, bits in ledger.items():
            result[layer] += bits
    return result


def whole_bits(spent: Mapping[str, float], available: int) -> Ledger:
    """Round bits by layer to integers by largest remainder, which sum to the rounded total, at
    most `available` (the coder drops trailing zero bytes)."""
    wanted = sum(spent.values())
    budget = min(round(wanted), available)
    if budget <= 0:
        return dict.fromkeys(spent, 0)
    exact = {layer: bits * budget / wanted for layer, bits in spent.items()}
    whole = {layer: int(bits) for layer, bits in exact.items()}
    by_remainder = sorted(exact, key=lambda layer: (whole[layer] - exact[layer], layer))
    for layer in by_remainder[: budget - sum(whole.values())]:
        whole[layer] += 1
    return whole


# Bytes of memory that a packet, one of its intervals and an element take in the report.
_PACKET_MEMORY, _INTERVAL_MEMORY, _ELEMENT_MEMORY = 1500, 200, 100


@dataclass(frozen=True)
class IntervalInfo:
    """Some frames of a packet, described."""

    time: int
    """Frames complete after them."""
    frames: int
    """Their number."""
    place: scaffold.Place
    """Where they lie; the last is a coded picture unless they lie AFTER one."""
    size: int
    """Bytes of that picture as an AV1 temporal unit, before entropy coding; 0 AFTER."""
    dissolves: bool
    """Whether they cross-fade between coded pictures."""


@dataclass(frozen=True)
class PacketInfo:
    """One packet, described. Fields of picture packets are None or empty in others."""

    type: int
    """A `PacketType`, or the number of an unknown optional type."""
    time: int
    """Frames complete after the packet: the number of its last one, counted from 0, plus 1."""
    size: int
    """Bytes, framing included."""
    bits: Ledger
    """Bits by layer, framing as "overhead", which sum to 8 x size."""
    crf: int | None = None
    """Quantiser of its group's pictures, 1 (finest) to 70."""
    scale: int | None = None
    """Size of its group's pictures, in eighths of the display size."""
    intervals: tuple["IntervalInfo", ...] = ()
    """Intervals of the packet, in order."""
    elements: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    """Name and value of each scaffold element in coding order, if `gsvc.info` is asked for them."""

    @property
    def is_picture(self) -> bool:
        """See `Packet.is_picture`."""
        return self.type in container.PICTURES

    @property
    def key_frames(self) -> list[int]:
        """The numbers of its frames that are key pictures."""
        return [one.time - 1 for one in self.intervals if one.place is not scaffold.Place.AFTER]

    @property
    def name(self) -> str:
        """ "intra", "inter", "audio", "text", "objects", "end"; "type N" for an unknown one."""
        known = self.type in tuple(container.PacketType)
        return container.PacketType(self.type).name.lower() if known else f"type {self.type}"


@dataclass(frozen=True)
class StreamInfo:
    """A whole stream, described."""

    header: Header
    packets: tuple[PacketInfo, ...] = field(repr=False)
    """Packets in the order of the stream, END included."""
    size: int
    """Bytes of the stream."""
    frames: int
    """Frames of the stream."""
    duration: float
    """Seconds of video."""
    bits: Ledger
    """Bits by layer, which sum to 8 x size."""
    scaffold_hash: str
    """SHA-256 of the decoded scaffold, equal on every machine."""
    damage: errors.BitstreamError | None = None
    """What is wrong after the last packet described; None: nothing."""

    @property
    def bpp(self) -> float:
        """Bits per pixel of a frame, without sound and texts."""
        video = self.header.format
        return self._video_bits / (video.width * video.height * self.frames) if self.frames else 0.0

    @property
    def bitrate(self) -> float:
        """Bits per second, without sound and texts."""
        return self._video_bits / self.duration if self.duration else 0.0

    @property
    def total_bitrate(self) -> float:
        """Bits per second of all that is in the stream."""
        return 8 * self.size / self.duration if self.duration else 0.0

    def startup_delay(self, bitrate: float | None = None) -> float:
        """Seconds that a receiver waits before it shows the first frame, so that none comes late.

        `bitrate`: bits per second of the link, above 0; None: the stream's mean. Frames count as
        evenly spaced. It is what a leaky bucket (VBV of MPEG-2, HRD of H.264) has to hold.
        """
        rate = bitrate or self.total_bitrate
        sent, shown, delay = 8 * HEADER_BYTES, 0, 0.0
        for packet in self.packets:
            sent += 8 * packet.size
            if packet.time > shown:
                delay = max(delay, sent / rate - shown * self.duration / self.frames)
                shown = packet.time
        return delay

    @property
    def _video_bits(self) -> int:
        beside = container.PacketType.AUDIO, container.PacketType.TEXT
        return 8 * (self.size - sum(one.size for one in self.packets if one.type in beside))


def read_info(
    file: BinaryIO,
    *,
    elements: bool = False,
    limits: errors.Limits = errors.DEFAULT_LIMITS,
    partial: bool = False,
) -> StreamInfo:
    """Describe a stream in an open binary file; see `gsvc.info`."""
    reader = container.StreamReader(file, limits)
    inspector = _Inspector(reader.header, elements, limits)
    packets: list[PacketInfo] = []
    position, damage = HEADER_BYTES, None
    held = errors.HeldBytes(limits)
    try:
        for packet in reader:
            found = inspector.inspect(packet, reader.position - position)
            parts = _INTERVAL_MEMORY * len(found.intervals) + _ELEMENT_MEMORY * len(found.elements)
            held.add(_PACKET_MEMORY + parts)
            packets.append(found)
            position = reader.position
    except errors.BitstreamError as error:
        if not partial:
            raise
        damage = error
    return StreamInfo(
        header=reader.header,
        packets=tuple(packets),
        size=position,
        frames=packets[-1].time if packets else 0,
        duration=inspector.duration,
        bits=total([HEADER_LEDGER, *(packet.bits for packet in packets)]),
        scaffold_hash=inspector.digest.hexdigest(),
        damage=damage,
    )


class _Inspector:
    def __init__(self, header: Header, elements: bool, limits: errors.Limits) -> None:
        self._header, self._limits = header, limits
        self._elements: list[tuple[str, int]] = []
        trace = (lambda name, value: self._elements.append((name, value))) if elements else None
        self._parser = GroupReader(header, limits, trace)
        self._objects = objects.ObjectReader(header, limits, trace)
        self._first: int | None = None
        self._ticks = 0
        self._time = 0
        self.digest = hashlib.sha256()

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last one."""
        if self._first is None:
            return 0.0
        video = self._header.format
        return float((self._ticks - self._first) * video.time_base + 1 / video.frame_rate)

    def inspect(self, packet: container.Packet, size: int) -> PacketInfo:
        """Take the next packet, of `size` bytes with framing."""
        start, self._time = self._time, self._time + packet.frames
        if packet.type == container.PacketType.AUDIO:
            audio_and_text.unpack_audio(packet.payload)  # raises where it is not valid
        if packet.type == container.PacketType.TEXT:
            audio_and_text.read_texts([packet], errors.HeldBytes(self._limits))  # the same
        self._elements.clear()
        if packet.type == container.PacketType.OBJECTS:
            run = self._objects.read(packet)
            if run.is_alone and run.ticks:  # then their frames are the stream's
                self._time += len(run.ticks)
                self._count(run.ticks)
        if not packet.is_picture:
            ledger, elements = packet_ledger(packet, size), tuple(self._elements)
            return PacketInfo(packet.type, self._time, size, ledger, elements=elements)
        parsed = self._parser.read(packet)
        for interval in parsed.intervals:
            self.digest.update(scaffold_bytes(interval))
        self._count(parsed.ticks)
        return PacketInfo(
            type=packet.type,
            time=self._time,
            size=size,
            bits=packet_ledger(packet, size, parsed),
            crf=parsed.coding.crf,
            scale=parsed.coding.scale,
            intervals=tuple(_described(parsed, start)),
            elements=tuple(self._elements),
        )

    def _count(self, ticks: Sequence[int]) -> None:
        if self._first is None:
            self._first = ticks[0]
        self._ticks += sum(ticks)


def _described(parsed: ParsedPacket, time: int) -> Iterator[IntervalInfo]:
    """The intervals of a packet that begins after `time` frames."""
    units = iter(parsed.units)
    for interval in parsed.intervals:
        time += interval.length
        size = 0 if interval.place is scaffold.Place.AFTER else len(next(units))
        yield IntervalInfo(time, interval.length, interval.place, size, interval.dissolves)
