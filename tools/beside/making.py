"""Makes the samples: footage coded as the encoder codes it at the end, cut into crops.

A shard is one run of footage: 17 pictures of an AV1 sequence, all temporal layers, up to 40 crops.
Seed and number decide what is in it, so that a folder may be made by several processes, in parts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from beside.shards import write_shard
from gsvc.codec.bitstream.frames import Color, Picture
from gsvc.codec.bitstream.scaffold import Geometry
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.keyframes.keyframe import Keyframe, decode_keyframes, temporal_layer
from gsvc.decoders.training.crops import crop_place, cropped
from gsvc.decoders.training.footage import Footage, Scene, find_footage
from gsvc.decoders.training.samples import GAIN_UNIT, Sample
from gsvc.encoders.coding.keyframes import choose_texture
from gsvc.encoders.distortion import Reference
from gsvc.encoders.search.probes import emphasised
from gsvc.encoders.svt_av1 import encode_pictures
from gsvc.encoders.tuning import PROBE_PRESET

HELD_OUT = (
    "torchvision_SOX5yA1l24A.mp4",
    "pyfeat_single_face.mp4",
    "opencv_box.mp4",
    "visp_bruegel.mp4",
)
"""Clips of the development footage to score on; `docs/model_card.md` names them."""
HELD_PHOTOS = "pyfeat__single_face.webp", "opencv__box_in_scene.webp"
"""Photographs that show who and what is in them: neither trained nor scored on."""
_SIDE = 160
_HELD_EVERY = 16
"""One shard in so many is of held-out clips."""
_CLIPS = 0.6
"""Share of runs that are of clips, not of photographs."""
_AREA, _MOST_CROPS = 2.2, 4
"""Of each picture a crop for so many times its area, at most so many."""
_TRIES = 30
_LAYERS, _STRENGTH = ":hierarchical-levels=3", ":qp-scale-compress-strength=1"
_COLOR = Color(matrix=1)
_BLOCK_LOG2 = 2
"""Texture gains are for blocks of four cells a side."""


@dataclass(frozen=True)
class SequenceCoding:
    """How a sequence of every n-th frame is coded, in four temporal layers."""

    spacing: int
    """Frames from one coded picture to the next."""
    pictures: int
    """How many there are."""
    crf: int
    """Quantiser, 1 to 70."""
    scale: int
    """Eighths of the sides."""
    preset: int
    """Of SVT-AV1."""
    lmbda: float | None
    """Distortion that a bit of the lowest layer's texture gains must save; None: no gains."""
    emphasis: bool
    """Whether pictures are pre-emphasised."""
    more: str
    """Further parameters of SVT-AV1, each after a colon."""

    @property
    def frames(self) -> int:
        """Frames of the sequence, the coded pictures included."""
        return self.spacing * (self.pictures - 1) + 1


def make_samples(
    data: Path, folder: Path, shards: Sequence[int], seed: int = 0, quality: int = 92
) -> Iterator[tuple[int, int]]:
    """Make those of `shards`, by number, that are not in `folder` yet; gives number and samples.

    Raises what `find_footage` raises, and OSError where the disk is full.
    """
    there = {path.name for path in data.rglob("*")}
    names = [name for name in (*HELD_OUT, *HELD_PHOTOS) if name in there]
    files, held = find_footage(data, names)
    shown = [path for path in held if path.name in HELD_OUT]
    trained, scored = Footage(files, _CLIPS), Footage(shown, 1.0) if shown else None
    folder.mkdir(parents=True, exist_ok=True)
    for number in shards:
        path = folder / f"{number:06d}.tar"
        if path.exists():
            continue
        is_held = scored is not None and number % _HELD_EVERY == 0
        footage = scored if is_held and scored else trained
        rng = np.random.default_rng((seed, number))
        yield number, write_shard(path, _samples(footage, data, rng, held=is_held), quality)


def _samples(footage: Footage, data: Path, rng: Generator, *, held: bool) -> Iterator[Sample]:
    scene, coding = _drawn_scene(footage, rng)
    sources = [scene.frame(number * coding.spacing) for number in range(coding.pictures)]
    shows = [str(file.relative_to(data)) for file in scene.files]
    for truth, key in zip(sources, coded_sequence(sources, coding), strict=True):
        for _ in range(_crops_of(truth)):
            pair = [(truth, key.picture)]
            place = crop_place(pair, pair, _SIDE, rng)
            if place is None:
                continue
            numbers = {
                "quantizer": key.quantizer,
                "size": key.size,
                "layer": key.layer,
                "preset": coding.preset,
                "files": shows,
                "held": held,
            }
            stacks = {
                "truth": cropped(truth, place, _SIDE)[None],
                "given": cropped(_with_gain(key), place, _SIDE)[None],
            }
            yield Sample(stacks, numbers=numbers)


def _crops_of(picture: Picture) -> int:
    height, width = picture.shape[:2]
    return int(np.clip(round(height * width / (_AREA * _SIDE**2)), 1, _MOST_CROPS))


def _with_gain(key: Keyframe) -> NDArray[np.uint8]:
    gain = np.clip(np.rint(key.gain * GAIN_UNIT), 0, 255).astype(np.uint8)
    return np.dstack([key.picture, gain])


def coded_sequence(sources: Sequence[Picture], coding: SequenceCoding) -> Iterator[Keyframe]:
    """The pictures, coded and decoded."""
    references = [Reference(source) for source in sources]
    prepared = sources
    if coding.emphasis:
        trial = [gray(picture) for picture in _coded(sources, coding, PROBE_PRESET)]
        prepared = [
            emphasised(source, reference, picture, coding.crf)
            for source, reference, picture in zip(sources, references, trial, strict=True)
        ]
    decoded = _coded(prepared, coding, coding.preset)
    for number, (picture, reference) in enumerate(zip(decoded, references, strict=True)):
        layer, texture = temporal_layer(number), None
        if coding.lmbda is not None and layer == 0:
            texture = choose_texture(reference, picture, _BLOCK_LOG2, coding.spacing, coding.lmbda)
        yield Keyframe.of(picture, texture, coding.crf, coding.scale, layer)


def _coded(pictures: Sequence[Picture], coding: SequenceCoding, preset: int) -> list[Picture]:
    height, width = pictures[0].shape[:2]
    geometry = Geometry(width, height)
    units = encode_pictures(
        pictures,
        size=geometry.coded_size(coding.scale),
        crf=coding.crf,
        color=_COLOR,
        preset=preset,
        threads=1,
        more=_LAYERS + coding.more,
    )
    return list(decode_keyframes(units, geometry, coding.scale, _COLOR))


def _drawn_scene(footage: Footage, rng: Generator) -> tuple[Scene, SequenceCoding]:
    for _ in range(_TRIES):
        coding = _random_coding(rng)
        scene = footage.scene(coding.frames, rng)
        if scene is not None:
            return scene, coding
    raise RuntimeError(f"no run of {coding.frames} frames was found in {_TRIES} draws")


def _random_coding(rng: Generator) -> SequenceCoding:
    """As the encoder codes at the end: mostly coarse, at three sizes, by all presets."""
    spacing = int(rng.choice((1, 2, 3, 4, 6, 8, 12, 16), p=(0.1,) + (0.15,) * 5 + (0.1, 0.05)))
    preset = int(rng.choice((2, 4, 8), p=(0.3, 0.45, 0.25)))
    is_coarse = rng.random() < 0.85
    lmbda = float(np.exp(rng.uniform(np.log(9.0), np.log(300.0))))
    return SequenceCoding(
        spacing=spacing,
        pictures=17 if spacing <= 6 else 9,
        crf=int(rng.integers(60, 71) if is_coarse else rng.integers(48, 60)),
        scale=int(rng.choice((8, 6, 4), p=(0.45, 0.3, 0.25))),
        preset=preset,
        lmbda=lmbda if rng.random() < 0.6 else None,
        emphasis=bool(rng.random() < 0.8),
        more=_STRENGTH if preset == 2 or rng.random() < 0.6 else "",
    )
