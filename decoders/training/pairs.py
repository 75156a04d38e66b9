"""Training data for the refiner: key pictures as the decoder gets them, with what they show.

They are really coded, as the encoder codes them, several of a scene as one AV1 sequence: nothing is simulated but
the camera that films the photographs.
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
"""uint8: the source, the key picture as it is shown (RGB each), its texture gain * GAIN_UNIT. After them may come what a prior
draws for the crop, RGB each."""
GAIN_UNIT = 128
_COLOR = Color(matrix=1)
_CROPS_PER_PICTURE = 2
_LEAST_CRF = 40
_MOST_PRICE, _LEAST_PRICE = 300.0, 9.0


@dataclass(frozen=True)
class Plan:
    """How a sequence is coded: `keys` key pictures `spacing` frames apart, at `crf` and `eighths` of the size, by
    SVT-AV1's `preset`; texture gains at `price`, on blocks of 2^`block_log2` cells."""

    spacing: int
    keys: int
    crf: int
    eighths: int
    preset: int
    price: float
    block_log2: int

    @property
    def frames(self) -> int:
        """Frames of the sequence, the key pictures included."""
        return self.spacing * (self.keys - 1) + 1


def random_plan(rng: Generator) -> Plan:
    """A plan as streams have them, of any rate."""
    spacing = int(rng.choice((4, 6, 8, 12, 16, 24, 32, 40)))
    return Plan(
        spacing=spacing,
        keys=6 if spacing <= 8 else 4 if spacing <= 16 else 3,
        crf=int(rng.integers(_LEAST_CRF, MAX_CRF + 1, 2).max()),  # more where more is to restore
        eighths=int(rng.choice((8, 6, 4), p=(0.55, 0.3, 0.15))),
        preset=int(rng.choice((4, 8), p=(0.75, 0.25))),
        price=float(np.exp(rng.uniform(np.log(_LEAST_PRICE), np.log(_MOST_PRICE)))),
        block_log2=int(rng.choice((2, 3), p=(0.75, 0.25))),
    )


def coded_keys(
    frame: FrameSource, plan: Plan, *, with_texture: bool
) -> Iterator[tuple[Picture, KeyPicture]]:
    """Each key picture of a sequence: the source, and what the decoder gets."""
    sources = [frame(number * plan.spacing) for number in range(plan.keys)]
    references = [Reference(source) for source in sources]
    trial = [gray(picture) for picture in _coded(sources, plan, TRIAL_PRESET)]
    raised = partial(emphasised, crf=plan.crf)
    prepared = list(map(raised, sources, references, trial))
    decoded = _coded(prepared, plan, plan.preset)
    for source, reference, picture in zip(sources, references, decoded, strict=True):
        texture = None
        if with_texture:
            texture = choose_texture(reference, picture, plan.block_log2, plan.spacing, plan.price)
        yield source, KeyPicture.of(picture, texture, plan.crf, plan.eighths)


def _coded(pictures: Sequence[Picture], plan: Plan, preset: int) -> list[Picture]:
    """Key pictures coded and decoded."""
    height, width = pictures[0].shape[:2]
    geometry = Geometry(width, height)
    size = geometry.coded_size(plan.eighths)
    units = encode_pictures(
        pictures, size=size, crf=plan.crf, color=_COLOR, preset=preset, threads=1
    )
    return decode_pictures(units, geometry, plan.eighths, _COLOR)


def pack(source: Picture, key: KeyPicture) -> NDArray[np.uint8]:
    """A pair as uint8 (H, W, CHANNELS)."""
    gain = np.clip(np.rint(key.gain * GAIN_UNIT), 0, 255).astype(np.uint8)
    return np.dstack([source, key.picture, gain])


def crops(
    frame: FrameSource, plan: Plan, rng: Generator, prior: PriorNetwork | None
) -> Iterator[NDArray[np.uint8]]:
    """Crops of the key pictures of a sequence, with what `prior` draws for them: uint8 (CROP, CROP, CHANNELS or more)."""
    with_texture = bool(rng.random() < 0.7)
    for source, key in coded_keys(frame, plan, with_texture=with_texture):
        packed = pack(source, key)
        for _ in range(_CROPS_PER_PICTURE):
            y, x = _crop_position(packed, rng)
            crop = packed[y : y + CROP, x : x + CROP]
            yield crop if prior is None else np.dstack([crop, _drawn(prior, crop[..., 3:6])])


def _drawn(prior: PriorNetwork, picture: Picture) -> NDArray[np.uint8]:
    return pictures_of(drawings(prior, tensor_of(picture).to(prior.device)))


def _crop_position(packed: NDArray[np.uint8], rng: Generator) -> tuple[int, int]:
    """Where there is more to restore, of two random places."""
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
    """Write one `.npz` a sequence (`crops` uint8, `scalars` float32) until time is up or the folder is full.

    `seed`: of all that is drawn; `prior`: draws for each crop, for networks that are given that. Returns the number of crops.
    """
    cv2.setNumThreads(1)
    rng = default_rng(seed)
    out.mkdir(parents=True, exist_ok=True)
    held = sum(path.stat().st_size for path in out.glob("*.npz"))
    end, count, number = time.monotonic() + minutes * 60, 0, 0
    while time.monotonic() < end and held < mebibytes * 2**20:
        plan = random_plan(rng)
        frame = footage.sequence(plan.frames, rng)
        if frame is None:
            continue
        made = list(crops(frame, plan, rng, prior))
        path = out / f"{seed:04d}_{number:05d}.npz"
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            scalars = np.array([plan.crf, plan.eighths], np.float32)
            np.savez_compressed(file, crops=np.stack(made), scalars=scalars)
        part.rename(path)
        held += path.stat().st_size
        count, number = count + len(made), number + 1
    return count
