"""Entropy coding: adaptive binary models, a range coder, and the coders of syntax elements.

A syntax function calls `coder.code(element, value, context)` for each element and uses the value
that is returned. `Writer` codes the value, `Reader` decodes it, and `Coder` only adds up its bits,
so that the estimated rate and the real one agree.

Every element is binarised. constriction's range coder codes each bit with an integer model: a
16-bit probability that each bit moves towards itself, by less as bits are seen. The range coder
gets multiples of 1/4096, which floating point holds exactly: they are equal on every machine.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import Enum
from functools import cache
from math import log2
from pathlib import Path

import constriction
import numpy as np

from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, BitstreamError, ConfigError, LimitError

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
_FITTED_COUNT = 5  # bits that a fitted probability counts as
EVEN = _SCALE // 2
"""The probability of a bit that is not modelled."""


class BitModel:
    """Probability that the next bit is 1: of the bits before the Krichevsky-Trofimov estimate, then
    an exponential moving average."""

    __slots__ = ("_count", "_one")

    def __init__(self, fitted: int | None = None) -> None:
        """`fitted`: the probability to begin with, in 1/256; None: one half, and no bits seen."""
        self._one = _ONE // 2 if fitted is None else fitted << 8
        self._count = 0 if fitted is None else _FITTED_COUNT

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
        words = np.frombuffer(data + bytes(-len(data) % 4) + bytes(8), ">u4").astype(np.uint32)
        self._coder = constriction.stream.queue.RangeDecoder(words)

    def bit(self, _bit: int | None, probability: int) -> int:
        """Decode one bit."""
        try:
            return int(self._coder.decode(_MODELS[probability]))
        except (AssertionError, ValueError) as error:
            raise BitstreamError("the scaffold does not decode: the stream is damaged") from error


class Binarisation(Enum):
    """How an element is binarised."""

    FLAG = "flag"
    UNSIGNED = "unsigned"
    SIGNED = "signed"


FLAG, UNSIGNED, SIGNED = Binarisation


@dataclass(frozen=True)
class Element:
    """One syntax element."""

    name: str
    """Name in traces and on the format page."""
    layer: str
    """Layer of the ledger to which its bits are added."""
    kind: Binarisation
    maximum: int = 1
    """Largest magnitude."""
    contexts: int = 1
    """Number of contexts; each has probability models of its own."""
    is_traced: bool = True
    """Whether traces name its values; not where they say nothing to a reader."""


_MAX_EXPONENT = 31
Trace = Callable[[str, int], None]


@cache
def fitted_probabilities() -> dict[tuple[str, int, str, int], int]:
    """Of a 1, in 1/256, by element, context, kind and number (`tools/fit_probabilities.py`)."""
    table = json.loads(Path(__file__).with_name("fitted.json").read_text("utf-8"))
    return {(name, *key): p for name, rows in table.items() for *key, p in rows}


class Coder:
    """Counts the bits of elements. Base of `Writer` and `Reader`."""

    def __init__(self, trace: Trace | None = None, *, fitted: bool = False) -> None:
        """`fitted`: whether probabilities begin as fitted."""
        self._fitted = fitted_probabilities() if fitted else {}
        self._models: dict[tuple[str, int, str, int], BitModel] = {}
        self._trace = trace
        self.bits: dict[str, float] = defaultdict(float)
        """Bits spent so far, by layer of the ledger."""

    @property
    def total(self) -> float:
        """Bits spent so far."""
        return sum(self.bits.values())

    @property
    def reading(self) -> bool:
        """Whether values are decoded from a stream."""
        return False

    def code(self, element: Element, value: int | None = None, context: int = 0) -> int:
        """Code one element and return its value; `value` is None for a `Reader`.

        Raises ConfigError for a value to write beyond the element's maximum, LimitError for a
        value read beyond it.
        """
        assert 0 <= context < element.contexts
        if value is not None and abs(value) > element.maximum:
            why = f"{element.name} {value} cannot be stored: at most {element.maximum} is possible"
            raise ConfigError(why)
        if element.kind is FLAG:
            result = self._modelled(element, (element.name, context, "flag", 0), value)
        elif element.kind is UNSIGNED:
            result = self._unsigned(element, context, value)
        else:
            result = self._signed(element, context, value)
        if abs(result) > element.maximum:
            raise _beyond_limit(element)
        if self._trace is not None and element.is_traced:
            self._trace(element.name, result)
        return result

    def forget(self, elements: Container[str]) -> None:
        """Begin the models of the elements of these names anew."""
        self._models = {key: model for key, model in self._models.items() if key[0] not in elements}

    def _signed(self, element: Element, context: int, value: int | None) -> int:
        magnitude = self._unsigned(element, context, None if value is None else abs(value))
        if magnitude == 0:
            return 0
        sign = None if value is None else int(value < 0)
        negative = self._modelled(element, (element.name, context, "sign", 0), sign)
        return -magnitude if negative else magnitude

    def _unsigned(self, element: Element, context: int, value: int | None) -> int:
        """Exponential-Golomb: a unary exponent, then the mantissa, whose first bit is modelled."""
        target = None if value is None else value + 1
        exponent = 0
        while self._modelled(
            element,
            (element.name, context, "exponent", exponent),
            None if target is None else int(exponent < target.bit_length() - 1),
        ):
            exponent += 1
            if exponent > _MAX_EXPONENT:
                raise _beyond_limit(element)
        result = 1
        for place in reversed(range(exponent)):
            bit = None if target is None else target >> place & 1
            if place == exponent - 1:
                bit = self._modelled(element, (element.name, context, "mantissa", exponent), bit)
            else:
                self.bits[element.layer] += 1
                bit = self._bit(bit, EVEN)
            result = result << 1 | bit
        return result - 1

    def _modelled(self, element: Element, key: tuple[str, int, str, int], bit: int | None) -> int:
        model = self._models.get(key)
        if model is None:
            model = self._models[key] = BitModel(self._fitted.get(key))
        probability = model.probability
        bit = self._bit(bit, probability)
        model.update(bit)
        self.bits[element.layer] += bit_cost(probability, bit)
        return bit

    def _bit(self, bit: int | None, probability: int) -> int:
        assert bit is not None
        return bit


def _beyond_limit(element: Element) -> LimitError:
    why = f"{element.name} is beyond its limit of {element.maximum}: the stream is damaged"
    return LimitError(why)


class Writer(Coder):
    """Encodes values to bytes."""

    def __init__(self, *, fitted: bool = False) -> None:
        super().__init__(fitted=fitted)
        self._range = RangeWriter()
        self._coded = 0

    def _bit(self, bit: int | None, probability: int) -> int:
        assert bit is not None
        self._coded += 1
        return self._range.bit(bit, probability)

    def finish(self) -> bytes:
        """The bytes of everything coded since the last call; the models are kept.

        Raises ConfigError above `Limits.scaffold_bits`, the most that a decoder reads.
        """
        coded, self._coded = self._coded, 0
        if coded > DEFAULT_LIMITS.scaffold_bits:
            raise ConfigError(
                f"a scaffold of {coded} coded bits: at most {DEFAULT_LIMITS.scaffold_bits} are "
                "possible, leave out segmentation or flow"
            )
        data = self._range.finish()
        self._range = RangeWriter()
        return data


class Reader(Coder):
    """Decodes values from bytes, at most `most_bits` coded bits after each `start`."""

    def __init__(
        self,
        trace: Trace | None = None,
        most_bits: int = DEFAULT_LIMITS.scaffold_bits,
        *,
        fitted: bool = False,
    ) -> None:
        super().__init__(trace, fitted=fitted)
        self._most_bits = self._left = most_bits
        self._range = RangeReader(b"")

    @property
    def reading(self) -> bool:
        return True

    def start(self, data: bytes) -> None:
        """Continue with `data`; the models are kept."""
        self._left = self._most_bits
        self._range = RangeReader(data)

    def _bit(self, bit: int | None, probability: int) -> int:
        # A range decoder never runs out of bits: an empty scaffold could fill every grid.
        self._left -= 1
        if self._left < 0:
            raise LimitError(f"a scaffold has more than {self._most_bits} coded bits")
        return self._range.bit(None, probability)
