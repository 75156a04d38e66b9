"""Samples of a coded run: single pictures, or windows of rendered frames.

Crops are cut rather where something is to be restored.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.training.coded_runs import CodedPicture, CodedRun, Gap
from gsvc.decoders.training.samples import CONFIDENCE_UNIT, GAIN_UNIT, Sample

_PLACES = 4
_EASY = 0.25
"""Share of crops that are cut at any place."""
_LEAST_SPREAD = 3.0
"""Standard deviation of levels, 0-255, below which a place shows nothing."""
_COARSE, _RUINED = 8, 12.0
"""Side of a cell, and mean difference of levels in the worst cells: there a coarse quantiser has
left out what moved, and another moment is shown. No refiner can know what was there."""

Place = tuple[int, int]
"""Top and left of a crop."""
Arrays = dict[str, NDArray[np.generic]]
Pair = tuple[Picture, Picture]
"""A source, and what came of it: RGB uint8 (H, W, 3)."""

_LEAST, _MOST = 3, 9
"""Frames of a window."""
_LONGEST_GAP = 40
"""Further apart, pictures say little about the frames between."""
_PICTURES_PER_RUN, _WINDOWS_PER_RUN = 8, 6
"""At most: many runs show more than many crops of one."""
_CROPS_PER_PICTURE = 2


@dataclass(frozen=True)
class Kind:
    """A kind of pack."""

    side: int
    """Of crops in pixels."""
    channels: Mapping[str, int]
    """Of each stack, by its name."""
    restored: str
    """The stack of what is to be restored."""
    samples: Callable[[CodedRun, int, Generator], Iterator[Sample]]
    """Cuts a run into samples with crops of that side."""
    clips: float
    """Share of runs that are of clips, not of photographs."""
    networks: tuple[str, ...]
    """Frozen ones that training needs."""


def _pictures(run: CodedRun, side: int, rng: Generator) -> Iterator[Sample]:
    offered = [*run.pictures] * _CROPS_PER_PICTURE
    count = min(_PICTURES_PER_RUN, len(offered))
    for number in sorted(rng.choice(len(offered), count, replace=False)):
        coded = offered[number]
        truth, key = run.truth(coded.frame), coded.key
        gain = np.clip(np.rint(key.gain * GAIN_UNIT), 0, 255).astype(np.uint8)
        whole = {"truth": truth, "given": key.picture, "gain": gain[..., None]}
        pairs = [(truth, key.picture)]
        place = crop_place(pairs, pairs, side, rng)
        if place is not None:
            stacks = {name: cropped(one, place, side)[None] for name, one in whole.items()}
            arrays: Arrays = {
                "scalars": _scalars(coded),
                "layer": np.array([coded.key.layer], np.uint8),
            }
            yield Sample(stacks, arrays, {"place": list(place), "frames": [coded.frame]})


def _windows(run: CodedRun, side: int, rng: Generator) -> Iterator[Sample]:
    """Crops of frames in a row, from one coded picture to the next; both may be among them."""
    gaps = [gap for gap in run.gaps if 1 < gap.length <= _LONGEST_GAP]
    offered = gaps * _CROPS_PER_PICTURE
    count = min(_WINDOWS_PER_RUN, len(offered))
    for number in sorted(rng.choice(len(offered), count, replace=False)) if gaps else ():
        gap = offered[number]
        frames = int(rng.integers(_LEAST, min(_MOST, gap.length + 1) + 1))
        first = int(rng.integers(0, gap.length - frames + 2))
        window = _window(run, gap, range(first, first + frames), side, rng)
        if window is not None:
            yield window


def _window(run: CodedRun, gap: Gap, numbers: range, side: int, rng: Generator) -> Sample | None:
    truth = [run.truth(gap.before.frame + number) for number in numbers]
    rendering = [gap.picture(number) for number in numbers]
    shown = sorted({0, len(numbers) // 2, len(numbers) - 1})
    ends = gap.before, gap.after
    coded = [(run.truth(one.frame), one.key.picture) for one in ends]
    place = crop_place([(truth[n], rendering[n]) for n in shown], coded, side, rng)
    if place is None:
        return None
    trust = [gap.confidence(number)[..., None] for number in numbers]
    confidence = [np.clip(np.rint(one * CONFIDENCE_UNIT), 0, 255).astype(np.uint8) for one in trust]
    keys = [gap.before.key.picture, gap.after.key.picture]
    whole = {"truth": truth, "rendering": rendering, "confidence": confidence, "keys": keys}
    stacks = {
        name: np.stack([cropped(one, place, side) for one in pictures])
        for name, pictures in whole.items()
    }
    arrays: Arrays = {
        "scalars": (_scalars(gap.before) + _scalars(gap.after)) / 2,
        "frames": np.array([len(numbers)], np.int32),
        "gap": np.array([gap.length], np.uint8),
        "time": (np.array(numbers) / gap.length).astype(np.float16),
    }
    frames = [gap.before.frame + number for number in numbers]
    return Sample(stacks, arrays, {"place": list(place), "frames": frames})


def _scalars(coded: CodedPicture) -> NDArray[np.float16]:
    return np.array([[coded.key.quantizer, coded.key.size]], np.float16)


def crop_place(
    pairs: Sequence[Pair], coded: Sequence[Pair], side: int, rng: Generator
) -> Place | None:
    """Of a few random places the one where `pairs` differ most, or just any.

    None where all places are blank, or ruined in a picture of `coded`.
    """
    truth, given = zip(*pairs, strict=True)
    height, width = truth[0].shape[:2]
    drawn = rng.integers((height - side + 1, width - side + 1), size=(_PLACES, 2))
    is_easy = rng.random() < _EASY
    places = [(int(top), int(left)) for top, left in drawn]
    shown = [
        one
        for one in places
        if cropped(truth[0], one, side).std() > _LEAST_SPREAD
        and not any(_is_ruined(*(cropped(of, one, side) for of in pair)) for pair in coded)
    ]
    if not shown or is_easy:
        return shown[0] if shown else None

    def damage(place: Place) -> float:
        crops = [cropped(np.stack(pictures, 2), place, side) for pictures in (truth, given)]
        return float(np.abs(crops[0].astype(np.int16) - crops[1]).mean())

    return max(shown, key=damage)


def _is_ruined(truth: Picture, given: Picture) -> bool:
    """Whether a crop shows something else, not just less."""
    cells = truth.shape[1] // _COARSE, truth.shape[0] // _COARSE
    coarse = [
        cv2.GaussianBlur(cv2.resize(of, cells, interpolation=cv2.INTER_AREA), (0, 0), 1)
        for of in (truth, given)
    ]
    difference = np.abs(coarse[0].astype(np.float32) - coarse[1]).mean(2)
    return float(np.percentile(difference, 95)) > _RUINED


def cropped(picture: NDArray[np.uint8], place: Place, side: int) -> NDArray[np.uint8]:
    """A square of a picture (H, W, ...)."""
    top, left = place
    return picture[top : top + side, left : left + side]


KINDS = {
    "pictures": Kind(
        side=160,
        channels={"truth": 3, "given": 3, "gain": 1},
        restored="given",
        samples=_pictures,
        clips=0.5,
        networks=("alex", "features", "animevideov3"),
    ),
    "windows": Kind(
        side=128,
        channels={"keys": 3, "rendering": 3, "truth": 3, "confidence": 1},
        restored="rendering",
        samples=_windows,
        clips=0.75,
        networks=("alex", "rife"),
    ),
}
