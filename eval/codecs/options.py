"""Options of a codec's constructor: one value or several of one type."""

from collections.abc import Sequence
from typing import TypeVar

from gsvc.codec.errors import ConfigError
from gsvc.eval.codecs.base import Value

Option = Value | tuple[Value, ...]

_Kind = TypeVar("_Kind", int, float, str)


def several(value: Option) -> tuple[Value, ...]:
    """The values of an option."""
    return value if isinstance(value, tuple) else (value,)


def all_of(name: str, value: Option, kind: type[_Kind]) -> Sequence[_Kind]:
    """The values of an option, each of `kind` (an int will do for float). Raises ConfigError."""
    values: list[_Kind] = []
    for one in several(value):
        if kind is float and isinstance(one, int):
            one = float(one)
        if not isinstance(one, kind):
            raise ConfigError(f"{name} {one!r} is no {kind.__name__}: give another value")
        values.append(one)
    return values
