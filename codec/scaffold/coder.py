"""Coders of syntax elements: one syntax function writes, reads and estimates the rate.

A syntax function calls `coder.code(element, value, context)` for each element and uses the value
that is returned. `Writer` codes the value, `Reader` decodes it, and `Coder` only adds up its bits,
so that estimated and real rate agree.
"""

from collections import defaultdict
from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import Enum

from gsvc.codec.errors import ConfigError, LimitError
from gsvc.codec.limits import DEFAULT_LIMITS
from gsvc.codec.scaffold.entropy import EVEN, BitModel, RangeReader, RangeWriter, bit_cost


class Kind(Enum):
    """How an element is binarised."""

    FLAG = "flag"
    UNSIGNED = "unsigned"
    SIGNED = "signed"


FLAG, UNSIGNED, SIGNED = Kind


@dataclass(frozen=True)
class Element:
    """One syntax element."""

    name: str
    """Name in traces and on the format page."""
    layer: str
    """Layer of the ledger to which its bits are added."""
    kind: Kind
    """Binarisation."""
    maximum: int = 1
    """Largest magnitude."""
    contexts: int = 1
    """Number of contexts; each has probability models of its own."""
    is_traced: bool = True
    """Whether traces name its values; not where they say nothing to a reader."""


_MAX_EXPONENT = 31
Trace = Callable[[str, int], None]


class Coder:
    """Counts the bits of elements. Base of `Writer` and `Reader`."""

    def __init__(self, trace: Trace | None = None) -> None:
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
            raise ConfigError(
                f"{element.name} {value} cannot be stored: at most {element.maximum} is possible"
            )
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
        """Exponential-Golomb: a unary exponent, then the mantissa, most significant bit first.

        The exponent and the first bit of the mantissa are modelled.
        """
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
                bit = self._even(element, bit)
            result = result << 1 | bit
        return result - 1

    def _modelled(self, element: Element, key: tuple[str, int, str, int], bit: int | None) -> int:
        model = self._models.get(key)
        if model is None:
            model = self._models[key] = BitModel()
        probability = model.probability
        bit = self._bit(bit, probability)
        model.update(bit)
        self.bits[element.layer] += bit_cost(probability, bit)
        return bit

    def _even(self, element: Element, bit: int | None) -> int:
        self.bits[element.layer] += 1
        return self._bit(bit, EVEN)

    def _bit(self, bit: int | None, probability: int) -> int:
        assert bit is not None
        return bit


def _beyond_limit(element: Element) -> LimitError:
    return LimitError(
        f"{element.name} is beyond its limit of {element.maximum}: the stream is damaged"
    )


class Writer(Coder):
    """Encodes values to bytes."""

    def __init__(self) -> None:
        super().__init__()
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
        self, trace: Trace | None = None, most_bits: int = DEFAULT_LIMITS.scaffold_bits
    ) -> None:
        super().__init__(trace)
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
