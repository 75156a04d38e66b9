"""Networks on a device: precision, memory, tiles.

A CPU computes in single precision, a GPU in half precision. Half precision is float16: finer than
bfloat16, and known to every GPU. Its range, 65504, is a hundred times what the networks reach,
whatever they are shown (`tests/test_devices.py`). Tiles bound the memory that a large picture
takes: each tile sees what its pixels depend on.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import DeviceError

_Network = TypeVar("_Network", bound=nn.Module)


def placed(network: _Network, device: str) -> _Network:
    """The network on a device, ready to be run there: a GPU holds its weights in float16."""
    dtype = torch.float16 if torch.device(device).type == "cuda" else torch.float32
    # Not by diffusers' own `to`, which warns of layers to keep in float32 where there are none.
    nn.Module.to(network.eval(), device, dtype)
    return nn.Module.to(network, memory_format=torch.channels_last)


def precision_on(device: torch.device) -> AbstractContextManager[object]:
    """In it layers compute in a GPU's half precision; pictures stay in float32 between them."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.float16)
    return nullcontext()


@contextmanager
def enough_memory(device: str) -> Iterator[None]:
    """Raises DeviceError when a GPU's memory runs out in it."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            f"{device} has not enough free memory for this: take cpu, a smaller refiner or video"
        ) from error


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
