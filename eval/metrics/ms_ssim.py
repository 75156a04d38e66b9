"""MS-SSIM of luma.

Z. Wang, E. Simoncelli and A. Bovik, "Multiscale structural similarity for image quality
assessment", Asilomar 2003, as in the package `pytorch-msssim`.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import MissingDependencyError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.eval.metrics.pairing import check_sides, luma
from gsvc.eval.metrics.proved import Golden, ProvedMetric

SMALLEST_SIDE = 161
"""Pixels: a window of 11 at the fifth scale needs so many."""


class MsSsim(ProvedMetric):
    """1 = equal."""

    name = "ms_ssim"
    higher_is_better = True
    golden = Golden(1, 0.912879, slack=1e-6, side=176)
    advice = "reinstall it: pip install --force-reinstall pytorch-msssim==1.0.0"

    def version(self) -> str:
        """See `Metric.version`."""
        _package()
        return f"pytorch-msssim {version('pytorch-msssim')} on BT.709 luma, full range"

    def _values(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        check_sides(source.frames, SMALLEST_SIDE, "MS-SSIM")
        values = np.empty((len(tests), len(indices)))
        for column, index in enumerate(indices):
            reference = _tensor(source.frames[index])
            for row, test in enumerate(tests):
                values[row, column] = _package().ms_ssim(
                    reference, _tensor(test[index]), data_range=255
                )
        return values


def _tensor(picture: Picture) -> Any:
    import torch

    return torch.from_numpy(luma(picture).astype(np.float32))[None, None]


@cache
def _package() -> Any:
    try:
        import pytorch_msssim
    except ImportError as error:
        raise MissingDependencyError(
            'MS-SSIM needs pytorch-msssim: pip install "gsvc[bench]"'
        ) from error
    return pytorch_msssim


METRICS = (MsSsim(),)
