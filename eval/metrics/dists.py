"""DISTS: likeness of structure and of texture.

K. Ding et al., "Image Quality Assessment: Unifying Structure and Texture Similarity", IEEE TPAMI
2022, as in the authors' package `DISTS_pytorch` on torchvision's VGG-16. Lower is better, 0 =
equal. Frames are compared at their own size.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import MissingDependencyError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.eval.metrics.image_nets import backbone_path
from gsvc.eval.metrics.pairing import check_sides
from gsvc.eval.metrics.proved import Golden, ProvedMetric
from gsvc.eval.metrics.shift_tolerant import SMALLEST_SIDE


class Dists(ProvedMetric):
    """One number a frame."""

    name = "dists"
    # The backbone's file is proved by its hash; equal frames differ by rounding only.
    golden = Golden(0, None, slack=1e-5)
    advice = "reinstall it: pip install --force-reinstall DISTS_pytorch==0.1"

    def version(self) -> str:
        """See `Metric.version`."""
        _network()
        return f"DISTS_pytorch {version('DISTS_pytorch')}, frames not resized"

    def _values(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        check_sides(source.frames, SMALLEST_SIDE, "DISTS")
        values = np.empty((len(tests), len(indices)))
        for column, index in enumerate(indices):
            reference = _tensor(source.frames[index])
            for row, test in enumerate(tests):
                values[row, column] = _network()(reference, _tensor(test[index]))
        return values


def _tensor(picture: Picture) -> Any:
    import torch

    return torch.from_numpy(picture).permute(2, 0, 1)[None].float().div(255)


@cache
def _network() -> Any:
    try:
        import DISTS_pytorch
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            f'DISTS cannot be imported ({error}): pip install "gsvc[bench]"'
        ) from error
    # The package asks torch's hub for the backbone; with the file there, nothing is downloaded.
    backbone_path("vgg")
    ready = DISTS_pytorch.DISTS(load_weights=False)
    weights = torch.load(Path(DISTS_pytorch.__file__).parent / "weights.pt", weights_only=True)
    ready.alpha.data, ready.beta.data = weights["alpha"], weights["beta"]
    return ready.eval()


METRICS = (Dists(),)
