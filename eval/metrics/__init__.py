"""Quality of decoded frames against the source: ST-LPIPS (AlexNet and VGG) and PSNR of luma.

ST-LPIPS: Ghildyal and Liu, "Shift-tolerant Perceptual Similarity Metric", ECCV 2022, as packaged in
`stlpips-pytorch` 0.0.2. Lower is better, 0 = equal. Its wheel carries the backbones as well as the heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import InputError, MissingDependencyError
from gsvc.codec.frames import Picture

if TYPE_CHECKING:
    import torch

Net = Literal["alex", "vgg"]
NETS: tuple[Net, ...] = ("alex", "vgg")

SMALLEST_SIDE = 32
"""Pixels: below it the metric's networks have nothing left to compare."""

_GOLDEN = {"alex": 0.016653, "vgg": 0.187596}
_GOLDEN_TOLERANCE = 1e-3
_PIXELS_PER_BATCH = 600_000
_BT709_LUMA = np.array([0.2126, 0.7152, 0.0722])
_INSTALL = 'install the measuring extra: pip install "gsvc[eval]"'
_REINSTALL = "reinstall it: pip install --force-reinstall stlpips-pytorch==0.0.2"


@dataclass(frozen=True)
class Quality:
    """Means over the frames of a clip; `psnr_y` is in dB and infinite when every frame is exact."""

    st_lpips_alex: float
    st_lpips_vgg: float
    psnr_y: float


def measure(reference: Sequence[Picture], tests: Sequence[Sequence[Picture]]) -> list[Quality]:
    """The metrics of this module for each of `tests`, averaged over the frames.

    Several tests at once cost little more than half of one at a time. Errors as in `st_lpips`.
    """
    alex, vgg = (st_lpips_each(reference, tests, net).mean(axis=1) for net in NETS)
    return [
        Quality(float(alex[index]), float(vgg[index]), float(psnr_y(reference, test).mean()))
        for index, test in enumerate(tests)
    ]


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
        _check_pairs(reference, test)
    height, width = reference[0].shape[:2]
    if min(height, width) < SMALLEST_SIDE:
        raise InputError(
            f"ST-LPIPS needs sides of {SMALLEST_SIDE} pixels or more, got {width}x{height}: "
            "measure larger frames"
        )
    return _distances(_network(net), reference, tests)


def psnr_y(reference: Sequence[Picture], test: Sequence[Picture]) -> NDArray[np.float64]:
    """PSNR in dB of BT.709 luma (full range, 0-255, not rounded), for each pair with the same index.

    Both sequences hold RGB uint8 pictures (H, W, 3) of one size. Returns shape (frames,), float64,
    infinite where a pair is equal. Raises InputError when the sequences do not pair.
    """
    _check_pairs(reference, test)
    with np.errstate(divide="ignore"):
        return np.array(
            [
                10 * np.log10(255**2 / _luma_error(a, b))
                for a, b in zip(reference, test, strict=True)
            ]
        )


def _luma_error(a: Picture, b: Picture) -> np.float64:
    difference = (a.astype(np.float64) - b) @ _BT709_LUMA
    return np.float64(np.mean(difference**2))


def _check_pairs(reference: Sequence[Picture], test: Sequence[Picture]) -> None:
    if len(reference) != len(test):
        raise InputError(
            f"{len(test)} frames cannot be measured against {len(reference)}: "
            "pass sequences of equal length, paired by index"
        )
    if not reference:
        raise InputError("there are no frames to measure: pass at least one pair")
    for index, (a, b) in enumerate(zip(reference, test, strict=True)):
        if a.ndim != 3 or a.shape != reference[0].shape or a.shape != b.shape or a.shape[2] != 3:
            raise InputError(
                f"frame {index} is {b.shape} against {a.shape}: all must be RGB and of one size"
            )
        if a.dtype != np.uint8 or b.dtype != np.uint8:
            raise InputError(f"frame {index} is {b.dtype} against {a.dtype}: both must be uint8")


def _distances(
    network: torch.nn.Module, reference: Sequence[Picture], tests: Sequence[Sequence[Picture]]
) -> NDArray[np.float64]:
    import torch

    height, width = reference[0].shape[:2]
    batch = max(1, _PIXELS_PER_BATCH // (height * width))
    distances = np.empty((len(tests), len(reference)))
    with torch.no_grad():
        for start in range(0, len(reference), batch):
            part = slice(start, start + batch)
            features = _features(network, reference[part])
            for row, test in zip(distances, tests, strict=True):
                row[part] = _compare(network, features, _features(network, test[part]))
    return distances


def _features(network: Any, frames: Sequence[Picture]) -> list[torch.Tensor]:
    """The backbone's five layers, each of unit length along its channels."""
    from torch.nn.functional import normalize

    layers = network.net(network.scaling_layer(_tensor(frames)))
    return [normalize(layer, dim=1, eps=1e-10) for layer in layers]


def _compare(
    network: Any, reference: Sequence[torch.Tensor], test: Sequence[torch.Tensor]
) -> NDArray[np.float32]:
    """The weighted squared difference of the features, averaged over each layer's positions."""
    layers = zip(network.lins, reference, test, strict=True)
    distance = sum(head((a - b) ** 2).mean(dim=(1, 2, 3)) for head, a, b in layers)
    return np.asarray(distance)


def _tensor(frames: Sequence[Picture]) -> torch.Tensor:
    """Frames as float32 (N, 3, H, W) in [-1, 1], channels last in memory (twice as fast on CPU)."""
    import torch

    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).float().div(127.5).sub(1)


@cache
def _network(net: Net) -> torch.nn.Module:
    """The metric's network with the wheel's weights, proved on the golden pair."""
    network = _load(net)
    reference, test = _golden_pair()
    same, different = _distances(network, [reference] * 2, [[reference, test]])[0]
    expected = _GOLDEN[net]
    if same != 0 or abs(different - expected) > _GOLDEN_TOLERANCE * expected:
        raise MissingDependencyError(
            f"ST-LPIPS {net} gives {same:.6f} and {different:.6f} on the golden pair instead of "
            f"0 and {expected}: {_REINSTALL}"
        )
    return network


def _load(net: Net) -> torch.nn.Module:
    try:
        import stlpips_pytorch
        import torch
        from stlpips_pytorch import stlpips
    except ImportError as error:
        raise MissingDependencyError(
            f"ST-LPIPS cannot be imported ({error}): {_INSTALL}"
        ) from error
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
    loaded: torch.nn.Module = network.eval().to(memory_format=torch.channels_last)
    return loaded


def _golden_pair() -> tuple[Picture, Picture]:
    """A picture of integer arithmetic alone, and the same quantised and moved by a pixel."""
    y, x = np.mgrid[0:64, 0:64]
    planes = [x * 3 + y, (x * y) // 7, (x // 8 + y // 8) % 2 * 160 + x]
    reference = np.stack(planes, axis=2).astype(np.uint8)
    return reference, np.roll(reference, 1, axis=1) // 32 * 32
