"""What a planner is asked: budgets as people write them, and the class of a video not there yet.

For a GPU's memory, which pretrained models it holds and how, by counts alone.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from gsvc.codec.bitstream.errors import ConfigError, DeviceError, InputError
from gsvc.codec.weights.extras import need
from gsvc.encoders.tuning import LIVE_GOP

JUDGES = "jod", "texture"
LONG_LATENCY = 2 * LIVE_GOP
"""Seconds from capture to showing with look-ahead: a group, and the next one. Where memory or
latency has a limit a plan keeps groups as short as those that were measured."""
_THOUSANDS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_UNITS: Mapping[str, tuple[Mapping[str, float], str]] = {
    "bandwidth": (_THOUSANDS, "12k or 0.5M bit/s"),
    "decoder_time": ({"x": 1.0, **_SECONDS}, "1x of the video's own time, 90s or 10min"),
    "decoder_flops": (_THOUSANDS, "20G operations for a second of video"),
    "encoder_time": ({"x": 1.0, **_SECONDS}, "5x of the video's own time, 90s or 10min"),
    "memory": (_THOUSANDS, "500M or 4G bytes"),
    "vram": (_THOUSANDS, "8G bytes of a GPU"),
    "latency": (_SECONDS, "400ms or 2s"),
    "energy": ({"J": 1.0, "kJ": 1e3, "Wh": 3600.0}, "500J, 2kJ or 1Wh"),
}
"""Units of each budget, and examples."""


@dataclass(frozen=True)
class Time:
    """A time to keep."""

    value: float
    """Seconds, or a multiple of the video's own time."""
    is_multiple: bool
    """Which of the two."""

    def seconds(self, duration: float) -> float:
        """Of a video of `duration` seconds."""
        return self.value * duration if self.is_multiple else self.value


@dataclass(frozen=True)
class Budgets:
    """What a plan has to keep; None: it is free."""

    bandwidth: float | None = None
    """Bits per second."""
    decoder_time: Time | None = None
    """Of decoding the whole video."""
    decoder_flops: float | None = None
    """Operations of the decoder's networks for each second of video."""
    encoder_time: Time | None = None
    """Of encoding the whole video."""
    memory: float | None = None
    """Bytes of either process."""
    vram: float | None = None
    """Bytes of a GPU: which pretrained models it holds. What is planned needs no GPU."""
    latency: float | None = None
    """Seconds from capture to showing, behind an intra picture too."""
    energy: float | None = None
    """Joules of both processes, and of the radio where one is named."""
    quality: tuple[str, float] | None = None
    """A judge of `JUDGES`, and what it must give: at least for "jod", at most for "texture"."""

    @property
    def given(self) -> list[str]:
        """Names of those that are set."""
        return [field.name for field in fields(self) if getattr(self, field.name) is not None]

    @property
    def is_live(self) -> bool:
        """Whether the video is sent as it comes: look-ahead takes longer."""
        return self.latency is not None and self.latency < LONG_LATENCY


class UnmetError(ConfigError):
    """Nothing keeps the budgets. `more`: these with the bandwidth that it names, if that binds."""

    more: Budgets | None = None


def parse_budgets(texts: Mapping[str, str | None]) -> Budgets:
    """Budgets from their texts by name; None: not given. Raises ConfigError for an unknown name,
    and for what is no positive number with its unit."""
    values: dict[str, object] = {}
    for name, text in ((name, text) for name, text in texts.items() if text is not None):
        if name == "quality":
            values[name] = _quality(text)
        elif name in _UNITS:
            values[name] = _amount(name, text)
        else:
            raise ConfigError(f"no budget {name!r}: there are {', '.join([*_UNITS, 'quality'])}")
    return Budgets(**values)  # type: ignore[arg-type]


def read_budgets(path: str | Path) -> Budgets:
    """Budgets from a TOML file, `bandwidth = "12k"` a line. Raises InputError, ConfigError."""
    try:
        told = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path") from error
    except ValueError as error:
        raise ConfigError(f'{path}: {error}: write a line such as bandwidth = "12k"') from error
    if not told:
        raise ConfigError(f'{path} has no budget: write a line such as bandwidth = "12k"')
    if wrong := [name for name, value in told.items() if not isinstance(value, str)]:
        raise ConfigError(f'{path}: {wrong[0]} is no text: write it with its unit, as "12k"')
    return parse_budgets({name.replace("-", "_"): value for name, value in told.items()})


def time_of(name: str, text: str) -> Time:
    """A time from what was written behind the option `name`. Raises ConfigError."""
    found = _amount("decoder_time", text, name)
    assert isinstance(found, Time)
    return found


def option(name: str) -> str:
    """The name of a budget on the command line."""
    return f"--{name.replace('_', '-')}"


def _amount(name: str, text: str, written: str = "") -> float | Time:
    (units, examples), written = _UNITS[name], written or option(name)
    what = "bit/s|bps|bit" if name == "bandwidth" else "B"
    match = re.fullmatch(rf"\s*(-?\d*\.?\d+)\s*([A-Za-z]*?)(?:{what})?\s*", text)
    if match is None or (match[2] and match[2] not in units):
        raise ConfigError(f"{written} {text!r} is no budget: write {examples}")
    value, unit = float(match[1]), match[2]
    if value <= 0:
        raise ConfigError(f"{written} {text}: a budget is above 0: write {examples}")
    if not unit:
        raise ConfigError(f"{written} {text} has no unit: write {examples}")
    total = value * units[unit]
    return Time(total, unit == "x") if "x" in units else total


def _quality(text: str) -> tuple[str, float]:
    judge, _, number = text.partition(":")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    most = 10.0 if judge == "jod" else 1.0
    if judge not in JUDGES or not 0 < value < most:
        why = f"--quality {text!r}: write jod:6 (10 is perfect) or texture:0.2 (0 is perfect)"
        raise ConfigError(why)
    return judge, value


CLASSES = "talking-head", "surveillance", "sport", "animation", "hand-held", "objects"
"""Names of the classes, each measured on a few development clips."""
_FASTEST, _LONGEST = 1000, 1e9


@dataclass(frozen=True)
class VideoClass:
    """What a video will be. Raises ConfigError for what no video is."""

    name: str
    """Of `CLASSES`."""
    width: int = 512
    """Pixels."""
    height: int = 288
    """Pixels."""
    rate: float = 25.0
    """Frames per second."""
    seconds: float = 60.0
    """Its length."""

    def __post_init__(self) -> None:
        if self.name not in CLASSES:
            raise ConfigError(f"no class {self.name!r}: there are {', '.join(CLASSES)}")
        is_long = self.rate * self.seconds >= 1 and self.seconds <= _LONGEST
        if min(self.width, self.height) < 1 or not (is_long and self.rate <= _FASTEST):
            raise ConfigError(
                f"a video of {self.width}x{self.height}, {self.rate:g} frames/s and "
                f"{self.seconds:g} s: give a size above 0, a frame at least, and at most "
                f"{_FASTEST} frames/s and {_LONGEST:g} s"
            )


WINDOW = 33
"""Frames that go through a model at once."""
WAYS_TO_HOLD = "whole", "offload", "groups"
"""As of `budget.KINDS`, the fastest first."""
_LINES = 720, 480, 288
"""Shorter sides that are tried where nothing is held at the video's own."""


@dataclass(frozen=True)
class HeldModel:
    """A model, and how a GPU's memory holds it."""

    name: str
    """Of the back end."""
    kind: str | None
    """One of `budget.KINDS`: the slower, the less is held; None: it does not fit."""
    memory: int
    """Bytes that it takes: weights counted, the rest estimated; of one too large, the least."""
    weights: int
    """Bytes in bfloat16."""
    steps: int
    """That are usual in restoring."""


def held_within(memory: float, width: int, height: int) -> list[HeldModel]:
    """Every pretrained model within `memory` bytes, for pictures of a size in pixels. Raises
    MissingDependencyError without gsvc[pretrained]."""
    need("pretrained", "--vram")
    from gsvc.decoders.keyframes.pretrained.architectures import ARCHITECTURES
    from gsvc.decoders.keyframes.pretrained.gpu_memory import need_of

    found = []
    for name, form in ARCHITECTURES.items():
        needed = need_of(name, height, width, WINDOW)
        try:
            kind = needed.chosen(int(memory))
        except DeviceError:
            kind = None
        weights = needed.network + needed.others
        found.append(HeldModel(name, kind, needed.of(kind or "groups"), weights, form.steps))
    return found


def preferred(models: Sequence[HeldModel]) -> list[HeldModel]:
    """Those that fit: the fastest way to hold one first, then the largest network."""
    fitting = [model for model in models if model.kind is not None]
    return sorted(fitting, key=lambda model: (WAYS_TO_HOLD.index(model.kind), -model.weights))


def smaller_sizes(width: int, height: int) -> list[tuple[int, int]]:
    """Sizes below the video's, of its shape, the largest first."""
    scales = [lines / min(width, height) for lines in _LINES if lines < min(width, height)]
    return [(2 * round(scale * width / 2), 2 * round(scale * height / 2)) for scale in scales]
