"""Bytes that a stranger could send: bent out of valid streams, with checksums repaired."""

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from google_crc32c import value as crc32c

from gsvc import BitstreamError, PacketType, StreamReader
from gsvc.codec.bitstream.container import PICTURES, varint
from gsvc.codec.bitstream.group import GroupReader, split_payload
from gsvc.codec.bitstream.header import FIELDS, HEADER_BYTES
from scaffolds import join_payload

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Part:
    """One packet as it goes on the wire; `frames` may be anything."""

    type: int
    frames: int
    payload: bytes


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
        pictures += part.type in PICTURES
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
    """Coded size and AV1 temporal units of every sequence of the golden streams."""
    sequences: list[tuple[tuple[int, int], list[bytes]]] = []
    for header, parts in golden_streams():
        reader = StreamReader(io.BytesIO(join_stream(header, parts)))
        parser = GroupReader(reader.header)
        geometry, slots = reader.header.geometry, dict[int, list[bytes]]()
        for packet in reader:
            if packet.is_picture:
                parsed = parser.read(packet)
                if parsed.begins:
                    slots[parsed.slot] = []
                    size = geometry.coded_size(parsed.coding.scale)
                    sequences.append((size, slots[parsed.slot]))
                slots[parsed.slot].extend(parsed.units)
    return tuple((size, tuple(units)) for size, units in sequences)


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
        scaffold, plain = split_payload(part.payload)
    except BitstreamError:  # bent before
        return bend(rng, part.payload)
    match rng.randrange(5):
        case 0 | 1:
            scaffold = bend(rng, scaffold)
        case 2:
            scaffold = any_bytes(rng)
        case 3:
            plain = bend(rng, plain)
        case _:
            plain = rng.choice((b"", *rng.choice(golden_units())[1]))
    return join_payload(scaffold, plain)
