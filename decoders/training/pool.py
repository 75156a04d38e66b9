"""Batches out of a folder of prepared crops."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.random import default_rng
from numpy.typing import NDArray
from torch import Tensor

from gsvc.codec.errors import InputError
from gsvc.decoders.key_picture import COARSEST_CRF, FINEST_SCALE
from gsvc.decoders.training.pairs import CROP, GAIN_UNIT

SIDE = 96
_HELD = 256
_EXCHANGED = 0.25
"""Sequences read anew for each batch: reading takes time."""


@dataclass(frozen=True)
class Batch:
    """Inputs of `CompactRefiner.forward`, and the truth."""

    given: Tensor
    scalars: Tensor
    truth: Tensor
    """(B, 3, SIDE, SIDE) in [-1, 1]."""


class Pool:
    """Random crops of a changing choice of sequences held in memory; `seed` decides them."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Raises InputError for a folder without crops."""
        self._files = sorted(folder.glob("*.npz"))
        if not self._files:
            raise InputError(f"{folder} holds no crops: give the preparation more time")
        self._rng = default_rng(seed)
        self._held: list[tuple[NDArray[np.uint8], NDArray[np.float32]]] = []
        self._order: list[Path] = []

    def batch(self, size: int) -> Batch:
        """The next `size` crops."""
        room = min(_HELD, len(self._files))
        if len(self._held) < room:
            for _ in range(size):
                self._exchange(room)
        elif self._rng.random() < _EXCHANGED:
            self._exchange(room)
        drawn = [self._crop() for _ in range(size)]
        return Batch(*(torch.stack(parts) for parts in zip(*drawn, strict=True)))

    def _exchange(self, room: int) -> None:
        if not self._order:
            self._order = list(self._files)
            self._rng.shuffle(self._order)
        with np.load(self._order.pop()) as file:
            sequence = file["crops"], file["scalars"]
        if len(self._held) < room:
            self._held.append(sequence)
        else:
            self._held[int(self._rng.integers(room))] = sequence

    def _crop(self) -> tuple[Tensor, Tensor, Tensor]:
        crops, scalars = self._held[int(self._rng.integers(len(self._held)))]
        crop = crops[int(self._rng.integers(len(crops)))]
        y, x = (int(v) for v in self._rng.integers(CROP - SIDE + 1, size=2))
        crop = crop[y : y + SIDE, x : x + SIDE]
        for axes in ((0,), (1,)):
            if self._rng.random() < 0.5:
                crop = np.flip(crop, axes)
        if self._rng.random() < 0.5:
            crop = crop.swapaxes(0, 1)
        return unpack(crop, scalars)


def unpack(crop: NDArray[np.uint8], scalars: NDArray[np.float32]) -> tuple[Tensor, Tensor, Tensor]:
    """A packed crop (see `pairs`) and its crf and scale, as (given, scalars, truth)."""
    values = torch.from_numpy(np.ascontiguousarray(crop)).permute(2, 0, 1).float()
    given = torch.cat([_colours(values[3:6]), values[6:7] / GAIN_UNIT, _colours(values[7:])])
    shares = torch.from_numpy(scalars) / torch.tensor([COARSEST_CRF, FINEST_SCALE])
    return given, shares.float().clamp(max=1), _colours(values[:3])


def _colours(values: Tensor) -> Tensor:
    return values / 127.5 - 1
