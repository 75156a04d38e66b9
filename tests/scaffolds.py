"""Scaffolds to make and compare, for the tests."""

import hashlib
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc import Tools
from gsvc.codec.bitstream.container import varint
from gsvc.codec.bitstream.entropy_coding import Coder
from gsvc.codec.bitstream.group import IntervalCoder
from gsvc.codec.bitstream.header import TOOLS
from gsvc.codec.bitstream.layers.brightness import BRIGHTNESS, Brightness
from gsvc.codec.bitstream.layers.camera import CAMERA, Camera
from gsvc.codec.bitstream.layers.faces import FACES, Faces
from gsvc.codec.bitstream.layers.flow import FLOW, Correction
from gsvc.codec.bitstream.layers.guide import GUIDE
from gsvc.codec.bitstream.layers.pose import POSE, People
from gsvc.codec.bitstream.layers.segmentation import SEGMENTATION, Segmentation
from gsvc.codec.bitstream.layers.texture import TEXTURE, Texture
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Layer, LayoutCoder, Place, Sample
from gsvc.codec.bitstream.stream_info import scaffold_bytes


def make_sample(
    offset: int,
    labels: NDArray[np.uint8] | None = None,
    vectors: NDArray[np.int16] | None = None,
    people: People | None = None,
    correction: Correction | None = None,
) -> Sample:
    """A sample with the values of these layers."""
    segmentation = None
    if labels is not None:
        segmentation = Segmentation.still(labels)
        if vectors is not None:
            segmentation = Segmentation(labels, vectors)
    return Sample(offset, {SEGMENTATION: segmentation, POSE: people, FLOW: correction})


def make_interval(
    ticks: tuple[int, ...],
    samples: tuple[Sample, ...] = (),
    texture: Texture | None = None,
    camera: Camera | None = None,
    place: Place = Place.BETWEEN,
    dissolves: bool = False,
    faces: Faces | None = None,
    guide: int | None = None,
    brightness: Brightness | None = None,
) -> Interval:
    """An interval with the values of these layers."""
    values: dict[Layer[Any], Any] = {TEXTURE: texture, CAMERA: camera, FACES: faces, GUIDE: guide}
    values[BRIGHTNESS] = brightness
    return Interval(ticks, samples, values, place, dissolves)


def only(*names: str) -> Tools:
    """The tools of these names and no others."""
    return Tools(**{name: name in names for name in TOOLS})


class GroupCoder:
    """Codes the layouts and scaffolds of a group's packets, without its pictures."""

    def __init__(
        self,
        coder: Coder,
        geometry: Geometry,
        tools: Tools | None = None,
        ticks: Fraction = Fraction(1),
        *,
        holds: bool = True,
    ) -> None:
        self._layout = LayoutCoder(coder, ticks, holds=holds)
        self._intervals = IntervalCoder(coder, geometry, tools or Tools())
        self._opens_group = True

    def code(self, frames: int, intervals: Sequence[Interval] | None) -> list[Interval]:
        """The next packet, of so many frames."""
        opens_group, self._opens_group = self._opens_group, False
        spans = self._layout.code(frames, intervals, opens_group=opens_group)
        given: Iterable[Interval | None] = intervals or repeat(None)
        return list(map(self._intervals.code, spans, given))

    def code_one(self, frames: int, interval: Interval | None) -> Interval:
        """The next packet, of one interval."""
        (found,) = self.code(frames, None if interval is None else [interval])
        return found


def join_payload(scaffold: bytes, plain: bytes) -> bytes:
    """The payload of a picture packet."""
    return varint(len(scaffold)) + scaffold + plain


def scaffold_hash(intervals: Iterable[Interval]) -> str:
    """SHA-256 over `scaffold_bytes` of every interval, as `gsvc info` shows it."""
    digest = hashlib.sha256()
    for interval in intervals:
        digest.update(scaffold_bytes(interval))
    return digest.hexdigest()
