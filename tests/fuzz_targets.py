"""What a stranger can send, made and tried: for each parser a maker of inputs and a check.

A maker draws bytes from a `random.Random`: half at random, half bent out of valid streams, with checksums repaired, so
that what lies behind them is reached. A check takes the bytes; all it may raise is a GsvcError. Makers and
checks are used by `test_fuzz` (a few inputs, by hypothesis), `fuzz_run` (millions), and `test_hostile`
(the inputs that were once found to be trouble).
"""

import io
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from google_crc32c import value as crc32c

from gsvc.codec.decoder import Decoder, DecoderSettings
from gsvc.codec.errors import BitstreamError, GsvcError, VersionError
from gsvc.codec.frames import Color, Frame
from gsvc.codec.network.depacketizer import Depacketizer, ReorderLimits
from gsvc.codec.network.packetizer import Packetizer, WireSettings
from gsvc.codec.network.rtcp import read_rtcp, write_rtcp
from gsvc.codec.scaffold.coder import Reader, Writer
from gsvc.codec.scaffold.digest import scaffold_bytes
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layer import Layer, Site
from gsvc.codec.scaffold.layers import LAYERS
from gsvc.codec.scaffold.layers.pose import POSE, People
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.tools import TOOLS, Tools
from gsvc.codec.scaffold.types import Interval
from gsvc.codec.stream.audio import pack_audio, unpack_audio
from gsvc.codec.stream.av1_units import check_temporal_unit, strip_temporal_unit
from gsvc.codec.stream.container import StreamReader
from gsvc.codec.stream.group import GroupReader, split_payload
from gsvc.codec.stream.header import FIELDS, HEADER_BYTES, Header
from gsvc.codec.stream.index import StreamIndex
from gsvc.codec.stream.info import read_info
from gsvc.codec.stream.packet import Packet, PacketType, read_packet
from gsvc.codec.stream.varint import varint
from gsvc.decoders.pictures import PictureDecoder
from scaffolds import interval_coder, join_payload

GOLDEN = Path(__file__).parent / "golden"
SIZES = ((64, 48), (16, 16), (72, 48), (37, 51), (256, 9), (1, 1), (130, 290))
"""Display sizes that scaffolds are tried in."""


@dataclass(frozen=True)
class Part:
    """One packet as it goes on the wire; `frames` may be anything."""

    type: int
    frames: int
    payload: bytes


@dataclass(frozen=True)
class Target:
    """A parser under test; `cost`: about how many inputs of the cheapest one take as long."""

    make: Callable[[random.Random], bytes]
    check: Callable[[bytes], None]
    cost: int = 1


def sealed(body: bytes) -> bytes:
    """Bytes with their CRC-32C behind them."""
    return body + int(crc32c(body)).to_bytes(4, "little")


def packet_bytes(part: Part) -> bytes:
    """A packet with a right checksum."""
    head = varint(len(part.payload) << 4 | part.type & 15) + varint(part.frames)
    return sealed(head + part.payload)


def join_stream(header: bytes, parts: Sequence[Part]) -> bytes:
    """Header and packets; checksums are made right, and an END packet gets the count that is."""
    pictures, pieces = 0, [sealed(header[: HEADER_BYTES - 4])]
    for part in parts:
        pictures += part.type in (PacketType.INTRA, PacketType.INTER)
        if part.type == PacketType.END:
            part = replace(part, payload=varint(pictures))
        pieces.append(packet_bytes(part))
    return b"".join(pieces)


@cache
def golden_streams() -> tuple[tuple[bytes, tuple[Part, ...]], ...]:
    """Header and packets of every golden stream."""
    return tuple(split_stream(path.read_bytes()) for path in sorted(GOLDEN.glob("*.gsv")))


def split_stream(data: bytes) -> tuple[bytes, tuple[Part, ...]]:
    """Header and packets of a valid stream."""
    packets = StreamReader(io.BytesIO(data))
    return data[:HEADER_BYTES], tuple(Part(p.type, p.frames, p.payload) for p in packets)


@cache
def golden_units() -> tuple[tuple[tuple[int, int], tuple[bytes, ...]], ...]:
    """Coded size and AV1 temporal units of every group of the golden streams."""
    groups: list[tuple[tuple[int, int], list[bytes]]] = []
    for header, parts in golden_streams():
        reader = StreamReader(io.BytesIO(join_stream(header, parts)))
        parser = GroupReader(reader.header)
        geometry = Geometry(reader.header.format.width, reader.header.format.height)
        for packet in reader:
            if packet.is_picture:
                parsed = parser.read(packet)
                if parsed.is_intra:
                    groups.append((geometry.coded_size(parsed.scale), []))
                if parsed.unit:
                    groups[-1][1].append(parsed.unit)
    return tuple((size, tuple(units)) for size, units in groups)


def bend(rng: random.Random, data: bytes) -> bytes:
    """`data` with one to four of the usual accidents and tricks."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        # Towards the front, where the syntax is.
        at = int(len(out) * rng.random() ** 2)
        end = min(len(out), at + rng.randint(1, 8))
        match rng.randrange(8):
            case 0 | 1 if out:
                out[at] ^= 1 << rng.randrange(8)
            case 2 if out:
                out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 3:
                del out[at:end]
            case 4:
                out[at:at] = rng.randbytes(rng.randint(1, 8))
            case 5:
                del out[at:]
            case 6:
                out[at:end] = rng.choice((b"\0", b"\xff")) * rng.randint(1, 40)
            case _:
                out[at:at] = out[at:end] * rng.randint(1, 4)
    return bytes(out)


def any_bytes(rng: random.Random, most: int = 64) -> bytes:
    """Random bytes, short ones more often."""
    return rng.randbytes(int(most * rng.random() ** 2))


def any_header(rng: random.Random) -> bytes:
    """A header with a right checksum and one to three fields changed."""
    packed = int.from_bytes(rng.choice(golden_streams())[0][4:28], "big")
    for _ in range(rng.randint(1, 3)):
        below, (name, bits) = 192, rng.choice(FIELDS)
        for other, width in FIELDS:
            below -= width
            if other == name:
                break
        value = rng.choice((0, 1, (1 << bits) - 1, rng.getrandbits(bits)))
        packed = packed & ~((1 << bits) - 1 << below) | value << below
    return sealed(b"GSV\x01" + packed.to_bytes(24, "big"))


def bent_stream(rng: random.Random) -> bytes:
    """A golden stream whose packets were forged, dropped, repeated, mixed up or relabelled."""
    header, given = rng.choice(golden_streams())
    parts = list(given)
    if rng.random() < 0.1:
        header = any_header(rng)
    for _ in range(rng.randint(1, 3)):
        if not parts:
            break
        at = rng.randrange(len(parts))
        part = parts[at]
        match rng.randrange(8):
            case 0 | 1 | 2:
                parts[at] = replace(part, payload=_bent_payload(rng, part))
            case 3:
                parts[at] = replace(part, frames=rng.choice((0, 1, 2, 5, 40, 300, 5000, 1 << 24)))
            case 4:
                parts[at] = replace(part, type=rng.randrange(16))
            case 5:
                del parts[at]
            case 6:
                parts.insert(rng.randrange(len(parts)), part)
            case _:
                other = rng.choice(rng.choice(golden_streams())[1])
                parts[at] = replace(part, payload=other.payload)
    return join_stream(header, parts)


def _bent_payload(rng: random.Random, part: Part) -> bytes:
    if part.type not in (PacketType.INTRA, PacketType.INTER) or rng.random() < 0.1:
        return bend(rng, part.payload)
    try:
        scaffold, unit = split_payload(part.payload)
    except BitstreamError:  # bent before
        return bend(rng, part.payload)
    match rng.randrange(5):
        case 0 | 1:
            scaffold = bend(rng, scaffold)
        case 2:
            scaffold = any_bytes(rng)
        case 3:
            unit = bend(rng, unit)
        case _:
            unit = rng.choice((b"", *rng.choice(golden_units())[1]))
    return join_payload(scaffold, unit)


def check_header(data: bytes) -> None:
    """A header; what can be read is written again, and must come back equal."""
    header = Header.from_bytes(data)
    assert Header.from_bytes(header.to_bytes()) == header


def check_container(data: bytes) -> None:
    """A stream, read to its end in pieces of a few bytes."""
    for _ in StreamReader(_Trickle(data)):  # type: ignore[arg-type]
        pass


class _Trickle:
    """A pipe that gives at most 7 bytes at once."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, 7))


def check_info(data: bytes) -> None:
    """A stream, every packet taken apart, nothing drawn."""
    info = read_info(io.BytesIO(data), elements=True)
    assert sum(info.bits.values()) == 8 * info.size == 8 * len(data)


def check_audio(data: bytes) -> None:
    """A run of Opus packets."""
    chunk = unpack_audio(data)
    assert unpack_audio(pack_audio(chunk)) == chunk


def make_audio(rng: random.Random) -> bytes:
    """A run of Opus packets, true or nearly so."""
    packets = [b"\x08" + rng.randbytes(rng.randint(0, 6)) for _ in range(rng.randint(0, 5))]
    numbers = [
        rng.choice((1, 1, 2, 0)),
        8,
        rng.randrange(400),
        rng.randrange(1 << 20),
        len(packets),
    ]
    data = b"".join(map(varint, [*numbers, *map(len, packets)])) + b"".join(packets)
    return data if rng.random() < 0.2 else bend(rng, data)


def check_unit(data: bytes) -> None:
    """A temporal unit, for the first golden stream's size, and as an encoder would give it."""
    (size, _), *_ = golden_units()
    try:
        check_temporal_unit(data, size)
    except BitstreamError:
        strip_temporal_unit(data)
        raise


def make_unit(rng: random.Random) -> bytes:
    """A temporal unit, bent or random."""
    _, units = rng.choice(golden_units())
    return bend(rng, rng.choice(units)) if rng.random() < 0.8 else any_bytes(rng)


def check_picture(data: bytes) -> None:
    """Units of one group, each led by its length in two bytes, through the AV1 decoder: what comes out is a picture."""
    size, _ = golden_units()[data[0] % len(golden_units())] if data else ((16, 16), ())
    decoder = PictureDecoder(size, Color())
    data = data[1:]
    while data:
        length = int.from_bytes(data[:2], "big")
        picture = decoder.decode(data[2 : 2 + length], size)
        assert picture.shape == (size[1], size[0], 3) and picture.dtype == np.uint8
        data = data[2 + length :]


def make_picture(rng: random.Random) -> bytes:
    """A golden group with one unit bent, lost, repeated, or from elsewhere."""
    index = rng.randrange(len(golden_units()))
    units = list(golden_units()[index][1])
    at = rng.randrange(len(units))
    match rng.randrange(6):
        case 0:
            del units[at]
        case 1:
            units.insert(at, units[at])
        case 2:
            units[at] = rng.choice(rng.choice(golden_units())[1])
        case _:
            units[at] = bend(rng, units[at])
    return bytes([index]) + b"".join(len(unit).to_bytes(2, "big") + unit for unit in units)


def check_decoder(data: bytes) -> None:
    """A stream through the decoder, every frame drawn."""
    reader = StreamReader(io.BytesIO(data))
    with Decoder(_small(reader.header), DecoderSettings(steps=0)) as decoder:
        last = None
        for packet in reader:
            for frame in decoder.frames(packet):
                _check_frame(frame, reader.header)
                assert last is None or frame.pts > last
                last = frame.pts


def check_index(data: bytes) -> None:
    """A stream sought: three frames of its middle are what decoding all gives there."""
    index = StreamIndex(io.BytesIO(data))
    middle = index.frames // 2
    with Decoder(_small(index.header), DecoderSettings(steps=0)) as decoder:
        sought = list(index.decode(decoder, middle, 3))
    with Decoder(index.header, DecoderSettings(steps=0)) as decoder:
        packets = StreamReader(io.BytesIO(data))
        frames = [frame for packet in packets for frame in decoder.frames(packet)]
    assert len(frames) == index.frames
    for one, other in zip(sought, frames[middle : middle + 3], strict=True):
        assert one.pts == other.pts and np.array_equal(one.pixels, other.pixels)


def check_concealment(data: bytes) -> None:
    """Packets that arrive as it happens, their numbers and times forged too: nothing may be raised at all."""
    header = _small(Header.from_bytes(data[:HEADER_BYTES]))
    rng = random.Random(data)
    with Decoder(header, DecoderSettings(steps=0, conceal=True)) as decoder:
        for number, packet in enumerate(_packets_in(data[HEADER_BYTES:])):
            known = rng.random() < 0.9
            pts = rng.choice((None, number * 5, rng.randrange(-(1 << 40), 1 << 40)))
            sent = replace(
                packet,
                number=rng.choice((number, number, number + 1, 3, 1 << 30)) if known else None,
                group=rng.choice((0, 0, number, 99, None)),
                pts=pts,
                duration=rng.choice((None, 1, 5, 0, 1 << 40)),
            )
            for frame in _conceals(decoder, sent):
                _check_frame(frame, header)
        for frame in decoder.conceal_until(rng.choice((0, 99, 1 << 62))):
            _check_frame(frame, header)


def _conceals(decoder: Decoder, packet: Packet) -> Iterator[Frame]:
    try:
        yield from islice(decoder.frames(packet), 400)
    except GsvcError as error:
        raise AssertionError(f"concealment raised {error!r}") from error


def _packets_in(data: bytes) -> Iterator[Packet]:
    """The packets up to the first one that does not read."""
    read = io.BytesIO(data).read
    with suppress(BitstreamError):
        while True:
            yield read_packet(read)


def _small(header: Header) -> Header:
    video = header.format
    if video.width * video.height > 1 << 16:
        raise VersionError("too large to try many of: left out")
    return header


def _check_frame(frame: Frame, header: Header) -> None:
    assert frame.pixels.shape == (header.format.height, header.format.width, 3)
    assert frame.pixels.dtype == np.uint8


def check_scaffold(data: bytes) -> None:
    """A group of intervals out of random bytes; what can be read is written again, and must come back equal.

    Two bytes say size and layers; then for each packet its number of frames, whether a picture ends it, the length
    of its scaffold, and that.
    """
    if len(data) < 2:
        return
    geometry = Geometry(*SIZES[data[0] % len(SIZES)])
    tools = Tools(**{name: bool(data[1] >> bit & 1) for bit, name in enumerate(TOOLS)})
    ticks, holds = Fraction(1 + data[0] // 16, 1 + data[1] // 64), bool(data[1] >> 5 & 1)
    reader, writer, again = Reader(), Writer(), Reader()
    coders = [
        interval_coder(coder, geometry, tools, ticks, holds=holds)
        for coder in (reader, writer, again)
    ]
    data = data[2:]
    while data:
        frames, has_picture, size = data[0] % 48 + 1, data[0] < 240, int.from_bytes(data[1:2])
        scaffold, data = data[2 : 2 + size], data[2 + size :]

        reader.start(scaffold)
        value = coders[0].code(frames, None, has_picture=has_picture)
        assert value.length == frames and len(value.samples) <= min(15, frames)
        coders[1].code(frames, value, has_picture=has_picture)
        again.start(writer.finish())
        back = coders[2].code(frames, None, has_picture=has_picture)
        assert _canonical(back) == _canonical(value)


def make_scaffold(rng: random.Random) -> bytes:
    """A group of one to three random or real scaffolds."""
    parts = [rng.randbytes(2)]
    real = [p for _, parts in golden_streams() for p in parts if p.type in (1, 2)]
    for _ in range(rng.randint(1, 3)):
        scaffold = any_bytes(rng, 255)
        if rng.random() < 0.3:
            scaffold = bend(rng, split_payload(rng.choice(real).payload)[0])[:255]
        parts.append(bytes([int(256 * rng.random() ** 3), len(scaffold)]) + scaffold)
    return b"".join(parts)


def _canonical(interval: Interval) -> bytes:
    """Its integers; the order of people is free."""

    def ordered(people: People | None) -> People | None:
        return people and tuple(sorted(people, key=lambda person: person.identity))

    samples = tuple(sample.having(POSE, ordered(sample[POSE])) for sample in interval.samples)
    return scaffold_bytes(replace(interval, samples=samples))


def _check_layer(layer: Layer[Any]) -> Callable[[bytes], None]:
    """A check of one layer: two values after each other, the second predicted from the first."""

    def check(data: bytes) -> None:
        reader = Reader()
        reader.start(data[2:])
        size, kind = data[:2].ljust(2, b"\0")
        site = Site(Geometry(*SIZES[size % len(SIZES)]), tuple(Place)[kind % 3], kind // 3 * 24 + 1)
        before = layer.code(reader, site, None, None)
        value = layer.code(reader, site, before, None)
        # What came back can be stored: every integer in it is within its limit.
        writer = Writer()
        layer.code(writer, site, None, before)
        layer.code(writer, site, before, value)

    return check


def make_datagrams(rng: random.Random) -> bytes:
    """A golden stream as RTP, in small datagrams, some bent, lost, repeated or late; each led by its length."""
    reader = StreamReader(io.BytesIO(join_stream(*rng.choice(golden_streams()))))
    settings = WireSettings(mtu=rng.choice((256, 300, 1200)), redundancy=rng.randint(0, 3))
    packetizer = Packetizer(reader.header, 7, settings, sequence=rng.choice((0, 65530)))
    sent, pts = [], 0
    for packet in reader:
        if len(packet.payload) > 200 and not packet.is_picture:
            continue
        pts += packet.frames
        sent += [d.to_bytes() for d in packetizer.packetize([replace(packet, pts=pts)])]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(sent))
        match rng.randrange(6):
            case 0 | 1 | 2:
                sent[at] = bend(rng, sent[at])[: 1 << 15]
            case 3:
                sent.insert(rng.randrange(len(sent)), sent[at])
            case 4:
                sent[at] = sent[at][:12] + any_bytes(rng, 300)
            case _:
                sent[at] = b""
    return b"".join(len(datagram).to_bytes(2) + datagram for datagram in sent)


def check_datagrams(data: bytes) -> None:
    """Datagrams as they come: nothing is raised, and what waits is bounded."""
    receiver, now = Depacketizer(reorder=ReorderLimits(packets=8)), 0.0
    while data:
        size, now = int.from_bytes(data[:2]), now + 0.05
        datagram, data = data[2 : 2 + size], data[2 + size :]
        try:
            for packet in receiver.push(datagram, now):
                assert packet.pts is not None
            receiver.to_nack(now)
        except GsvcError as error:
            raise AssertionError(f"the depacketizer raised {error!r}") from error
        assert receiver.depth <= 9


def make_rtcp(rng: random.Random) -> bytes:
    """One to three reports or pieces of feedback, true in their lengths, and then perhaps bent."""
    parts = []
    for _ in range(rng.randint(1, 3)):
        body = rng.randbytes(4 * rng.randint(0, 14))
        kind = bytes([0x80 | rng.choice((0, 1, 2, 15)), rng.choice((200, 201, 202, 203, 205, 206))])
        parts.append(kind + (len(body) // 4).to_bytes(2) + body)
    data = b"".join(parts)
    return data if rng.random() < 0.5 else bend(rng, data)


def check_rtcp(data: bytes) -> None:
    """Reports and feedback; what is read can be written."""
    for packet in read_rtcp(data):
        write_rtcp(packet)


TARGETS: dict[str, Target] = {
    "header": Target(any_header, check_header),
    "header_bytes": Target(lambda rng: bend(rng, golden_streams()[0][0]), check_header),
    "container_bytes": Target(
        lambda rng: bend(rng, join_stream(*rng.choice(golden_streams()))), check_container
    ),
    "container": Target(bent_stream, check_container),
    "audio": Target(make_audio, check_audio),
    "unit": Target(make_unit, check_unit),
    **{layer.name: Target(any_bytes, _check_layer(layer), cost=8) for layer in LAYERS},
    "scaffold": Target(make_scaffold, check_scaffold, cost=4),
    "info": Target(bent_stream, check_info, cost=8),
    "picture": Target(make_picture, check_picture, cost=10),
    "decoder": Target(bent_stream, check_decoder, cost=60),
    "index": Target(bent_stream, check_index, cost=30),
    "concealment": Target(bent_stream, check_concealment, cost=60),
    "datagrams": Target(make_datagrams, check_datagrams, cost=8),
    "rtcp": Target(make_rtcp, check_rtcp),
}
