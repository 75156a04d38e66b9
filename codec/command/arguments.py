"""What commands share: how they declare options, what these mean, and what they show at work.

A command declares its options as `gsvc COMMAND --help` shows them, a line each:

    source IN               the video
    target [OUT]            of one or none; [CLIP...] of any number, CLIP... of one or more
    --jobs -j N             videos at a time (=1)
    --audio {opus,none}     one of these
    --metric +NAME          may be repeated
    --out RUN!              must be given
    --timeout S -> silence  read as `options.silence`; `-> not feedback` is a flag that sets False
    --[no-]faces            a switch
    | --bpp BPP             excludes the other lines with a bar; with ! instead, one must be given
    -y --quiet              only named: as `SHARED` declares them

A line that begins with a space goes on; one in brackets, [pretrained models], begins a group. A
value is of the type of its name in `_TYPES`, or of the command's own `TYPES`. "(=1)" is the default
and shows as "(1)"; other defaults come from the command's `DEFAULTS`.
"""

import argparse
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from inspect import signature
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from gsvc.codec.api import reports
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, ConfigError, Limits, one_line
from gsvc.codec.media.output import STANDARD_OUTPUT
from gsvc.codec.media.places import STANDARD_INPUT, is_container, is_glob

if TYPE_CHECKING:
    from gsvc.codec.media.video_reader import Size

_SUFFIXES = {"": 1, "k": 1000, "m": 1_000_000}

_Made = TypeVar("_Made")


def with_options(
    function: Callable[..., _Made], options: argparse.Namespace, *given: object, **others: object
) -> _Made:
    """Call a function, or make a dataclass, with the options that are named as its arguments.

    `given`: its first arguments; `others`: those that no option tells.
    """
    names = [*signature(function).parameters][len(given) :]
    told = {name: value for name, value in vars(options).items() if name in names}
    return function(*given, **{**told, **others})


def given_target(options: argparse.Namespace) -> str | None:
    """The output of IN, OUT and -o; None: it is to be named after the input."""
    given: str | None = options.target or options.output
    if given in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        return STANDARD_OUTPUT
    return STANDARD_OUTPUT if given is None and options.source == STANDARD_INPUT else given


def target_of(options: argparse.Namespace, suffix: str) -> str:
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


def limits_of(options: argparse.Namespace) -> Limits:
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


def share(text: str) -> float:
    """A share from text such as 10% or 0.1."""
    match = re.fullmatch(r"(0?\.\d+|0)|(\d\d?(?:\.\d+)?) ?%", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: write 10% or 0.1")
    return float(match[1] or float(match[2]) / 100)


def integers(text: str) -> list[int]:
    """Several whole numbers from text such as 0,1,4."""
    if re.fullmatch(r"\d+(,\d+)*", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write whole numbers as 0,1,4")
    return [int(part) for part in text.split(",")]


def bitrate(text: str) -> float:
    """Bits per second from text such as 8000, 8k or 0.5M."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?([kKmM]?)(?:bit/s|bps|bit)?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no bit rate: write 8000, 8k or 0.5M")
    return float(match[1]) * _SUFFIXES[match[2].lower()]


def size(text: str) -> int:
    """Bytes from text such as 500000, 500kB or 1.5MiB."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?(?:([kmg])(i?))?b?", text.lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 500000, 500kB or 1.5MB")
    unit = 1024 if match[3] else 1000
    return round(float(match[1]) * float(unit) ** " kmg".index(match[2] or " "))


def picture_size(text: str) -> int | tuple[int, int] | str:
    """The size of pictures from 288, 512x288, auto or source."""
    if text in ("auto", "source"):
        return text
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 288, 512x288, auto or source")
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
        why = f"{text!r} is no time: write 90, 1:30 or 0:01:30"
        raise argparse.ArgumentTypeError(why) from None


def frame_rate(text: str) -> float:
    """Frames per second from text such as 25, 23.976 or 30000/1001."""
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        why = f"{text!r} is no frame rate: write 25 or 30000/1001"
        raise argparse.ArgumentTypeError(why) from None


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


def json_lines(options: argparse.Namespace) -> reports.JsonLines:
    """JSON goes to standard output, or to standard error where that carries the stream or video."""
    carries_data = "target" in options and given_target(options) == STANDARD_OUTPUT
    return reports.JsonLines(sys.stderr if carries_data else sys.stdout)


def tell_event(options: argparse.Namespace, event: str, **values: object) -> None:
    """What a long job came to: a JSON object, or a line of names and values."""
    if options.json:
        json_lines(options).put(event, **values)
    else:
        print(event, *(f"{name} {value}" for name, value in values.items()), flush=True)


def tell_done(options: argparse.Namespace, line: str, **values: object) -> None:
    """What a command came to: a JSON object, or a line at a terminal."""
    if options.json:
        json_lines(options).put("done", **values)
    elif has_watcher(options):
        print(one_line(line), file=sys.stderr)


def has_watcher(options: argparse.Namespace) -> bool:
    """Whether somebody sits at a terminal and wants to be told."""
    return sys.stderr is not None and sys.stderr.isatty() and not options.quiet


def begin(options: argparse.Namespace, line: str) -> None:
    """What a job begins with that may take minutes; into a log too."""
    if not (options.quiet or options.json):
        print(one_line(line), file=sys.stderr, flush=True)


def say(options: argparse.Namespace, line: str) -> None:
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
def shown_progress(options: argparse.Namespace, verb: str) -> Iterator[reports.Report | None]:
    """What to tell progress to, as --json, --quiet and the terminal want it; None: nobody looks."""
    with without_warnings(options.quiet):
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


SHARED = """
others [OTHER...]       SUPPRESS
-o OUT -> output        OUT as an option
-y -> overwrite         overwrite an existing output
--quiet -q              show only errors
--json                  one JSON object a line
--untrusted             restrictive limits, for streams from strangers: at most 1080p, small packets
--conceal               continue after damage, and conceal missing frames
--start TIME            start at this time of the input: 90 or 1:30
--level 0..3            quality level; higher is better and larger (1, or chosen by the rate)
--preset fast|medium|slow  encoding effort: slower saves bits (%(default)s)
--tune balanced|texture|motion  what to favour (%(default)s)
--bitrate RATE          target rate of the pictures in bit/s: 8000, 8k, 0.5M
--gop S                 longest time between intra pictures; 0: one for each shot (files 32; live 4,
                        or only on request if receivers can ask)
--fps N                 at most N frames a second
--size LINES|WxH|auto   scale down to this shorter side or into WxH; auto: choose size and frame
                        rate by the rate; source: never scale (source, or auto if the rate is far
                        too low, or live below 8k)
--deinterlace           deinterlace the video
--events-only           send pictures only while something moves
--steps N               steps of the refiner: restorer 0 or 1, compact 0, 1, 2, 4 or 8, pretrained
                        0 to 100 (%(default)s)
--backend NAME|FILE|CLASS  refiner: restorer (default); compact:nano, compact:small or compact:base,
                        each slower; a .safetensors file of gsvc train; a pretrained model for a GPU
                        (gsvc models list); or your own module:Class
--look faithful|balanced|sharp  how much texture the restorer adds (%(default)s)
--motion dis|rife       motion estimator; rife is a network, better and slower (%(default)s)
--device DEVICE         cpu, cuda or cuda:N (=cpu)
--seed 0..65535         seed of the refiner (the stream's)
"""
"""Options that several commands have."""
_USUAL = argparse.Namespace(start=0.0)  # their defaults that the help does not tell

_TYPES: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(("N", "0..3", "0..65535", "8k+1", "PORT"), int),
    **dict.fromkeys(("BPP", "D", "S", "SECONDS", "MS", "M", "L", "MB", "W", "T", "FACTOR"), float),
    **dict.fromkeys(("0..1", "1..8", "GB"), float),
    "RATE": bitrate,
    "SIZE": size,
    "N,N": integers,
    "SHARE": share,
    "LINES|WxH|auto": picture_size,
    "--start": time,
    "--fps": frame_rate,
}
"""Of a value, by its name or by the option's; of others it is text."""
_LINE = re.compile(
    r"(?P<mark>[|!] )?(?P<names>-[^\s>]\S*(?: -[^\s>]\S*)*|\w+)(?: (?P<value>[^\s-]\S*))?"
    r"(?: -> (?P<no>not )?(?P<dest>\w+))?(?: {2,}(?P<help>.+))?"
)
_DEFAULT = re.compile(r"\(=(.*)\)$")


def add_options(
    parser: argparse.ArgumentParser,
    table: str,
    defaults: Sequence[object] = (),
    types: Mapping[str, Callable[[str], object]] | None = None,
) -> None:
    """Give a parser the options of a table.

    `defaults`: values whose attributes are the defaults of options of the same name; `types`: how
    text is read, by the value's name or by the option's, before `_TYPES`.
    """
    into: Any = parser
    groups: dict[str, Any] = {}
    for line in _lines(table):
        if line.startswith("["):
            into = parser.add_argument_group(line.strip("[]"))
            continue
        match = _LINE.fullmatch(line)
        assert match is not None, line
        mark = match["mark"]
        if mark and mark not in groups:
            groups[mark] = parser.add_mutually_exclusive_group(required=mark == "! ")
        group = groups[mark] if mark else into
        _add(group.add_argument, match, defaults, {**_TYPES, **(types or {})})


def _whole(table: str) -> list[str]:
    """The options of a table, each in a line."""
    return [line for line in re.sub(r"\n +", " ", table).splitlines() if line]


_SHARED = {line.split()[0]: line for line in _whole(SHARED)}


def _lines(table: str) -> Iterator[str]:
    """The options of a table, those that are only named as they are shared."""
    for line in _whole(table):
        names = line.split()
        yield from [_SHARED[name] for name in names] if _SHARED.keys() >= {*names} else [line]


def _add(
    add: Callable[..., argparse.Action],
    match: re.Match[str],
    defaults: Sequence[object],
    types: Mapping[str, Callable[[str], object]],
) -> None:
    names, value, text = match["names"].split(), match["value"], match["help"]
    dest = match["dest"] or names[0].strip("-").replace("[no-]", "").replace("-", "_")
    own = next((getattr(one, dest) for one in (*defaults, _USUAL) if hasattr(one, dest)), None)
    more: dict[str, Any] = {"help": argparse.SUPPRESS if text == "SUPPRESS" else text}
    if is_option := names[0].startswith("-"):
        more["dest"] = dest
    if "[no-]" in names[0]:
        names = [names[0].replace("[no-]", "")]
        more |= {"action": argparse.BooleanOptionalAction, "default": own}
    elif value is None:
        more["action"] = "store_false" if match["no"] else "store_true"
    else:
        more |= _of_value(value)
        more["type"] = types.get(names[0]) or types.get(str(more.get("metavar"))) or str
        several = more.get("nargs") in ("*", "+") or "action" in more
        if own is not None or (several and is_option):
            more["default"] = [] if own is None else own
        if given := _DEFAULT.search(text or ""):
            shown, read = given[1], more["type"]
            more["default"] = [*map(read, shown.split())] if several else read(shown)
            more["help"] = _DEFAULT.sub(f"({shown})", text)
    add(*names, **more)


def _of_value(value: str) -> dict[str, Any]:
    """What a value's form says: how many there are, and which."""
    found: dict[str, Any] = {}
    if value.endswith("!"):
        value, found["required"] = value[:-1], True
    if value.startswith("+"):
        value, found["action"] = value[1:], "append"
    elif value.startswith("[") and value.endswith("]"):
        value, found["nargs"] = value[1:-1], "?"
        if value.endswith("..."):
            value, found["nargs"] = value[:-3], "*"
    elif value.endswith("..."):
        value, found["nargs"] = value[:-3], "+"
    if value.startswith("{"):
        found["choices"] = tuple(value.strip("{}").split(","))
    else:
        found["metavar"] = value
    return found
