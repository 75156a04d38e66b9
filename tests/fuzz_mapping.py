"""Forged notes in the AV1 track of a mapped stream, tried on what reads them."""

import io
import random
from contextlib import suppress

from fuzz_bytes import any_bytes, bend, golden_streams, golden_units, join_stream
from gsvc import BitstreamError, PacketType, StreamReader
from gsvc.codec.media.mapping import (
    Record,
    RecordKind,
    packet_of,
    picture_bytes,
    record_of,
    records_in,
    sample_of,
)


def make_note(rng: random.Random) -> bytes:
    """A sample with records that are true or random, bent."""
    _, units = rng.choice(golden_units())
    records = [Record(rng.choice(list(RecordKind)), any_bytes(rng, 60), rng.randbytes(4), 1)]
    if rng.random() < 0.5:
        reader = StreamReader(io.BytesIO(join_stream(*rng.choice(golden_streams()))))
        mapped = (one for one in reader if one.type != PacketType.SHOT)  # those cannot be mapped
        records = [record_of(packet, 1) for packet in mapped][:3]
    return bend(rng, sample_of(rng.choice(units), records))


def check_note(data: bytes) -> None:
    """A sample's records, with the right samples or none."""
    plain = picture_bytes(data, b"")
    for record in records_in(data):
        for samples in ((), (plain,)):
            with suppress(BitstreamError):
                packet_of(record, samples)
