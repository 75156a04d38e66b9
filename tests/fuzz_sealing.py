"""Messages of somebody without the key, tried on what takes only sealed ones."""

import asyncio
import logging
import random
from functools import cache
from typing import Any

from fuzz_bytes import any_bytes, bend
from gsvc.codec.bitstream.errors import TruncatedStreamError
from gsvc.codec.network.sealing import Opener, Sealer
from gsvc.codec.network.secure_channel import HELLO_BYTES, MAGIC, secured
from gsvc.codec.network.tcp_websocket import Channel
from gsvc.codec.network.wire_key import TAG_BYTES, WireKey


@cache
def _key(first: int) -> WireKey:
    return WireKey(bytes(range(first, first + 32)))


@cache
def _genuine() -> tuple[bytes, ...]:
    sealer = Sealer(_key(0), sends=True)
    return tuple(sealer.seal(bytes([0x80, 0x60, n])) for n in range(20))


def make_sealed(rng: random.Random) -> bytes:
    """A sealed datagram, bent; one of another key or of the other direction; or random bytes."""
    match rng.randrange(4):
        case 0:
            return Sealer(_key(1), sends=True).seal(any_bytes(rng))
        case 1:
            return Sealer(_key(0), sends=False).seal(any_bytes(rng))
        case 2:
            return any_bytes(rng)
    return bend(rng, rng.choice(_genuine()))


def check_sealed(data: bytes) -> None:
    """One datagram: taken only if its sender had the key."""
    opened = Opener(_key(0), sends=True).open(data)
    assert opened is None or data in _genuine()


def make_greeting(rng: random.Random) -> bytes:
    """What somebody without the key says, message by message, each led by its length."""
    hello = MAGIC + rng.randbytes(HELLO_BYTES - len(MAGIC))
    said = [hello + rng.randbytes(rng.choice((0, TAG_BYTES))), rng.randbytes(TAG_BYTES)]
    if rng.random() < 0.6:
        said[0] = bend(rng, said[0])
    said += [any_bytes(rng, 60) for _ in range(rng.randrange(3))]
    return b"".join(len(message).to_bytes(2) + message for message in said)


def check_greeting(data: bytes) -> None:
    """A connection on which these messages come, to a sender and to a receiver: not let through."""
    log = logging.getLogger("gsvc.codec.network.secure_channel")
    log.disabled = True
    for sends in (True, False):
        asyncio.run(_refuse(data, sends=sends))
    log.disabled = False


async def _refuse(data: bytes, *, sends: bool) -> None:
    refused = []

    async def handle(channel: Channel) -> None:
        raise AssertionError("somebody without the key was let through")

    channel: Any = _Said(data)
    await secured(handle, _key(0), sends=sends, refused=lambda: refused.append(True))(channel)
    assert refused


class _Said:
    """The other side, which has said all it will."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def write_message(self, data: bytes) -> None:
        pass

    async def read_message(self, most: int) -> bytes:
        if not self._data:
            raise TruncatedStreamError("closed")
        size = 2 + int.from_bytes(self._data[:2])
        message, self._data = self._data[2:size], self._data[size:]
        return message
