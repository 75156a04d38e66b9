"""Samples coded as in a pack: each picture beside the one that it resembles most."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.training.packing.kinds import Arrays, Kind, Stacks
from gsvc.decoders.training.standalone.levels import Planes, Resembled, pack_levels
from gsvc.decoders.training.standalone.planes import levels_of, pictures_of_levels

Rows = NDArray[np.int32]


def coded_stacks(
    stacks: Stacks, arrays: Arrays, kind: Kind
) -> tuple[dict[str, bytes], Mapping[str, NDArray[np.uint8]]]:
    """The data of each stack, and the pictures that come back from them, uint8 (N, H, W, C)."""
    levels: dict[str, Planes] = {"": []}
    chunks, stored = {}, {}
    for name, step in kind.steps.items():
        levels[name] = levels_of(stacks[name], step)
        rows = _resembled(name, len(stacks[name]), arrays)
        beside = levels[kind.beside.get(name, "")]
        chunks[name] = pack_levels(levels[name], Resembled(beside, rows))
        stored[name] = pictures_of_levels(levels[name], step).permute(0, 2, 3, 1).numpy()
    return chunks, stored


def _resembled(name: str, count: int, arrays: Arrays) -> Rows:
    """For each picture of a stack, the row of what it resembles; see `Resembled`."""
    own = np.arange(count, dtype=np.int32)
    if name == "given":
        return own
    if "frames" not in arrays or name == "keys":
        # The second of two key pictures resembles the first.
        return np.where((own % 2 == 1) & (name == "keys"), own - 1, -1).astype(np.int32)
    frames = arrays["frames"].astype(np.int64)
    firsts = np.cumsum(frames) - frames
    others = {"rendering": 2 * len(frames), "truth": count}.get(name, 0)
    rows = others + own - 1
    rows[firsts] = {"rendering": 2 * np.arange(len(frames)), "truth": firsts}.get(name, -1)
    return rows.astype(np.int32)
