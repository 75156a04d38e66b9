"""Parts of a pack: the samples of one coded run each, exact, a file a part.

The seed and the part's number decide all that is in it.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.random import Generator, default_rng
from safetensors import SafetensorError, safe_open

from gsvc.decoders.training.footage import Footage, Scene
from gsvc.decoders.training.packing.coding import coded_stacks
from gsvc.decoders.training.packing.kinds import KINDS, Sample, joined
from gsvc.decoders.training.packing.runs import CodedRun
from gsvc.decoders.training.packing.sequences import (
    coded_sequence,
    random_hierarchy,
    random_keys,
)
from gsvc.decoders.training.packing.streams import coded_stream, random_stream
from gsvc.decoders.training.standalone.tensors import write_tensors

CODINGS = "streams", "hierarchies", "keys"
_HELD_EVERY = 12
"""One part in so many is of what was held out."""
_DRAWS = 10
"""Places tried for a run of frames."""
_MOST_BYTES = 1 << 30
_META = "part"


@dataclass(frozen=True)
class PartFacts:
    """What is known of a part beside its samples."""

    coding: str
    files: tuple[str, ...]
    """The footage, relative to its folder: a clip, or a photograph and the cut-outs over it."""
    held: bool
    """Whether the footage was held out from training."""
    samples: int
    seconds: float
    """That it took to make."""
    bytes: int
    """That the samples take in a pack, about."""


@dataclass(frozen=True)
class Part:
    """A part in memory."""

    facts: PartFacts
    samples: list[Sample]


@dataclass(frozen=True)
class PartMaker:
    """Makes parts of one kind; may be sent to another process."""

    kind: str
    seed: int
    folder: Path
    """Of all footage."""
    files: Sequence[Path]
    """To train on."""
    held: Sequence[Path]
    """Held out."""

    def make(self, number: int) -> Part:
        """The part of that number; it is empty where no footage was long enough."""
        cv2.setNumThreads(1)
        torch.set_num_threads(1)
        begun = time.monotonic()
        rng = default_rng((self.seed, number))
        is_held = bool(self.held) and number % _HELD_EVERY == _HELD_EVERY - 1
        kind = KINDS[self.kind]
        coding = str(rng.choice(CODINGS, p=kind.shares))
        found = _coded(coding, self._held if is_held else self._footage, rng, kind.least_spacing)
        samples: list[Sample] = []
        files: tuple[str, ...] = ()
        if found is not None:
            scene, run = found
            samples = list(kind.samples(run, kind.side, rng))
            files = tuple(str(path.relative_to(self.folder)) for path in scene.files)
        chunks = coded_stacks(*joined(samples), kind)[0] if samples else {}
        facts = PartFacts(
            coding,
            files,
            is_held,
            len(samples),
            round(time.monotonic() - begun, 2),
            sum(map(len, chunks.values())),
        )
        return Part(facts, samples)

    @cached_property
    def _footage(self) -> Footage:
        return Footage(self.files, KINDS[self.kind].clips)

    @cached_property
    def _held(self) -> Footage:
        return Footage(self.held, clips=1.0)


def _coded(
    coding: str, footage: Footage, rng: Generator, least_spacing: int
) -> tuple[Scene, CodedRun] | None:
    """A run of random footage under a random coding of that kind."""
    for _ in range(_DRAWS):
        if coding == "streams":
            stream = random_stream(rng)
            scene = footage.scene(stream.frames, rng)
            if scene is not None:
                frames = [scene.frame(number) for number in range(stream.frames)]
                return scene, coded_stream(frames, stream)
        else:
            sequence = (random_hierarchy if coding == "hierarchies" else random_keys)(
                rng, least_spacing
            )
            scene = footage.scene(sequence.frames, rng)
            if scene is not None:
                return scene, coded_sequence(scene.frame, sequence)
    return None


def write_part(path: Path, part: Part) -> None:
    """Write a part whole or not at all."""
    tensors = {
        f"{row}/{kind}/{name}": torch.from_numpy(np.ascontiguousarray(array))
        for row, sample in enumerate(part.samples)
        for kind, named in (("stacks", sample.stacks), ("arrays", sample.arrays))
        for name, array in named.items()
    }
    write_tensors(path, tensors, {_META: json.dumps(asdict(part.facts))}, _MOST_BYTES)


def read_facts(path: Path) -> PartFacts:
    """What is known of a part. Raises ValueError where it is damaged."""
    with _opened(path) as file:
        facts = json.loads(file.metadata()[_META])
    return PartFacts(**{**facts, "files": tuple(facts["files"])})


def read_sample(path: Path, row: int) -> Sample:
    """One sample of a part, alone. Raises ValueError where the part is damaged."""
    sample = Sample({}, {})
    with _opened(path) as file:
        for key in file.keys():  # noqa: SIM118 - no mapping
            number, kind, name = key.split("/")
            if int(number) == row:
                getattr(sample, kind)[name] = file.get_tensor(key)
    return sample


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, "numpy") as file:
            yield file
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged") from error
