"""PSNR and MS-SSIM of luma.

MS-SSIM: Z. Wang, E. Simoncelli and A. Bovik, "Multiscale structural similarity for image quality
assessment", Asilomar 2003, as in the package `pytorch-msssim`.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.late_loading import optional
from gsvc.eval.metrics import base


def psnr_y(reference: Sequence[Picture], test: Sequence[Picture]) -> NDArray[np.float64]:
    """PSNR in dB of BT.709 luma (full range, 0-255, not rounded) of each pair of frames.

    Both sequences hold RGB uint8 pictures (H, W, 3) of one size. Returns shape (frames,), float64,
    infinite where a pair is equal. Raises InputError when the sequences do not pair.
    """
    base.check_pairs(reference, test)
    with np.errstate(divide="ignore"):
        return np.array(
            [
                10 * np.log10(255**2 / np.mean((base.luma(a) - base.luma(b)) ** 2))
                for a, b in zip(reference, test, strict=True)
            ]
        )


class PsnrY(base.ProvedMetric):
    """PSNR of luma."""

    name = "psnr_y"
    unit = "dB"
    higher_is_better = True
    nothing = "every frame measured is exact: infinite"
    golden = base.Golden(np.inf, 18.70187497)
    advice = "reinstall numpy"

    def version(self) -> str:
        return "BT.709 luma of RGB, full range"

    def _values(self, source: TestClip, tests: base.Tests, indices: base.Indices) -> base.Values:
        reference = base.chosen(source.frames, indices)
        return np.stack([psnr_y(reference, base.chosen(test, indices)) for test in tests])


SMALLEST_SIDE = 161
"""Pixels: a window of 11 at the fifth scale needs so many."""


class MsSsim(base.FrameMetric):
    """MS-SSIM of luma; 1 = equal."""

    name = "ms_ssim"
    smallest_side = SMALLEST_SIDE
    higher_is_better = True
    golden = base.Golden(1, 0.912879, slack=1e-6, side=176)
    advice = "reinstall it: pip install --force-reinstall pytorch-msssim==1.0.0"

    def version(self) -> str:
        _package()
        return f"pytorch-msssim {version('pytorch-msssim')} on BT.709 luma, full range"

    def _against(self, source: base.Frames, index: int) -> Callable[[base.Frames], float]:
        reference, ms_ssim = _tensor(source[index]), _package().ms_ssim
        return lambda test: float(ms_ssim(reference, _tensor(test[index]), data_range=255))


def _tensor(picture: Picture) -> Any:
    import torch

    return torch.from_numpy(base.luma(picture).astype(np.float32))[None, None]


def _package() -> Any:
    with optional('MS-SSIM needs pytorch-msssim: pip install "gsvc[bench]"'):
        import pytorch_msssim
    return pytorch_msssim


METRICS = PsnrY(), MsSsim()
