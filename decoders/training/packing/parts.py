"""Parts of a pack: the samples of one coded run each, coded as in the pack, a file a part.

The seed and the part's number decide all that is in it.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.random import Generator, default_rng

from gsvc.decoders.training.footage import Footage, Scene
from gsvc.decoders.training.packing.kinds import KINDS, Arrays, Sample, joined
from gsvc.decoders.training.packing.loss import stored_loss
from gsvc.decoders.training.packing.runs import CodedRun
from gsvc.decoders.training.packing.sequences import (
    coded_sequence,
    random_hierarchy,
    random_keys,
)
from gsvc.decoders.training.packing.streams import coded_stream, random_stream
from gsvc.decoders.training.standalone.planes import pack_planes
from gsvc.decoders.training.standalone.tensors import read_tensors, write_tensors

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
    rows: dict[str, int]
    """Pictures of each stack."""


@dataclass(frozen=True)
class Part:
    """A part in memory."""

    facts: PartFacts
    chunks: dict[str, bytes]
    """Coded pictures by stack."""
    arrays: Arrays
    """Of the pack, one row a sample, or a frame for `time`; and `loss`: see `stored_loss`."""

    @property
    def bytes(self) -> int:
        """Size of the coded pictures."""
        return sum(map(len, self.chunks.values()))


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
        coded = _coded(coding, self._held if is_held else self._footage, rng)
        samples: list[Sample] = []
        files: tuple[str, ...] = ()
        if coded is not None:
            scene, run = coded
            samples = list(kind.samples(run, kind.side, rng))
            files = tuple(str(path.relative_to(self.folder)) for path in scene.files)
        stacks, arrays = joined(samples)
        chunks = {name: pack_planes(stack, kind.steps[name]) for name, stack in stacks.items()}
        if samples:
            arrays["loss"] = stored_loss(stacks, chunks, kind)
        rows = {name: len(stack) for name, stack in stacks.items()}
        seconds = round(time.monotonic() - begun, 2)
        facts = PartFacts(coding, files, is_held, len(samples), seconds, rows)
        return Part(facts, chunks, arrays)

    @cached_property
    def _footage(self) -> Footage:
        return Footage(self.files, KINDS[self.kind].clips)

    @cached_property
    def _held(self) -> Footage:
        return Footage(self.held, clips=1.0)


def _coded(coding: str, footage: Footage, rng: Generator) -> tuple[Scene, CodedRun] | None:
    """A run of random footage under a random coding of that kind."""
    for _ in range(_DRAWS):
        if coding == "streams":
            stream = random_stream(rng)
            scene = footage.scene(stream.frames, rng)
            if scene is not None:
                frames = [scene.frame(number) for number in range(stream.frames)]
                return scene, coded_stream(frames, stream)
        else:
            sequence = (random_hierarchy if coding == "hierarchies" else random_keys)(rng)
            scene = footage.scene(sequence.frames, rng)
            if scene is not None:
                return scene, coded_sequence(scene.frame, sequence)
    return None


def write_part(path: Path, part: Part) -> None:
    """Write a part whole or not at all."""
    named: Arrays = {
        f"stack/{name}": np.frombuffer(data, np.uint8) for name, data in part.chunks.items()
    }
    named |= {f"array/{name}": array for name, array in part.arrays.items()}
    tensors = {name: torch.from_numpy(array.copy()) for name, array in named.items()}
    write_tensors(path, tensors, {_META: json.dumps(asdict(part.facts))}, _MOST_BYTES)


def read_part(path: Path) -> Part:
    """Read a part. Raises ValueError where it is damaged."""
    tensors, metadata = read_tensors(path)
    facts = json.loads(metadata[_META])
    arrays = {name: value.numpy() for name, value in tensors.items()}
    return Part(
        PartFacts(**{**facts, "files": tuple(facts["files"])}),
        {name[6:]: a.tobytes() for name, a in arrays.items() if name.startswith("stack/")},
        {name[6:]: a for name, a in arrays.items() if name.startswith("array/")},
    )
