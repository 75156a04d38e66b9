"""DISTS: likeness of structure and of texture.

K. Ding et al., "Image Quality Assessment: Unifying Structure and Texture Similarity", IEEE TPAMI
2022, as in the authors' package `DISTS_pytorch` on torchvision's VGG-16. Lower is better, 0 =
equal. Frames are compared at their own size.
"""

from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gsvc.codec.bitstream.frames import Picture
from gsvc.eval.late_loading import optional
from gsvc.eval.metrics.base import FrameMetric, Frames, Golden
from gsvc.eval.metrics.lpips import backbone_path
from gsvc.eval.metrics.shift_tolerant import SMALLEST_SIDE


class Dists(FrameMetric):
    """Structure and texture alike, by features of VGG (DISTS), one number a frame."""

    name = "dists"
    smallest_side = SMALLEST_SIDE
    # The backbone's file is proved by its hash; equal frames differ by rounding only.
    golden = Golden(0, None, slack=1e-5)
    advice = "reinstall it: pip install --force-reinstall DISTS_pytorch==0.1"

    def version(self) -> str:
        """See `Metric.version`."""
        _network()
        return f"DISTS_pytorch {version('DISTS_pytorch')}, frames not resized"

    def _against(self, source: Frames, index: int) -> Callable[[Frames], float]:
        reference = _tensor(source[index])
        return lambda test: float(_network()(reference, _tensor(test[index])))


def _tensor(picture: Picture) -> Any:
    import torch

    return torch.from_numpy(picture).permute(2, 0, 1)[None].float().div(255)


@cache
def _network() -> Any:
    with optional('DISTS cannot be imported ({error}): pip install "gsvc[bench]"'):
        import DISTS_pytorch
        import torch
    # The package asks torch's hub for the backbone; with the file there, nothing is downloaded.
    backbone_path("vgg")
    ready = DISTS_pytorch.DISTS(load_weights=False)
    weights = torch.load(Path(DISTS_pytorch.__file__).parent / "weights.pt", weights_only=True)
    ready.alpha.data, ready.beta.data = weights["alpha"], weights["beta"]
    return ready.eval()


METRICS = (Dists(),)
