"""What several commands share: arguments, what their text means, and what they show at work."""

import logging
import re
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from gsvc.codec.api import reports
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, ConfigError, Limits
from gsvc.codec.media.output import STANDARD_OUTPUT
from gsvc.codec.media.places import STANDARD_INPUT, is_container, is_glob

if TYPE_CHECKING:
    from gsvc.codec.api.decoder_settings import DecoderSettings
    from gsvc.codec.api.encoder_settings import EncoderSettings
    from gsvc.codec.media.video_reader import Size

BITRATE = "target rate of the pictures in bit/s: 8000, 8k, 0.5M"
_SUFFIXES = {"": 1, "k": 1000, "m": 1_000_000}

_Settings = TypeVar("_Settings")


def settings_of(kind: type[_Settings], options: Namespace, **others: object) -> _Settings:
    """A settings dataclass, of the options that are named as its fields and of `others`."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    given = {name: value for name, value in vars(options).items() if name in names}
    return kind(**{**given, **others})


def add_paths(parser: ArgumentParser, source: str, target: str) -> None:
    """IN, and OUT behind it or as -o; `source` and `target` describe them."""
    parser.add_argument("source", metavar="IN", help=source)
    parser.add_argument("target", metavar="OUT", nargs="?", help=target)
    parser.add_argument("others", nargs="*", help=SUPPRESS)  # for `target_of` to refuse
    parser.add_argument("-o", dest="output", metavar="OUT", help="OUT as an option")


def add_gop(parser: ArgumentParser) -> None:
    """--gop."""
    longest = "longest time between intra pictures; 0: one for each shot (files 32, live 4)"
    parser.add_argument("--gop", type=float, metavar="S", help=longest)


def given_target(options: Namespace) -> str | None:
    """The output of `add_paths`; None: it is to be named after the input."""
    given: str | None = options.target or options.output
    if given in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        return STANDARD_OUTPUT
    return STANDARD_OUTPUT if given is None and options.source == STANDARD_INPUT else given


def target_of(options: Namespace, suffix: str) -> str:
    """The output of `add_paths`: as given, else - for -, else beside the input."""
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


def add_level(parser: ArgumentParser, defaults: "EncoderSettings") -> None:
    """--level, --preset and --tune."""
    from gsvc.encoders.tuning import PRESETS, TUNES

    add = parser.add_argument
    usual = "quality level; higher is better and larger (1, or chosen by the rate)"
    add("--level", type=int, default=defaults.level, metavar="0..3", help=usual)
    names = "|".join(PRESETS)
    help = "encoding effort: slower saves bits (%(default)s)"
    add("--preset", default=defaults.preset, metavar=names, help=help)
    names = "|".join(TUNES)
    add("--tune", default=defaults.tune, metavar=names, help="what to favour (%(default)s)")


def add_part(parser: ArgumentParser, verb: str) -> None:
    """--start and --frames: what part of the input to `verb`."""
    add = parser.add_argument
    begin = "start at this time of the input: 90 or 1:30"
    add("--start", type=time, default=0.0, metavar="TIME", help=begin)
    add("--frames", type=int, metavar="N", help=f"{verb} at most N frames")


def add_refiner(parser: ArgumentParser, defaults: "DecoderSettings") -> None:
    """--steps, --backend, --look, --motion, --device and --seed."""
    add = parser.add_argument
    fast = "steps of the refiner: restorer 0 or 1, compact to 8, pretrained to 100 (%(default)s)"
    add("--steps", type=int, default=defaults.steps, metavar="0|1|2|4|8", help=fast)
    kinds = (
        "refiner: restorer (default); compact:nano, compact:small or compact:base, each slower; a "
        ".safetensors file of gsvc train; a pretrained model for a GPU (gsvc models list); or your "
        "own module:Class"
    )
    add("--backend", default=defaults.backend, metavar="NAME|FILE|CLASS", help=kinds)
    drawn = "how much texture the restorer adds (%(default)s)"
    add("--look", default=defaults.look, metavar="faithful|balanced|sharp", help=drawn)
    between = "motion estimator; rife is a network, better and slower (%(default)s)"
    add("--motion", default=defaults.motion, metavar="dis|rife", help=between)
    add_device(parser, defaults.device)
    own = "seed of the refiner (the stream's)"
    add("--seed", type=int, default=defaults.seed, metavar="0..65535", help=own)


def add_pretrained(parser: ArgumentParser) -> None:
    """Options of pretrained back ends, from --cache to --resume."""
    group = parser.add_argument_group("pretrained models")
    add = group.add_argument
    steps = "reuse work between steps: first-block, mag, faster or taylorseer"
    add("--cache", metavar="NAME[:N]", help=steps)
    latents = "folder of latents to reuse for similar windows, of at most SIZE (2G)"
    add("--latent-cache", metavar="FOLDER[:SIZE]", help=latents)
    memory = "limit of GPU memory, or a mode: whole, offload, groups, fp8 (all free memory)"
    add("--vram", metavar="8G", help=memory)
    add("--quantize", choices=("int8",), help="8-bit weights: half the memory, changes pictures")
    add("--paste-keys", action="store_true", help="show coded pictures as decoded")
    kept = "folder of finished windows, to continue after an interruption"
    add("--resume", metavar="FOLDER", help=kept)


def add_device(parser: ArgumentParser, default: str) -> None:
    """--device."""
    parser.add_argument("--device", default=default, help="cpu, cuda or cuda:N (%(default)s)")


_FLAGS = {
    "-y": "overwrite an existing output",
    "--quiet": "show only errors",
    "--untrusted": "restrictive limits, for streams from strangers: at most 1080p, small packets",
    "--conceal": "continue after damage, and conceal missing frames",
    "--deinterlace": "deinterlace the video",
    "--events-only": "send pictures only while something moves",
}
"""Options without a value that several commands have, with their help."""


def add_flags(parser: ArgumentParser, *names: str) -> None:
    """Some of `_FLAGS`; `limits_of` reads --untrusted."""
    for name in names:
        more: dict[str, Any] = {"dest": "overwrite"} if name == "-y" else {}
        short = ["-q"] if name == "--quiet" else []
        parser.add_argument(name, *short, action="store_true", help=_FLAGS[name], **more)


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


def add_json(parser: Any, what: str = "") -> None:
    """--json; `what` it shows."""
    parser.add_argument("--json", action="store_true", help=f"{what}one JSON object a line")


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


def add_size(parser: ArgumentParser, more: str = "") -> None:
    """--size; `more` of its help."""
    least = "scale down to this shorter side or into WxH; auto: choose size and frame rate by the "
    least += f"rate; source: never scale (source, or auto if the rate is far too low){more}"
    parser.add_argument("--size", type=picture_size, metavar="LINES|WxH|auto", help=least)


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
