"""Motion between two decoded pictures, estimated by the decoder, so that it costs no bits.

The estimator is OpenCV's Dense Inverse Search (Kroeger et al., ECCV 2016). Its id is in the stream
header, so that a decoder applies the encoder's corrections to the estimate they were made for.
"""

from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture

_T = TypeVar("_T", bound=np.generic)
Flow = NDArray[np.float32]
"""Optical flow, float32 (height, width, 2): x and y displacement in pixels."""

MOTION_ESTIMATOR = 1
"""The id of the one estimator."""
PRESET = cv2.DISOPTICAL_FLOW_PRESET_MEDIUM
"""Of DIS."""

_CONSISTENT = 2.0
"""Forward-backward error, in pixels, at which trust has fallen to 1/e."""


def dense_flow(a: Picture, b: Picture) -> Flow:
    """Optical flow from picture `a` to `b`, luma, uint8 (H, W), as the decoder estimates it."""
    return dis_flow(a, b, PRESET)


def dis_flow(a: Picture, b: Picture, preset: int) -> Flow:
    """Optical flow from picture `a` to `b`, luma, uint8 (H, W), with a preset of OpenCV's DIS."""
    height, width = a.shape
    # The coarsest level of DIS must hold one patch: smaller pictures are padded.
    pad = max(0, 64 - height), max(0, 64 - width)
    if any(pad):
        a, b = (cv2.copyMakeBorder(x, 0, pad[0], 0, pad[1], cv2.BORDER_REPLICATE) for x in (a, b))
    flow = cv2.DISOpticalFlow.create(preset).calc(a, b, None)
    return np.ascontiguousarray(flow[:height, :width], np.float32)


def gray(picture: Picture) -> Picture:
    """Luma, uint8 (H, W), of a picture in RGB or luma."""
    if picture.ndim == 2:
        return picture
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)


def pixel_grid(height: int, width: int) -> Flow:
    """The position of every pixel, float32 (H, W, 2)."""
    grid = np.empty((height, width, 2), np.float32)
    grid[..., 0] = np.arange(width)
    grid[..., 1] = np.arange(height)[:, None]
    return grid


def warp(image: NDArray[_T], positions: Flow, interpolation: int = cv2.INTER_LINEAR) -> NDArray[_T]:
    """Sample `image` at `positions` (pixels); its border is repeated outside."""
    moved = cv2.remap(image, positions, None, interpolation, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, image.dtype)


def trust(there: Flow, back: Flow) -> NDArray[np.float32]:
    """How well motion `there` and `back` agree: float32 (H, W) in (0, 1]."""
    positions = pixel_grid(*there.shape[:2]) + there
    error = there + warp(back, positions)
    error *= error
    distance = np.sqrt(error[..., 0] + error[..., 1])  # summing over an axis of 2 is slow
    return np.asarray(np.exp(-distance / _CONSISTENT), np.float32)
