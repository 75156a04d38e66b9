"""Footage to train on: runs of real clips, and photographs filmed by a synthetic camera.

Both are found by their suffixes anywhere below a folder. Pictures with alpha are cut-outs, which
move over the photographs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import NamedTuple

import av
import cv2
import numpy as np
from av.container import InputContainer
from numpy.random import Generator
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.video_source import VIDEO_SUFFIXES
from gsvc.encoders.coding.cuts import CutDetector

PHOTO_SUFFIXES = frozenset((".jpeg", ".jpg", ".png", ".webp"))

_REPEATED = 0.35
"""Mean difference of levels, 0-255, below which a frame repeats the one before."""
_SHORT_SIDE = 192, 432
_LONGEST_CLIP = 60.0
_TRIES = 20

FrameSource = Callable[[int], Picture]


class Scene(NamedTuple):
    """Consecutive frames to train on."""

    frame: FrameSource
    files: tuple[Path, ...]
    """What they show: a clip, or a photograph and the cut-outs over it."""


def find_footage(folder: Path, held_out: Sequence[str] = ()) -> tuple[list[Path], list[Path]]:
    """Videos and pictures below a folder: those to train on, and those held out by name.

    Raises InputError where nothing is left to train on, ConfigError for a name that is not there.
    """
    suffixes = VIDEO_SUFFIXES | PHOTO_SUFFIXES
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes)
    held = [path for path in files if path.name in held_out]
    if missing := set(held_out) - {path.name for path in held}:
        raise ConfigError(f"held out, but not below {folder}: {' '.join(sorted(missing))}")
    if len(held) == len(files):
        raise InputError(f"no videos and no photographs in {folder}: nothing to train on")
    return [path for path in files if path not in held], held


class Footage:
    """Scenes of clips, shrunk, without repeated frames and scene cuts, and of photographs."""

    def __init__(self, files: Sequence[Path], clips: float = 0.5) -> None:
        """`clips`: the share of scenes that are of clips, where there are both."""
        self.clips = [path for path in files if path.suffix.lower() in VIDEO_SUFFIXES]
        self.photos = [path for path in files if path.suffix.lower() in PHOTO_SUFFIXES]
        self._share, self._shapes = clips, [_shape(path) for path in self.clips]
        # A long talking head must not make up half of the data.
        weight = np.sqrt([min(seconds, _LONGEST_CLIP) for _, _, seconds in self._shapes])
        self._probability = weight / weight.sum()

    def scene(self, frames: int, rng: Generator) -> Scene | None:
        """`frames` pictures of a clip or of photographs; None where the place drawn has no run."""
        if self.photos and not (self.clips and rng.random() < self._share):
            return filmed(self.photos, frames, rng)
        number = int(rng.choice(len(self.clips), p=self._probability))
        path, (short, rate, seconds) = self.clips[number], self._shapes[number]
        start = rng.random() * max(0.0, seconds - 1.4 * frames / rate)
        least, most = _SHORT_SIDE
        side = rng.integers(least, max(least, min(most, int(short * 0.95))) + 1)
        pictures = read_run(path, start, frames, int(side))
        return None if pictures is None else Scene(pictures.__getitem__, (path,))


@contextmanager
def _opened(path: Path) -> Iterator[InputContainer]:
    try:
        with av.open(str(path)) as container:
            yield container
    except (av.FFmpegError, IndexError) as error:
        raise InputError(f"{path} cannot be read as video: remove it from the folder") from error


def _shape(path: Path) -> tuple[int, float, float]:
    """Short side in pixels, frames per second, seconds."""
    with _opened(path) as container:
        stream = container.streams.video[0]
        rate = float(stream.average_rate or 25)
        length = container.duration or 0
        return min(stream.width, stream.height), rate, length / av.time_base


def read_run(path: Path, start: float, frames: int, side: int) -> list[Picture] | None:
    """`frames` consecutive pictures from second `start` on, about `side` lines on the short side.

    Frames that repeat the one before are left out. None over a cut or at the end.
    """
    pictures: list[Picture] = []
    last: NDArray[np.float32] | None = None
    is_cut = CutDetector()
    for picture in _decoded(path, start):
        scale = side / min(picture.shape[:2])
        height, width = (round(length * scale / 4) * 4 for length in picture.shape[:2])
        shrunk = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
        tiny = cv2.resize(shrunk, (64, 36), interpolation=cv2.INTER_AREA).astype(np.float32)
        if last is not None and float(np.abs(tiny - last).mean()) < _REPEATED:
            continue
        last = tiny
        pictures.append(np.asarray(shrunk, np.uint8))
        if is_cut(pictures[-1]):
            return None
        if len(pictures) == frames:
            return pictures
    return None


def _decoded(path: Path, start: float) -> Iterator[Picture]:
    with _opened(path) as container:
        stream = container.streams.video[0]
        if start > 1:
            container.seek(int(start / (stream.time_base or Fraction(1, 1000))), stream=stream)
        for frame in container.decode(stream):
            if frame.time is None or frame.time >= start:
                yield np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)


def filmed(photos: Sequence[Path], frames: int, rng: Generator) -> Scene | None:
    """`frames` pictures of a photograph under a moving camera, with cut-outs moving over it.

    None if the draws find no photograph.
    """
    drawn = _found(photos, rng, cutout=False)
    if drawn is None:
        return None
    photo, path = drawn
    short = int(rng.integers(192, 360))
    long = round(short * float(rng.choice([4 / 3, 16 / 9])) / 4) * 4
    size = (long, short // 4 * 4)
    if photo.shape[0] > photo.shape[1]:
        size = size[::-1]
    scale = rng.uniform(1.1, 2.0) * max(size[0] / photo.shape[1], size[1] / photo.shape[0])
    layers, files = [_MovingPicture(photo, scale, size, frames, rng)], [path]
    for _ in range(int(rng.choice([0, 1, 2], p=[0.4, 0.35, 0.25]))):
        over = _found(photos, rng, cutout=True)
        if over is not None:
            cutout, path = over
            scale = rng.uniform(0.2, 0.6) * min(size) / max(cutout.shape[:2])
            layers.append(_MovingPicture(cutout, scale, size, frames, rng))
            files.append(path)
    return Scene(partial(_drawn, layers), tuple(files))


def _found(
    photos: Sequence[Path], rng: Generator, *, cutout: bool
) -> tuple[NDArray[np.uint8], Path] | None:
    """A photograph as RGB or a cut-out as RGBA, and its file; None if the draws find none."""
    channels, to_rgb = (4, cv2.COLOR_BGRA2RGBA) if cutout else (3, cv2.COLOR_BGR2RGB)
    for _ in range(_TRIES):
        path = photos[int(rng.integers(len(photos)))]
        image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        if image is not None and image.dtype == np.uint8 and image.shape[2:] == (channels,):
            return np.asarray(cv2.cvtColor(image, to_rgb), np.uint8), path
    return None


def _drawn(layers: Sequence["_MovingPicture"], index: int) -> Picture:
    canvas = layers[0].draw(index)[..., :3].astype(np.float32)
    for layer in layers[1:]:
        drawn = layer.draw(index).astype(np.float32)
        canvas += (drawn[..., :3] - canvas) * (drawn[..., 3:] / 255)
    return np.clip(np.round(canvas), 0, 255).astype(np.uint8)


class _MovingPicture:
    """A picture (RGB or RGBA) that moves smoothly: pan, zoom, turn and a sway around its centre."""

    def __init__(
        self,
        image: NDArray[np.uint8],
        scale: float,
        size: tuple[int, int],
        frames: int,
        rng: Generator,
    ) -> None:
        """`scale`: of the picture, at most 1; `size`: of the frames."""
        scale = min(scale, 1.0)
        self.image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        self.size, self.middle, self.is_sprite = size, frames // 2, image.shape[2] == 4
        speed, angle = rng.uniform(0, 5 if self.is_sprite else 3), rng.uniform(0, 2 * np.pi)
        moves = rng.random(4) < (0.8, 0.5, 0.3, 0.4)
        self.pan = np.array([np.cos(angle), np.sin(angle)]) * speed * moves[0]
        self.zoom = rng.normal(0, 0.004) * moves[1]
        self.turn = rng.normal(0, 0.5) * moves[2]
        self.sway = rng.normal(0, 3, 2) * moves[3]
        self.period = rng.uniform(12, 40)
        spread = np.array(size) * (0.35 if self.is_sprite else 0.08)
        self.place = rng.uniform(-1, 1, 2) * spread

    def draw(self, index: int) -> NDArray[np.uint8]:
        time = index - self.middle
        height, width = self.image.shape[:2]
        matrix = cv2.getRotationMatrix2D(
            (width / 2, height / 2), self.turn * time, float(np.exp(self.zoom * time))
        )
        centre = np.array(self.size) / 2 + self.place + self.pan * time
        matrix[:, 2] += centre + self.sway * np.sin(time * 2 * np.pi / self.period)
        matrix[:, 2] -= np.array([width, height]) / 2
        border = cv2.BORDER_CONSTANT if self.is_sprite else cv2.BORDER_REFLECT_101
        how = cv2.INTER_LINEAR if self.is_sprite else cv2.INTER_CUBIC
        return np.asarray(
            cv2.warpAffine(self.image, matrix, self.size, flags=how, borderMode=border), np.uint8
        )
