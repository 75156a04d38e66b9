"""What a stranger can send, made and tried: for each parser a maker of inputs and a check.

A maker draws bytes from a `random.Random`: half of them random, half bent out of valid streams with
their checksums repaired, to reach what lies behind these. A check takes the bytes, and may raise
nothing but a GsvcError. `test_fuzz` (a few inputs, by hypothesis), `fuzz_run` (millions) and
`test_hostile` (inputs that were once trouble) use both.
"""

import io
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from fuzz_bytes import (
    any_bytes,
    any_header,
    bend,
    bent_stream,
    golden_streams,
    golden_units,
    join_stream,
)
from fuzz_decoding import (
    check_analysis,
    check_concealment,
    check_decoder,
    check_index,
    check_picture,
    make_picture,
)
from fuzz_mapping import check_note, make_note
from fuzz_network import check_datagrams, check_rtcp, make_datagrams, make_rtcp
from fuzz_sealing import check_sealed, make_sealed
from fuzz_settings import check_homographies, check_rules_file, make_homographies, make_rules
from fuzz_truth import check_truth, make_truth
from gsvc import BitstreamError, Header, Packet, PacketType, StreamReader, Tools
from gsvc.codec.bitstream.audio_and_text import pack_audio, read_texts, text_packets, unpack_audio
from gsvc.codec.bitstream.coded_pictures import (
    check_temporal_unit,
    joined,
    parted,
    strip_temporal_unit,
)
from gsvc.codec.bitstream.container import varint
from gsvc.codec.bitstream.entropy_coding import Reader, Writer
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, HeldBytes
from gsvc.codec.bitstream.group import split_payload
from gsvc.codec.bitstream.header import HEADER_BYTES, TOOLS
from gsvc.codec.bitstream.layers import ALL_LAYERS
from gsvc.codec.bitstream.layers.pose import POSE, People
from gsvc.codec.bitstream.objects import ObjectReader, ObjectWriter
from gsvc.codec.bitstream.pieces import gather, split
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Layer, Place, Site
from gsvc.codec.bitstream.stream_info import read_info, scaffold_bytes
from scaffolds import GroupCoder

SIZES = ((64, 48), (16, 16), (72, 48), (37, 51), (256, 9), (1, 1), (130, 290))
"""Display sizes for which scaffolds are tried."""


@dataclass(frozen=True)
class Target:
    """A parser under test."""

    make: Callable[[random.Random], bytes]
    check: Callable[[bytes], None]
    cost: int = 1
    """About how many inputs of the cheapest target take as long as one of this."""


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


def check_packet(data: bytes) -> None:
    """One packet as a message; what can be read is written again, and must come back equal."""
    packet = Packet.from_bytes(data)
    assert Packet.from_bytes(packet.to_bytes()) == packet


def make_packet(rng: random.Random) -> bytes:
    """A golden stream's packet, its content or all of it bent."""
    part = rng.choice(rng.choice(golden_streams())[1])
    frames = part.frames if rng.random() < 0.5 else rng.randrange(1 << 12)
    data = Packet(part.type, frames, bend(rng, part.payload)).to_bytes()
    return data if rng.random() < 0.5 else bend(rng, data)


def check_info(data: bytes) -> None:
    """A stream, every packet taken apart, nothing drawn."""
    info = read_info(io.BytesIO(data), elements=True)
    assert sum(info.bits.values()) == 8 * info.size == 8 * len(data)


def check_audio(data: bytes) -> None:
    """A run of Opus packets."""
    chunk = unpack_audio(data)
    assert unpack_audio(pack_audio(chunk)) == chunk


def check_texts(data: bytes) -> None:
    """Title, chapters and subtitles."""
    texts = read_texts([Packet(PacketType.TEXT, 0, data)], HeldBytes(DEFAULT_LIMITS))
    assert read_texts(text_packets(texts), HeldBytes(DEFAULT_LIMITS)) == texts


def make_texts(rng: random.Random) -> bytes:
    """A few entries of all kinds, true or nearly so."""
    kinds = [rng.choice((0, 1, 2, 3, 3, 7)) for _ in range(rng.randint(1, 6))]
    bodies = [varint(rng.randrange(4)) + varint(rng.randrange(300)) + b"text" for _ in kinds]
    entries = [varint(kind) + varint(len(b)) + b for kind, b in zip(kinds, bodies, strict=True)]
    data = b"".join(entries)
    return data if rng.random() < 0.2 else bend(rng, data)


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
    assert parted(joined(parted(data))) == parted(data)


def make_unit(rng: random.Random) -> bytes:
    """A temporal unit, bent or random."""
    _, units = rng.choice(golden_units())
    return bend(rng, rng.choice(units)) if rng.random() < 0.8 else any_bytes(rng)


def check_scaffold(data: bytes) -> None:
    """A group of intervals out of random bytes; writing what was read must give the same again.

    Two bytes say size and layers. Each packet has a byte for its number of frames, a byte for the
    length of its scaffold, and the scaffold.
    """
    if len(data) < 2:
        return
    geometry = Geometry(*SIZES[data[0] % len(SIZES)])
    tools = Tools(**{name: bool(data[1] >> bit & 1) for bit, name in enumerate(TOOLS)})
    ticks, holds = Fraction(1 + data[0] // 16, 1 + data[1] // 64), bool(data[1] >> 5 & 1)
    reader, writer, again = Reader(), Writer(), Reader()
    coders = [
        GroupCoder(coder, geometry, tools, ticks, holds=holds) for coder in (reader, writer, again)
    ]
    data = data[2:]
    while data:
        frames, size = data[0] % 48 + 1, int.from_bytes(data[1:2])
        scaffold, data = data[2 : 2 + size], data[2 + size :]

        reader.start(scaffold)
        values = coders[0].code(frames, None)
        assert sum(value.length for value in values) == frames
        assert all(len(value.samples) <= min(15, value.length) for value in values)
        coders[1].code(frames, values)
        again.start(writer.finish())
        back = coders[2].code(frames, None)
        assert list(map(_canonical, back)) == list(map(_canonical, values))


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


def check_objects(data: bytes) -> None:
    """OBJECTS packets, each led by its length; what was read is written again, and comes back."""
    header = Header.from_bytes(golden_streams()[0][0])
    reader, writer, again = ObjectReader(header), ObjectWriter(header), ObjectReader(header)
    while data:
        size = int.from_bytes(data[:2], "big")
        run = reader.read(Packet(PacketType.OBJECTS, 0, data[2 : 2 + size]))
        data = data[2 + size :]
        back = again.read(Packet(PacketType.OBJECTS, 0, writer.write(run)))
        assert (back.ticks, back.parts, back.is_alone) == (run.ticks, run.parts, run.is_alone)
        assert sum(anchor.gap for anchor in run.anchors) == len(run.ticks)
        for one, other in zip(run.anchors, back.anchors, strict=True):
            assert one.objects == other.objects and one.motion == other.motion


def make_objects(rng: random.Random) -> bytes:
    """The golden stream's OBJECTS packets, bent, or random ones that can be read alone."""
    given = [p.payload for _, parts in golden_streams() for p in parts if p.type == 10]
    payloads = [
        bend(rng, one)
        if rng.random() < 0.5
        else one
        if rng.random() < 0.7
        else varint(rng.randrange(4)) + varint(rng.randrange(60)) + any_bytes(rng)
        for one in given
    ]
    return b"".join(len(one).to_bytes(2, "big") + one for one in payloads)


def check_pieces(data: bytes) -> None:
    """Pieces, each led by its length; what they make has a header that can be read."""
    pieces = []
    while data:
        size = int.from_bytes(data[:2], "big")
        pieces.append(data[2 : 2 + size])
        data = data[2 + size :]
    found = gather(pieces)
    assert Header.from_bytes(found.stream[:HEADER_BYTES]) and len(found.missing) < found.count


def make_pieces(rng: random.Random) -> bytes:
    """Some of a golden stream's, in any order, one of them bent."""
    stream = join_stream(*rng.choice(golden_streams()))
    pieces = split(stream, None, 4096, rng.choice((40, 237, 1000)))
    pieces = rng.sample(pieces, rng.randint(1, len(pieces)))
    if rng.random() < 0.5:
        pieces[0] = bend(rng, pieces[0])
    return b"".join(len(one).to_bytes(2, "big") + one for one in pieces)


TARGETS: dict[str, Target] = {
    "header": Target(any_header, check_header),
    "header_bytes": Target(lambda rng: bend(rng, golden_streams()[0][0]), check_header),
    "packet": Target(make_packet, check_packet),
    "container_bytes": Target(
        lambda rng: bend(rng, join_stream(*rng.choice(golden_streams()))), check_container
    ),
    "container": Target(bent_stream, check_container),
    "audio": Target(make_audio, check_audio),
    "texts": Target(make_texts, check_texts),
    "truth": Target(make_truth, check_truth, cost=8),
    "rules": Target(make_rules, check_rules_file),
    "homographies": Target(make_homographies, check_homographies),
    "unit": Target(make_unit, check_unit),
    "note": Target(make_note, check_note),
    **{layer.name: Target(any_bytes, _check_layer(layer), cost=8) for layer in ALL_LAYERS},
    "objects": Target(make_objects, check_objects, cost=8),
    "scaffold": Target(make_scaffold, check_scaffold, cost=4),
    "info": Target(bent_stream, check_info, cost=8),
    "picture": Target(make_picture, check_picture, cost=10),
    "decoder": Target(bent_stream, check_decoder, cost=60),
    "analysis": Target(bent_stream, check_analysis, cost=60),
    "index": Target(bent_stream, check_index, cost=30),
    "concealment": Target(bent_stream, check_concealment, cost=60),
    "datagrams": Target(make_datagrams, check_datagrams, cost=8),
    "rtcp": Target(make_rtcp, check_rtcp),
    "pieces": Target(make_pieces, check_pieces, cost=8),
    "sealed": Target(make_sealed, check_sealed),
}
