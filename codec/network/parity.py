"""Exclusive-or parity over the fragments of a packet (the idea of RFC 5109).

Parity costs a fragment in every few and repairs one lost in each stripe; sending all twice would cost as much as the
packet. Neighbours belong to different stripes, so that a burst as long as there are stripes is repaired too.
"""

from collections.abc import Mapping, Sequence
from math import ceil


def stripes_of(count: int, span: int) -> int:
    """How many stripes `count` fragments make, of at most `span` fragments each."""
    return ceil(count / span)


def parity(fragments: Sequence[bytes]) -> bytes:
    """The exclusive or of all, zeros behind the shorter ones."""
    size = max(map(len, fragments))
    total = 0
    for fragment in fragments:
        total ^= int.from_bytes(fragment.ljust(size, b"\0"), "big")
    return total.to_bytes(size, "big")


def repaired(
    fragments: Mapping[int, bytes], count: int, stripe: int, stripes: int, check: bytes
) -> tuple[int, bytes] | None:
    """The number and bytes of the one fragment that its stripe lacks; None when it lacks none or several.

    The last fragment may come back with zeros behind it.
    """
    members = range(stripe, count, stripes)
    lost = [index for index in members if index not in fragments]
    if len(lost) != 1:
        return None
    known = [fragments[index] for index in members if index != lost[0]]
    return lost[0], parity([*known, check])
