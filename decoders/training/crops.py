"""Runs of frames, coded and decoded, and samples of them: pictures, or windows of rendered frames.

A run is coded as gsvc's own stream: pictures where the encoder puts them, with their scaffold. The
encoder's look-ahead and the decoder's reconstruction work here as in `gsvc.Encoder` and
`gsvc.Decoder`, which know only the four lambdas of the levels. Crops are cut rather where something
is to be restored.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gsvc.codec.bitstream import container, group, scaffold
from gsvc.codec.bitstream.frames import Color, Picture, VideoFormat
from gsvc.codec.bitstream.header import Header, Tools
from gsvc.decoders.interpolation.optical_flow import shrunk
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.streams.reconstruction import DecodedInterval, Reconstruction
from gsvc.decoders.training.footage import FrameSource
from gsvc.decoders.training.samples import CONFIDENCE_UNIT, GAIN_UNIT, Sample
from gsvc.encoders.coding.lookahead import Lookahead
from gsvc.encoders.config import CodedPacket, CodingConfig
from gsvc.encoders.tuning import LEVELS, PRESETS


class CodedPicture(NamedTuple):
    """A coded picture of a run."""

    frame: int
    """Its index in the run."""
    key: Keyframe
    """As decoded, with what its coding was."""


class Gap(NamedTuple):
    """The frames between two coded pictures."""

    before: CodedPicture
    after: CodedPicture
    drawn: DecodedInterval

    @property
    def length(self) -> int:
        """Frames from one picture to the other."""
        return self.after.frame - self.before.frame

    def picture(self, number: int) -> Picture:
        """A frame, 0 being the picture before, as shown without a refiner: RGB uint8 (H, W, 3)."""
        ends = {0: self.before, self.length: self.after}
        return ends[number].key.picture if number in ends else self.drawn.picture(number)

    def confidence(self, number: int) -> NDArray[np.float32]:
        """How far motion there and back agrees, float32 (H, W), 0 to 1; 1 at the coded pictures."""
        if number in (0, self.length):
            return np.ones(self.before.key.picture.shape[:2], np.float32)
        return self.drawn.confidence(number)


class CodedRun(NamedTuple):
    """A run of frames, coded and decoded."""

    truth: FrameSource
    pictures: Sequence[CodedPicture]
    gaps: Sequence[Gap]


_COLOR = Color(matrix=1)
_STREAM_LMBDAS = 6.0, 450.0  # a little beyond those of the levels
_LEAST_FRAMES, _MOST_FRAMES = 33, 65


class StreamCoding(NamedTuple):
    """How a stream is coded."""

    frames: int
    lmbda: float
    """Distortion that a bit must save, as of levels."""
    preset: str
    frame_rate: int
    flow: bool
    """Whether corrections of motion are sent; texture and camera always may be."""


def random_stream(rng: Generator) -> StreamCoding:
    """A stream of any rate."""
    least, most = map(math.log, _STREAM_LMBDAS)
    return StreamCoding(
        frames=int(rng.integers(_LEAST_FRAMES, _MOST_FRAMES + 1)),
        lmbda=float(np.exp(rng.uniform(least, most))),
        preset=str(rng.choice(("fast", "medium"), p=(0.6, 0.4))),
        frame_rate=int(rng.choice((25, 30))),
        flow=bool(rng.random() < 0.4),
    )


def coded_stream(frames: Sequence[Picture], coding: StreamCoding) -> CodedRun:
    """The frames, encoded and decoded."""
    recipe = _recipe(frames[0], coding)
    coded = []
    with closing(Lookahead(recipe)) as coder:
        for frame in frames:
            coded += coder.push(frame, 1, is_cut=False, opens_group=False)
        coded += coder.flush()
    return _decoded(frames, recipe.header, coded)


def _recipe(picture: Picture, coding: StreamCoding) -> CodingConfig:
    height, width = picture.shape[:2]
    rate = Fraction(coding.frame_rate)
    number = min(range(len(LEVELS)), key=lambda n: abs(math.log(LEVELS[n].lmbda / coding.lmbda)))
    level = replace(LEVELS[number], lmbda=coding.lmbda)
    return CodingConfig(
        header=Header(
            VideoFormat(width, height, 1 / rate, rate, color=_COLOR),
            number,
            Tools(segmentation=False, pose=False, flow=coding.flow),
        ),
        level=level.suited_to(width * height, float(rate)),
        effort=PRESETS[coding.preset],
        bpp=math.inf,
        exact=False,
    )


def _decoded(frames: Sequence[Picture], header: Header, coded: Sequence[CodedPacket]) -> CodedRun:
    keys: list[Keyframe] = []

    def noted(key: Keyframe) -> Picture:
        keys.append(key)
        return key.picture

    reconstruction = Reconstruction(header, group.GroupReader(header), noted)
    pictures: list[CodedPicture] = []
    gaps = []
    end = -1
    for one in coded:
        parsed = reconstruction.read(container.Packet(one.type, one.frames, one.payload))
        for decoded in reconstruction.intervals(parsed):
            end += decoded.interval.length
            if decoded.interval.place is scaffold.Place.AFTER:
                continue
            assert decoded.key.shown is keys[-1].picture  # `shown` has asked for it
            pictures.append(CodedPicture(end, keys[-1]))
            if decoded.previous_key is not None:
                gaps.append(Gap(pictures[-2], pictures[-1], decoded))
    return CodedRun(frames.__getitem__, pictures, gaps)


_PLACES = 4
_EASY = 0.25  # share of crops that are cut at any place
_LEAST_SPREAD = 3.0
"""Standard deviation of levels, 0-255, below which a place shows nothing."""
_COARSE, _RUINED = 8, 12.0
"""Side of a cell, and mean difference of levels in the worst cells: there a coarse quantiser has
left out what moved, and another moment is shown. No refiner can know what was there."""

Corner = tuple[int, int]
"""Top and left of a crop."""
Arrays = dict[str, NDArray[np.generic]]
Pair = tuple[Picture, Picture]
"""A source, and what came of it: RGB uint8 (H, W, 3)."""

_LEAST, _MOST = 3, 9  # frames of a window
_LONGEST_GAP = 40  # further apart, pictures say little about the frames between
_PICTURES_PER_RUN, _WINDOWS_PER_RUN = 8, 6
"""At most: many runs show more than many crops of one."""
_CROPS_PER_PICTURE = 2


class Kind(NamedTuple):
    """A kind of pack."""

    side: int
    """Of crops in pixels."""
    channels: Mapping[str, int]
    restored: str
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
) -> Corner | None:
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

    def damage(place: Corner) -> float:
        crops = [cropped(np.stack(pictures, 2), place, side) for pictures in (truth, given)]
        return float(np.abs(crops[0].astype(np.int16) - crops[1]).mean())

    return max(shown, key=damage)


def _is_ruined(truth: Picture, given: Picture) -> bool:
    """Whether a crop shows something else, not just less."""
    cells = truth.shape[1] // _COARSE, truth.shape[0] // _COARSE
    coarse = [cv2.GaussianBlur(shrunk(of, cells), (0, 0), 1) for of in (truth, given)]
    difference = np.abs(coarse[0].astype(np.float32) - coarse[1]).mean(2)
    return float(np.percentile(difference, 95)) > _RUINED


def cropped(picture: NDArray[np.uint8], place: Corner, side: int) -> NDArray[np.uint8]:
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
        networks=("alex", "animevideov3"),
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
