"""Adaptive binary models and the range coder that uses them.

Every syntax element is binarised (see `gsvc.codec.scaffold.coder`), and constriction's range coder
codes each bit with an integer model: a 16-bit probability that each bit moves towards itself, by
less as bits are seen. The range coder gets multiples of 1/4096: exact in floating point, so equal
on every machine.
"""

from math import log2

import constriction
import numpy as np

from gsvc.codec.errors import BitstreamError

_ONE = 1 << 16
_SCALE = 1 << 12
_LOWEST = 24  # of 4096: no bit costs more than 7.5 bits
_SETTLED = 14  # bits after which the adaptation rate is constant
_WORD = 1 << 32  # constriction writes words of 32 bits from a state of 64

_MODELS = [
    constriction.stream.model.Bernoulli(k / _SCALE, perfect=False) if 0 < k < _SCALE else None
    for k in range(_SCALE)
]
_BITS = [0.0 if k == 0 else -log2(k / _SCALE) for k in range(_SCALE + 1)]
EVEN = _SCALE // 2
"""The probability of a bit that is not modelled."""


class BitModel:
    """Probability that the next bit is 1, learned from the bits before.

    It is the Krichevsky-Trofimov estimate at first, then an exponential moving average.
    """

    __slots__ = ("_count", "_one")

    def __init__(self) -> None:
        self._one = _ONE // 2
        self._count = 0

    @property
    def probability(self) -> int:
        """Probability of a 1, in 1/4096."""
        return min(max(self._one >> 4, _LOWEST), _SCALE - _LOWEST)

    def update(self, bit: int) -> None:
        """Adapt to one bit."""
        target = _ONE - 1 if bit else 0
        self._one += (target - self._one) * 2 // (2 * self._count + 3)
        self._count = min(self._count + 1, _SETTLED)


def bit_cost(probability: int, bit: int) -> float:
    """Bits that `bit` costs where a 1 has the probability `probability` / 4096."""
    return _BITS[probability if bit else _SCALE - probability]


class RangeWriter:
    """Encodes bits; `finish` returns the bytes."""

    def __init__(self) -> None:
        self._coder = constriction.stream.queue.RangeEncoder()

    def bit(self, bit: int, probability: int) -> int:
        """Encode one bit and return it."""
        self._coder.encode(bit, _MODELS[probability])
        return bit

    def finish(self) -> bytes:
        """The fewest bytes that decode to the bits.

        Any number in the coder's final range does. The reader continues the bytes with zeros, so
        the number with the most trailing zeros is taken.
        """
        whole_words, (low, size) = self._coder.pos()
        words = self._coder.get_compressed()[:whole_words].astype(">u4").tobytes()
        # constriction has already carried into these words if the end that it chose does.
        if low + _WORD - 1 >= _WORD**2:
            low -= _WORD**2
        low += int.from_bytes(words, "big") * _WORD**2
        ends = (-(-low >> zeros) << zeros for zeros in range(64, -1, -8))
        end: int = next(end for end in ends if end < low + size)
        return end.to_bytes(4 * whole_words + 8, "big").rstrip(b"\0")


class RangeReader:
    """Decodes the bits of a `RangeWriter`. The packet's CRC detects damage; this does not."""

    def __init__(self, data: bytes) -> None:
        padded = data + bytes(-len(data) % 4) + bytes(8)
        words = np.frombuffer(padded, ">u4").astype(np.uint32)
        self._coder = constriction.stream.queue.RangeDecoder(words)

    def bit(self, _bit: int | None, probability: int) -> int:
        """Decode one bit."""
        try:
            return int(self._coder.decode(_MODELS[probability]))
        except (AssertionError, ValueError) as error:
            raise BitstreamError("the scaffold does not decode: the stream is damaged") from error
