"""What gsvc refuses: its errors, arguments of a wrong type, and what streams may not ask for.

Each message is one line: what is wrong, then what to do. The command line prints it and exits with
1, for `ConfigError` with 2. Each error is also one of Python's own, which fits.

`typed` checks what users pass by the annotations that are there. The parser checks `Limits` before
anything is allocated. `OneThread` refuses a second thread; `HasThreads` lets threads go in time.
"""

import errno
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import wraps
from numbers import Integral, Rational, Real
from pathlib import Path
from threading import Lock
from types import NoneType, UnionType
from typing import Any, BinaryIO, Self, TypeVar, Union, cast, get_args, get_origin
from weakref import WeakSet

Bytes = bytes | bytearray | memoryview
NOTE = 25
"""Level of the log between INFO and WARNING: what was chosen as asked for."""
OUT_OF_MEMORY = "out of memory: end other programs, lift ulimit -v, or take a smaller video"
TOO_MANY_FILES = "too many open files: end other programs, or lift ulimit -n"
SHORTAGES = {
    errno.ENOMEM: OUT_OF_MEMORY,
    errno.EAGAIN: OUT_OF_MEMORY,  # for a thread
    errno.EMFILE: TOO_MANY_FILES,
    errno.ENFILE: TOO_MANY_FILES,
}
"""errno → what to say where the system has no more."""


def one_line(text: str) -> str:
    """A message as one line of a terminal, whatever is in the names of files."""
    line = " ".join(text.splitlines())
    return re.sub(r"[\0-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], line)


def nearest(word: str, names: Iterable[str]) -> str:
    """ ": did you mean NAME?", empty where none of the names is near."""
    word, known = word.partition("=")[0], list(names)
    near = [name for name in known if len(word) > 3 and name.startswith(word)]
    near += get_close_matches(word, known, 1, 0.7)
    return f": did you mean {near[0]}?" if near else ""


class GsvcError(Exception):
    """Base class of every error raised by gsvc."""


class ConfigError(GsvcError, ValueError):
    """A setting is out of range or conflicts with another; the message names permitted values."""


class WrongTypeError(ConfigError, TypeError):
    """An argument is of another type than it should be; the message names both."""


class InputError(GsvcError, ValueError):
    """The source cannot be read as video."""


class UnsupportedInputError(InputError, NotImplementedError):
    """The source is video of a kind that gsvc refuses: HDR, alpha."""


class BitstreamError(GsvcError, ValueError):
    """The bytes are not a valid gsvc stream."""


class ForeignFileError(BitstreamError):
    """The file is something else than a gsvc stream."""


class TruncatedStreamError(BitstreamError, EOFError):
    """The stream ends before its end packet."""


class ChecksumError(BitstreamError):
    """A CRC-32C does not match: bytes changed on the way."""


class LimitError(BitstreamError):
    """A field of the stream exceeds the limits on untrusted input."""


class VersionError(BitstreamError, NotImplementedError):
    """The stream needs another version of gsvc."""


class OutputError(GsvcError, OSError):
    """The output cannot be written."""


class MissingModelError(GsvcError, FileNotFoundError):
    """Weights are not on this machine; the message names the command that brings them."""


class MissingDependencyError(GsvcError, ImportError):
    """An optional package is not installed; the message names the command that installs it."""


class DeviceError(GsvcError, RuntimeError):
    """The compute device that was asked for is not available."""


_Made = TypeVar("_Made")
_Thing = TypeVar("_Thing", bound=Callable[..., Any])
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "str": "text",
    "bytes": "bytes",
    "Path": "a path",
    "BinaryIO": "a file opened in binary",
    "ndarray": "an array",
    "NoneType": "None",
    "Callable": "a function",
    "Iterable": "an iterable",
    "AsyncIterable": "an asynchronous iterable",
    "Fraction": "a Fraction, such as Fraction(60000, 1001)",
    "Frame": "a Frame, which Frame(array, pts) makes of an array",
    "Packet": "a Packet, which Packet.from_bytes makes of bytes",
}
"""By the name of the type: NumPy need not be loaded for it."""
_NUMBERS: dict[type, type] = {int: Integral, float: Real, Fraction: Rational}
_PLAIN = str, bytes, bool, int, float, NoneType
_IN_MEMORY = "list", "tuple", "ndarray", "Tensor", "Frame", "Packet", "generator"
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


def sealed(kind: type[_Made]) -> type[_Made]:
    """Have objects of a class refuse attributes that it lacks. Subclasses may add their own.

    A decorator: where mypy sees `__setattr__` in a class, it takes any attribute.
    """
    made: Any = kind
    known = {*dir(kind), *inspect.get_annotations(kind)}
    free = [name for name, one in vars(kind).items() if isinstance(one, property) and one.fset]

    def setting(self: object, name: str, value: object) -> None:
        if type(self) is kind and name not in known and not name.startswith("_"):
            may = f"set {' or '.join(free)}" if free else "its settings are given when it is made"
            raise AttributeError(f"{kind.__name__} has no attribute {name!r}: {may}")
        object.__setattr__(self, name, value)

    made.__setattr__ = setting
    return kind


def check_type(name: str, value: object, wanted: object) -> None:
    """Raise WrongTypeError unless `value` is of the type `wanted`: a class, a union ..."""
    if fits(value, wanted):
        return
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
    kind = type(value).__name__
    what = shown if isinstance(value, bool | NoneType) else f"{shown} ({kind})"
    is_in_memory = BinaryIO in get_args(wanted) and kind in _IN_MEMORY
    aside = "; for frames use Encoder and StreamWriter, for packets Decoder" * is_in_memory
    raise WrongTypeError(f"{name} is {what}: give {_words(wanted)}{aside}")


def fits(value: object, wanted: object) -> bool:
    """Whether a value is of a type. Numbers of NumPy are numbers, and True is none."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if isinstance(wanted, type) and wanted in _NUMBERS:
        return isinstance(value, _NUMBERS[wanted]) and not isinstance(value, bool)
    if wanted is bool:
        return type(value).__name__ == "bool"  # of Python or NumPy
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
            for one, value in given.pop(name, {}).items():
                check_type(one, value, kinds.get(name, Any))
        for name, value in given.items():
            check_type(name, value, kinds.get(name, object))
        own = {name: _plain(value) for name, value in kwargs.items()}
        return function(*map(_plain, args), **own)

    return checking


def _plain(value: Any) -> Any:
    """Python's own number for one of NumPy, which lacks some of its methods."""
    if type(value) is Fraction:
        return Fraction(int(value.numerator), int(value.denominator))
    return value.item() if type(value).__module__ == "numpy" and fits(value, float) else value


def _is_sequence(value: object, inner: tuple[object, ...]) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return False
    if len(inner) == 2 and inner[1] is not ...:
        return len(value) == 2 and all(map(fits, value, inner))
    return not inner or all(fits(one, inner[0]) for one in value)


def _words(wanted: object) -> str:
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
    name = getattr(kind, "__name__", str(kind))
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return _WORDS.get(name) or f"{article} {name}"


@typed
@dataclass(frozen=True)
class Limits:
    """What a stream may ask of its decoder.

    Together they bound the memory that decoding holds and the time that one packet takes. The
    defaults admit all that this version encodes; use `Limits.restrictive()` for untrusted senders.
    """

    pixels: int = 8192 * 4352
    """Pixels of a picture: as in AV1's highest level."""
    side: int = 1 << 14
    """Pixels of a picture's longer side: as in AV1's highest level."""
    frames: int = 1 << 24
    """Frames of a stream."""
    interval: int = 2048
    """Frames that one packet completes."""
    interval_pixels: int = 1 << 33
    """Pixels of all frames that one packet completes: four seconds of the largest, at 60 fps."""
    packet_bytes: int = 1 << 24
    """Bytes of one packet's payload."""
    scaffold_bits: int = 1 << 20
    """Coded bits of one scaffold: entropy coding turns few bytes into very many, and a CPU core
    reads some 500,000 bits a second."""
    held_bytes: int = 1 << 30
    """Bytes held of a whole file: its sound, the packets of a pipe, a list of its packets."""

    @classmethod
    def restrictive(cls) -> Self:
        """For untrusted senders: 1080p, four seconds at 60 fps, packets of 1 MiB."""
        return cls(
            pixels=1920 * 1088,
            side=4096,
            interval=256,
            interval_pixels=1 << 29,
            packet_bytes=1 << 20,
            scaffold_bits=1 << 17,
            held_bytes=1 << 26,
        )

    def longest_interval(self, width: int, height: int) -> int:
        """Frames of this size that one packet may complete."""
        return min(self.interval, self.interval_pixels // (width * height))


DEFAULT_LIMITS = Limits()
BEGINS_IN_THE_MIDDLE = (
    "the stream begins in the middle of another, of which frames are missing: to cut a stream, "
    "decode it from --start and encode that"
)
MAX_UNIT_FRAMES = 9
"""AV1 frames in a coded picture's temporal unit: the shown one, and a hidden one a reference."""
MAX_UNIT_OBUS = 64
"""Open bitstream units of one temporal unit."""


class OneThread:
    """`with` it, one thread is at work at a time. Raises ConfigError for another one meanwhile."""

    def __init__(self, name: str) -> None:
        """`name`: of what is at work."""
        self._name, self._lock = name, Lock()
        self._last: Callable[[], None] | None = None

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            how = "give each thread its own, or let them take turns"
            raise ConfigError(f"this {self._name} is at work in another thread: {how}")

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._last is not None:
            self.end(self._last)

    def end(self, last: Callable[[], None]) -> None:
        """Do the last work: now, or when who is at work is done."""
        self._last = last
        if self._lock.acquire(blocking=False):
            try:
                last()
            finally:
                self._lock.release()


class HasThreads:
    """Something with threads of its own, made again when it is needed next.

    A forked process lacks the threads of its parent, and would wait for them for ever.
    """

    def __init__(self) -> None:
        _with_threads.add(self)

    def let_go(self) -> None:
        """Forget what has threads: the process is about to fork."""
        raise NotImplementedError


_with_threads = WeakSet[HasThreads]()


def _let_go() -> None:
    for one in tuple(_with_threads):
        one.let_go()


if sys.platform != "win32":
    os.register_at_fork(before=_let_go)


class HeldBytes:
    """Counts the bytes that are held of a whole stream."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.held_bytes
        self._size = 0

    def add(self, size: int) -> None:
        """Count `size` bytes before they are kept. Raises LimitError beyond `Limits.held_bytes`."""
        self._size += size
        if self._size > self._most:
            why = f"the stream would take more than {self._most} bytes of memory to hold: split it"
            raise LimitError(why)
