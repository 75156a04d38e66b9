"""Runs of frames as a decoder gets them: coded pictures, and the frames drawn between them.

A run is coded as gsvc's own stream: pictures where the encoder puts them, with their scaffold. The
encoder's look-ahead and the decoder's reconstruction work here as in `gsvc.Encoder` and
`gsvc.Decoder`, which know only the four lambdas of the levels.
"""

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.frames import Color, Picture, VideoFormat
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.header import Header, Tools
from gsvc.codec.bitstream.scaffold import Place
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.streams.reconstruction import DecodedInterval, Reconstruction
from gsvc.decoders.training.footage import FrameSource
from gsvc.encoders.coding.lookahead import Lookahead
from gsvc.encoders.config import CodedPacket, CodingConfig
from gsvc.encoders.tuning import LEVELS, PRESETS


@dataclass(frozen=True)
class CodedPicture:
    """A coded picture of a run."""

    frame: int
    """Its index in the run."""
    key: Keyframe
    """As decoded, with what its coding was."""


@dataclass(frozen=True)
class Gap:
    """The frames between two coded pictures."""

    before: CodedPicture
    after: CodedPicture
    drawn: DecodedInterval

    @property
    def length(self) -> int:
        """Frames from one picture to the other."""
        return self.after.frame - self.before.frame

    def picture(self, number: int) -> Picture:
        """A frame from the picture before (0) to the one after, as it is shown without a refiner,
        RGB uint8 (H, W, 3)."""
        ends = {0: self.before, self.length: self.after}
        return ends[number].key.picture if number in ends else self.drawn.picture(number)

    def confidence(self, number: int) -> NDArray[np.float32]:
        """How far motion there and back agrees, float32 (H, W), 0 to 1; 1 at the coded pictures."""
        if number in (0, self.length):
            return np.ones(self.before.key.picture.shape[:2], np.float32)
        return self.drawn.confidence(number)


@dataclass(frozen=True)
class CodedRun:
    """A run of frames, coded and decoded."""

    truth: FrameSource
    pictures: Sequence[CodedPicture]
    gaps: Sequence[Gap]


_COLOR = Color(matrix=1)
_STREAM_LMBDAS = 6.0, 450.0
"""A little beyond those of the levels."""
_LEAST_FRAMES, _MOST_FRAMES = 33, 65


@dataclass(frozen=True)
class StreamCoding:
    """How a stream is coded."""

    frames: int
    lmbda: float
    """Distortion that a bit must save, as of levels."""
    preset: str
    """Of the encoder."""
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
        bpp=inf,
        exact=False,
    )


def _decoded(frames: Sequence[Picture], header: Header, coded: Sequence[CodedPacket]) -> CodedRun:
    keys: list[Keyframe] = []

    def noted(key: Keyframe) -> Picture:
        keys.append(key)
        return key.picture

    reconstruction = Reconstruction(header, GroupReader(header), noted)
    pictures: list[CodedPicture] = []
    gaps = []
    end = -1
    for one in coded:
        parsed = reconstruction.read(Packet(one.type, one.frames, one.payload))
        for decoded in reconstruction.intervals(parsed):
            end += decoded.interval.length
            if decoded.interval.place is Place.AFTER:
                continue
            assert decoded.key.shown is keys[-1].picture  # `shown` has asked for it
            pictures.append(CodedPicture(end, keys[-1]))
            if decoded.before is not None:
                gaps.append(Gap(pictures[-2], pictures[-1], decoded))
    return CodedRun(frames.__getitem__, pictures, gaps)
