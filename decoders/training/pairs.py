"""Training data for the refiner: source pictures with their key pictures as a decoder gets them.

The key pictures are coded as the encoder does it, several of a scene as one AV1 sequence. Only the
camera that films photographs is simulated.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from gsvc.codec.frames import Color, Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.motion.estimation import gray
from gsvc.decoders.pictures import decode_pictures
from gsvc.decoders.refiners.priors.drawing import PriorNetwork, drawings
from gsvc.decoders.refiners.tensors import pictures_of, tensor_of
from gsvc.decoders.training.footage import Footage, FrameSource
from gsvc.encoders.distortion import Reference
from gsvc.encoders.emphasis import emphasised
from gsvc.encoders.layers.texture import choose_texture
from gsvc.encoders.pictures import MAX_CRF, encode_pictures
from gsvc.encoders.tuning import TRIAL_PRESET

CROP = 160
"""Side of a crop in pixels."""
CHANNELS = 7
"""Of a crop, uint8: source and key picture as it is shown (RGB each), texture gain times GAIN_UNIT.

The drawings of a prior may follow, RGB each.
"""
GAIN_UNIT = 128
_COLOR = Color(matrix=1)
_CROPS_PER_PICTURE = 2
_LEAST_CRF = 40
_MOST_LMBDA, _LEAST_LMBDA = 300.0, 9.0


@dataclass(frozen=True)
class KeyCoding:
    """How the key pictures of a sequence are coded."""

    spacing: int
    """Frames from one key picture to the next."""
    keys: int
    """How many there are."""
    crf: int
    scale: int
    """Eighths of the sides."""
    preset: int
    """Of SVT-AV1."""
    lmbda: float
    """Distortion that a bit of the texture layer must save."""
    block_log2: int
    """Texture gains are for blocks of 2^`block_log2` cells a side."""

    @property
    def frames(self) -> int:
        """Frames of the sequence, the key pictures included."""
        return self.spacing * (self.keys - 1) + 1


def random_coding(rng: Generator) -> KeyCoding:
    """A coding as in streams of any rate."""
    spacing = int(rng.choice((4, 6, 8, 12, 16, 24, 32, 40)))
    return KeyCoding(
        spacing=spacing,
        keys=6 if spacing <= 8 else 4 if spacing <= 16 else 3,
        crf=int(rng.integers(_LEAST_CRF, MAX_CRF + 1, 2).max()),  # coarser: more to restore
        scale=int(rng.choice((8, 6, 4), p=(0.55, 0.3, 0.15))),
        preset=int(rng.choice((4, 8), p=(0.75, 0.25))),
        lmbda=float(np.exp(rng.uniform(np.log(_LEAST_LMBDA), np.log(_MOST_LMBDA)))),
        block_log2=int(rng.choice((2, 3), p=(0.75, 0.25))),
    )


def coded_keys(
    frame: FrameSource, coding: KeyCoding, *, with_texture: bool
) -> Iterator[tuple[Picture, KeyPicture]]:
    """For each key picture of a sequence, the source and what the decoder gets."""
    sources = [frame(number * coding.spacing) for number in range(coding.keys)]
    references = [Reference(source) for source in sources]
    trial = [gray(picture) for picture in _coded(sources, coding, TRIAL_PRESET)]
    raised = partial(emphasised, crf=coding.crf)
    prepared = list(map(raised, sources, references, trial))
    decoded = _coded(prepared, coding, coding.preset)
    for source, reference, picture in zip(sources, references, decoded, strict=True):
        texture = None
        if with_texture:
            texture = choose_texture(
                reference, picture, coding.block_log2, coding.spacing, coding.lmbda
            )
        yield source, KeyPicture.of(picture, texture, coding.crf, coding.scale)


def _coded(pictures: Sequence[Picture], coding: KeyCoding, preset: int) -> list[Picture]:
    """The pictures, coded and decoded."""
    height, width = pictures[0].shape[:2]
    geometry = Geometry(width, height)
    size = geometry.coded_size(coding.scale)
    units = encode_pictures(
        pictures, size=size, crf=coding.crf, color=_COLOR, preset=preset, threads=1
    )
    return decode_pictures(units, geometry, coding.scale, _COLOR)


def pack(source: Picture, key: KeyPicture) -> NDArray[np.uint8]:
    """A pair as uint8 (H, W, CHANNELS)."""
    gain = np.clip(np.rint(key.gain * GAIN_UNIT), 0, 255).astype(np.uint8)
    return np.dstack([source, key.picture, gain])


def crops(
    frame: FrameSource, coding: KeyCoding, rng: Generator, prior: PriorNetwork | None
) -> Iterator[NDArray[np.uint8]]:
    """Crops of a sequence's key pictures, with what `prior` draws for them.

    Each is uint8 (CROP, CROP, CHANNELS or more).
    """
    with_texture = bool(rng.random() < 0.7)
    for source, key in coded_keys(frame, coding, with_texture=with_texture):
        packed = pack(source, key)
        for _ in range(_CROPS_PER_PICTURE):
            y, x = _crop_position(packed, rng)
            crop = packed[y : y + CROP, x : x + CROP]
            if prior is not None:
                decoded = tensor_of(crop[..., 3:6]).to(prior.device)
                crop = np.dstack([crop, pictures_of(drawings(prior, decoded))])
            yield crop


def _crop_position(packed: NDArray[np.uint8], rng: Generator) -> tuple[int, int]:
    """Of two random places, the one that differs more from the source."""
    height, width = packed.shape[:2]
    places = [
        (int(rng.integers(height - CROP + 1)), int(rng.integers(width - CROP + 1)))
        for _ in range(2)
    ]

    def error(place: tuple[int, int]) -> float:
        y, x = place
        part = packed[y : y + CROP, x : x + CROP, :6].astype(np.int16)
        return float(np.abs(part[..., :3] - part[..., 3:]).mean())

    return max(places, key=error)


def prepare(
    footage: Footage,
    out: Path,
    *,
    seed: int,
    minutes: float,
    mebibytes: float,
    prior: PriorNetwork | None = None,
) -> int:
    """Fill the folder `out` with one `.npz` per sequence until time is up or it is full.

    A file holds `crops`, uint8 (n, CROP, CROP, CHANNELS or more), and `scalars`, crf and scale. The
    `seed` decides all random draws; a `prior` draws for each crop. Returns the number of crops.
    """
    cv2.setNumThreads(1)
    rng = default_rng(seed)
    out.mkdir(parents=True, exist_ok=True)
    held = sum(path.stat().st_size for path in out.glob("*.npz"))
    end, count, number = time.monotonic() + minutes * 60, 0, 0
    while time.monotonic() < end and held < mebibytes * 2**20:
        coding = random_coding(rng)
        scene = footage.scene(coding.frames, rng)
        if scene is not None:
            made = list(crops(scene.frame, coding, rng, prior))
            path = out / f"{seed:04d}_{number:05d}.npz"
            _write(path, made, coding)
            held += path.stat().st_size
            count, number = count + len(made), number + 1
    return count


def _write(path: Path, made: Sequence[NDArray[np.uint8]], coding: KeyCoding) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        scalars = np.array([coding.crf, coding.scale], np.float32)
        np.savez_compressed(file, crops=np.stack(made), scalars=scalars)
    part.rename(path)
