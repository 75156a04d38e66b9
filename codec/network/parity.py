"""Forward error correction: exclusive-or parity over the fragments of a packet (as in RFC 5109).

The fragments are interleaved into stripes, each with one parity, which repairs one lost fragment. A
burst of losses that is no longer than the number of stripes is repaired too.
"""

from collections.abc import Mapping, Sequence


def parity(fragments: Sequence[bytes]) -> bytes:
    """The exclusive or of the fragments; shorter ones are padded with zeros."""
    size = max(map(len, fragments))
    total = 0
    for fragment in fragments:
        total ^= int.from_bytes(fragment.ljust(size, b"\0"), "big")
    return total.to_bytes(size, "big")


def repaired(
    fragments: Mapping[int, bytes], count: int, stripe: int, stripes: int, check: bytes
) -> tuple[int, bytes] | None:
    """Index and bytes of the one fragment that the stripe lacks; None if it lacks none or several.

    `check` is the stripe's parity. The packet's last fragment may come back padded with zeros.
    """
    members = range(stripe, count, stripes)
    lost = [index for index in members if index not in fragments]
    if len(lost) != 1:
        return None
    known = [fragments[index] for index in members if index != lost[0]]
    return lost[0], parity([*known, check])
