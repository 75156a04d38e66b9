"""Large pictures in parts, so that memory is bounded: each part sees what its pixels depend on."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def in_tiles(
    run: Callable[..., Tensor], inputs: Sequence[Tensor], *, tile: int, margin: int, scale: int = 1
) -> Tensor:
    """`run(*inputs)`, tile by tile.

    `run`: gives a tensor `scale` times as large as its inputs.
    `inputs`: (B, C, H, W) each, all of one size.
    `tile`: side of a tile in pixels.
    `margin`: pixels around a tile that `run` is shown too.
    """
    height, width = inputs[0].shape[-2:]
    rows = []
    for top in range(0, height, tile):
        row = []
        for left in range(0, width, tile):
            bottom, right = min(top + tile, height), min(left + tile, width)
            above, before = max(top - margin, 0), max(left - margin, 0)
            below, after = min(bottom + margin, height), min(right + margin, width)
            shown = run(*(part[..., above:below, before:after] for part in inputs))
            y, x = scale * (top - above), scale * (left - before)
            row.append(shown[..., y : y + scale * (bottom - top), x : x + scale * (right - left)])
        rows.append(torch.cat(row, dim=-1))
    return torch.cat(rows, dim=-2)
