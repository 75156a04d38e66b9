"""What moves: drawn people, animals and things, and cut-outs from files.

A sprite is RGBA float32 (H, W, 4), 0 to 1, colours multiplied by alpha; it stands on the middle of
its lower edge and faces right.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import InputError

Sprite = NDArray[np.float32]
Look = Callable[[float], Sprite]
"""From the phase of a stride, 0 to 1, to a sprite; all of one look have the same size."""

Colour = tuple[int, ...]

_FINE = 4
"""Times as large as it is kept a sprite is drawn: what smooths its edges."""
_SUFFIXES = {".png", ".webp", ".tif", ".tiff"}


class _Sheet:
    """A canvas in units of a hundredth of the sprite's height."""

    def __init__(self, across: int) -> None:
        self._pixels = np.zeros((100 * _FINE * 2, across * _FINE * 2, 4), np.uint8)

    def limb(self, colour: Colour, width: float, *points: tuple[float, float]) -> None:
        for start, end in pairwise(points):
            a, b = _pixels(start), _pixels(end)
            cv2.line(self._pixels, a, b, (*colour, 255), max(1, round(width * 2 * _FINE)))

    def blob(self, colour: Colour, centre: tuple[float, float], axes: tuple[float, float]) -> None:
        size = _pixels(axes)
        cv2.ellipse(self._pixels, _pixels(centre), size, 0, 0, 360, (*colour, 255), cv2.FILLED)

    def block(self, colour: Colour, low: tuple[float, float], high: tuple[float, float]) -> None:
        cv2.rectangle(self._pixels, _pixels(low), _pixels(high), (*colour, 255), cv2.FILLED)

    def sprite(self) -> Sprite:
        height, width = self._pixels.shape[:2]
        premultiplied = self._pixels.astype(np.float32) / 255  # where alpha is 0, so is the colour
        size = width // _FINE, height // _FINE
        return np.asarray(cv2.resize(premultiplied, size, interpolation=cv2.INTER_AREA), np.float32)


def _pixels(point: tuple[float, float]) -> tuple[int, int]:
    return round(point[0] * 2 * _FINE), round(point[1] * 2 * _FINE)


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
"""How each class is drawn."""


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
    inside = cv2.boundingRect((read[..., 3] > 127).astype(np.uint8))
    left, top, width, height = inside
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
