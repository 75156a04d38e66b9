"""The model: what settings would come to for a video, foretold with intervals.

Rate and quality follow the video's own trial, by numbers fitted to development clips
(`fitted.json`, made by `python -m gsvc.eval.planning.fit`); time and memory follow the machine's
profile; operations are counted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp
from typing import Any

import numpy as np

from gsvc.codec.planning.learning import raw
from gsvc.codec.planning.profile import Profile, Usage
from gsvc.codec.planning.quality import Quality, Range, seen_at
from gsvc.codec.planning.trial import Trial
from gsvc.codec.planning.ways import WAYS, Way
from gsvc.codec.planning.work import level_for, work
from gsvc.encoders.tuning import GROUP_SECONDS, LEVELS

LONG_LATENCY = 2 * GROUP_SECONDS
"""Seconds from capture to showing with look-ahead: a group, and the next one."""
_HELD, _ALL_CODED = 1.8, 0.5
"""Coded pictures of a trial up to which one alone may be held, and coded pictures in a frame from
which other presets may code all: of 108 encodings of development clips two others drew nothing."""


@dataclass(frozen=True)
class Settings:
    """What a plan decides."""

    bitrate: float
    """Bits per second asked for."""
    preset: str
    """The encoder's."""
    low_delay: bool
    """Whether it codes without look-ahead."""
    way: Way
    """How to decode."""
    lean: bool = False
    """Whether the encoder holds less memory, for more time; see `EncoderSettings`."""


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


class Model:
    """Foretells for one video on given machines."""

    def __init__(
        self,
        trial: Trial,
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
        self._quality = Quality(trial, self._fit)
        bpps = [point.bpp for point in trial.points]
        self.rates = bpps[0] * trial.pixels * trial.rate, bpps[-1] * trial.pixels * trial.rate
        """Least and most bits per second that the trial saw; the model reaches no further."""

    @property
    def uncorrected(self) -> "Model":
        """The same without what jobs taught: what the log of predictions compares with."""
        return Model(
            self.trial, self._sender, self._receiver, watts=self._watts, fitted=raw(self._fit)
        )

    @property
    def ways(self) -> list[str]:
        """Names of the ways to decode that can be foretold."""
        return [name for name in self._receiver.decode if name in self._fit["ways"]]

    def ways_at(self, bitrate: float) -> list[str]:
        """Those of `ways` that have something to do at a rate.

        Learned motion does nothing where a single picture is held, and where nearly every picture
        is coded: the trial's preset places pictures otherwise than those of a plan, which may
        leave nothing to draw.
        """
        keys = seen_at(self.trial, "keys", bitrate / (self.trial.pixels * self.trial.rate))
        draws = keys * self.trial.tried > _HELD and keys < _ALL_CODED
        return [name for name in self.ways if draws or WAYS[name].motion == Way().motion]

    @property
    def is_judged(self) -> bool:
        """Whether CVVDP is measured in the trial, not foretold from likeness alone."""
        return self._quality.is_judged

    def predict(self, settings: Settings) -> Prediction:
        """What these settings would come to."""
        trial, bpp = self.trial, settings.bitrate / (self.trial.pixels * self.trial.rate)
        keys, asked = seen_at(trial, "keys", bpp), (bpp, settings.preset, settings.way)
        encode, decode = self._encode_seconds(settings, bpp), self._decode_seconds(settings, keys)
        return Prediction(
            bitrate=self._spread("rate", settings.bitrate),
            jod=self._quality.jod(*asked),
            texture=self._quality.texture(*asked),
            encode_seconds=encode,
            decode_seconds=decode,
            encode_memory=self._encode_memory(settings),
            decode_memory=self._decode_memory(settings),
            flops=self._flops(settings.way, keys),
            latency=self._latency(settings, bpp, encode.mean + decode.mean),
            joules=self._joules(settings, encode.mean, decode.mean),
        )

    def _spread(self, name: str, value: float) -> Range:
        low, middle, high = self._fit["spread"][name]
        return Range(low * value, middle * value, high * value)

    def _encode_seconds(self, settings: Settings, bpp: float) -> Range:
        trial, preset = self.trial, self._fit["presets"][settings.preset]
        unit = self._sender.encode["fast"].frame
        per_pixel = unit * exp(float(np.dot(preset["seconds"], work(trial, bpp, unit))))
        start = self._sender.encode[settings.preset].start
        per_pixel *= preset["lean"]["time"] if settings.lean else 1.0
        taken = preset["time"] * (start + per_pixel * trial.pixels * trial.frames)
        return self._spread("encode_seconds", taken)

    def _decode_seconds(self, settings: Settings, keys: float) -> Range:
        usage, trial = self._receiver.decode[settings.way.name], self.trial
        parts = decoding_parts(usage, settings.way, trial.pixels * trial.frames, keys)
        shares = self._fit["decoding"][kind_of(settings.way)]
        return self._spread("decode_seconds", float(np.dot(shares, parts)))

    def _encode_memory(self, settings: Settings) -> Range:
        usage, trial = self._sender.encode[settings.preset], self.trial
        held = 1.0 if settings.low_delay else min(trial.frames, LONG_LATENCY * trial.rate)
        preset = self._fit["presets"][settings.preset]
        share = preset["lean"]["memory"] if settings.lean else 1.0
        parts = memory_parts(usage, trial.pixels, held)
        total = usage.memory + share * float(np.dot(preset["memory"], parts))
        return self._spread("encode_memory", total)

    def _decode_memory(self, settings: Settings) -> Range:
        usage = self._receiver.decode[settings.way.name]
        total = usage.memory + usage.memory_per_pixel * self.trial.pixels
        return self._spread("decode_memory", total)

    def _flops(self, way: Way, keys: float) -> float:
        counted = self._fit["flops"]
        per_pixel = keys * counted[way.backend] if way.backend else 0.0
        per_pixel += (1 - keys) * counted["rife"] if way.motion == "rife" else 0.0
        return float(per_pixel * self.trial.pixels * self.trial.rate)

    def _latency(self, settings: Settings, bpp: float, seconds: float) -> float:
        """Waiting for key pictures, and the mean computing of a frame at both ends."""
        waits = LONG_LATENCY
        if settings.low_delay:
            waits = LEVELS[level_for(bpp)].spacing
        return waits + seconds / self.trial.frames

    def _joules(self, settings: Settings, encode: float, decode: float) -> float | None:
        sender = self._sender.encode[settings.preset].watts or self._watts
        receiver = self._receiver.decode[settings.way.name].watts or self._watts
        return None if sender is None or receiver is None else sender * encode + receiver * decode


def decoding_parts(usage: Usage, way: Way, pixels: float, keys: float) -> list[float]:
    """Seconds of starting, of frames with what is drawn, and of coded pictures, by a profile.

    `pixels`: of all frames; `keys`: coded pictures in a frame. Real video takes its own share of
    each: the profile's moves everywhere. Plainly, a coded picture counts as a drawn one.
    """
    drawn, key = (1 - keys) * usage.drawn, keys * (usage.drawn if way == Way() else usage.key)
    return [usage.start, pixels * (usage.frame + drawn), pixels * key]


def memory_parts(usage: Usage, pixels: float, held: float) -> list[float]:
    """Bytes of an encoder beside its profile's constant: 1, pixels, and what it holds of frames."""
    return [1.0, pixels, usage.memory_per_pixel * pixels * held]


def kind_of(way: Way) -> str:
    """Of ways to decode, by what they spend their time on."""
    return "refined" if way.backend else "rife" if way.motion == "rife" else "plain"


@cache
def shipped() -> Mapping[str, Any]:
    """The numbers that gsvc ships."""
    found: Mapping[str, Any] = json.loads(
        files("gsvc.codec.planning").joinpath("fitted.json").read_text()
    )
    return found
