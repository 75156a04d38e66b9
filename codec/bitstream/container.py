"""The container: a header, then packets, in a file or on a pipe (docs/format.md, section 3).

A packet's type, length, frames and checksum take at most 8 bytes, up to 128 KiB of payload.

`StreamReader` stops at damage. `Salvage` finds what is left of a damaged stream: all packets that
can be read, and where some are missing. A concealing decoder takes them as a receiver takes what
arrives. The framing of most damaged packets still says how many frames they complete: an empty
packet replaces it. Where the framing is damaged too, the next packet is found by its checksum.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import BinaryIO, Protocol

from google_crc32c import value as crc32c

from gsvc.codec.bitstream import errors
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.header import HEADER_BYTES, MAGIC, Header


def varint(value: int) -> bytes:
    """Encode 0 <= `value` < 2^35. Raises ValueError beyond."""
    if not 0 <= value < 1 << 35:
        raise ValueError(f"{value} does not fit a varint")
    result = bytearray()
    while value >= 128:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])


def read_varint(take: Callable[[int], bytes]) -> int:
    """Decode the bytes that `take(1)` returns, one a call. Raises BitstreamError above 5 bytes."""
    value = 0
    for shift in range(0, 35, 7):
        byte = take(1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise errors.BitstreamError("a varint has more than 5 bytes: the stream is damaged")


class Cutter:
    """Reads `data` piece by piece from the front; `what` is shorter than it says beyond the end."""

    def __init__(self, data: bytes, what: str = "a packet") -> None:
        self.data, self._what = data, what
        self.position = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes. Raises BitstreamError beyond the end."""
        if count > self.left:
            told = f"{self._what} is shorter than it says: the stream is damaged"
            raise errors.BitstreamError(told)
        self.position += count
        return self.data[self.position - count : self.position]

    @property
    def left(self) -> int:
        """How many bytes."""
        return len(self.data) - self.position

    def rest(self) -> bytes:
        """The remaining bytes."""
        return self.take(self.left)


OPTIONAL = 8
"""Types from 8 on are optional: a decoder skips those that it does not know."""


class PacketType(IntEnum):
    """What a packet holds. Types 0-7 are required, 8-15 optional. Numbers are never reused."""

    END = 0
    """The last packet; its payload is the number of picture packets before it, a varint."""
    INTRA = 1
    """First coded picture of a group, with the scaffold of the frames since the previous one."""
    INTER = 2
    """A further coded picture of the group, with the scaffold of the frames since the previous one;
    or only the scaffold of frames that hold the last one."""
    SHOT = 3
    """Like INTER, but another shot begins in the group: one that is new, or one that goes on from
    its last coded picture."""
    AUDIO = 8
    """A run of Opus packets."""
    TEXT = 9
    """Title, chapters and subtitles."""
    OBJECTS = 10
    """Objects and where they are, for analysis without pictures."""


PICTURES = (PacketType.INTRA, PacketType.INTER, PacketType.SHOT)
"""Types of picture packets: those that complete frames."""


@errors.typed
@dataclass(frozen=True)
class Packet:
    """One packet of a stream. Raises ConfigError for integers of 2^62 or more.

    `type`, `frames` and `payload` are in its bytes. Encoders fill the other fields too;
    `StreamReader` fills `number` and `group`.
    """

    type: int
    """A `PacketType`, or the number of an unknown optional type."""
    frames: int
    """Frames that the packet completes; 0 unless it is a picture packet."""
    payload: "bytes"
    """The content; its layout depends on `type`."""
    pts: int | None = None
    """Presentation time of its last frame, in ticks of the stream's time base; for other types,
    that of the last frame before it."""
    duration: int | None = None
    """Ticks from the frame before its first frame to its last frame."""
    number: int | None = None
    """Index among the stream's picture packets; a gap means a loss."""
    group: int | None = None
    """`number` of the INTRA packet that it builds on; its own for an INTRA packet."""

    def __post_init__(self) -> None:
        errors.check_type("payload", self.payload, errors.Bytes)
        for name in ("type", "frames", "pts", "duration", "number", "group"):
            if abs(value := getattr(self, name) or 0) >> 62:
                raise errors.ConfigError(f"{name} {value} is out of range: give less than 2^62")

    @property
    def is_picture(self) -> bool:
        """Whether the packet carries frames: INTRA, INTER or SHOT."""
        return self.type in PICTURES

    @property
    def is_intra(self) -> bool:
        """Whether a decoder can start here: INTRA."""
        return self.type == PacketType.INTRA

    def __repr__(self) -> str:
        known = {"pts": self.pts, "number": self.number, "group": self.group}
        also = "".join(f", {name}={value}" for name, value in known.items() if value is not None)
        name = {int(one): one.name for one in PacketType}.get(self.type, self.type)
        return f"Packet({name}, frames={self.frames}, payload=<{len(self.payload)} bytes>{also})"

    def to_bytes(self, *, numbered: bool = False) -> bytes:
        """The packet's bytes: type, frames and payload, framed.

        `numbered`: behind its `pts`, `number` and `group`, about 7 bytes, by which a decoder sees
        what a transport lost.
        """
        body = varint(len(self.payload) << 4 | self.type) + varint(self.frames) + self.payload
        packet = bytes(body + crc32c(body).to_bytes(4, "little"))
        return _place_bytes(self) + packet if numbered else packet

    @classmethod
    @errors.typed
    def from_bytes(
        cls,
        data: errors.Bytes,
        limits: errors.Limits = errors.DEFAULT_LIMITS,
        *,
        numbered: bool = False,
    ) -> "Packet":
        """The packet of `to_bytes`: type, frames and payload; if `numbered`, also `pts`, `number`
        and `group`. The stream's header is no packet.

        Raises BitstreamError for damaged bytes, among them ChecksumError, VersionError for a packet
        of a newer gsvc and LimitError for one beyond `limits`.
        """
        cutter = Cutter(bytes(data))
        if bytes(data[: len(MAGIC)]) == MAGIC:
            raise errors.BitstreamError("this is a header, no packet: Header.from_bytes reads it")
        pts, number, group = _read_place(cutter) if numbered else (None, None, None)
        try:
            packet = read_packet(cutter.take, limits)
        except errors.BitstreamError as error:
            if numbered or not _has_place(bytes(data)):
                raise
            told = f"{error}; if it was written with its number, give numbered=True"
            raise type(error)(told) from error
        if cutter.left:
            raise errors.BitstreamError(f"{cutter.left} bytes follow the packet: give one packet")
        return replace(packet, pts=pts, number=number, group=group)


_LOW = 30  # bits of a number in its first varint


def _place_bytes(packet: Packet) -> bytes:
    """`pts`, `number` and `group`, 0 for None, in two varints each; then a byte of their CRC."""
    place = b""
    for value in (packet.pts, packet.number, packet.group):
        coded = 0 if value is None else 1 + (2 * value if value >= 0 else -2 * value - 1)
        place += varint(coded & (1 << _LOW) - 1) + varint(coded >> _LOW)
    return place + bytes([crc32c(place) & 255])


def _read_place(cutter: "Cutter") -> list[int | None]:
    """What `_place_bytes` wrote. Raises BitstreamError as of `Packet.from_bytes`."""
    start, found = cutter.position, list[int | None]()
    for _ in range(3):
        coded = read_varint(cutter.take) | read_varint(cutter.take) << _LOW
        half = coded - 1 >> 1
        found.append(None if not coded else half if coded % 2 else -half - 1)
    if crc32c(cutter.data[start : cutter.position]) & 255 != cutter.take(1)[0]:
        raise errors.ChecksumError(
            "a packet's number fails its checksum: it is damaged or has none"
        )
    return found


def _has_place(data: bytes) -> bool:
    """Whether what `_place_bytes` wrote seems to come first."""
    try:
        return bool(_read_place(Cutter(data)))
    except errors.BitstreamError:
        return False


Read = Callable[[int], bytes]
"""Reads n bytes; fewer at the end of the stream."""


def read_head(take: Read, limits: errors.Limits) -> tuple[int, int, int]:
    """Type, bytes of payload and frames, which a packet begins with. Raises LimitError."""
    tag = read_varint(take)
    kind, length = tag & 15, tag >> 4
    if length > limits.packet_bytes:
        why = f"a packet of {length} bytes exceeds the limit of {limits.packet_bytes}"
        raise errors.LimitError(why)
    frames = read_varint(take)
    if frames > limits.interval:
        why = f"a packet of {frames} frames exceeds the limit of {limits.interval}"
        raise errors.LimitError(why)
    return kind, length, frames


def read_packet(read: Read, limits: errors.Limits = errors.DEFAULT_LIMITS) -> Packet:
    """Read one packet: type, frames and payload. Raises BitstreamError for an invalid one."""
    head = bytearray()

    def take(count: int) -> bytes:
        data = read(count)
        if len(data) < count:
            why = "its tail is missing, copy the file again (or its writer was not finished)"
            raise errors.TruncatedStreamError(f"the stream ends early: {why}")
        head.extend(data)
        return data

    kind, length, frames = read_head(take, limits)
    payload = take(length)
    body = bytes(head)
    if crc32c(body) != int.from_bytes(take(4), "little"):
        raise errors.ChecksumError("a packet is damaged (CRC-32C mismatch): copy or send it again")
    is_known = kind in tuple(PacketType)
    if kind < OPTIONAL and not is_known:
        raise errors.VersionError(f"packet type {kind} is not known: install a newer gsvc")
    packet = Packet(PacketType(kind) if is_known else kind, frames, payload)
    if packet.is_picture == (frames == 0):
        why = f"a packet of type {kind} has {frames} frames: the stream is damaged"
        raise errors.BitstreamError(why)
    return packet


def is_alone(packet: Packet) -> bool:
    """Whether it is an OBJECTS packet of a stream without pictures."""
    return packet.type == PacketType.OBJECTS and bool(packet.payload[:1] and packet.payload[0] & 1)


@errors.typed
class StreamWriter:
    """Writes a stream to a binary file object, the header first; `bytes_written` counts."""

    def __init__(self, file: BinaryIO, header: Header) -> None:
        self._file, self._is_over = file, False
        self._last: int | None = None  # number of a picture packet
        self._pictures = self.bytes_written = 0
        self._put(header.to_bytes())

    @errors.typed
    def write(self, packet: Packet) -> None:
        """Append one packet. Raises ConfigError after END, and for a `number` that falls, stays or,
        unless INTRA, leaves a gap: a file holds no numbers, and END alone tells of a loss."""
        if self._is_over:
            raise errors.ConfigError("the stream has its END packet: make another writer and file")
        if packet.is_picture:
            if self._last is not None and packet.number is not None:
                ahead = packet.number - self._last
                if ahead < 1 or (ahead > 1 and not packet.is_intra):
                    told = f"packet {packet.number} follows {self._last}: write packets in order"
                    raise errors.ConfigError(f"{told}, and after a loss from an INTRA packet on")
            self._last, self._pictures = packet.number, self._pictures + 1
        self._is_over = packet.type == PacketType.END
        self._put(packet.to_bytes())

    def finish(self) -> None:
        """Append END, unless it is there: a part of a stream is whole with it."""
        if not self._is_over:
            self.write(Packet(PacketType.END, 0, varint(self._pictures)))

    def _put(self, data: bytes) -> None:
        if getattr(self._file, "closed", False) is True:
            raise errors.ConfigError("the file is closed: write within its `with` block")
        self._file.write(data)
        self.bytes_written += len(data)


@errors.typed
class StreamReader:
    """Reads a stream from a binary file object: `header`, then each packet once, by iteration.

    Picture packets get `number` and `group`. `pts` and `duration` stay None: `StreamIndex` reads
    them. The END packet comes last. Raises BitstreamError for damage, among them
    TruncatedStreamError for a missing END packet.
    """

    def __init__(self, file: BinaryIO, limits: errors.Limits = errors.DEFAULT_LIMITS) -> None:
        self._file, self._limits = file, limits
        self.position = 0
        """Bytes read."""
        self.header = Header.from_bytes(self._read(HEADER_BYTES), limits)
        self._frames = self._pictures = 0
        self._group: int | None = None
        self._is_over = False

    def __iter__(self) -> Iterator[Packet]:
        while not self._is_over:
            self._is_over = True  # unless a packet comes
            packet = self._next()
            self._is_over = packet.type == PacketType.END
            yield packet

    def _next(self) -> Packet:
        try:
            packet = read_packet(self._read, self._limits)
        except errors.ChecksumError as error:
            raise errors.ChecksumError(f"after frame {self._frames}, {error}") from error
        self._frames += packet.frames
        if self._frames > self._limits.frames:
            told = f"frame {self._frames} exceeds the limit of {self._limits.frames}"
            raise errors.LimitError(told)
        if packet.is_picture:
            self._group = self._pictures if packet.is_intra else self._group
            packet = replace(packet, number=self._pictures, group=self._group)
            self._pictures += 1
        if packet.type == PacketType.END:
            if (declared := read_varint(Cutter(packet.payload).take)) != self._pictures:
                told = f"the stream has {self._pictures} pictures, its end says {declared}"
                raise errors.BitstreamError(f"{told}: packets were lost")
            if self._read(1):
                raise errors.BitstreamError("bytes after the end of the stream: cut them off")
        return packet

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self._file.read(count - len(data))
            if not part:
                break
            data += part
        self.position += len(data)
        return bytes(data)


_HEAD_BYTES = 10
PACKET_MEMORY = 300
"""Bytes of memory that a packet takes beside its payload."""
_MOST_SEARCHED = 1 << 30
"""Bytes of candidates that are checked for the next packet: bytes can be made to seem many."""


class Salvage:
    """The packets of a stream that may be damaged: `header`, then the packets by iteration.

    Picture packets get `number`, with gaps where some are missing, and `group` where it is known.
    """

    def __init__(self, file: BinaryIO, limits: errors.Limits = errors.DEFAULT_LIMITS) -> None:
        """Read a file to its end. Raises BitstreamError for a damaged header, VersionError for a
        stream of a newer gsvc, LimitError for one of too many frames or too much memory."""
        self._limits, self._held = limits, errors.HeldBytes(limits)
        self._data = _read(file, self._held)
        self.header = Header.from_bytes(self._data[:HEADER_BYTES], limits)
        """The stream's."""
        self.damage: errors.BitstreamError | None = None
        """The first damage found; None: none."""
        self._file = io.BytesIO(self._data)
        self._searched = 0
        found = list(self._found())
        frames = sum(packet.frames for packet in found if packet)
        if frames > limits.frames:
            raise errors.LimitError(f"{frames} frames exceed the limit of {limits.frames}")
        self._packets = list(_numbered(found, self._lost(found)))

    def __iter__(self) -> Iterator[Packet]:
        return iter(self._packets)

    def _found(self) -> Iterator[Packet | None]:
        """Packets, empty ones for those of which only the framing is left, None for a hole."""
        at = HEADER_BYTES
        packet: Packet | None = None
        while at < len(self._data):
            try:
                packet, at = self._packet(at)
            except errors.VersionError:
                raise
            except errors.BitstreamError as error:
                self._blame(error)
                packet, at = self._past_damage(at)
            self._held.add(PACKET_MEMORY)
            yield packet
            if packet is not None and packet.type == PacketType.END and packet.payload:
                break
        else:
            self._blame(errors.TruncatedStreamError("the stream ends early: its tail is missing"))
        if at < len(self._data):
            self._blame(errors.BitstreamError("there are bytes after the end of the stream"))

    def _blame(self, error: errors.BitstreamError) -> None:
        self.damage = self.damage or error

    def _lost(self, found: list[Packet | None]) -> list[int]:
        """Number of picture packets in each hole, by the number that END declares: those where no
        sound lacks are pictures, of which the first has what is more than one in each."""
        lacks, end = self._lacks_sound(found), found[-1] if found else None
        if end is None or end.type != PacketType.END or not end.payload:
            return [int(not each) for each in lacks]
        declared = read_varint(Cutter(end.payload).take)
        pictures = sum(packet is not None and packet.is_picture for packet in found)
        if declared != pictures:
            self._blame(errors.BitstreamError(f"of {declared} pictures, {pictures} are there"))
        lost, counts = max(0, declared - pictures), [0] * len(lacks)
        places = [place for place, each in enumerate(lacks) if not each] or list(range(len(lacks)))
        for place in places[:lost]:
            counts[place] = 1
        if places:
            counts[places[0]] += max(0, lost - len(places))
        return counts

    def _lacks_sound(self, found: list[Packet | None]) -> list[bool]:
        """Of each hole, whether there is a gap between the sound before and behind it."""
        from gsvc.codec.bitstream.audio_and_text import unpack_audio  # which reads packets

        lacks: list[bool] = []
        waiting, end = 0, 0
        for packet in found:
            waiting += packet is None
            if packet is not None and packet.type == PacketType.AUDIO and packet.payload:
                try:
                    chunk = unpack_audio(packet.payload)
                except errors.BitstreamError:
                    continue
                lacks += [chunk.pts > end] * waiting
                waiting, end = 0, chunk.end
        return lacks + [self.header.audio] * waiting

    def _packet(self, at: int) -> tuple[Packet, int]:
        """The packet that begins `at` a place, and where it ends."""
        self._file.seek(at)
        return read_packet(self._file.read, self._limits), self._file.tell()

    def _past_damage(self, at: int) -> tuple[Packet | None, int]:
        """The stand-in for the damaged packet `at` a place, and where to go on."""
        stand_in, end = self._framing(at)
        if stand_in is not None and self._is_packet(end):
            return stand_in, end
        for place in range(at + 1, len(self._data)):
            if self._is_packet(place):
                return None, place
        return stand_in, len(self._data)

    def _framing(self, at: int) -> tuple[Packet | None, int]:
        """The packet `at` a place without its payload, and where it ends; None: it cannot be."""
        head = Cutter(self._data[at : at + _HEAD_BYTES])
        try:
            kind, length, frames = read_head(head.take, self._limits)
        except errors.BitstreamError:
            return None, at
        end = at + min(_HEAD_BYTES, len(self._data) - at) - len(head.rest()) + length + 4
        return (Packet(kind, frames, b"") if (kind in PICTURES) == (frames > 0) else None), end

    def _is_packet(self, at: int) -> bool:
        head, end = self._framing(at)
        if head is None or end > len(self._data) or self._searched > _MOST_SEARCHED:
            return False
        self._searched += end - at
        try:
            self._packet(at)
        except errors.BitstreamError:
            return False
        return True


def _read(file: BinaryIO, held: errors.HeldBytes) -> bytes:
    data = bytearray()
    while part := file.read(1 << 20):
        held.add(len(part))
        data += part
    return bytes(data)


def _numbered(found: list[Packet | None], lost: Sequence[int]) -> Iterator[Packet]:
    """The packets with their numbers; `lost`: how many pictures each hole is."""
    number, group, losses = 0, None, iter(lost)
    for packet in found:
        if packet is None:
            missing = next(losses)
            number, group = number + missing, None if missing else group
        elif packet.is_picture:
            group = number if packet.is_intra else group
            yield replace(packet, number=number, group=group)
            number += 1
        elif packet.payload:
            yield packet


class PacketDecoder(Protocol):
    """What the loop needs of `gsvc.Decoder`, which describes these."""

    def reset(self) -> None: ...

    def frames(self, packet: Packet, times: range | None = None) -> Iterator[Frame]: ...

    def skip(self, packet: Packet) -> None: ...

    def flush(self) -> Sequence[Frame]: ...


def next_frames(
    decoder: PacketDecoder, packet: Packet | None, times: range | None = None
) -> Iterator[Frame]:
    """The frames of the next packet; of None, the end of the packets, those held back."""
    yield from decoder.flush() if packet is None else decoder.frames(packet, times)


def decoded_frames(
    decoder: PacketDecoder, packets: Iterable[tuple[Packet, bool]], times: range | None = None
) -> Iterator[Frame]:
    """The frames of packets, each given with whether it is wanted; in the end those held back.
    `times`: as of `Decoder.frames`."""
    for packet, is_wanted in packets:
        if is_wanted:
            yield from next_frames(decoder, packet, times)
        else:
            decoder.skip(packet)
    yield from next_frames(decoder, None)
