"""Motion that is found in the encoder alone."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.decoders.motion.estimation import Flow, dense_flow, gray

_LONGEST = 127
"""Magnitude of a vector's component that the encoder proposes, in motion units."""


def source_motion(picture: Picture, others: Sequence[Picture]) -> list[Flow]:
    """Motion from a picture (RGB or luma) to each of the others: float32 (H, W, 2) in pixels.

    It is found at half size, which is enough for medians of blocks.
    """
    height, width = picture.shape[:2]
    half = max(1, width // 2), max(1, height // 2)
    scale = np.array([width / half[0], height / half[1]], np.float32)
    luma, *ends = (
        np.asarray(cv2.resize(gray(p), half, interpolation=cv2.INTER_AREA), np.uint8)
        for p in (picture, *others)
    )
    found = (cv2.resize(dense_flow(luma, end), (width, height)) * scale for end in ends)
    return [np.asarray(motion, np.float32) for motion in found]


def to_motion_units(pixels: NDArray[np.floating], geometry: Geometry) -> NDArray[np.int16]:
    """Vectors in pixels as integers in motion units."""
    units = np.rint(pixels / geometry.motion_unit)
    return np.asarray(np.clip(units, -_LONGEST, _LONGEST), np.int16)
