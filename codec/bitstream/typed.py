"""Types of what users pass: checked by the annotations that are there, told in words."""

import inspect
import io
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import wraps
from numbers import Integral, Rational, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, TypeVar, Union, cast, get_args, get_origin
from warnings import warn

import numpy as np

from gsvc.codec.bitstream.errors import WrongTypeError

_Made = TypeVar("_Made")
_Thing = TypeVar("_Thing", bound=Callable[..., Any])
_WORDS: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "text",
    bytes: "bytes",
    Path: "a path",
    BinaryIO: "a file opened in binary",
    np.ndarray: "an array",
    NoneType: "None",
}
_NUMBERS: dict[type, type] = {int: Integral, float: Real, Fraction: Rational}
_PLAIN = str, bytes, bool, int, float, NoneType
_LONGEST = 40


def typed(thing: _Thing) -> _Thing:
    """Have a function, or what makes an object of a class, check its arguments' types.

    A decorator, above `dataclass`. Arguments without an annotation, or with one in quotes, are
    taken as they are. Calls raise WrongTypeError, which names the argument.
    """
    if isinstance(thing, type):
        made: Any = thing
        made.__init__ = _checked(made.__init__)
        return thing
    return cast(_Thing, _checked(thing))


def renamed(**names: str) -> Callable[[type[_Made]], type[_Made]]:
    """Have what makes an object take arguments by their old names too: old=new; it warns."""

    def decorated(kind: type[_Made]) -> type[_Made]:
        made: Any = kind
        plain = made.__init__

        @wraps(plain)
        def taking(self: object, *values: object, **given: object) -> None:
            for old in names.keys() & given.keys():
                warn(f"{old}= is called {names[old]}= now", DeprecationWarning, stacklevel=2)
                given[names[old]] = given.pop(old)
            plain(self, *values, **given)

        made.__init__ = taking
        return kind

    return decorated


def check_type(name: str, value: object, wanted: object) -> None:
    """Raise WrongTypeError unless `value` is of the type `wanted`: a class, a union ..."""
    if fits(value, wanted):
        return
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
    kind = type(value).__name__
    what = shown if isinstance(value, bool | NoneType) else f"{shown} ({kind})"
    raise WrongTypeError(f"{name} is {what}: give {_words(wanted)}")


def fits(value: object, wanted: object) -> bool:
    """Whether a value is of a type. Numbers of NumPy are numbers, and True is none."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if isinstance(wanted, type) and wanted in _NUMBERS:
        return isinstance(value, _NUMBERS[wanted]) and not isinstance(value, bool)
    if wanted is bool:
        return isinstance(value, bool | np.bool_)
    if wanted is BinaryIO:
        is_file = hasattr(value, "read") or hasattr(value, "write")
        return is_file and not isinstance(value, io.TextIOBase)
    if origin in (tuple, Sequence):
        return _is_sequence(value, inner)
    if getattr(wanted, "_is_protocol", False):
        return not isinstance(value, _PLAIN)
    kind = origin or wanted
    return isinstance(value, kind) if isinstance(kind, type) else True


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    kinds = {
        name: one.annotation
        for name, one in signature.parameters.items()
        if one.annotation is not one.empty and not isinstance(one.annotation, str)
    }
    several = [n for n, one in signature.parameters.items() if one.kind is one.VAR_KEYWORD]

    @wraps(function)
    def checking(*args: object, **kwargs: object) -> object:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # says itself what is missing, or too much
        for name in several:
            check_all = given.pop(name, {}).items()
            for one, value in check_all:
                check_type(one, value, kinds.get(name, Any))
        for name, value in given.items():
            if name in kinds:
                check_type(name, value, kinds[name])
        return function(*args, **kwargs)

    return checking


def _is_sequence(value: object, inner: tuple[object, ...]) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return False
    if len(inner) == 2 and inner[1] is not ...:
        return len(value) == 2 and all(map(fits, value, inner))
    return not inner or all(fits(one, inner[0]) for one in value)


def _words(wanted: object) -> str:
    """What to give, in words."""
    inner = list(get_args(wanted)) if get_origin(wanted) in (Union, UnionType) else [wanted]
    if Path in inner and str in inner:
        inner.remove(str)
    words = [_word(one) for one in inner]
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _word(wanted: object) -> str:
    if get_origin(wanted) in (tuple, Sequence):
        inner = [one for one in get_args(wanted) if one is not ...]
        return f"a sequence, each {_words(inner[0])}" if inner else "a sequence"
    kind = get_origin(wanted) or wanted
    if kind is Callable or kind is get_origin(Callable[..., Any]):
        return "a function"
    if kind is Iterable:
        return "an iterable"
    return _WORDS.get(kind) or _a(getattr(kind, "__name__", str(kind)))


def _a(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"
