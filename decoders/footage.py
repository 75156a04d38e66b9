"""Footage to train on: runs of real clips, and photographs filmed by a synthetic camera.

Cut-outs move over the photographs. The folder of assets holds `clips.csv` (columns file, type, fps,
frames, seconds, width, height, motion_people), `clips/`, `photos/` and `cutouts/`.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gsvc.codec.frames import Picture

HELD_OUT = ("torchvision_SOX5yA1l24A.mp4", "pyfeat_single_face.mp4")
"""Development clips that training never sees."""

_REPEATED = 0.35  # mean difference of gray levels under which a frame repeats the one before
_CUT = 32.0  # ... over which the scene was cut


class ClipSource:
    """Sequences from real clips, shrunk, without repeated frames and scene cuts."""

    def __init__(self, assets: Path) -> None:
        with (assets / "clips.csv").open(newline="") as table:
            rows = [row for row in csv.DictReader(table) if row["file"] not in HELD_OUT]
        self._rows = rows
        self._folder = assets / "clips"
        # The long talking head must not be half of everything.
        weight = np.sqrt([min(float(row["frames"]), 1500.0) for row in rows])
        self._probability = weight / weight.sum()

    def sequence(self, frames: int, rng: Generator) -> tuple[list[Picture], bool] | None:
        """`frames` pictures and whether people are in them; None if the place drawn has no run."""
        row = self._rows[int(rng.choice(len(self._rows), p=self._probability))]
        seconds = float(row["seconds"])
        need = 1.4 * frames / float(row["fps"])
        start = rng.random() * max(0.0, seconds - need)
        short = min(int(row["width"]), int(row["height"]))
        side = rng.integers(192, max(193, min(432, int(short * 0.95))) + 1)
        pictures = read_run(self._folder / row["file"], start, frames, side / short)
        if pictures is None:
            return None
        flip = rng.random() < 0.5
        people = any(word in row["motion_people"] for word in ("people", "head", "face", "person"))
        people = people and "no people" not in row["motion_people"] and row["type"] == "live"
        return [np.ascontiguousarray(p[:, ::-1]) if flip else p for p in pictures], people


def read_run(path: Path, start: float, frames: int, scale: float) -> list[Picture] | None:
    """`frames` different consecutive pictures from second `start` on, resized by `scale`.

    None over a cut or at the end.
    """
    pictures: list[Picture] = []
    last: NDArray[np.float32] | None = None
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        time_base = stream.time_base or Fraction(1, 1000)
        if start > 1:
            container.seek(int(start / time_base), stream=stream)
        for frame in container.decode(stream):
            if frame.time is not None and frame.time < start:
                continue
            picture = frame.to_ndarray(format="rgb24")
            tiny = cv2.resize(picture, (64, 36), interpolation=cv2.INTER_AREA).astype(np.float32)
            change = 255.0 if last is None else float(np.abs(tiny - last).mean())
            if last is not None and change > _CUT:
                return None
            if change < _REPEATED:
                continue
            last = tiny
            size = (
                round(picture.shape[1] * scale / 4) * 4,
                round(picture.shape[0] * scale / 4) * 4,
            )
            pictures.append(
                np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
            )
            if len(pictures) == frames:
                return pictures
    return None


class PhotoSource:
    """Photographs under a moving camera, with cut-outs moving over them."""

    def __init__(self, assets: Path) -> None:
        self._photos = sorted((assets / "photos").iterdir())
        self._cutouts = sorted((assets / "cutouts").iterdir())

    def sequence(self, frames: int, rng: Generator) -> Callable[[int], Picture]:
        """A function from frame index to picture."""
        photo = cv2.imread(str(self._photos[rng.integers(len(self._photos))]), cv2.IMREAD_COLOR)
        photo = np.asarray(cv2.cvtColor(photo, cv2.COLOR_BGR2RGB))
        short = int(rng.integers(192, 360))
        long = round(short * float(rng.choice([4 / 3, 16 / 9])) / 4) * 4
        size = (long, short // 4 * 4)
        if photo.shape[0] > photo.shape[1]:
            size = size[::-1]
        layers = [_Layer.background(photo, size, frames, rng)]
        for _ in range(int(rng.choice([0, 1, 2], p=[0.4, 0.35, 0.25]))):
            path = self._cutouts[rng.integers(len(self._cutouts))]
            cutout = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
            if cutout is not None and cutout.ndim == 3 and cutout.shape[2] == 4:
                rgba = np.asarray(cv2.cvtColor(cutout, cv2.COLOR_BGRA2RGBA))
                layers.append(_Layer.sprite(rgba, size, frames, rng))

        def picture(index: int) -> Picture:
            canvas = layers[0].draw(index)[..., :3].astype(np.float32)
            for layer in layers[1:]:
                drawn = layer.draw(index).astype(np.float32)
                canvas += (drawn[..., :3] - canvas) * (drawn[..., 3:] / 255)
            return np.clip(np.round(canvas), 0, 255).astype(np.uint8)

        cache: dict[int, Picture] = {}

        def cached(index: int) -> Picture:
            if index not in cache:
                cache[index] = picture(index)
            return cache[index]

        return cached


@dataclass(frozen=True)
class _Layer:
    """A picture (RGB or RGBA) that moves smoothly: pan, zoom, turn and a sway around its centre."""

    image: NDArray[np.uint8]
    size: tuple[int, int]
    middle: int
    pan: NDArray[np.float64]
    zoom: float
    turn: float
    sway: NDArray[np.float64]
    period: float
    place: NDArray[np.float64]

    @classmethod
    def background(
        cls, photo: Picture, size: tuple[int, int], frames: int, rng: Generator
    ) -> "_Layer":
        scale = rng.uniform(1.1, 2.0) * max(size[0] / photo.shape[1], size[1] / photo.shape[0])
        return cls._moving(_resized(photo, min(scale, 1.0)), size, frames, rng, rng.uniform(0, 3))

    @classmethod
    def sprite(
        cls, cutout: NDArray[np.uint8], size: tuple[int, int], frames: int, rng: Generator
    ) -> "_Layer":
        scale = rng.uniform(0.2, 0.6) * min(size) / max(cutout.shape[:2])
        return cls._moving(_resized(cutout, min(scale, 1.0)), size, frames, rng, rng.uniform(0, 5))

    @classmethod
    def _moving(
        cls,
        image: NDArray[np.uint8],
        size: tuple[int, int],
        frames: int,
        rng: Generator,
        speed: float,
    ) -> "_Layer":
        angle = rng.uniform(0, 2 * np.pi)
        moves = rng.random(4) < (0.8, 0.5, 0.3, 0.4)
        sprite = image.shape[2] == 4
        spread = np.array(size) * (0.35 if sprite else 0.08)
        return cls(
            image=image,
            size=size,
            middle=frames // 2,
            pan=np.array([np.cos(angle), np.sin(angle)]) * speed * moves[0],
            zoom=rng.normal(0, 0.004) * moves[1],
            turn=rng.normal(0, 0.5) * moves[2],
            sway=rng.normal(0, 3, 2) * moves[3],
            period=rng.uniform(12, 40),
            place=rng.uniform(-1, 1, 2) * spread,
        )

    def draw(self, index: int) -> NDArray[np.uint8]:
        time = index - self.middle
        height, width = self.image.shape[:2]
        matrix = cv2.getRotationMatrix2D(
            (width / 2, height / 2), self.turn * time, float(np.exp(self.zoom * time))
        )
        centre = np.array(self.size) / 2 + self.place + self.pan * time
        matrix[:, 2] += centre + self.sway * np.sin(time * 2 * np.pi / self.period)
        matrix[:, 2] -= np.array([width, height]) / 2
        sprite = self.image.shape[2] == 4
        border = cv2.BORDER_CONSTANT if sprite else cv2.BORDER_REFLECT_101
        how = cv2.INTER_LINEAR if sprite else cv2.INTER_CUBIC
        return np.asarray(
            cv2.warpAffine(self.image, matrix, self.size, flags=how, borderMode=border), np.uint8
        )


def _resized(image: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    return np.asarray(
        cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8
    )
