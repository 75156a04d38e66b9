"""Prediction: what settings would come to for a video, with intervals.

Rate and quality follow the video's own trial, by numbers fitted to development clips
(`fitted.json`, made by `python tools/planning_fit.py`); time and memory follow the machine's
profile; operations are counted. After each planned job the truth is logged beside what was
foretold, and the log corrects what is foretold next.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, hypot, log
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.media.output import explain_failure
from gsvc.codec.planning.machine_profile import WAYS, Profile, ResourceUsage, Way, packaged
from gsvc.codec.planning.video_trial import VideoTrial
from gsvc.codec.weights.model_files import cache_dir
from gsvc.encoders.tuning import LEVELS, LIVE_GOP


class Range(NamedTuple):
    """A prediction, and the ends of the interval that holds 90 % of what was measured."""

    low: float
    mean: float
    high: float


class QualityModel:
    """Foretells both judges for one video."""

    def __init__(self, trial: VideoTrial, fitted: Mapping[str, Any]) -> None:
        """`fitted`: as of `gsvc.codec.planning.prediction.shipped`."""
        self._trial, self._fit = trial, fitted
        self.is_judged = all(point.jod is not None for point in trial.points)
        """Whether CVVDP is measured in the trial, not foretold from likeness alone."""

    def jod(self, bpp: float, preset: str, way: Way) -> Range:
        """ColorVideoVDP at so many bits per pixel, in JOD."""
        line = self._fit["jod_of_trial" if self.is_judged else "jod"]
        seen = seen_at(self._trial, "jod" if self.is_judged else "likeness", bpp)
        mean = line["offset"] + line["slope"] * seen + self._change("jod", preset, way)
        apart = self._trial.jod_apart
        if not self.is_judged:
            apart = line["slope"] * self._trial.likeness_apart
        error = hypot(line["error"], apart)
        return Range(*(min(10.0, mean + one) for one in (-error, 0.0, error)))

    def texture(self, bpp: float, preset: str, way: Way) -> Range:
        """ST-LPIPS VGG, from 0, lower is better."""
        line, seen = self._fit["texture"], seen_at(self._trial, "likeness", bpp)
        mean = line["offset"] + line["slope"] * seen + line["rate"] * log(bpp)
        mean += self._change("texture", preset, way)
        error = hypot(line["error"], line["slope"] * self._trial.likeness_apart)
        return Range(*(exp(mean + one) for one in (-error, 0.0, error)))

    def _change(self, quality: str, preset: str, way: Way) -> float:
        """By a way to decode and by a preset, beside plain decoding and preset medium."""
        changes = self._fit["ways"][way.name], self._fit["presets"][preset]
        return float(sum(change[quality] for change in changes))


def seen_at(trial: VideoTrial, name: str, bpp: float) -> float:
    """What a trial saw in the field `name` of its points, between these; quality never falls."""
    logs = np.log([point.bpp for point in trial.points])
    values = [getattr(point, name) for point in trial.points]
    if name in ("jod", "likeness"):
        values = list(np.maximum.accumulate(values))
    return float(np.interp(log(bpp), logs, values))


_LIVE = {"fast": 1.0, "medium": 2.0, "slow": 7.0}
"""Seconds of encoding without look-ahead, in proportion to its trial's: medians of seven
development clips, 121 frames of 288 lines. The rate hardly changes them: nothing is searched."""
_FEW_KEYS = 0.03
"""Added to coded pictures in a frame: of none at all, search and drawing still take time."""


def seen_work(times: float, keys: float, bpp: float) -> list[float]:
    """Of encoding to a rate, what the logarithm of its time is linear in: 1; the logarithm of the
    trial's time in units, seconds per pixel of a frame that preset fast takes of a profile's video;
    that of its coded pictures in a frame; and that of the rate in bits per pixel."""
    return [1.0, log(max(times, 1e-3)), log(keys + _FEW_KEYS), log(bpp)]


ENOUGH = 3
"""Jobs from which a median is taken."""
_SHIPPED = 6  # how many jobs the shipped interval counts for


def learned(fitted: Mapping[str, Any], ratios: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The numbers with times and intervals corrected by `ratios`, as of `ledger.ratios`."""
    presets = {}
    for name, one in fitted["presets"].items():
        logged = ratios.get(f"encode_seconds {name}", ())
        time = float(np.median(logged)) if len(logged) >= ENOUGH else one["time"]
        presets[name] = {**one, "time": time}
    spread = {name: _spread(name, ends, ratios, presets) for name, ends in fitted["spread"].items()}
    return {**fitted, "presets": presets, "spread": spread}


def raw(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """The same numbers without what jobs taught: what they are compared with."""
    presets = {name: {**one, "time": 1.0} for name, one in fitted["presets"].items()}
    spread = dict.fromkeys(fitted["spread"], (1.0, 1.0, 1.0))
    return {**fitted, "presets": presets, "spread": spread}


def _spread(
    name: str,
    shipped: Sequence[float],
    ratios: Mapping[str, Sequence[float]],
    presets: Mapping[str, Any],
) -> list[float]:
    """Of the truth over what is foretold: the ends of 90 % of it, and its median between them. Few
    jobs say little of the ends: those that are shipped count too."""
    logged = np.log(list(ratios.get(name, ())))
    if name == "encode_seconds":  # the presets' own medians are in their times
        logged = np.log(
            [r / one["time"] for p, one in presets.items() for r in ratios.get(f"{name} {p}", ())]
        )
    if len(logged) < ENOUGH:
        return list(shipped)
    low, middle, high = (float(q) for q in np.quantile(logged, (0.05, 0.5, 0.95)))
    share = len(logged) / (len(logged) + _SHIPPED)
    below, above = np.log(shipped[1] / shipped[0]), np.log(shipped[2] / shipped[1])
    ends = (
        middle - (share * (middle - low) + (1 - share) * below),
        middle,
        middle + share * (high - middle) + (1 - share) * above,
    )
    return [float(np.exp(end)) for end in ends]


@dataclass(frozen=True)
class Truth:
    """One number of a job that is done."""

    predicted: Range
    """What was foretold."""
    raw: float
    """The same before it was corrected by earlier jobs: what a correction is fitted to."""
    measured: float
    """What came."""


def log_path() -> Path:
    """Where the cache keeps the log: a JSON object a line."""
    return cache_dir() / "predictions.jsonl"


def note(job: str, truth: Mapping[str, Truth], path: Path | None = None) -> None:
    """Add a job to the log. Raises OutputError."""
    path = path or log_path()
    line = json.dumps({"job": job, "numbers": {name: asdict(one) for name, one in truth.items()}})
    with explain_failure(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(line + "\n")


def ratios(paths: Sequence[Path], without: str = "") -> dict[str, list[float]]:
    """By name, what was measured over its raw prediction, of all jobs in these logs but those whose
    name begins with `without`. Raises ConfigError for a file that is no such log."""
    found: dict[str, list[float]] = {}
    for path in paths:
        try:
            for line in map(json.loads, path.read_text().splitlines()):
                if without and line["job"].startswith(without):
                    continue
                for name, one in line["numbers"].items():
                    found.setdefault(name, []).append(one["measured"] / one["raw"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is no log of predictions: {error}") from error
    return found


_HELD, _ALL_CODED = 1.8, 0.5
"""Coded pictures of a trial up to which one alone may be held, and coded pictures in a frame from
which other presets may code all: of 108 encodings of development clips two others drew nothing."""


@dataclass(frozen=True)
class PlanSettings:
    """What a plan decides."""

    bitrate: float
    """Bits per second asked for."""
    preset: str
    """The encoder's."""
    low_delay: bool
    """Whether it codes without look-ahead."""
    way: Way
    """How to decode."""
    low_memory: bool = False
    """Whether the encoder holds less memory, for more time; see `EncoderSettings`."""
    gop: float = LIVE_GOP
    """Seconds from one intra picture to the next, at most."""


@dataclass(frozen=True)
class Prediction:
    """What settings would come to."""

    bitrate: Range
    """Bits per second."""
    jod: Range
    """ColorVideoVDP, in JOD: 10 is perfect."""
    texture: Range
    """ST-LPIPS VGG, from 0, lower is better."""
    encode_seconds: Range
    """Of the whole video on this machine."""
    decode_seconds: Range
    """Of the whole video on the receiver's machine, the file written."""
    encode_memory: Range
    """Bytes of the encoder's process at the peak."""
    decode_memory: Range
    """Bytes of the decoder's process at the peak."""
    flops: float
    """Of the decoder's networks, for each second of video; counted."""
    latency: float
    """Seconds from a frame's capture to its showing, the network's own aside."""
    joules: float | None
    """Encoding and decoding; None where power is neither measured nor stated."""


class Predictor:
    """Foretells for one video on given machines."""

    def __init__(
        self,
        trial: VideoTrial,
        profile: Profile,
        receiver: Profile | None = None,
        *,
        watts: float | None = None,
        fitted: Mapping[str, Any] | None = None,
    ) -> None:
        """`receiver`: of who decodes, if not this machine; `watts`: stated power while computing;
        `fitted`: numbers in place of those that gsvc ships."""
        self.trial, self._sender, self._receiver = trial, profile, receiver or profile
        self._watts, self._fit = watts, fitted or shipped()
        self._quality = QualityModel(trial, self._fit)
        self.is_judged = self._quality.is_judged
        bpps = [point.bpp for point in trial.points]
        self.rates = bpps[0] * trial.pixels * trial.rate, bpps[-1] * trial.pixels * trial.rate
        """Least and most bits per second that the trial saw; the model reaches no further."""

    @property
    def uncorrected(self) -> "Predictor":
        """The same without what jobs taught: what the log of predictions compares with."""
        return Predictor(
            self.trial, self._sender, self._receiver, watts=self._watts, fitted=raw(self._fit)
        )

    def ways_at(self, bitrate: float) -> list[str]:
        """Names of the ways to decode that can be foretold and have something to do at a rate.

        Learned motion does nothing where a single picture is held, or nearly every one is coded:
        a plan's preset places pictures otherwise than the trial's, and may leave nothing to draw.
        """
        keys = seen_at(self.trial, "keys", bitrate / (self.trial.pixels * self.trial.rate))
        draws = keys * self.trial.tried > _HELD and keys < _ALL_CODED
        ways = (name for name in self._receiver.decode if name in self._fit["ways"])
        return [name for name in ways if draws or WAYS[name].motion == Way().motion]

    def predict(self, settings: PlanSettings) -> Prediction:
        """What these settings would come to."""
        trial, bpp = self.trial, settings.bitrate / (self.trial.pixels * self.trial.rate)
        keys, asked = seen_at(trial, "keys", bpp), (bpp, settings.preset, settings.way)
        usage, pixels = self._receiver.decode[settings.way.name], trial.pixels * trial.frames
        taken = decoding_seconds(usage, settings.way, pixels, keys, self._fit)
        encode, decode = self._encode_seconds(settings, bpp), self._spread("decode_seconds", taken)
        return Prediction(
            bitrate=self._spread("rate", settings.bitrate),
            jod=self._quality.jod(*asked),
            texture=self._quality.texture(*asked),
            encode_seconds=encode,
            decode_seconds=decode,
            encode_memory=self._encode_memory(settings),
            decode_memory=self._spread("decode_memory", usage.held(trial.pixels)),
            flops=self._flops(settings.way, keys),
            latency=self._latency(settings, bpp, encode.mean + decode.mean),
            joules=self._joules(settings, encode.mean, decode.mean),
        )

    def _spread(self, name: str, value: float) -> Range:
        return spread_of(self._fit, name, value)

    def _encode_seconds(self, settings: PlanSettings, bpp: float) -> Range:
        trial, preset = self.trial, self._fit["presets"][settings.preset]
        tried = float(np.mean([point.seconds for point in trial.points]))
        if trial.low_delay:
            per_pixel = _LIVE[settings.preset] * tried
        else:
            unit = self._sender.encode["fast"].frame
            work = seen_work(tried / unit, seen_at(trial, "keys", bpp), bpp)
            per_pixel = unit * exp(float(np.dot(preset["seconds"], work)))
        start = self._sender.encode[settings.preset].start
        per_pixel *= preset["low_memory"]["time"] if settings.low_memory else 1.0
        taken = preset["time"] * (start + per_pixel * trial.pixels * trial.frames)
        return self._spread("encode_seconds", taken)

    def _encode_memory(self, settings: PlanSettings) -> Range:
        usage, trial = self._sender.encode[settings.preset], self.trial
        held = 1.0 if settings.low_delay else min(trial.frames, 2 * settings.gop * trial.rate)
        preset = self._fit["presets"][settings.preset]
        share = preset["low_memory"]["memory"] if settings.low_memory else 1.0
        parts = memory_parts(usage, trial.pixels, held)
        total = usage.memory + share * float(np.dot(preset["memory"], parts))
        return self._spread("encode_memory", total)

    def _flops(self, way: Way, keys: float) -> float:
        counted = self._fit["flops"]
        per_pixel = keys * counted[way.backend] if way.backend else 0.0
        per_pixel += (1 - keys) * counted["rife"] if way.motion == "rife" else 0.0
        return float(per_pixel * self.trial.pixels * self.trial.rate)

    def _latency(self, settings: PlanSettings, bpp: float, seconds: float) -> float:
        """Waiting for coded pictures, and the mean computing of a frame at both ends."""
        waits = min(2 * settings.gop, self.trial.frames / self.trial.rate)
        if settings.low_delay:
            waits = LEVELS[sum(bpp > level.usual_bpp for level in LEVELS)].spacing
        return waits + seconds / self.trial.frames

    def _joules(self, settings: PlanSettings, encode: float, decode: float) -> float | None:
        sender = self._sender.encode[settings.preset].watts or self._watts
        receiver = self._receiver.decode[settings.way.name].watts or self._watts
        return None if sender is None or receiver is None else sender * encode + receiver * decode


def spread_of(fitted: Mapping[str, Any], name: str, value: float) -> Range:
    """What is foretold as `value` and its interval, by the fitted numbers."""
    return Range(*(end * value for end in fitted["spread"][name]))


def decoding_seconds(
    usage: ResourceUsage, way: Way, pixels: float, keys: float, fitted: Mapping[str, Any]
) -> float:
    """Of decoding a whole video; `pixels`, `keys`: as of `decoding_parts`."""
    return float(np.dot(fitted["decoding"][kind_of(way)], decoding_parts(usage, way, pixels, keys)))


def decoding_parts(usage: ResourceUsage, way: Way, pixels: float, keys: float) -> list[float]:
    """Seconds of starting, of frames with what is drawn, and of coded pictures, by a profile.

    `pixels`: of all frames; `keys`: coded pictures in a frame. Real video takes its own share of
    each: the profile's moves everywhere. Plainly, a coded picture counts as a drawn one.
    """
    drawn, key = (1 - keys) * usage.drawn, keys * (usage.drawn if way == Way() else usage.key)
    return [usage.start, pixels * (usage.frame + drawn), pixels * key]


def memory_parts(usage: ResourceUsage, pixels: float, held: float) -> list[float]:
    """Bytes of an encoder beside its profile's constant: 1, pixels, and what it holds of frames."""
    return [1.0, pixels, usage.memory_per_pixel * pixels * held]


def kind_of(way: Way) -> str:
    """Of ways to decode, by what they spend their time on."""
    return "refined" if way.backend else "rife" if way.motion == "rife" else "plain"


def shipped() -> Mapping[str, Any]:
    """The numbers that gsvc ships."""
    return cast(Mapping[str, Any], packaged("fitted.json"))


def own_numbers() -> Mapping[str, Any]:
    """The shipped numbers, corrected by this machine's log. Raises ConfigError if damaged."""
    path = log_path()
    return learned(shipped(), ratios([path])) if path.exists() else shipped()
