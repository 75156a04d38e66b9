"""A machine's profile: what encoding and each way to decode take here, measured once and cached."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gsvc import __version__
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.errors import ConfigError, MissingModelError
from gsvc.codec.media.output import atomic_output
from gsvc.codec.weights.extras import machine
from gsvc.codec.weights.model_files import cache_dir


@dataclass(frozen=True)
class Way:
    """One way to decode."""

    motion: str = "dis"
    """As of `DecoderSettings`."""
    backend: str = ""
    """The refiner, which takes one step; empty: none."""

    @property
    def name(self) -> str:
        """As profiles and tables call it: "dis", "rife + compact:nano"."""
        return f"{self.motion} + {self.backend}" if self.backend else self.motion

    @property
    def settings(self) -> DecoderSettings:
        """What the decoder is told."""
        backend = self.backend or DecoderSettings.backend
        return DecoderSettings(steps=int(bool(self.backend)), backend=backend, motion=self.motion)

    @property
    def arguments(self) -> list[str]:
        """The same for `gsvc decode`."""
        refiner = ["--steps", "1", "--backend", self.backend] if self.backend else ["--steps", "0"]
        return refiner + (["--motion", self.motion] if self.motion != "dis" else [])


WAYS = {
    way.name: way
    for way in (
        Way(),
        Way(backend="compact:nano"),
        Way(backend="compact:small"),
        Way("rife"),
        Way("rife", "compact:nano"),
    )
}
"""By name, the plain one first. More steps than one gain nothing (docs/model_card.md), and
compact:base was not measured at every level."""


_FORMAT, _VERSION = "gsvc-profile", 1
BEGINNING = f'{{\n "format": "{_FORMAT}"'.encode()
"""Of the file of a profile."""


@dataclass(frozen=True)
class ResourceUsage:
    """What one way to decode, or one preset of the encoder, takes."""

    start: float
    """Seconds before the first frame: programs and weights are loaded."""
    frame: float
    """Seconds per pixel of any frame."""
    drawn: float
    """Seconds more per pixel of a frame drawn between coded pictures."""
    key: float
    """Seconds more per pixel of a coded picture."""
    memory: float
    """Bytes that the process holds whatever the pictures' size."""
    memory_per_pixel: float
    """Bytes more for each pixel of a picture; of the encoder, for each pixel that it holds."""
    watts: float | None = None
    """Power of the whole processor meanwhile, where counters tell."""

    def scaled(self, times: float) -> "ResourceUsage":
        """The same on a machine that takes so many times as long, of unknown power."""
        spent = {n: times * getattr(self, n) for n in ("start", "frame", "drawn", "key")}
        return replace(self, **spent, watts=None)


@dataclass(frozen=True)
class Profile:
    """Of one machine and one version of gsvc."""

    machine: Mapping[str, str | int]
    """As of `gsvc.codec.weights.extras.machine`."""
    gsvc: str
    """The version that was measured."""
    encode: Mapping[str, ResourceUsage]
    """By preset."""
    decode: Mapping[str, ResourceUsage]
    """By the name of the way to decode; one that cannot run here is absent."""

    def save(self, path: Path) -> None:
        """Write it as JSON. Raises OutputError."""
        told = {"format": _FORMAT, "version": _VERSION, **asdict(self)}
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_output(path, overwrite=True) as file:
            file.write_text(json.dumps(told, indent=1) + "\n")


def profile_path() -> Path:
    """Where the cache keeps the profile of this machine and version."""
    told = json.dumps([_hardware(machine()), __version__])
    return cache_dir() / "profiles" / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"


def load_profile(path: Path | None = None, *, foreign: bool = False) -> Profile:
    """Read a profile; None takes the cache's own of this machine.

    Args:
        path: The file.
        foreign: Whether another machine's profile is wanted, that of a receiver.

    Raises:
        MissingModelError: There is none yet.
        ConfigError: It is no profile, of another version, or of another machine.
    """
    path = path or profile_path()
    try:
        told: Any = json.loads(path.read_text())
    except FileNotFoundError as error:
        how = f"gsvc profile -o {path.name} on that machine" if foreign else "gsvc profile"
        raise MissingModelError(f"no profile at {path}: run {how}, a minute or two") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is no profile: run gsvc profile again") from error
    try:
        profile = parsed_profile(told)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"{path} is no profile of format {_VERSION}: run gsvc profile again"
        ) from error
    if not foreign and _hardware(profile.machine) != _hardware(machine()):
        raise ConfigError(
            f"{path} is of another machine ({profile.machine['cpu']}, {profile.machine['cores']} "
            "cores): run gsvc profile here, or name it with --receiver"
        )
    if profile.gsvc != __version__:
        raise ConfigError(
            f"{path} is of gsvc {profile.gsvc}, this is {__version__}: run gsvc profile again"
            + (" on that machine" if foreign else "")
        )
    return profile


def _hardware(told: Mapping[str, str | int]) -> list[str | int]:
    """What makes a machine another one: the system may be updated."""
    return [told["cpu"], told["cores"]]


def parsed_profile(told: Any) -> Profile:
    """Of its JSON, whatever machine and version. Raises KeyError, TypeError or ValueError."""
    if (told["format"], told["version"]) != (_FORMAT, _VERSION):
        raise ValueError
    encode, decode = (
        {n: ResourceUsage(**u) for n, u in told[k].items()} for k in ("encode", "decode")
    )
    for usage in (*encode.values(), *decode.values()):
        if any(
            not isinstance(v, int | float) or v < 0 for v in asdict(usage).values() if v is not None
        ):
            raise ValueError
    _hardware(told["machine"])
    return Profile(told["machine"], told["gsvc"], encode, decode)
