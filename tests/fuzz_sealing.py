"""Datagrams of somebody without the key, tried on what takes only sealed ones."""

import random
from functools import cache

from fuzz_bytes import any_bytes, bend
from gsvc.codec.network.address import Srtp, WireKey

_MOST = 1300


@cache
def _side(first: int, *, sends: bool = True) -> Srtp:
    return Srtp(WireKey(bytes(range(first, first + 32))), sends=sends, clock=lambda: 6e7)


def _datagram(number: int, rest: bytes) -> bytes:
    return bytes([0x80, 0x60]) + number.to_bytes(2) + bytes(8) + rest[:_MOST]


@cache
def _genuine() -> tuple[bytes, ...]:
    return tuple(_side(0).protect(_datagram(n, b"rest")) for n in range(20))


_sent = 0


def make_sealed(rng: random.Random) -> bytes:
    """A sealed datagram, bent; one of another key or of the other direction; or random bytes."""
    global _sent
    _sent += 1
    match rng.randrange(4):
        case 0:
            return _side(1).protect(_datagram(_sent % 65536, any_bytes(rng)))
        case 1:
            return _side(0, sends=False).protect(_datagram(_sent % 65536, any_bytes(rng)))
        case 2:
            return any_bytes(rng)
    return bend(rng, rng.choice(_genuine()))


def check_sealed(data: bytes) -> None:
    """One datagram: opened only if its sender had the key."""
    receiver = Srtp(WireKey(bytes(range(32))), sends=False, clock=lambda: 6e7)
    assert receiver.unprotect(data) is None or data in _genuine()
