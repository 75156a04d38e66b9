"""MS-SSIM of luma.

Z. Wang, E. Simoncelli and A. Bovik, "Multiscale structural similarity for image quality
assessment", Asilomar 2003, as in the package `pytorch-msssim`.
"""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from gsvc.codec.bitstream.frames import Picture
from gsvc.eval.late_loading import optional
from gsvc.eval.metrics.base import FrameMetric, Frames, Golden, luma

SMALLEST_SIDE = 161
"""Pixels: a window of 11 at the fifth scale needs so many."""


class MsSsim(FrameMetric):
    """MS-SSIM of luma; 1 = equal."""

    name = "ms_ssim"
    smallest_side = SMALLEST_SIDE
    higher_is_better = True
    golden = Golden(1, 0.912879, slack=1e-6, side=176)
    advice = "reinstall it: pip install --force-reinstall pytorch-msssim==1.0.0"

    def version(self) -> str:
        """See `Metric.version`."""
        _package()
        return f"pytorch-msssim {version('pytorch-msssim')} on BT.709 luma, full range"

    def _against(self, source: Frames, index: int) -> Callable[[Frames], float]:
        reference, ms_ssim = _tensor(source[index]), _package().ms_ssim
        return lambda test: float(ms_ssim(reference, _tensor(test[index]), data_range=255))


def _tensor(picture: Picture) -> Any:
    import torch

    return torch.from_numpy(luma(picture).astype(np.float32))[None, None]


def _package() -> Any:
    with optional('MS-SSIM needs pytorch-msssim: pip install "gsvc[bench]"'):
        import pytorch_msssim
    return pytorch_msssim


METRICS = (MsSsim(),)
