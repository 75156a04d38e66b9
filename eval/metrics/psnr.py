"""PSNR of luma."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip import TestClip
from gsvc.eval.metrics.base import Golden, ProvedMetric, check_pairs, chosen, luma


def psnr_y(reference: Sequence[Picture], test: Sequence[Picture]) -> NDArray[np.float64]:
    """PSNR in dB of BT.709 luma (full range, 0-255, not rounded) of each pair of frames.

    Both sequences hold RGB uint8 pictures (H, W, 3) of one size. Returns shape (frames,), float64,
    infinite where a pair is equal. Raises InputError when the sequences do not pair.
    """
    check_pairs(reference, test)
    with np.errstate(divide="ignore"):
        return np.array(
            [
                10 * np.log10(255**2 / np.mean((luma(a) - luma(b)) ** 2))
                for a, b in zip(reference, test, strict=True)
            ]
        )


class PsnrY(ProvedMetric):
    """PSNR of luma."""

    name = "psnr_y"
    unit = "dB"
    higher_is_better = True
    nothing = "every frame measured is exact: infinite"
    golden = Golden(np.inf, 18.70187497)
    advice = "reinstall numpy"

    def version(self) -> str:
        """See `Metric.version`."""
        return "BT.709 luma of RGB, full range"

    def _values(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        reference = chosen(source.frames, indices)
        return np.stack([psnr_y(reference, chosen(test, indices)) for test in tests])


METRICS = (PsnrY(),)
