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
from typing import Any

from gsvc.codec.planning.learning import raw
from gsvc.codec.planning.profile import Profile
from gsvc.codec.planning.quality import Quality, Range, seen_at
from gsvc.codec.planning.trial import Trial
from gsvc.codec.planning.ways import Way
from gsvc.encoders.tuning import GROUP_SECONDS, LEVELS

LONG_LATENCY = 2 * GROUP_SECONDS
"""Seconds from capture to showing with look-ahead: a group, and the next one."""


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
        trial = self.trial
        per_pixel = seen_at(trial, "seconds", bpp)
        factor = self._fit["presets"][settings.preset]["time"]
        work = factor * per_pixel * trial.pixels * trial.frames
        start = self._sender.encode[settings.preset].start
        return self._spread("encode_seconds", start + work)

    def _decode_seconds(self, settings: Settings, keys: float) -> Range:
        usage, trial = self._receiver.decode[settings.way.name], self.trial
        per_pixel = usage.frame + (1 - keys) * usage.drawn + keys * usage.key
        work = per_pixel * trial.pixels * trial.frames
        return self._spread("decode_seconds", usage.start + work)

    def _encode_memory(self, settings: Settings) -> Range:
        usage, trial = self._sender.encode[settings.preset], self.trial
        held = 1.0 if settings.low_delay else min(trial.frames, LONG_LATENCY * trial.rate)
        total = usage.memory + usage.memory_per_pixel * trial.pixels * held
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
            waits = LEVELS[_level(bpp)].spacing
        return waits + seconds / self.trial.frames

    def _joules(self, settings: Settings, encode: float, decode: float) -> float | None:
        sender = self._sender.encode[settings.preset].watts or self._watts
        receiver = self._receiver.decode[settings.way.name].watts or self._watts
        return None if sender is None or receiver is None else sender * encode + receiver * decode


def _level(bpp: float) -> int:
    """That the encoder chooses for a rate; see `EncoderSettings.chosen_level`."""
    return sum(bpp > level.usual_bpp for level in LEVELS)


@cache
def shipped() -> Mapping[str, Any]:
    """The numbers that gsvc ships."""
    found: Mapping[str, Any] = json.loads(
        files("gsvc.codec.planning").joinpath("fitted.json").read_text()
    )
    return found
