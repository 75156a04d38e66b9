"""ST-LPIPS, AlexNet and VGG: the primary perceptual pair.

A. Ghildyal and F. Liu, "Shift-tolerant Perceptual Similarity Metric", ECCV 2022, as packaged in
`stlpips-pytorch` 0.0.2. Lower is better, 0 = equal. Its wheel carries the backbones as well as the
heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import MissingDependencyError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip import TestClip
from gsvc.eval.late_loading import optional
from gsvc.eval.metrics.base import (
    Golden,
    ProvedMetric,
    check_pairs,
    check_sides,
    chosen,
    golden_clip,
)

if TYPE_CHECKING:
    import torch

Net = Literal["alex", "vgg"]
NETS: tuple[Net, ...] = ("alex", "vgg")

SMALLEST_SIDE = 32
"""Pixels: below it the metric's networks have nothing left to compare."""

_GOLDEN: dict[Net, Golden] = {"alex": Golden(0, 0.016653), "vgg": Golden(0, 0.187596)}
_PIXELS_PER_BATCH = 200_000
_VALUES_AT_ONCE = 2**18
_INSTALL = 'install the measuring extra: pip install "gsvc[eval]"'
_REINSTALL = "reinstall it: pip install --force-reinstall stlpips-pytorch==0.0.2"


class StLpips(ProvedMetric):
    """ST-LPIPS: mean weighted squared difference of unit-length features over layers and places."""

    advice = _REINSTALL

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net
        self.name = f"st_lpips_{net}"
        self.golden = _GOLDEN[net]

    def version(self) -> str:
        """See `Metric.version`."""
        network(self.net)
        return f"stlpips-pytorch {version('stlpips-pytorch')} {self.net} shift-tolerant"

    def _values(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        reference = chosen(source.frames, indices)
        check_sides(reference, SMALLEST_SIDE, "ST-LPIPS")
        return distances(network(self.net), reference, [chosen(test, indices) for test in tests])


def st_lpips(
    reference: Sequence[Picture], test: Sequence[Picture], net: Net
) -> NDArray[np.float64]:
    """ST-LPIPS of each pair of frames with the same index.

    Both sequences hold RGB uint8 pictures (H, W, 3) of one size, sides of at least 32 pixels.
    Returns shape (frames,), float64, 0 = equal, about 1 = unrelated.
    Raises InputError when the sequences do not pair, MissingDependencyError when the package or its
    weights are not here or do not give the expected distance on a known pair.
    """
    return np.asarray(st_lpips_each(reference, [test], net)[0])


def st_lpips_each(
    reference: Sequence[Picture], tests: Sequence[Sequence[Picture]], net: Net
) -> NDArray[np.float64]:
    """`st_lpips` of several tests against one reference, whose features are computed once.

    Returns shape (tests, frames), float64. Errors as in `st_lpips`.
    """
    for test in tests:
        check_pairs(reference, test)
    check_sides(reference, SMALLEST_SIDE, "ST-LPIPS")
    return distances(network(net), reference, tests)


def distances(
    network: torch.nn.Module, reference: Sequence[Picture], tests: Sequence[Sequence[Picture]]
) -> NDArray[np.float64]:
    """Shape (tests, frames); the frames are taken to pair."""
    import torch

    height, width = reference[0].shape[:2]
    batch = max(1, _PIXELS_PER_BATCH // (height * width))
    values = np.empty((len(tests), len(reference)))
    with torch.inference_mode():
        for start in range(0, len(reference), batch):
            part = slice(start, start + batch)
            layers = [_of_unit_length(layer) for layer in _layers(network, reference[part])]
            for row, test in zip(values, tests, strict=True):
                row[part] = _compare(network, layers, _layers(network, test[part]))
    return values


def layer_maps(network: Any, frame: Picture) -> list[torch.Tensor]:
    """The backbone's five layers of one frame, each (H, W, channels), features of unit length."""
    import torch

    with torch.inference_mode():
        layers = network.net(network.scaling_layer(_tensor([frame])))
        return [_of_unit_length(layer[0].permute(1, 2, 0)) for layer in layers]


def _layers(network: Any, frames: Sequence[Picture]) -> list[torch.Tensor]:
    """The backbone's five layers, each (N, positions, channels)."""
    layers = network.net(network.scaling_layer(_tensor(frames)))
    return [layer.permute(0, 2, 3, 1).flatten(1, 2) for layer in layers]


def _of_unit_length(layer: torch.Tensor) -> torch.Tensor:
    import torch

    length: torch.Tensor = torch.linalg.vector_norm(layer, dim=-1, keepdim=True)
    return layer.div(length.clamp_min_(1e-10))


def _compare(
    network: Any, reference: Sequence[torch.Tensor], test: Sequence[torch.Tensor]
) -> NDArray[np.float64]:
    """The weighted squared difference of the features, averaged over each layer's positions.

    `reference` is of unit length already.
    """
    total = np.zeros(len(reference[0]))
    for head, a, b in zip(network.lins, reference, test, strict=True):
        weights = head.model[-1].weight.flatten()
        for index, (one, other) in enumerate(zip(a, b, strict=True)):
            total[index] += _layer_distance(weights, one, other)
    return total


def _layer_distance(weights: torch.Tensor, reference: torch.Tensor, test: torch.Tensor) -> float:
    """One layer of one frame, in parts that fit the cache; several times slower in one go."""
    positions, channels = test.shape
    step = max(1, _VALUES_AT_ONCE // channels)
    total = 0.0
    for start in range(0, positions, step):
        part = slice(start, start + step)
        difference = _of_unit_length(test[part]).sub_(reference[part]).square_()
        total += float(difference.sum(dim=0) @ weights)
    return total / positions


def _tensor(frames: Sequence[Picture]) -> torch.Tensor:
    """Frames as float32 (N, 3, H, W) in [-1, 1], channels last in memory (twice as fast on CPU)."""
    import torch

    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).float().div(127.5).sub(1)


@cache
def network(net: Net) -> torch.nn.Module:
    """The metric's network in its fast form, proved on the golden pair."""
    from gsvc.eval.metrics.fast_layers import accelerate

    ready = load_network(net)
    accelerate(ready)
    source, damaged = golden_clip(64, 1)
    same, different = distances(ready, source.frames, [source.frames, damaged])[:, 0]
    expected = _GOLDEN[net]
    if not expected.fits(float(same), float(different)):
        raise MissingDependencyError(
            f"ST-LPIPS {net} gives {same:.6f} and {different:.6f} on the golden pair instead of "
            f"0 and {expected.different}: {_REINSTALL}"
        )
    return ready


def load_network(net: Net) -> torch.nn.Module:
    """The network as published, with the wheel's weights. Raises MissingDependencyError."""
    with optional(f"ST-LPIPS cannot be imported ({{error}}): {_INSTALL}"):
        import stlpips_pytorch
        import torch
        from stlpips_pytorch import stlpips
    # Built without storage: a weight that the file does not fill stays on the meta device and is
    # caught below, so no random or downloaded backbone can slip in.
    with torch.device("meta"):
        network = stlpips.LPIPS(net=net, variant="shift_tolerant", pretrained=False, verbose=False)
    path = Path(stlpips_pytorch.__file__).parent / f"weights/vST0.0/{net}_shift_tolerant.pth"
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
        network.load_state_dict(weights, strict=False, assign=True)
    except (OSError, RuntimeError) as error:
        raise MissingDependencyError(f"ST-LPIPS {net} has no weights: {_REINSTALL}") from error
    if any(tensor.is_meta for tensor in (*network.parameters(), *network.buffers())):
        raise MissingDependencyError(f"ST-LPIPS {net} has incomplete weights: {_REINSTALL}")
    ready: torch.nn.Module = network.eval().requires_grad_(False)
    return ready.to(memory_format=torch.channels_last)


METRICS = (StLpips("alex"), StLpips("vgg"))
