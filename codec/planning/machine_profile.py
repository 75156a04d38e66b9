"""A machine's profile: what encoding and each way to decode take here, measured once and cached.

To measure it, a drawn video is encoded and decoded in every way, each in a process of its own.
"""

import hashlib
import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc import __version__
from gsvc.codec.api import encoder_settings, inspection
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encode_file import encode
from gsvc.codec.bitstream.errors import ConfigError, GsvcError, MissingModelError
from gsvc.codec.bitstream.frames import Frame, VideoFormat
from gsvc.codec.media import output, video_writer
from gsvc.codec.planning.process import Timed, spare_clock, timed
from gsvc.codec.weights.extras import EXTRAS, machine
from gsvc.codec.weights.model_files import RIFE, Progress, cache_dir, is_present
from gsvc.encoders.tuning import PRESETS


@dataclass(frozen=True)
class Way:
    """One way to decode."""

    motion: str = "dis"
    """As of `DecoderSettings`."""
    backend: str = ""
    """The refiner, which takes one step; empty: none."""

    @property
    def name(self) -> str:
        """As profiles and tables call it: "dis", "rife + restorer"."""
        return f"{self.motion} + {self.backend}" if self.backend else self.motion

    @property
    def settings(self) -> DecoderSettings:
        """What the decoder is told."""
        backend = self.backend or DecoderSettings.backend
        return DecoderSettings(steps=int(bool(self.backend)), backend=backend, motion=self.motion)

    @property
    def arguments(self) -> list[str]:
        """The same for `gsvc decode`, which restores unless told otherwise."""
        plain = [] if self.backend else ["--steps", "0"]
        return plain + (["--motion", self.motion] if self.motion != "dis" else [])


WAYS = {
    way.name: way
    for motion in ("dis", "rife")
    for way in (Way(motion), Way(motion, DecoderSettings.backend))
}
"""By name, the plain one first. More steps than one gain nothing (docs/model_card.md); compact
refiners need torch, take longer and lose by CVVDP what they gain by ST-LPIPS."""


_FORMAT, _VERSION = "gsvc-profile", 1
BEGINNING = f'{{\n "format": "{_FORMAT}"'.encode()
"""Of the file of a profile."""


@cache
def packaged(name: str) -> Any:
    """What a JSON file of this folder holds."""
    return json.loads(files(__package__).joinpath(name).read_text())


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

    def held(self, pixels: float) -> float:
        """Bytes that the process holds for pictures of so many pixels."""
        return self.memory + self.memory_per_pixel * pixels

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
        with output.atomic_output(path, overwrite=True) as file:
            file.write_text(json.dumps(told, indent=1) + "\n")


def profile_path() -> Path:
    """Where the cache keeps the profile of this machine and version."""
    told = json.dumps([_hardware(machine()), __version__])
    return cache_dir() / "profiles" / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"


def load_profile(path: Path | None = None, *, foreign: bool = False) -> Profile:
    """Read a profile; None: the cache's own of this machine; `foreign`: a receiver's is wanted.

    Raises MissingModelError where there is none yet, ConfigError for one of another kind.
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
        why = f"{path} is no profile of format {_VERSION}: run gsvc profile again"
        raise ConfigError(why) from error
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


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Film:
    size: tuple[int, int]
    """Width and height."""
    frames: int
    """Their number."""
    level: int
    """It is coded at: decides how many pictures are coded."""

    @property
    def pixels(self) -> int:
        return self.size[0] * self.size[1]


_TINY, _MANY, _FEW, _LARGE = _FILMS = (
    _Film((64, 64), 3, 1), _Film((352, 288), 33, 3), _Film((352, 288), 33, 0),
    _Film((704, 576), 9, 0),
)  # fmt: skip
_RATE = Fraction(25)
_TIMES = 3
"""A film is coded so often, and the least time taken: other work on a machine only adds to it."""


def measure(progress: Progress, *, cpu: bool = False) -> Profile:
    """Measure this machine: a minute or two; `progress` is told each step, `cpu`: as of `timed`. A
    way that lacks a package or weights is left out. Raises GsvcError where plain coding fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        videos = [_draw(folder, film) for film in _FILMS]
        streams = [_coded(folder, film, video) for film, video in zip(_FILMS, videos, strict=True)]
        progress("encoding")
        encode = {preset: _encoding(preset, folder, videos, cpu=cpu) for preset in PRESETS}
        decode: dict[str, ResourceUsage] = {}
        for way in WAYS.values():
            progress(f"decoding, {way.name}")
            try:
                decode[way.name] = _decoding(way, folder, streams, decode, cpu=cpu)
            except GsvcError as error:
                if way == Way():
                    raise
                progress(f"left out {way.name}: {error}")
    return Profile(machine(), __version__, encode, decode)


def known_profile() -> Profile:
    """This machine's profile; with a warning, where it was not measured, gsvc's own, scaled by one
    encoding here. Raises ConfigError as of `load_profile`."""
    try:
        return load_profile()
    except MissingModelError:
        return _scaled_profile()


@cache
def _scaled_profile() -> Profile:
    shipped = parsed_profile(packaged("profile.json"))
    settings = encoder_settings.EncoderSettings(preset="fast")  # as `_encoding` measures it
    with tempfile.TemporaryDirectory() as name:
        for film in (_TINY, _FEW):  # the first one loads what the second one needs
            video, began = _draw(Path(name), film), spare_clock()
            encode(video, Path(name, "out.gsv"), settings=settings, overwrite=True)
    taken = least_seconds("profile", spare_clock() - began) / (_FEW.pixels * _FEW.frames)
    times = taken / shipped.encode["fast"].frame
    _log.warning(
        "no profile of this machine: a built-in one is taken, times %.2g (gsvc profile makes one)",
        times,
    )
    has_rife = not EXTRAS["refine"].missing and is_present(RIFE)
    able = [name for name in shipped.decode if has_rife or WAYS[name].motion != RIFE.name]
    decode = {name: shipped.decode[name].scaled(times) for name in able}
    presets = {name: usage.scaled(times) for name, usage in shipped.encode.items()}
    return Profile(machine(), __version__, presets, decode)


_FASTER = 0.9  # in proportion to what is known: little changes would change plans
_KEPT = 256  # least times, the latest: each video that is planned has one


def least_seconds(what: str, seconds: float) -> float:
    """The least that `what` has taken this machine, now or before: other work only adds to it. The
    cache keeps it, so that a plan made again is the same."""
    path, known = profile_path().with_suffix(".least.json"), dict[str, float]()
    with suppress(OSError, ValueError):
        known = json.loads(path.read_text())
    key = hashlib.sha256(what.encode()).hexdigest()[:16]
    if seconds > _FASTER * known.get(key, float("inf")):
        return known[key]
    known[key] = seconds
    known = dict([*known.items()][-_KEPT:])
    with suppress(OSError, GsvcError):  # a cache that cannot be written
        path.parent.mkdir(parents=True, exist_ok=True)
        with output.atomic_output(path, overwrite=True) as file:
            file.write_text(json.dumps(known))
    return seconds


def _draw(folder: Path, film: _Film) -> str:
    (width, height), path = film.size, folder / f"{film.size[0]}-{film.level}.y4m"
    noise = np.random.default_rng(0).normal(0, 1, (height, width, 3)).astype(np.float32)
    soft = cv2.GaussianBlur(noise, (0, 0), 4, borderType=cv2.BORDER_REFLECT)
    still = np.clip(128 + 60 * soft / soft.std() + 6 * noise, 0, 255).astype(np.uint8)
    with video_writer.open_writer(path, VideoFormat(width, height, 1 / _RATE, _RATE)) as writer:
        for index in range(film.frames):
            writer.write(Frame(np.roll(still, (index, 3 * index), (0, 1)), index))
    return str(path)


def _coded(folder: Path, film: _Film, video: str) -> str:
    path = folder / f"{film.size[0]}-{film.level}.gsv"
    # Without look-ahead the level alone decides how far pictures lie apart.
    settings = encoder_settings.EncoderSettings(level=film.level, preset="fast", low_delay=True)
    encode(video, path, settings=settings)
    return str(path)


def _encoding(preset: str, folder: Path, videos: Sequence[str], *, cpu: bool) -> ResourceUsage:
    ran = timed({"preset": preset}, folder, [videos[0], *_TIMES * [videos[2]]], cpu=cpu)
    (first, *again), (small, large, *_) = _each(ran, "seconds"), _each(ran, "memory")
    pixels = _FEW.pixels * _FEW.frames
    return ResourceUsage(
        start=ran.start + first, frame=min(again) / pixels, drawn=0.0, key=0.0, memory=small,
        memory_per_pixel=max(0.0, large - small) / pixels, watts=_watts(ran),
    )  # fmt: skip


def _decoding(
    way: Way, folder: Path, streams: Sequence[str], known: Mapping[str, ResourceUsage], *, cpu: bool
) -> ResourceUsage:
    films = [0, 2, 3] if way.backend else [0, 1, 2, 3]  # many coded pictures take a refiner long
    coded = [streams[index] for index in films]
    again = [] if way.backend else (_TIMES - 1) * coded[1:]  # a refiner takes long as it is
    ran = timed(asdict(way.settings), folder, [*coded, *again], cpu=cpu)
    seconds, memory = _each(ran, "seconds"), _each(ran, "memory")[: len(films)]
    later = len(films) - 1
    seconds = [seconds[0], *(min(seconds[1 + index :: later]) for index in range(later))]
    sides = [_FILMS[index].pixels for index in films]
    work = np.array([_work(streams[index]) for index in films[1:]], float)
    work *= np.array(sides[1:])[:, None]
    frame, drawn, key = _times(way, work, np.array(seconds[1:]), known)
    slope = max(0.0, (memory[-1] - memory[-2]) / (sides[-1] - sides[-2]))
    return ResourceUsage(
        start=ran.start + seconds[0], frame=frame, drawn=drawn, key=key,
        memory=memory[-2] - slope * sides[-2], memory_per_pixel=slope, watts=_watts(ran),
    )  # fmt: skip


def _times(
    way: Way,
    work: NDArray[np.float64],
    seconds: NDArray[np.float64],
    known: Mapping[str, ResourceUsage],
) -> tuple[float, float, float]:
    """Seconds per pixel of frames, drawn frames and coded pictures: the columns of `work`. A way
    shares its frames with the plain way, its motion with the way without a refiner, and its refiner
    with the way without learned motion."""
    if way == Way():
        frame, drawn = np.maximum(0, np.linalg.lstsq(work[:, :2], seconds)[0])
        return float(frame), float(drawn), 0.0
    frame = known[Way().name].frame
    left = seconds - frame * work[:, 0]
    if not way.backend:
        return frame, max(0.0, float(left.sum() / work[:, 1].sum())), 0.0
    drawn = known[way.motion].drawn if way.motion in known else 0.0
    alone = replace(way, motion=Way().motion).name
    if alone in known:
        return frame, drawn, known[alone].key  # beside learned motion it would be lost in the noise
    return frame, drawn, max(0.0, float((left - drawn * work[:, 1]).sum() / work[:, 2].sum()))


def _work(stream: str) -> tuple[int, int, int]:
    """Frames, those drawn between coded pictures, and coded pictures."""
    found = inspection.info(stream)
    keys = sum(len(packet.key_frames) for packet in found.packets)
    return found.frames, found.frames - keys, keys


def _each(ran: Timed, name: str) -> list[float]:
    return [float(one[name]) for one in ran.files]


def _watts(ran: Timed) -> float | None:
    joules = [one["joules"] for one in ran.files]
    return None if None in joules else sum(joules) / sum(_each(ran, "seconds"))
