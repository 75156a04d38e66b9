"""What several commands share: their options, what these mean, and what commands show at work."""

import logging
import re
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TextIO, TypeVar

from gsvc.codec.api import reports
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, ConfigError, Limits
from gsvc.codec.media.output import STANDARD_OUTPUT
from gsvc.codec.media.places import STANDARD_INPUT, is_container, is_glob

if TYPE_CHECKING:
    from gsvc.codec.media.video_reader import Size

_SUFFIXES = {"": 1, "k": 1000, "m": 1_000_000}

_Settings = TypeVar("_Settings")


def settings_of(kind: type[_Settings], options: Namespace, **others: object) -> _Settings:
    """A settings dataclass, of the options that are named as its fields and of `others`."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    given = {name: value for name, value in vars(options).items() if name in names}
    return kind(**{**given, **others})


def given_target(options: Namespace) -> str | None:
    """The output of IN, OUT and -o; None: it is to be named after the input."""
    given: str | None = options.target or options.output
    if given in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        return STANDARD_OUTPUT
    return STANDARD_OUTPUT if given is None and options.source == STANDARD_INPUT else given


def target_of(options: Namespace, suffix: str) -> str:
    """The output of IN, OUT and -o: as given, else - for -, else beside the input."""
    if options.others:
        has_folder = hasattr(options, "out")
        several = "; encode several videos with --out FOLDER" if has_folder else "; one by one"
        raise ConfigError(
            f"{2 + len(options.others)} names, but gsvc {options.command} takes one input and one "
            f"output: quote a pattern of images ('in/*.png'){several}"
        )
    if options.target is not None and options.output is not None:
        raise ConfigError(f"two outputs: {options.target} and {options.output}: give one of them")
    given = given_target(options)
    if given is not None:
        return given
    if is_glob(options.source) or "://" in options.source:
        raise ConfigError(f"{options.source}: say where to write to with -o")
    if not Path(options.source).name:
        raise ConfigError(f"{options.source} is a folder: name a file in it")
    return str(Path(options.source).with_suffix(suffix))


def limits_of(options: Namespace) -> Limits:
    """What a stream may ask for."""
    if not options.untrusted:
        return DEFAULT_LIMITS
    source = getattr(options, "source", STANDARD_INPUT)
    if is_container(source):
        raise ConfigError(
            f"{source}: --untrusted reads streams alone, and FFmpeg would open this: "
            "run gsvc demux in a sandbox first"
        )
    return Limits.restrictive()


def integers(text: str) -> list[int]:
    """Several whole numbers from text such as 0,1,4."""
    if re.fullmatch(r"\d+(,\d+)*", text) is None:
        raise ArgumentTypeError(f"{text!r}: write whole numbers as 0,1,4")
    return [int(part) for part in text.split(",")]


def bitrate(text: str) -> float:
    """Bits per second from text such as 8000, 8k or 0.5M."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)([kKmM]?)", text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is no bit rate: write 8000, 8k or 0.5M")
    return float(match[1]) * _SUFFIXES[match[2].lower()]


def size(text: str) -> int:
    """Bytes from text such as 500000, 500kB or 1.5MiB."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?(?:([kmg])(i?))?b?", text.lower())
    if match is None:
        raise ArgumentTypeError(f"{text!r} is no size: write 500000, 500kB or 1.5MB")
    unit = 1024 if match[3] else 1000
    return round(float(match[1]) * float(unit) ** " kmg".index(match[2] or " "))


def picture_size(text: str) -> int | tuple[int, int] | str:
    """The size of pictures from 288, 512x288, auto or source."""
    if text in ("auto", "source"):
        return text
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is no size: write 288, 512x288, auto or source")
    return (int(match[1]), int(match[2])) if match[2] else int(match[1])


def shown_dimensions(size: "Size | str") -> str:
    """As `picture_size` reads it."""
    return f"{size[0]}x{size[1]}" if isinstance(size, tuple) else str(size)


def shown_size(count: float) -> str:
    """Bytes for people: 812 bytes, 31.4 kB, 20.1 MB."""
    for unit, power in (("MB", 2), ("kB", 1)):
        if count >= 999.5**power:
            return f"{count / 1000**power:.3g} {unit}"
    return f"{count:.0f} bytes"


def time(text: str) -> float:
    """Seconds from text such as 90, 1:30 or 0:01:30."""
    try:
        return reports.parsed_time(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time: write 90, 1:30 or 0:01:30") from None


def frame_rate(text: str) -> float:
    """Frames per second from text such as 25, 23.976 or 30000/1001."""
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        raise ArgumentTypeError(f"{text!r} is no frame rate: write 25 or 30000/1001") from None


_LINE_SECONDS = 0.1


class ProgressLine:
    """One line on a terminal, written over and over, and taken away at the end."""

    def __init__(self, file: TextIO, verb: str) -> None:
        self._file, self._verb = file, verb
        self._began = monotonic()
        self._shown: float | None = None

    def __call__(self, progress: reports.Progress) -> None:
        now = monotonic()
        if self._shown is not None and now - self._shown < _LINE_SECONDS:
            return
        self._shown = now
        reports.write_over(self._file, self._text(progress, now - self._began))

    def clear(self) -> None:
        """Leave the line empty for what comes after."""
        if self._shown is not None:
            reports.write_over(self._file)

    def _text(self, progress: reports.Progress, elapsed: float) -> str:
        of = "" if progress.total is None else f"/{progress.total}"
        done = int(progress.frames + progress.under_way)
        rate = done / elapsed if elapsed > 0 else 0.0
        text = f"{self._verb} frame {done}{of}, {rate:.1f} frames/s"
        left = reports.seconds_left(done, progress.total, elapsed)
        if left is not None:
            text += f", {reports.shown_time(round(left))} left"
        return text


def json_lines(options: Namespace) -> reports.JsonLines:
    """JSON goes to standard output, or to standard error where that carries the stream or video."""
    carries_data = "target" in options and given_target(options) == STANDARD_OUTPUT
    return reports.JsonLines(sys.stderr if carries_data else sys.stdout)


def tell_event(options: Namespace, event: str, **values: object) -> None:
    """What a long job came to: a JSON object, or a line of names and values."""
    if options.json:
        json_lines(options).put(event, **values)
    else:
        print(event, *(f"{name} {value}" for name, value in values.items()), flush=True)


def has_watcher(options: Namespace) -> bool:
    """Whether somebody sits at a terminal and wants to be told."""
    return sys.stderr is not None and sys.stderr.isatty() and not options.quiet


def tell_result(options: Namespace, line: str) -> None:
    """The closing line: into a log too, for it has the figures that were asked for."""
    if sys.stderr is not None and not options.quiet:
        print(line, file=sys.stderr)


def say(options: Namespace, line: str) -> None:
    """Write over the line on a terminal."""
    if has_watcher(options):
        reports.write_over(sys.stderr, line)


@contextmanager
def without_warnings(quiet: bool) -> Iterator[None]:
    """Keep warnings back, if `quiet`."""
    log = logging.getLogger("gsvc")
    level = log.level
    log.setLevel(logging.ERROR if quiet else level)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def shown_progress(options: Namespace, verb: str) -> Iterator[reports.Report | None]:
    """What to tell progress to, as --json, --quiet and the terminal want it; None: nobody looks."""
    with without_warnings(options.quiet), _progress(options, verb) as progress:
        yield progress


@contextmanager
def _progress(options: Namespace, verb: str) -> Iterator[reports.Report | None]:
    if options.json and not options.quiet:
        yield json_lines(options)
    elif not has_watcher(options):
        yield None
    else:
        line = ProgressLine(sys.stderr, verb)
        try:
            yield line
        finally:
            line.clear()
