"""Forged datagrams and reports, tried on what receives them."""

import io
import random
from dataclasses import replace

from fuzz_bytes import any_bytes, bend, golden_streams, join_stream
from gsvc import Depacketizer, GsvcError, Packetizer, ReorderLimits, StreamReader, WireSettings
from gsvc.codec.network.rtcp import read_rtcp, write_rtcp


def make_datagrams(rng: random.Random) -> bytes:
    """A golden stream as small RTP datagrams, some bent, lost, repeated or late.

    Each is led by its length in two bytes.
    """
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
