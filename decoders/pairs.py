"""Training data for the refiner: renderings as the decoder makes them, with the frames they show.

Short sequences come from `gsvc.decoders.footage`. Key pictures are really coded (AV1), motion is
really estimated: nothing is simulated but the camera.

    python -m gsvc.decoders.pairs ASSETS OUT --minutes 10 --seed 1

ASSETS is the folder that `footage` draws on.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from gsvc.codec.errors import MissingModelError
from gsvc.codec.frames import Color, Picture
from gsvc.codec.scaffold import Geometry, Interval, Person, Sample
from gsvc.decoders.footage import ClipSource, PhotoSource
from gsvc.decoders.pictures import PictureDecoder
from gsvc.decoders.rendering import IntervalRenderer, Rendering, still_rendering
from gsvc.encoders.body_pose import COCO17, PoseEstimator
from gsvc.encoders.person_mask import PersonSegmenter
from gsvc.encoders.pictures import encode_pictures

WINDOW = 4
"""Frames of a window, consecutive."""
CROP = 144
"""Side of a crop in pixels."""
CHANNELS = 16
"""uint8: blend, left, right, frame (RGB each), trust of left and right * 255, label, pose * 255."""

SPACINGS = (6, 8, 12, 16, 24, 32, 40)
_COLOR = Color(matrix=1)
_WINDOWS_PER_SEQUENCE = 6
_CROPS_PER_WINDOW = 2


@dataclass(frozen=True)
class Plan:
    """How a sequence is coded: `spacing` frames between `keys` key pictures at `crf`.

    `half`: the key pictures are coded at half size.
    """

    spacing: int
    keys: int
    crf: int
    half: bool

    @property
    def frames(self) -> int:
        """Frames of the sequence, the key pictures included."""
        return self.spacing * (self.keys - 1) + 1


def random_plan(rng: Generator) -> Plan:
    """A plan as streams have them: any rate, half of the size now and then."""
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
    """Crops of a sequence: uint8 (WINDOW, CROP, CROP, CHANNELS), float32 (WINDOW, 2) scalars."""
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


def make(assets: Path, out: Path, *, seed: int, minutes: float) -> int:
    """Write one `.npz` a sequence (`frames` uint8, `scalars` float32) until time is up.

    `seed`: of all that is drawn. Returns the number of crops.
    """
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
