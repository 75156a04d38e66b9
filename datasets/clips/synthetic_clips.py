"""The set `synthetic`: clips drawn by code, which move by known transforms.

They test motion estimators and metrics of motion. The textures are smooth, so motion is exact to
the 1/32 pixel of OpenCV's interpolation. All machines draw equal pictures, but for the last bit.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture

WIDTH, HEIGHT = 512, 288
FRAME_RATE = Fraction(25)
FRAMES = 121

Transform = NDArray[np.float64]
"""Affine matrix, (3, 3): from (x, y, 1) in a frame to a layer's texture, in pixels."""

_CANVAS = 1024
_OCTAVES = ((1.5, 0.25), (4.0, 0.5), (12.0, 0.8), (40.0, 1.0))
"""Blur in pixels and weight of the noises that make a texture."""
_CONTRAST = 42.0
_SPRITE_RADIUS = 60.0


def _shift(x: float, y: float) -> Transform:
    return np.array([[1, 0, x], [0, 1, y], [0, 0, 1]], np.float64)


def _pan(speed: tuple[float, float]) -> Callable[[int], Transform]:
    """The path of a texture that moves by `speed` pixels a frame."""
    start = (_CANVAS - WIDTH) / 2, (_CANVAS - HEIGHT) / 2
    return lambda index: _shift(start[0] - index * speed[0], start[1] - index * speed[1])


def _turn(index: int) -> Transform:
    """Turns by 0.4 degrees and grows by 0.4 % a frame, about the picture's centre."""
    angle, scale = np.deg2rad(0.4 * index), 1.004**-index
    cos, sin = scale * np.cos(angle), scale * np.sin(angle)
    rotation = np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]], np.float64)
    to_texture = _shift(_CANVAS / 2, _CANVAS / 2)
    return np.asarray(to_texture @ rotation @ _shift(-WIDTH / 2, -HEIGHT / 2))


class MovingLayer(NamedTuple):
    """A texture and its path."""

    seed: int
    position: Callable[[int], Transform]
    """From a frame's index to its transform."""


class DrawnClip(NamedTuple):
    """A synthetic clip of `FRAMES` frames, `WIDTH` x `HEIGHT`, `FRAME_RATE` frames per second."""

    name: str
    description: str
    background: MovingLayer
    sprite: MovingLayer | None = None
    """A disc in front, which moves with its texture."""
    cut: int | None = None
    """The last frame before a cut to `after_cut`."""
    after_cut: MovingLayer | None = None
    noise: float = 0.0
    """Standard deviation in grey levels."""
    flashes: tuple[int, ...] = ()
    """Frames that are brighter."""

    def frame(self, index: int) -> Picture:
        """Frame `index`, RGB uint8 (HEIGHT, WIDTH, 3). Raises ConfigError outside the clip."""
        picture = _drawn(self.background_at(index), index).astype(np.float64)
        if self.sprite is not None:
            alpha = coverage(self.sprite, index, grid())[..., None]
            picture = picture * (1 - alpha) + _drawn(self.sprite, index) * alpha
        if index in self.flashes:
            picture = picture * 1.4 + 12
        if self.noise:
            random = np.random.default_rng((self.background.seed, index))
            picture = picture + random.normal(0, self.noise, picture.shape)
        return np.clip(np.rint(picture), 0, 255).astype(np.uint8)

    def background_at(self, index: int) -> MovingLayer:
        """What lies behind the sprite. Raises ConfigError outside the clip."""
        if not 0 <= index < FRAMES:
            raise ConfigError(f"frame {index}: a synthetic clip has frames 0 to {FRAMES - 1}")
        after = self.after_cut is not None and self.cut is not None and index > self.cut
        return self.after_cut if after and self.after_cut else self.background


def _sprite_path(index: int) -> Transform:
    """From left to right, 3.25 pixels a frame; its texture's centre starts at (40, 144)."""
    return _shift(_CANVAS / 2 - 40 - 3.25 * index, _CANVAS / 2 - HEIGHT / 2)


SCENES: dict[str, DrawnClip] = {
    scene.name: scene
    for scene in (
        DrawnClip("still", "nothing moves", MovingLayer(1, _pan((0, 0)))),
        DrawnClip(
            "pan", "all moves by (2.25, -0.75) pixels a frame", MovingLayer(2, _pan((2.25, -0.75)))
        ),
        DrawnClip("turn", "turns by 0.4 degrees, grows by 0.4 % a frame", MovingLayer(3, _turn)),
        DrawnClip(
            "occlusion",
            "a disc, (3.25, 0) pixels a frame, in front of a ground of (-0.5, 0.25)",
            MovingLayer(4, _pan((-0.5, 0.25))),
            sprite=MovingLayer(5, _sprite_path),
        ),
        DrawnClip(
            "cut",
            "pans by (1.5, 0) pixels a frame, after frame 40 elsewhere by (0, -1)",
            MovingLayer(6, _pan((1.5, 0.0))),
            cut=40,
            after_cut=MovingLayer(7, _pan((0.0, -1.0))),
        ),
        DrawnClip(
            "flash",
            "pans by (1, 0.5) pixels a frame with noise (deviation 4), flashes at 30, 31 and 75",
            MovingLayer(8, _pan((1.0, 0.5))),
            noise=4.0,
            flashes=(30, 31, 75),
        ),
    )
}


@lru_cache(maxsize=4)
def _texture(seed: int) -> NDArray[np.float32]:
    """Noise of several widths, float32 (_CANVAS, _CANVAS, 3), mean 128."""
    random = np.random.default_rng(seed)
    texture = np.zeros((_CANVAS, _CANVAS, 3), np.float32)
    for blur, weight in _OCTAVES:
        step = 2 ** int(np.log2(blur))  # on a coarser grid wide noise is faster to blur
        side = _CANVAS // step
        # Separate grey and colour noise give both luma and chroma detail.
        noise = random.normal(size=(side, side, 3)) + 1.5 * random.normal(size=(side, side, 1))
        smooth = cv2.GaussianBlur(noise.astype(np.float32), (0, 0), blur / step)
        texture += weight * cv2.resize(
            smooth / smooth.std(), (_CANVAS, _CANVAS), interpolation=cv2.INTER_CUBIC
        )
    texture -= texture.mean()
    return np.asarray(128 + _CONTRAST * texture / texture.std(), np.float32)


def _drawn(layer: MovingLayer, index: int) -> NDArray[np.float32]:
    positions = moved(layer.position(index), grid()).astype(np.float32)
    drawn = cv2.remap(
        _texture(layer.seed), positions, None, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT
    )
    return np.asarray(drawn, np.float32)


def coverage(
    sprite: MovingLayer, index: int, positions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share (0-1) of each position that the disc covers; its edge is one pixel wide."""
    at = moved(sprite.position(index), positions)
    distance = np.hypot(*np.moveaxis(at - _CANVAS / 2, -1, 0))
    return np.asarray(np.clip(_SPRITE_RADIUS + 0.5 - distance, 0, 1))


def moved(transform: Transform, positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positions, (..., 2), under an affine transform."""
    return np.asarray(positions @ transform[:2, :2].T + transform[:2, 2])


def grid() -> NDArray[np.float64]:
    """The position of every pixel, x and y: (HEIGHT, WIDTH, 2)."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return np.dstack([x, y]).astype(np.float64)
