"""Samples of a coded run: single pictures, or windows of rendered frames."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gsvc.decoders.training.packing.crops import Place, crop_place, cropped
from gsvc.decoders.training.packing.runs import CodedPicture, CodedRun, Gap
from gsvc.decoders.training.standalone.units import CONFIDENCE_UNIT, GAIN_UNIT

_LEAST, _MOST = 3, 9
"""Frames of a window."""
_LONGEST_GAP = 40
"""Further apart, pictures say little about the frames between."""
_PICTURES_PER_RUN, _WINDOWS_PER_RUN = 8, 6
"""At most: many runs show more than many crops of one."""
_CROPS_PER_PICTURE = 2

Scalar = TypeVar("Scalar", bound=np.generic)
Stacks = dict[str, NDArray[np.uint8]]
Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Sample:
    """What is cut at one place of a run."""

    stacks: Stacks
    """Crops by the name of their stack, uint8 (n, side, side, channels)."""
    arrays: Arrays
    """Rows of the pack's arrays by name; `frames`: how many a window has."""
    place: Place = (0, 0)
    """Where it was cut."""
    numbers: tuple[int, ...] = ()
    """Of its frames in the run."""


@dataclass(frozen=True)
class Kind:
    """A kind of pack."""

    side: int
    """Of crops in pixels."""
    steps: Mapping[str, float]
    """Quantiser of each stack, in gray levels, in the order in which they are coded."""
    beside: Mapping[str, str]
    """The stack that another one resembles."""
    restored: str
    """The stack of what is to be restored."""
    samples: Callable[[CodedRun, int, Generator], Iterator[Sample]]
    """Cuts a run into samples with crops of that side."""
    clips: float
    """Share of runs that are of clips, not of photographs."""
    shares: tuple[float, float, float]
    """Of runs coded as streams, as AV1 with temporal layers, as key pictures far apart."""
    least_spacing: int
    """Frames from one coded picture to the next, where that is drawn."""
    networks: tuple[str, ...]
    """Frozen ones that training needs."""


def _pictures(run: CodedRun, side: int, rng: Generator) -> Iterator[Sample]:
    """Crops of coded pictures."""
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
                "layer": np.array([coded.layer], np.uint8),
            }
            yield Sample(stacks, arrays, place, (coded.frame,))


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
    return Sample(stacks, arrays, place, tuple(gap.before.frame + n for n in numbers))


def _scalars(coded: CodedPicture) -> NDArray[np.float16]:
    return np.array([[coded.key.quantizer, coded.key.size]], np.float16)


def joined(samples: Sequence[Sample]) -> tuple[Stacks, Arrays]:
    """Stacks and arrays of all samples; empty without any."""
    stacks, arrays = [one.stacks for one in samples], [one.arrays for one in samples]
    return together(stacks), together(arrays)


def together(parts: Sequence[dict[str, NDArray[Scalar]]]) -> dict[str, NDArray[Scalar]]:
    """Rows of all parts by name."""
    names = parts[0] if parts else ()
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


KINDS = {
    "pictures": Kind(
        side=160,
        steps={"truth": 8.0, "given": 8.0, "gain": 8.0},
        beside={"given": "truth"},
        restored="given",
        samples=_pictures,
        clips=0.5,
        shares=(0.5, 0.25, 0.25),
        least_spacing=1,
        networks=("alex", "features", "animevideov3"),
    ),
    "windows": Kind(
        side=128,
        steps={"keys": 8.0, "rendering": 8.0, "truth": 8.0, "confidence": 16.0},
        beside={"rendering": "keys", "truth": "rendering"},
        restored="rendering",
        samples=_windows,
        clips=0.75,
        shares=(0.5, 0.25, 0.25),
        least_spacing=4,
        networks=("alex", "rife"),
    ),
}
