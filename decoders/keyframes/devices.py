"""Networks on a device: precision, memory, tiles.

A GPU computes in half precision. Half precision is float16: finer than bfloat16, and known to every
GPU. Its range, 65504, is a hundred times what the networks reach, whatever they are shown
(`tests/test_devices.py`). A CPU computes in single precision, or in bfloat16 where it multiplies
that itself and was measured to be quicker. Tiles bound the memory that a large picture
takes: each tile sees what its pixels depend on.
"""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from time import perf_counter
from typing import TypeVar

import torch
from torch import Tensor, nn

from gsvc.codec.media.output import atomic_output
from gsvc.codec.weights import extras, model_files

_Network = TypeVar("_Network", bound=nn.Module)


def placed(network: _Network, device: str) -> _Network:
    """The network on a device, ready to be run there: a GPU holds its weights in float16."""
    dtype = torch.float16 if torch.device(device).type == "cuda" else torch.float32
    return network.eval().to(device, dtype).to(memory_format=torch.channels_last)


def precision_on(
    device: torch.device, *, exact_on_cpu: bool = False
) -> AbstractContextManager[object]:
    """In it layers compute in the device's low precision; pictures stay in float32 between them.

    `exact_on_cpu`: for what bfloat16 is too coarse, such as motion.
    """
    if device.type == "cuda":
        return torch.autocast("cuda", torch.float16)
    if not exact_on_cpu and bfloat16_pays():
        return torch.autocast("cpu", torch.bfloat16)
    return nullcontext()


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself: AVX-512 BF16 or AMX."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


@cache
def bfloat16_pays() -> bool:
    """Whether bfloat16 is quicker on this processor.

    Measured once, and kept in the cache beside the machine's profile.
    """
    if not has_bfloat16():
        return False
    told = json.dumps([extras.machine()["cpu"], torch.__version__])
    name = f"precision-{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"
    path = model_files.cache_dir() / "profiles" / name
    with suppress(OSError, ValueError, KeyError):
        return bool(json.loads(path.read_text())["bfloat16"])
    seconds = {name: _convolution_seconds(dtype) for name, dtype in _PRECISIONS.items()}
    pays = seconds["bfloat16"] < seconds["float32"]
    with suppress(OSError):  # without a cache it is measured again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_output(path, overwrite=True) as part:
            part.write_text(json.dumps({"bfloat16": pays, "seconds": seconds}))
    return pays


_PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def _convolution_seconds(dtype: torch.dtype) -> float:
    """The best of five goes of a convolution like nano's."""
    layer = nn.Conv2d(48, 48, 3, padding=1).to(dtype).to(memory_format=torch.channels_last)
    x = torch.randn(1, 48, 144, 256, dtype=dtype).contiguous(memory_format=torch.channels_last)
    best = math.inf
    with torch.no_grad():
        for _ in range(5):
            begin = perf_counter()
            layer(x)
            best = min(best, perf_counter() - begin)
    return best


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
