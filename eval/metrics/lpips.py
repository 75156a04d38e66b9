"""LPIPS, AlexNet and VGG: the field's number.

Its backbones are torchvision's ImageNet networks, read from disk and checked.
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import MissingModelError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.model_files import sha256_of
from gsvc.datasets.clips.clip import TestClip
from gsvc.eval.late_loading import optional
from gsvc.eval.metrics.base import Golden, ProvedMetric, check_sides, chosen
from gsvc.eval.metrics.shift_tolerant import SMALLEST_SIDE, Net, distances

FILES = {"alex": "alexnet-owt-7be5be79.pth", "vgg": "vgg16-397923af.pth"}
"""As torchvision publishes them; what stands after the last dash begins the file's SHA-256."""

_ADDRESS = "https://download.pytorch.org/models/"


def backbone_path(net: str) -> Path:
    """Where torch keeps the file. Raises MissingModelError when it is missing or another one."""
    import torch

    path = Path(torch.hub.get_dir()) / "checkpoints" / FILES[net]
    where = f"put {_ADDRESS}{FILES[net]} into {_tilde(path.parent)}"
    if not path.is_file():
        raise MissingModelError(f"the {net} backbone is not on this machine: {where}")
    if not _sha256(path).startswith(path.stem.rpartition("-")[2]):
        raise MissingModelError(f"the {net} backbone is damaged or another one: {where}")
    return path


def _tilde(folder: Path) -> str:
    """With ~ for the home folder: the reason for a gap goes into tables that others read."""
    home = Path(os.path.expanduser("~"))
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)


_sha256 = cache(sha256_of)


class Lpips(ProvedMetric):
    """LPIPS on its original networks; as ST-LPIPS, but shifts are not forgiven."""

    # Without a number for the damaged pair: the backbone's file is proved by its hash instead.
    golden = Golden(0, None)
    advice = "reinstall it: pip install --force-reinstall lpips==0.1.4"

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net
        self.name = f"lpips_{net}"

    def version(self) -> str:
        """See `Metric.version`."""
        network(self.net)
        return f"lpips {version('lpips')} {self.net} v0.1"

    def _values(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        reference = chosen(source.frames, indices)
        check_sides(reference, SMALLEST_SIDE, "LPIPS")
        return distances(network(self.net), reference, [chosen(test, indices) for test in tests])


@cache
def network(net: Net) -> Any:
    """The network with the wheel's heads and torchvision's backbone."""
    with optional('LPIPS cannot be imported ({error}): pip install "gsvc[bench]"'):
        import lpips
        import torch
    backbone = torch.load(backbone_path(net), map_location="cpu", weights_only=True)
    # On the meta device nothing is random: what the files do not fill cannot be computed with.
    with torch.device("meta"):
        ready = lpips.LPIPS(net=net, pretrained=False, pnet_rand=True, verbose=False)
    ready.scaling_layer = lpips.ScalingLayer()
    heads = Path(lpips.__file__).parent / f"weights/v0.1/{net}.pth"
    ready.load_state_dict(
        torch.load(heads, map_location="cpu", weights_only=True), strict=False, assign=True
    )
    layers = {name: _of_backbone(name, backbone) for name in ready.net.state_dict()}
    ready.net.load_state_dict(layers, assign=True)
    return ready.eval().requires_grad_(False).to(memory_format=torch.channels_last)


def _of_backbone(name: str, backbone: dict[str, Any]) -> Any:
    """The tensor for "slice2.3.weight" is torchvision's "features.3.weight"."""
    return backbone["features." + name.partition(".")[2]]


METRICS = (Lpips("alex"), Lpips("vgg"))
