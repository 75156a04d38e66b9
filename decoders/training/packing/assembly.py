"""The pack out of its parts: as many samples as fit, in random order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import default_rng
from numpy.typing import NDArray
from torch import Tensor

from gsvc import __version__
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.media.output import explain_failure
from gsvc.decoders.training.packing.coding import coded_stacks
from gsvc.decoders.training.packing.kinds import KINDS, Arrays, joined, together
from gsvc.decoders.training.packing.loss import loss_summary, stored_loss
from gsvc.decoders.training.packing.parts import PartFacts
from gsvc.decoders.training.packing.sources import described
from gsvc.decoders.training.packing.store import PartFolder
from gsvc.decoders.training.standalone.pack import CodedStack, write_pack
from gsvc.decoders.training.standalone.units import CONFIDENCE_UNIT, GAIN_UNIT

Networks = Mapping[str, Mapping[str, Tensor]]

_CHANNELS = {"gain": 1, "confidence": 1}
"""Of stacks that have not three."""
_TOGETHER = 256
"""Samples that are coded together."""
_TENSOR_BYTES = 160
"""What a tensor takes in the file's header, at most, and a number in the manifest."""
_ROW_BYTES = 5
"""What assembly adds to the arrays of a sample."""
_SOURCE_BYTES = 400
"""What a file of the footage takes in the manifest, at most."""
_OWN_BYTES = 20_000
"""The rest of the manifest."""


def room_for_samples(most_bytes: int, networks: Networks) -> int:
    """Bytes that the networks leave in a pack. Raises ConfigError where they leave none."""
    tensors = [tensor for state in networks.values() for tensor in state.values()]
    taken = sum(tensor.numel() * tensor.element_size() + _TENSOR_BYTES for tensor in tensors)
    left = most_bytes - taken - _OWN_BYTES
    if left <= 0:
        raise ConfigError(
            f"{most_bytes / 1e6:g} megabytes hold no pictures beside the networks, which take "
            f"{taken / 1e6:.1f}: give more"
        )
    return left


class _Filling:
    """What is in the pack so far."""

    def __init__(self, folder: PartFolder, room: int) -> None:
        """`room`: bytes."""
        self._folder, self._room = folder, room
        self._kind = KINDS[folder.maker.kind]
        self._files: set[str] = set()
        self.chunks: dict[str, list[tuple[int, bytes]]] = {name: [] for name in self._kind.steps}
        self.arrays: list[Arrays] = []
        self.loss: list[NDArray[np.float32]] = []
        self.facts: list[PartFacts] = []
        """Of each sample's part."""

    def fill(self) -> None:
        """Take samples in random order, `_TOGETHER` at a time, at the end fewer."""
        facts = self._folder.facts()
        samples = [(number, row) for number, part in facts.items() for row in range(part.samples)]
        order = default_rng(self._folder.maker.seed).permutation(len(samples)).tolist()
        together = _TOGETHER
        while order and together:
            chosen = [samples[number] for number in order[:together]]
            if self._took(chosen, [facts[number] for number, _ in chosen]):
                del order[:together]
            else:
                together //= 2

    def _took(self, chosen: Sequence[tuple[int, int]], facts: Sequence[PartFacts]) -> bool:
        """Whether there was room for these samples, each given by its part and row."""
        stacks, arrays = joined([self._folder.sample(*one) for one in chosen])
        chunks, stored = coded_stacks(stacks, arrays, self._kind)
        files = {name for one in facts for name in one.files} | self._files
        size = sum(len(data) + _TENSOR_BYTES for data in chunks.values())
        size += sum(array.nbytes for array in arrays.values()) + _ROW_BYTES * len(chosen)
        size += _SOURCE_BYTES * (len(files) - len(self._files))
        if size > self._room:
            return False
        self._room, self._files = self._room - size, files
        for name, data in chunks.items():
            self.chunks[name].append((len(stacks[name]), data))
        self.arrays.append(arrays)
        self.loss.append(stored_loss(stacks, stored, self._kind))
        self.facts += facts
        return True


def assemble(path: Path, folder: PartFolder, networks: Networks, most_bytes: int) -> dict[str, Any]:
    """Write the pack; returns its manifest. Raises ConfigError where not even a sample fits."""
    kind = KINDS[folder.maker.kind]
    filling = _Filling(folder, room_for_samples(most_bytes, networks))
    filling.fill()
    if not filling.facts:
        raise ConfigError(f"not a sample fits into {most_bytes / 1e6:g} megabytes: give more")
    manifest = _manifest(folder, filling)
    stacks = {
        name: CodedStack(
            (kind.side, kind.side, _CHANNELS.get(name, 3)),
            kind.steps[name],
            chunks,
            kind.beside.get(name, ""),
        )
        for name, chunks in filling.chunks.items()
    }
    arrays = _arrays(filling, manifest["clips"])
    with explain_failure(path):
        write_pack(path, manifest, stacks, arrays, networks, most_bytes)
    return manifest


def _manifest(folder: PartFolder, filling: _Filling) -> dict[str, Any]:
    maker, facts = folder.maker, filling.facts
    return {
        "kind": maker.kind,
        "side": KINDS[maker.kind].side,
        "gain_unit": GAIN_UNIT,
        "confidence_unit": CONFIDENCE_UNIT,
        "samples": len(facts),
        "held": sum(one.held for one in facts),
        "codings": dict(Counter(one.coding for one in facts)),
        "loss": loss_summary(np.concatenate(filling.loss)),
        "held_out": [path.name for path in maker.held],
        "clips": list(dict.fromkeys(one.files[0] for one in facts)),
        "sources": described(maker.folder, facts),
        "seed": maker.seed,
        "version": __version__,
        "seconds": round(sum(part.seconds for part in folder.facts().values()), 1),
    }


def _arrays(filling: _Filling, clips: Sequence[str]) -> dict[str, Tensor]:
    """One row a sample, but for `time`, which has one a frame."""
    arrays = together(filling.arrays)
    arrays["held"] = np.array([one.held for one in filling.facts], np.uint8)
    arrays["clip"] = np.array([clips.index(one.files[0]) for one in filling.facts], np.int32)
    if "frames" in arrays:
        frames = arrays.pop("frames").astype(np.int32)
        ends = np.cumsum(frames, dtype=np.int32)
        arrays["window"] = np.stack([ends - frames, frames], 1)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
