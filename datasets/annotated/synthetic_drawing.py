"""Pictures of a synthetic scene: a pinhole camera over a ground, and sprites that hide each other.

The ground is paved under a sky, or a photograph. Sprites are drawn, or cut-outs from files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.annotated.truth import Floats
from gsvc.datasets.clips.clip_reader import resized

Matrix = NDArray[np.float64]

_PERIOD = 4.0  # seconds of one sway to and fro


class PinholeCamera(NamedTuple):
    """A camera that stands still and may turn."""

    width: int
    height: int
    focal: float
    """Pixels."""
    position: tuple[float, float, float]
    """Metres."""
    target: tuple[float, float, float]
    """What it looks at, at rest; metres."""
    sway: float
    """Degrees by which it turns to and fro, half as much up and down."""

    @property
    def calibration(self) -> Matrix:
        """From directions in the camera's axes to pixels, (3, 3)."""
        centre = self.width / 2, self.height / 2
        return np.array([[self.focal, 0, centre[0]], [0, self.focal, centre[1]], [0, 0, 1]])

    def rotation(self, time: float) -> Matrix:
        """From the world's axes to the camera's (right, down, ahead), (3, 3), `time` in seconds."""
        ahead = _unit(np.subtract(self.target, self.position))
        right = _unit(np.cross(ahead, (0, 0, 1)))
        turn = np.deg2rad(self.sway) * np.sin(2 * np.pi * time / _PERIOD)
        nod = np.deg2rad(self.sway) / 2 * np.sin(np.pi * time / _PERIOD)
        at_rest = np.stack([right, np.cross(ahead, right), ahead])
        across, down = (cv2.Rodrigues(np.array(axis))[0] for axis in ((nod, 0, 0), (0, -turn, 0)))
        return np.asarray(across @ down @ at_rest)

    def projection(self, time: float) -> Matrix:
        """From (x, y, z, 1) in metres to pixels times depth, (3, 4)."""
        rotation = self.rotation(time)
        return np.asarray(
            self.calibration @ np.column_stack([rotation, -rotation @ np.array(self.position)])
        )

    def homography(self, time: float) -> Matrix:
        """From (x, y, 1) on the ground in metres to pixels times depth, (3, 3)."""
        return np.asarray(self.projection(time)[:, [0, 1, 3]])


def _unit(vector: Matrix) -> Matrix:
    return np.asarray(vector / np.linalg.norm(vector), np.float64)


Drawn = NDArray[np.float32]

_TILE = 1.5  # metres
_GRAIN = 64  # pixels of the ground's texture to the metre
_SKY, _GROUND = np.array([[176, 198, 222], [138, 132, 122]], np.float32)
_FINE = 2  # times as large as it is kept the ground is drawn


class Backdrop:
    """What a camera that turns sees of things that do not move: exact, for it turns on the spot."""

    def __init__(self, camera: PinholeCamera, seed: int, photo: Picture | None) -> None:
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
        inset = np.array([[1, 0, -self._margin], [0, 1, -self._margin], [0, 0, 1]], np.float64)
        moved = camera.calibration @ turned @ inner @ inset
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
        far = camera.position[2] / np.maximum(-rays[..., 2], 1e-3)
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
    high, wide = photo.shape[:2]
    scale = max(width / wide, height / high)
    grown = resized(photo, max(width, round(wide * scale)), max(height, round(high * scale)))
    top, left = (grown.shape[0] - height) // 2, (grown.shape[1] - width) // 2
    return grown[top : top + height, left : left + width]


Sprite = NDArray[np.float32]
Look = Callable[[float], Sprite]
"""From the phase of a stride, 0 to 1, to a sprite; all of one look have the same size."""

Colour = tuple[int, ...]

_FINE_SPRITE = 4  # times as large as it is kept a sprite is drawn: what smooths its edges
_SUFFIXES = {".png", ".webp", ".tif", ".tiff"}


class _Sheet:
    """A canvas in units of a hundredth of the sprite's height."""

    def __init__(self, across: int) -> None:
        self._pixels = np.zeros((100 * _FINE_SPRITE * 2, across * _FINE_SPRITE * 2, 4), np.uint8)

    def limb(self, colour: Colour, width: float, *points: tuple[float, float]) -> None:
        thick = max(1, round(width * 2 * _FINE_SPRITE))
        for start, end in pairwise(map(_pixels, points)):
            cv2.line(self._pixels, start, end, (*colour, 255), thick)

    def blob(self, colour: Colour, centre: tuple[float, float], axes: tuple[float, float]) -> None:
        size = _pixels(axes)
        cv2.ellipse(self._pixels, _pixels(centre), size, 0, 0, 360, (*colour, 255), cv2.FILLED)

    def block(self, colour: Colour, low: tuple[float, float], high: tuple[float, float]) -> None:
        cv2.rectangle(self._pixels, _pixels(low), _pixels(high), (*colour, 255), cv2.FILLED)

    def sprite(self) -> Sprite:
        height, width = self._pixels.shape[:2]
        premultiplied = self._pixels.astype(np.float32) / 255  # where alpha is 0, so is the colour
        size = width // _FINE_SPRITE, height // _FINE_SPRITE
        return np.asarray(cv2.resize(premultiplied, size, interpolation=cv2.INTER_AREA), np.float32)


def _pixels(point: tuple[float, float]) -> tuple[int, int]:
    return round(point[0] * 2 * _FINE_SPRITE), round(point[1] * 2 * _FINE_SPRITE)


def person(random: np.random.Generator) -> Look:
    """Somebody who walks, in clothes of random colours."""
    shirt, trousers = _colour(random), _colour(random)
    hair = _dark((190, 150, 100), random.uniform(0.15, 1.0))
    skin = tuple(int(value) for value in np.array([224, 172, 132]) * random.uniform(0.45, 1.05))

    def look(phase: float) -> Sprite:
        sheet, swing = _Sheet(60), np.sin(2 * np.pi * phase)
        bend = np.cos(2 * np.pi * phase)
        for side, shade in ((-1, 0.7), (1, 1.0)):  # the far side is darker
            reach, lift = 13 * side * swing, 5 * max(0.0, side * bend)
            knee, foot = (30 + 0.6 * reach + lift / 2, 72 - lift / 2), (30 + reach, 96 - lift)
            sheet.limb(_dark(trousers, shade), 7, (30, 50), knee, foot)
            sheet.limb(_dark((60, 50, 45), shade), 5, foot, (foot[0] + 5, foot[1]))
            hand = 30 - 0.8 * reach, 50.0
            if side < 0:
                sheet.limb(_dark(shirt, shade), 5, (30, 24), (29 - 0.5 * reach, 38), hand)
        sheet.blob(shirt, (30, 35), (8.5, 17))
        sheet.blob(skin, (30.5, 9), (5.5, 7))
        sheet.blob(hair, (29, 6), (5.5, 4.5))
        sheet.limb(_dark(shirt, 0.85), 5, (30, 24), (29 - 6 * swing, 38), (30 - 10 * swing, 50))
        sheet.blob(skin, (30 - 10 * swing, 51), (2.5, 2.5))
        return sheet.sprite()

    return look


def animal(random: np.random.Generator) -> Look:
    """Something on four legs with spots."""
    coat, spots = _colour(random), _colour(random)
    places = random.uniform((45, 32), (105, 52), (6, 2))

    def look(phase: float) -> Sprite:
        sheet = _Sheet(150)
        for index, hip in enumerate((40, 48, 104, 112)):
            turn = 2 * np.pi * (phase + (0.0, 0.5, 0.25, 0.75)[index])
            shade = 0.65 if index % 2 else 0.9
            foot = hip + 11 * np.sin(turn), 97 - 5 * max(0.0, np.cos(turn))
            sheet.limb(_dark(coat, shade), 8, (hip, 52), (hip + 4 * np.sin(turn), 75), foot)
        sheet.limb(coat, 5, (36, 36), (20, 24 + 4 * np.sin(4 * np.pi * phase)))
        sheet.blob(coat, (76, 43), (44, 18))
        for x, y in places:
            sheet.blob(spots, (x, y), (6, 5))
        sheet.limb(coat, 16, (108, 38), (122, 22))
        sheet.blob(coat, (128, 18), (15, 10))
        sheet.blob(_dark(coat, 0.6), (117, 9), (4, 7))
        sheet.blob((20, 20, 20), (131, 15), (2, 2))
        return sheet.sprite()

    return look


def thing(random: np.random.Generator) -> Look:
    """A barrow with a load, whose wheels turn."""
    body, load = _colour(random), _colour(random)

    def look(phase: float) -> Sprite:
        sheet = _Sheet(120)
        sheet.block(load, (28, 4), (82, 45))
        sheet.limb(_dark(load, 0.7), 4, (55, 4), (55, 45))
        sheet.block(body, (12, 45), (100, 72))
        sheet.limb(_dark(body, 0.6), 4, (100, 50), (116, 30))
        for x in (32, 82):
            sheet.blob((40, 40, 44), (x, 82), (16, 16))
            for spoke in range(3):
                angle = np.pi * (2 * phase + spoke / 3)
                step = 12 * np.cos(angle), 12 * np.sin(angle)
                ends = (x - step[0], 82 - step[1]), (x + step[0], 82 + step[1])
                sheet.limb((190, 190, 195), 2.5, *ends)
        return sheet.sprite()

    return look


def pillar(random: np.random.Generator) -> Look:
    """A post with bands."""
    stone, band = _colour(random), _colour(random)
    sheet = _Sheet(16)
    sheet.block(stone, (0, 0), (16, 100))
    for top in (8, 48, 88):
        sheet.block(band, (0, top), (16, top + 5))
    drawn = sheet.sprite()
    return lambda phase: drawn


DRAWN = {"person": person, "animal": animal, "thing": thing}


def cutouts(folder: Path) -> dict[str, list[Path]]:
    """The pictures of each class in a folder: see `SceneSettings.cutouts`. Raises InputError."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of cut-outs: check the name")
    found = {name: _pictures(folder / name) for name in DRAWN}
    found["thing"] += _pictures(folder)
    if not any(found.values()):
        raise InputError(f"{folder}: holds no .png or .webp, nor does {'/, '.join(DRAWN)}/ in it")
    return found


def cutout(path: Path) -> Look:
    """A picture with alpha that does not change. Raises InputError without alpha."""
    try:
        read = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)
    except (OSError, cv2.error) as error:
        raise InputError(f"{path}: cannot be read: check the path") from error
    if read is None or read.ndim != 3 or read.shape[2] != 4 or read.dtype != np.uint8:
        raise InputError(f"{path}: has no alpha of 8 bits: give a cut-out, PNG or WebP")
    left, top, width, height = cv2.boundingRect((read[..., 3] > 127).astype(np.uint8))
    if not width * height:
        raise InputError(f"{path}: shows nothing: every pixel is transparent")
    whole = cv2.cvtColor(read[top : top + height, left : left + width], cv2.COLOR_BGRA2RGBA)
    sprite = whole.astype(np.float32) / np.float32(255)
    sprite[..., :3] *= sprite[..., 3:]
    return lambda phase: sprite


def _pictures(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)


def _colour(random: np.random.Generator) -> Colour:
    return tuple(int(value) for value in random.integers(30, 236, 3))


def _dark(colour: Colour, shade: float) -> Colour:
    return tuple(int(value * shade) for value in colour)


_NEAREST = 0.5  # metres before the camera within which nothing is drawn
_SOLID = 0.5  # alpha from which on a pixel is the sprite's


@dataclass(frozen=True)
class Actor:
    """Something that stands or moves on the ground."""

    id: int
    """Of its track, from 1; 0 for what is not in the truth."""
    label: str
    height: float
    """Metres."""
    path: Floats = field(repr=False)
    """Where it is in each frame, metres, (frames, 2)."""
    look: Look = field(repr=False)


@dataclass(frozen=True)
class PlacedSprite:
    """A sprite in a picture."""

    actor: Actor
    depth: float
    """Metres before the camera."""
    box: Floats
    """Of its solid part: left, top, right, bottom in pixels, possibly outside the picture."""
    pixels: int
    """Solid ones, inside the picture or not; 1 at least."""
    corner: tuple[int, int]
    """Left and top of `drawn` in the picture."""
    drawn: Sprite = field(repr=False)
    """At its size, RGBA float32, colours multiplied by alpha."""


def placed(
    actor: Actor, sprite: Sprite, projection: Matrix, place: Floats, ahead: Floats
) -> PlacedSprite | None:
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
    left, top, width, height = cv2.boundingRect((sprite[..., 3] > _SOLID).astype(np.uint8))
    box = np.array([left, top, left + width, top + height]) * scale + np.tile(corner, 2)
    at = int(whole[0]), int(whole[1])
    return PlacedSprite(actor, float(foot[2]), box, max(1, int(solid.sum())), at, drawn)


def painted(
    backdrop: NDArray[np.float32], far_to_near: Sequence[PlacedSprite]
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
