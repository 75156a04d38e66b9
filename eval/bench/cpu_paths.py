"""How fast a CPU runs and trains our own networks, by precision, memory layout and threads."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from torch import Tensor, nn

from gsvc.decoders.keyframes.compact.network import SIZES, CompactRefiner
from gsvc.decoders.keyframes.devices import has_bfloat16
from gsvc.decoders.keyframes.restorer.network import Restorer
from gsvc.eval.bench.speed import timed
from gsvc.eval.compute import count_flops
from gsvc.eval.layout import markdown

_PICTURE = 1, 288, 512
_CROPS = 8, 96, 96
_TRAINING = 3
"""Operations of a training step in those of a forward pass: the backward pass takes two more."""


@dataclass(frozen=True)
class CpuPath:
    """One way to compute, and what it reached."""

    network: str
    precision: str
    layout: str
    threads: int
    seconds: float
    """Of one picture of 512x288."""
    flops: float
    """Operations a second there."""
    samples: float
    """Crops of 96x96 a second in training: forward, backward, batches of 8, without loss."""
    training_flops: float
    """Operations a second there."""


_NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "nano": partial(CompactRefiner, **SIZES["nano"]),
    "restorer": Restorer,
}
_INPUTS: dict[str, Sequence[int]] = {"nano": (3, -1, 4, -2), "restorer": (3, 1, -6)}
"""Channels of pictures; below 0: columns of a table, 1 a vector."""


def measure_paths() -> Iterator[CpuPath]:
    """Time each network on each path that the processor has."""
    ways = [("float32", "contiguous"), ("float32", "channels last")]
    if has_bfloat16():
        ways.append(("bfloat16", "channels last"))
    before = torch.get_num_threads()
    for name, (precision, layout) in product(_NETWORKS, ways):
        for threads in sorted({1, min(2, os.cpu_count() or 1)}):
            torch.set_num_threads(threads)
            yield _measured(name, precision, layout, threads)
    torch.set_num_threads(before)


def paths_table(paths: Sequence[CpuPath]) -> str:
    """The paths as a table."""
    header = (
        "network", "precision", "layout", "threads", "ms a picture", "TFLOP/s",
        "samples/s in training", "TFLOP/s",
    )  # fmt: skip
    rows = [
        [
            path.network,
            path.precision,
            path.layout,
            str(path.threads),
            f"{1000 * path.seconds:.4g}",
            f"{path.flops / 1e12:.3f}",
            f"{path.samples:.3g}",
            f"{path.training_flops / 1e12:.3f}",
        ]
        for path in paths
    ]
    return "Our own networks at 512x288, and in training:\n\n" + markdown(header, rows)


def _measured(name: str, precision: str, layout: str, threads: int) -> CpuPath:
    form = torch.channels_last if layout == "channels last" else torch.contiguous_format
    network = _NETWORKS[name]().to(memory_format=form)
    picture, crops = (_inputs(name, *size, form) for size in (_PICTURE, _CROPS))

    def run(inputs: Sequence[Tensor]) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            result: Tensor = network(*inputs)
        return result

    def shown() -> None:
        with torch.no_grad():
            run(picture)

    def learned() -> None:
        run(crops).float().square().mean().backward()  # type: ignore[no-untyped-call]

    one, step = timed(shown, "cpu").seconds, timed(learned, "cpu").seconds
    whole, part = (count_flops(partial(run, each)) for each in (picture, crops))
    speeds = one, whole / one, _CROPS[0] / step, _TRAINING * part / step
    return CpuPath(name, precision, layout, threads, *speeds)


def _inputs(
    name: str, count: int, height: int, width: int, form: torch.memory_format
) -> list[Tensor]:
    return [
        torch.rand(count, channels, height, width).to(memory_format=form)
        if channels > 0
        else torch.rand((count,) if channels == -1 else (count, -channels))
        for channels in _INPUTS[name]
    ]
