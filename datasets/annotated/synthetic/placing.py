"""Sprites put where their actors stand, and what they hide of each other."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.datasets.annotated.boxes import Floats
from gsvc.datasets.annotated.synthetic.camera import Matrix
from gsvc.datasets.annotated.synthetic.sprites import Sprite

_NEAREST = 0.5
"""Metres before the camera within which nothing is drawn."""
_SOLID = 0.5
"""Alpha from which on a pixel is the sprite's."""


class Standing(Protocol):
    """What this module needs to know of an actor."""

    @property
    def id(self) -> int: ...
    @property
    def label(self) -> str: ...
    @property
    def height(self) -> float: ...


@dataclass(frozen=True)
class Placed:
    """A sprite in a picture."""

    actor: Standing
    depth: float
    """Metres before the camera."""
    box: tuple[float, float, float, float]
    """Of its solid part: left, top, right, bottom in pixels, possibly outside the picture."""
    pixels: int
    """Solid ones, inside the picture or not; 1 at least."""
    corner: tuple[int, int]
    """Left and top of `drawn` in the picture."""
    drawn: Sprite = field(repr=False)
    """At its size, RGBA float32, colours multiplied by alpha."""


def placed(
    actor: Standing, sprite: Sprite, projection: Matrix, place: Floats, ahead: Floats
) -> Placed | None:
    """The sprite upright on `place`, turned to where it goes; None behind the camera."""
    foot = projection @ (*place, 0.0, 1.0)
    head = projection @ (*place, actor.height, 1.0)
    if min(foot[2], head[2]) < _NEAREST:
        return None
    x, low = foot[0] / foot[2], foot[1] / foot[2]
    scale = (low - head[1] / head[2]) / sprite.shape[0]
    moving = projection @ (*(place + ahead), 0.0, 1.0)
    if moving[0] / moving[2] < x:
        sprite = np.ascontiguousarray(sprite[:, ::-1])
    corner = np.array([x - scale * sprite.shape[1] / 2, low - scale * sprite.shape[0]])
    whole = np.floor(corner).astype(int) - 1
    drawn = _drawn(sprite, scale, corner - whole)
    solid = drawn[..., 3] > _SOLID
    left, top, width, height = _bounds(sprite[..., 3] > _SOLID)
    edges = np.array([left, top, left + width, top + height]) * scale + np.tile(corner, 2)
    box = float(edges[0]), float(edges[1]), float(edges[2]), float(edges[3])
    at = int(whole[0]), int(whole[1])
    return Placed(actor, float(foot[2]), box, max(1, int(solid.sum())), at, drawn)


def painted(
    backdrop: NDArray[np.float32], far_to_near: Sequence[Placed]
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """The picture, and whose each pixel is: 0, or 1 + an index of `far_to_near`."""
    height, width = backdrop.shape[:2]
    owner = np.zeros((height, width), np.int32)
    for number, one in enumerate(far_to_near, 1):
        left, top = one.corner
        low = max(left, 0), max(top, 0)
        high = min(left + one.drawn.shape[1], width), min(top + one.drawn.shape[0], height)
        if low[0] >= high[0] or low[1] >= high[1]:
            continue
        into = np.s_[low[1] : high[1], low[0] : high[0]]
        part = one.drawn[low[1] - top : high[1] - top, low[0] - left : high[0] - left]
        backdrop[into] = backdrop[into] * (1 - part[..., 3:]) + 255 * part[..., :3]
        owner[into][part[..., 3] > _SOLID] = number
    return backdrop, owner


def _drawn(sprite: Sprite, scale: float, offset: NDArray[np.float64]) -> Sprite:
    """The sprite at a scale, its corner at `offset` in the result."""
    rows, columns = sprite.shape[:2]
    size = [int(np.ceil(length * scale)) + 3 for length in (columns, rows)]
    if scale < 0.5:  # shrunk by averaging first, for linear interpolation skips pixels
        near = max(1, round(columns * scale * 1.5)), max(1, round(rows * scale * 1.5))
        sprite = np.asarray(cv2.resize(sprite, near, interpolation=cv2.INTER_AREA), np.float32)
    across, down = columns * scale / sprite.shape[1], rows * scale / sprite.shape[0]
    # OpenCV's pixel 0 is centred on 0, ours on a half.
    moved = np.array(
        [[across, 0, offset[0] + across / 2 - 0.5], [0, down, offset[1] + down / 2 - 0.5]]
    )
    drawn = cv2.warpAffine(sprite, moved, size, flags=cv2.INTER_LINEAR)
    return np.asarray(drawn, np.float32)


def _bounds(solid: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    left, top, width, height = cv2.boundingRect(solid.astype(np.uint8))
    return left, top, width, height
