"""Runs of frames as a decoder gets them: coded pictures, and the frames drawn between them.

A run is coded in one of two ways:

- As one AV1 sequence of every n-th frame, with or without temporal layers. Without: key pictures as
  gsvc sends them, far apart, with pre-emphasis and texture gains. With layers: the pictures of
  higher layers are cheap, either as SVT-AV1 spends a crf on them or by a quantiser for each layer
  (its `use-fixed-qindex-offsets`).
- As gsvc's own stream: key pictures where the encoder puts them, with their scaffold. The encoder's
  look-ahead and the decoder's reconstruction work here as in `gsvc.Encoder` and `gsvc.Decoder`,
  which know only the four lambdas of the levels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.frames import Color, Picture, VideoFormat
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.header import Header, Tools
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.interpolation.rendering import IntervalRenderer
from gsvc.decoders.keyframes.keyframe import Keyframe, decode_keyframes
from gsvc.decoders.streams.reconstruction import Reconstruction
from gsvc.decoders.training.footage import FrameSource
from gsvc.encoders.coding.keyframes import choose_texture
from gsvc.encoders.coding.lookahead import Lookahead
from gsvc.encoders.config import CodedPacket, CodingConfig
from gsvc.encoders.distortion import Reference
from gsvc.encoders.search.probes import emphasised
from gsvc.encoders.svt_av1 import MAX_CRF, encode_pictures, quantiser_offsets
from gsvc.encoders.tuning import LEVELS, PRESETS, PROBE_PRESET


class Drawn(Protocol):
    """Draws the frames between two coded pictures; `number` counts from the one before."""

    def picture(self, number: int) -> Picture:
        """The frame as it is rendered, RGB uint8 (H, W, 3)."""

    def confidence(self, number: int) -> NDArray[np.float32]:
        """How far motion there and back agrees, float32 (H, W), 0 to 1."""


@dataclass(frozen=True)
class CodedPicture:
    """A coded picture of a run."""

    frame: int
    """Its index in the run."""
    key: Keyframe
    """As decoded, with what its coding was."""
    layer: int = 0
    """Temporal layer; 0: key pictures."""


@dataclass(frozen=True)
class Gap:
    """The frames between two coded pictures."""

    before: CodedPicture
    after: CodedPicture
    drawn: Drawn

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
        """As of `Drawn`; 1 at the coded pictures."""
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
_LEAST_CRF = 40
_MOST_LMBDA, _LEAST_LMBDA = 300.0, 9.0
_INDICES = 4
"""AV1's quantiser indices for one crf."""


@dataclass(frozen=True)
class Layers:
    """The temporal layers of a sequence."""

    levels: int
    """Layers above the lowest: groups have 2^levels pictures."""
    offsets: tuple[int, ...] = ()
    """Of quantiser indices, -64 to 63: of the first picture, then of each layer from the lowest.
    Empty: as SVT-AV1 spends a crf."""

    def layer(self, number: int) -> int:
        """The layer of the sequence's picture `number`."""
        place = number % (1 << self.levels)
        return self.levels - (place & -place).bit_length() + 1 if place else 0

    def crf(self, crf: float, number: int) -> float:
        """The quantiser of the sequence's picture `number`, 1 to 70."""
        if not self.offsets:
            return crf
        offset = self.offsets[self.layer(number) + 1 if number else 0]
        return float(np.clip(crf + offset / _INDICES, 1, MAX_CRF))

    @property
    def parameters(self) -> str:
        """For SVT-AV1."""
        levels = f":hierarchical-levels={self.levels}"
        if not self.offsets:
            return levels
        key, *layers = self.offsets
        return f"{levels}:{quantiser_offsets(key, layers)}"


@dataclass(frozen=True)
class SequenceCoding:
    """How a sequence is coded."""

    spacing: int
    """Frames from one coded picture to the next."""
    pictures: int
    """How many there are."""
    crf: int
    """Quantiser, 1 to 70; with offsets at most 63."""
    scale: int
    """Eighths of the sides."""
    preset: int
    """Of SVT-AV1."""
    lmbda: float | None = None
    """Distortion that a bit of the lowest layer's texture gains must save; None: no gains."""
    block_log2: int = 2
    """Texture gains are for blocks of 2^`block_log2` cells a side."""
    emphasis: bool = False
    """Whether pictures are pre-emphasised."""
    layers: Layers | None = None
    more: str = ""
    """Further parameters of SVT-AV1, each after a colon."""

    @property
    def frames(self) -> int:
        """Frames of the sequence, the coded pictures included."""
        return self.spacing * (self.pictures - 1) + 1


def random_keys(rng: Generator, least_spacing: int) -> SequenceCoding:
    """Key pictures as in streams of any rate."""
    spacing = max(least_spacing, int(rng.choice((4, 6, 8, 12, 16, 24, 32, 40))))
    return SequenceCoding(
        spacing=spacing,
        pictures=6 if spacing <= 8 else 4 if spacing <= 16 else 3,
        crf=int(rng.integers(_LEAST_CRF, MAX_CRF + 1, 2).max()),  # coarser: more to restore
        scale=int(rng.choice((8, 6, 4), p=(0.55, 0.3, 0.15))),
        preset=int(rng.choice((4, 8), p=(0.75, 0.25))),
        lmbda=_random_lmbda(rng, 0.7),
        block_log2=int(rng.choice((2, 3), p=(0.75, 0.25))),
        emphasis=True,
    )


def random_hierarchy(rng: Generator, least_spacing: int) -> SequenceCoding:
    """Pictures of several temporal layers: every frame to every sixteenth one."""
    drawn = rng.choice((1, 2, 3, 4, 6, 8, 12, 16), p=(0.05,) + (0.15,) * 5 + (0.1,) * 2)
    spacing = max(least_spacing, int(drawn))
    levels = int(rng.choice((3, 4))) if spacing <= 6 else 3
    if rng.random() < 0.35:
        layers, crf = Layers(levels), int(rng.integers(_LEAST_CRF, MAX_CRF + 1))
    else:
        drawn = rng.integers((-60, -40, 10), (-20, 5, 50))
        key, base, higher = (int(value) for value in drawn)
        layers, crf = Layers(levels, (key, base, *[higher] * levels)), int(rng.integers(46, 64))
    return SequenceCoding(
        spacing=spacing,
        pictures=(1 << levels) + 1,
        crf=crf,
        scale=int(rng.choice((8, 6, 4), p=(0.6, 0.25, 0.15))),
        preset=int(rng.choice((4, 8), p=(0.5, 0.5))),
        lmbda=_random_lmbda(rng, 0.4),
        emphasis=bool(rng.random() < 0.4),
        layers=layers,
    )


def _random_lmbda(rng: Generator, share: float) -> float | None:
    lmbda = float(np.exp(rng.uniform(np.log(_LEAST_LMBDA), np.log(_MOST_LMBDA))))
    return lmbda if rng.random() < share else None


def coded_sequence(frame: FrameSource, coding: SequenceCoding) -> CodedRun:
    """The run, coded and decoded; frames between its pictures are drawn without a scaffold."""
    sources = [frame(number * coding.spacing) for number in range(coding.pictures)]
    references = [Reference(source) for source in sources]
    prepared = sources
    if coding.emphasis:
        trial = [gray(picture) for picture in _coded(sources, coding, PROBE_PRESET)]
        prepared = [
            emphasised(source, reference, picture, coding.crf)
            for source, reference, picture in zip(sources, references, trial, strict=True)
        ]
    decoded = _coded(prepared, coding, coding.preset)
    pictures = [
        _picture(coding, number, picture, reference)
        for number, (picture, reference) in enumerate(zip(decoded, references, strict=True))
    ]
    return CodedRun(frame, pictures, [_gap(*ends) for ends in pairwise(pictures)])


def _coded(pictures: Sequence[Picture], coding: SequenceCoding, preset: int) -> list[Picture]:
    """The pictures, coded and decoded."""
    height, width = pictures[0].shape[:2]
    geometry = Geometry(width, height)
    units = encode_pictures(
        pictures,
        size=geometry.coded_size(coding.scale),
        crf=coding.crf,
        color=_COLOR,
        preset=preset,
        threads=1,
        more=(coding.layers.parameters if coding.layers else "") + coding.more,
    )
    return decode_keyframes(units, geometry, coding.scale, _COLOR)


def _picture(
    coding: SequenceCoding, number: int, decoded: Picture, reference: Reference
) -> CodedPicture:
    crf, layer = float(coding.crf), 0
    if coding.layers:
        crf, layer = coding.layers.crf(crf, number), coding.layers.layer(number)
    texture = None
    if coding.lmbda is not None and layer == 0:
        texture = choose_texture(
            reference, decoded, coding.block_log2, coding.spacing, coding.lmbda
        )
    key = Keyframe.of(decoded, texture, crf, coding.scale)
    return CodedPicture(number * coding.spacing, key, layer)


def _gap(before: CodedPicture, after: CodedPicture) -> Gap:
    interval = Interval((1,) * (after.frame - before.frame))
    drawn = IntervalRenderer(before.key.picture, after.key.picture, interval, None)
    return Gap(before, after, drawn)


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
    coder = Lookahead(recipe)
    try:
        coded = []
        for frame in frames:
            coded += coder.push(frame, 1, is_cut=False, opens_group=False)
        coded += coder.flush()
    finally:
        coder.close()
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

    chain = Reconstruction(header, GroupReader(header), noted)
    pictures: list[CodedPicture] = []
    gaps = []
    end = -1
    for one in coded:
        for decoded in chain.intervals(chain.read(Packet(one.type, one.frames, one.payload))):
            end += decoded.interval.length
            if decoded.interval.place is Place.AFTER:
                continue
            assert decoded.key.shown is keys[-1].picture  # `shown` has asked for it
            pictures.append(CodedPicture(end, keys[-1]))
            if decoded.before is not None:
                gaps.append(Gap(pictures[-2], pictures[-1], decoded))
    return CodedRun(frames.__getitem__, pictures, gaps)
