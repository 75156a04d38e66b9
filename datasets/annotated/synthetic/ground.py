"""What is behind the things: a paved ground under a sky, or a photograph."""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.datasets.annotated.synthetic.camera import Camera
from gsvc.datasets.resizing import resized

Drawn = NDArray[np.float32]

_TILE = 1.5
"""Metres."""
_GRAIN = 64
"""Pixels of the ground's texture to the metre."""
_SKY, _GROUND = np.array([[176, 198, 222], [138, 132, 122]], np.float32)
_FINE = 2
"""Times as large as it is kept the ground is drawn."""


class Backdrop:
    """What a camera that turns sees of things that do not move: exact, for it turns on the spot."""

    def __init__(self, camera: Camera, seed: int, photo: Picture | None) -> None:
        self._camera = camera
        turned = np.tan(np.deg2rad(camera.sway)) * 1.3
        self._margin = int(camera.sway > 0) * (8 + int(np.ceil(turned * camera.width)))
        if photo is None:
            self._canvas = self._paved(np.random.default_rng(seed))
        else:
            width, height = (side + 2 * self._margin for side in (camera.width, camera.height))
            self._canvas = _covering(photo, width, height).astype(np.float32)

    def frame(self, time: float) -> Drawn:
        """RGB float32 (H, W, 3), 0 to 255, `time` in seconds."""
        camera, inner = self._camera, np.linalg.inv(self._camera.calibration)
        turned = camera.rotation(time) @ camera.rotation(0).T
        moved = camera.calibration @ turned @ inner @ _shift(-self._margin)
        size = camera.width, camera.height
        seen = cv2.warpPerspective(
            self._canvas, moved, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
        )
        return np.asarray(seen, np.float32)

    def _paved(self, random: np.random.Generator) -> Drawn:
        """The canvas, by casting a ray through each pixel onto the ground."""
        camera = self._camera
        width, height = (side + 2 * self._margin for side in (camera.width, camera.height))
        y, x = (np.mgrid[: height * _FINE, : width * _FINE] + 0.5) / _FINE - self._margin
        rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(camera.calibration).T
        rays = rays @ camera.rotation(0)
        down = np.maximum(-rays[..., 2], 1e-3)
        far = camera.position[2] / down
        places = rays[..., :2] * far[..., None] + camera.position[:2]
        paving = _paving(random, places.astype(np.float32))
        # Detail finer than a pixel would flicker: it fades where a pixel spans much ground.
        clear = np.clip(0.6 / (1 + (far / 12) ** 2) * 2, 0, 1)[..., None]
        shown = _GROUND + (paving - _GROUND) * clear
        haze = np.clip((far - 30) / 120, 0, 1)[..., None]
        canvas = shown + (_SKY - shown) * haze
        size = width, height
        return np.asarray(
            cv2.resize(canvas.astype(np.float32), size, interpolation=cv2.INTER_AREA), np.float32
        )


def _paving(random: np.random.Generator, places: NDArray[np.float32]) -> Drawn:
    """Tiles of slightly different colour with joints, and grain."""
    grain = random.normal(0, 1, (256, 256, 1)).astype(np.float32)
    grain = cv2.GaussianBlur(grain, (0, 0), 1.2)[..., None]
    at = np.mod(places * _GRAIN / 4, 255).astype(np.float32)
    rough = cv2.remap(grain, at, None, cv2.INTER_LINEAR)
    tints = random.normal(0, 9, (64, 64, 3)).astype(np.float32)
    tile = np.floor(places / _TILE).astype(int) % 64
    within = np.abs(places / _TILE - np.floor(places / _TILE) - 0.5)
    joint = np.clip((within.max(axis=-1) - 0.47) / 0.02, 0, 1)[..., None]
    rows: Drawn = np.asarray(tints[tile[..., 1], tile[..., 0]], np.float32)
    return np.asarray(_GROUND + rows + 22 * rough[..., None] - 45 * joint, np.float32)


def _covering(photo: Picture, width: int, height: int) -> Picture:
    """The photograph's middle, at the least size that fills the canvas."""
    scale = max(width / photo.shape[1], height / photo.shape[0])
    grown = resized(
        photo, max(width, round(photo.shape[1] * scale)), max(height, round(photo.shape[0] * scale))
    )
    top, left = (grown.shape[0] - height) // 2, (grown.shape[1] - width) // 2
    return grown[top : top + height, left : left + width]


def _shift(by: float) -> NDArray[np.float64]:
    return np.array([[1, 0, by], [0, 1, by], [0, 0, 1]], np.float64)
