"""Scaffolds to make and compare, for the tests."""

import hashlib
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.scaffold.coder import Coder
from gsvc.codec.scaffold.digest import scaffold_bytes
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.camera import CAMERA, Camera
from gsvc.codec.scaffold.layers.flow import FLOW, Correction
from gsvc.codec.scaffold.layers.pose import POSE, People
from gsvc.codec.scaffold.layers.segmentation import SEGMENTATION, Segmentation
from gsvc.codec.scaffold.layers.texture import TEXTURE, Texture
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.syntax import IntervalCoder, Prediction
from gsvc.codec.scaffold.tools import TOOLS, Tools
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.codec.stream.varint import varint


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
) -> Interval:
    """An interval with the values of these layers."""
    return Interval(ticks, samples, {TEXTURE: texture, CAMERA: camera}, place, dissolves)


def only(*names: str) -> Tools:
    """The tools of these names and no others."""
    return Tools(**{name: name in names for name in TOOLS})


def interval_coder(
    coder: Coder,
    geometry: Geometry,
    tools: Tools | None = None,
    ticks: Fraction = Fraction(1),
    *,
    holds: bool = True,
) -> IntervalCoder:
    """A coder of a group's intervals."""
    prediction = Prediction(ticks, holds=holds, dissolves=holds)
    return IntervalCoder(coder, prediction, geometry, tools or Tools())


def join_payload(scaffold: bytes, unit: bytes) -> bytes:
    """The payload of a picture packet."""
    return varint(len(scaffold)) + scaffold + unit


def scaffold_hash(intervals: Iterable[Interval]) -> str:
    """SHA-256 over `scaffold_bytes` of every interval, as `gsvc info` shows it."""
    digest = hashlib.sha256()
    for interval in intervals:
        digest.update(scaffold_bytes(interval))
    return digest.hexdigest()
