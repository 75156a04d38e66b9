"""Training data for the refiner: renderings as the decoder makes them, paired with the frames they stand for.

Short sequences come from real clips and from photographs filmed by a synthetic camera with cut-outs moving
over them. Key pictures are really coded (AV1), motion is really estimated: nothing is simulated but the camera.

    python -m gsvc.decoders.pairs ASSETS OUT --minutes 10 --seed 1

ASSETS holds `clips.csv` (columns file, motion_people), `clips/`, `photos/` and `cutouts/`.
"""

import argparse
import csv
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from gsvc.codec.errors import MissingModelError
from gsvc.codec.frames import Color, Picture
from gsvc.codec.scaffold import Geometry, Interval, Person, Sample
from gsvc.decoders.pictures import PictureDecoder
from gsvc.decoders.rendering import IntervalRenderer, Rendering, still_rendering
from gsvc.encoders.body_pose import COCO17, PoseEstimator
from gsvc.encoders.person_mask import PersonSegmenter
from gsvc.encoders.pictures import encode_pictures

HELD_OUT = ("torchvision_SOX5yA1l24A.mp4", "pyfeat_single_face.mp4")
"""Development clips that training never sees."""

WINDOW = 4
"""Frames of a window, consecutive."""
CROP = 144
"""Side of a crop in pixels."""
CHANNELS = 16
"""uint8: blend, left, right, frame (RGB each), trust of left and right * 255, label, pose * 255."""

SPACINGS = (6, 8, 12, 16, 24, 32, 40)
_COLOR = Color(matrix=1)
_REPEATED = 0.35  # mean difference of gray levels under which a frame repeats the one before
_CUT = 32.0  # ... over which the scene was cut
_WINDOWS_PER_SEQUENCE = 6
_CROPS_PER_WINDOW = 2


@dataclass(frozen=True)
class Plan:
    """How a sequence is coded: `spacing` frames between `keys` key pictures at `crf`, at half size or not."""

    spacing: int
    keys: int
    crf: int
    half: bool

    @property
    def frames(self) -> int:
        return self.spacing * (self.keys - 1) + 1


def random_plan(rng: Generator) -> Plan:
    spacing = int(rng.choice(SPACINGS))
    keys = {4: 5, 6: 4, 8: 4}.get(spacing, 3)
    return Plan(spacing, keys, int(rng.integers(44, 64)), bool(rng.random() < 0.35))


class Extractors:
    """Masks and poses of people, as the encoder would send them."""

    def __init__(self) -> None:
        self._segment, self._pose = PersonSegmenter(), PoseEstimator(2)

    def sample(self, picture: Picture, offset: int) -> Sample:
        """The scaffold's labels and people of one frame."""
        geometry = Geometry(picture.shape[1], picture.shape[0])
        rows, columns = geometry.label_shape
        mask = cv2.resize(self._segment(picture), (columns, rows), interpolation=cv2.INTER_AREA)
        people = []
        for identity, pose in enumerate(self._pose(picture)):
            visible = pose.visibility[list(COCO17)] > 0.5
            points = np.round(pose.points[list(COCO17)] / geometry.pose_unit) * visible[:, None]
            people.append(Person(identity, points.astype(np.int16), visible))
        return Sample(offset, labels=(mask > 0.5).astype(np.uint8), people=tuple(people))


class CodedSequence:
    """The decoder's view of a sequence: any frame's rendering, by its index."""

    def __init__(
        self, frame: Callable[[int], Picture], plan: Plan, extractors: Extractors | None = None
    ) -> None:
        self._frame, self._plan, self._extractors = frame, plan, extractors
        keys = [frame(i * plan.spacing) for i in range(plan.keys)]
        height, width = keys[0].shape[:2]
        size = (width // 4 * 2, height // 4 * 2) if plan.half else (width, height)
        units = encode_pictures(keys, size=size, crf=plan.crf, color=_COLOR, preset=6)
        decoder = PictureDecoder((width, height), _COLOR)
        self._keys = [decoder.decode(unit, size) for unit in units]
        self._intervals: dict[int, IntervalRenderer] = {}

    def render(self, index: int) -> Rendering:
        """The rendering of frame `index`, a key picture or between two."""
        number, offset = divmod(index, self._plan.spacing)
        quantizer = self._plan.crf / 63
        if offset == 0:
            return still_rendering(self._keys[number], self._sample(index, 0), quantizer)
        if number not in self._intervals:
            half, end = self._plan.spacing // 2, self._plan.spacing
            start = number * self._plan.spacing
            samples = [self._sample(start + at, at) for at in (half, end)]
            interval = Interval((1,) * end, tuple(s for s in samples if s is not None))
            left, right = self._keys[number], self._keys[number + 1]
            self._intervals[number] = IntervalRenderer(left, right, interval, None, quantizer)
        return self._intervals[number].render(offset)

    def _sample(self, index: int, offset: int) -> Sample | None:
        return self._extractors.sample(self._frame(index), offset) if self._extractors else None


def pack(rendering: Rendering, target: Picture) -> NDArray[np.uint8]:
    """A rendering and its frame as uint8 (H, W, CHANNELS)."""
    trust = np.round(rendering.trust * 255).astype(np.uint8)
    pose = np.round(rendering.pose * 255).astype(np.uint8)
    pictures = rendering.picture, rendering.left, rendering.right, target
    return np.dstack([*pictures, trust, rendering.labels, pose])


def packed_windows(
    frame: Callable[[int], Picture],
    plan: Plan,
    rng: Generator,
    extractors: Extractors | None = None,
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.float32]]]:
    """Crops of a sequence: uint8 (WINDOW, CROP, CROP, CHANNELS) with float32 (WINDOW, 2) scalars."""
    coded = CodedSequence(frame, plan, extractors)
    cache: dict[int, Rendering] = {}
    for _ in range(_WINDOWS_PER_SEQUENCE):
        start = _window_start(plan, rng)
        indices = range(start, start + WINDOW)
        for index in indices:
            if index not in cache:
                cache[index] = coded.render(index)
        full = np.stack([pack(cache[i], frame(i)) for i in indices])
        scalars = [(cache[i].distance, cache[i].quantizer) for i in indices]
        for _ in range(_CROPS_PER_WINDOW):
            y, x = _crop_position(full, rng)
            yield full[:, y : y + CROP, x : x + CROP], np.array(scalars, np.float32)


def _window_start(plan: Plan, rng: Generator) -> int:
    last = plan.frames - WINDOW
    if (
        rng.random() < 0.3
    ):  # Key pictures are worth more than their number: their texture is moved on.
        key = int(rng.integers(plan.keys)) * plan.spacing
        return int(np.clip(key - rng.integers(WINDOW), 0, last))
    return int(rng.integers(last + 1))


def _crop_position(full: NDArray[np.uint8], rng: Generator) -> tuple[int, int]:
    """Where there is more to restore, of two random places."""
    height, width = full.shape[1:3]
    places = [
        (int(rng.integers(height - CROP + 1)), int(rng.integers(width - CROP + 1)))
        for _ in range(2)
    ]

    def error(place: tuple[int, int]) -> float:
        y, x = place
        part = full[1, y : y + CROP, x : x + CROP].astype(np.int16)
        return float(np.abs(part[..., 9:12] - part[..., :3]).mean())

    return max(places, key=error)


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
        """`frames` pictures and whether people are in them; None when the place drawn has no such run."""
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
    """`frames` different consecutive pictures from second `start` on, resized; None over a cut or at the end."""
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
    """A picture (RGB or RGBA) that moves smoothly: pan, zoom, turn and a slow sway around its centre."""

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


def make(assets: Path, out: Path, *, seed: int, minutes: float) -> int:
    """Write one `.npz` a sequence (`frames` uint8, `scalars` float32) until time is up; give the number of crops."""
    cv2.setNumThreads(1)
    rng = default_rng(seed)
    clips, photos = ClipSource(assets), PhotoSource(assets)
    try:
        extractors = Extractors()
    except MissingModelError:
        extractors = None
    out.mkdir(parents=True, exist_ok=True)
    end, crops, number = time.monotonic() + minutes * 60, 0, 0
    while time.monotonic() < end:
        plan = random_plan(rng)
        people = False
        if rng.random() < 0.5:
            found = clips.sequence(plan.frames, rng)
            if found is None:
                continue
            pictures, people = found
            frame: Callable[[int], Picture] = pictures.__getitem__
        else:
            frame = photos.sequence(plan.frames, rng)
        used = extractors if people and rng.random() < 0.5 else None
        windows = list(packed_windows(frame, plan, rng, used))
        _save(out / f"{seed:02d}_{number:05d}.npz", windows)
        crops, number = crops + len(windows), number + 1
    return crops


def _save(path: Path, windows: Sequence[tuple[NDArray[np.uint8], NDArray[np.float32]]]) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(
            file,
            frames=np.stack([w[0] for w in windows]),
            scalars=np.stack([w[1] for w in windows]),
        )
    part.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make training data for the refiner.")
    parser.add_argument("assets", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(make(options.assets, options.out, seed=options.seed, minutes=options.minutes), "crops")


if __name__ == "__main__":
    main()
