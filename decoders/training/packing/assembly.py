"""The pack out of its parts: as many as fit, in random order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import default_rng
from torch import Tensor

from gsvc import __version__
from gsvc.codec.errors import ConfigError
from gsvc.codec.output import explain_failure
from gsvc.decoders.training.packing.kinds import CONFIDENCE_UNIT, GAIN_UNIT, KINDS
from gsvc.decoders.training.packing.loss import loss_summary
from gsvc.decoders.training.packing.parts import Part, PartMaker
from gsvc.decoders.training.packing.sources import described
from gsvc.decoders.training.standalone.pack import CodedStack, write_pack

Networks = Mapping[str, Mapping[str, Tensor]]

_TENSOR_BYTES = 160
"""What a tensor takes in the file's header, at most, and a number in the manifest."""
_SOURCE_BYTES = 400
"""What a file of the footage takes in the manifest, about."""
_OWN_BYTES = 20_000
"""The rest of the manifest."""


@dataclass(frozen=True)
class Room:
    """What a pack may hold."""

    most_bytes: int
    """Of the file."""
    networks: Networks

    @property
    def left(self) -> int:
        """Bytes for parts. Raises ConfigError where the networks leave none."""
        tensors = [tensor for state in self.networks.values() for tensor in state.values()]
        taken = sum(tensor.numel() * tensor.element_size() + _TENSOR_BYTES for tensor in tensors)
        left = self.most_bytes - taken - _OWN_BYTES
        if left <= 0:
            raise ConfigError(
                f"{self.most_bytes / 1e6:g} megabytes hold no pictures beside the networks, which "
                f"take {taken / 1e6:.1f}: give more"
            )
        return left

    def chosen(self, parts: Sequence[Part]) -> list[Part]:
        """Those of the parts that fit, one after the other."""
        left, chosen = self.left, []
        seen: set[str] = set()
        for part in parts:
            new = set(part.facts.files) - seen
            size = part_bytes(part) + _SOURCE_BYTES * len(new)
            if part.facts.samples and size <= left:
                chosen.append(part)
                left, seen = left - size, seen | new
        return chosen


def part_bytes(part: Part) -> int:
    """What a part takes of a pack, about and at most, without its sources."""
    arrays = sum(array.nbytes for name, array in part.arrays.items() if name != "loss")
    held_and_clip = 5 * part.facts.samples
    return part.bytes + arrays + held_and_clip + _TENSOR_BYTES * len(part.chunks)


def assemble(path: Path, maker: PartMaker, parts: Sequence[Part], room: Room) -> dict[str, Any]:
    """Write the pack; returns its manifest. Raises ConfigError where not even a part fits."""
    order = default_rng(maker.seed).permutation(len(parts))
    chosen = room.chosen([parts[number] for number in order])
    if not chosen:
        raise ConfigError(f"no part fits into {room.most_bytes / 1e6:g} megabytes: give more")
    kind = KINDS[maker.kind]
    names = list(dict.fromkeys(part.facts.files[0] for part in chosen))
    manifest = {
        "kind": maker.kind,
        "side": kind.side,
        "gain_unit": GAIN_UNIT,
        "confidence_unit": CONFIDENCE_UNIT,
        "samples": sum(part.facts.samples for part in chosen),
        "held": sum(part.facts.samples for part in chosen if part.facts.held),
        "codings": _counts(chosen),
        "loss": loss_summary(np.concatenate([part.arrays["loss"] for part in chosen]), kind),
        "held_out": [path.name for path in maker.held],
        "clips": names,
        "sources": described(maker.folder, chosen),
        "seed": maker.seed,
        "version": __version__,
        "seconds": round(sum(part.facts.seconds for part in parts), 1),
    }
    stacks = {name: _stack(name, maker.kind, chosen) for name in kind.steps}
    with explain_failure(path):
        write_pack(path, manifest, stacks, _arrays(chosen, names), room.networks, room.most_bytes)
    return manifest


def _counts(parts: Sequence[Part]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for part in parts:
        counts[part.facts.coding] += part.facts.samples
    return dict(counts)


def _stack(name: str, kind: str, parts: Sequence[Part]) -> CodedStack:
    side = KINDS[kind].side
    channels = 1 if name in ("gain", "confidence") else 3
    chunks = [(part.facts.rows[name], part.chunks[name]) for part in parts]
    return CodedStack((side, side, channels), KINDS[kind].steps[name], chunks)


def _arrays(parts: Sequence[Part], clips: Sequence[str]) -> dict[str, Tensor]:
    """One row a sample, but for `time`, which has one a frame."""
    names = [name for name in parts[0].arrays if name != "loss"]
    arrays = {name: np.concatenate([part.arrays[name] for part in parts]) for name in names}
    facts = [part.facts for part in parts]
    samples = [one.samples for one in facts]
    arrays["held"] = np.repeat(np.array([one.held for one in facts], np.uint8), samples)
    numbers = np.array([clips.index(one.files[0]) for one in facts], np.int32)
    arrays["clip"] = np.repeat(numbers, samples)
    if "frames" in arrays:
        frames = arrays.pop("frames").astype(np.int32)
        ends = np.cumsum(frames, dtype=np.int32)
        arrays["window"] = np.stack([ends - frames, frames], 1)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
