"""What storing pictures in a pack loses, beside what is to be restored."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.training.packing.kinds import Kind, Stacks

_BEST = 60.0
"""PSNR of pictures that are equal, or nearly so."""
_LOW = 5


def stored_loss(
    stacks: Stacks, stored: Mapping[str, NDArray[np.uint8]], kind: Kind
) -> NDArray[np.float32]:
    """PSNR in dB, float32 (N, 6), a row a picture of `truth`; each of luma, then of RGB.

    Of the truth as stored against the truth; of the input as stored against the input; of the input
    against the truth.
    """
    names = "truth", kind.restored
    exact, back = ([of[name] for name in names] for of in (stacks, stored))
    pairs = (back[0], exact[0]), (back[1], exact[1]), (exact[1], exact[0])
    rows = []
    for number in range(len(exact[0])):
        both = [(a[number], b[number]) for a, b in pairs]
        rows.append([psnr for a, b in both for psnr in (_psnr(gray(a), gray(b)), _psnr(a, b))])
    return np.array(rows, np.float32)


def _psnr(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    error = float(np.square(a.astype(np.float64) - b).mean())
    return min(_BEST, float(-10 * np.log10(error / 255**2))) if error else _BEST


def loss_summary(rows: NDArray[np.float32]) -> dict[str, dict[str, float]]:
    """Means and low ends of `stored_loss`, and of how much less storing loses than coding did."""
    columns = dict(
        zip(
            ("truth_luma", "truth_rgb", "input_luma", "input_rgb", "damage_luma", "damage_rgb"),
            rows.T,
            strict=True,
        )
    )
    columns["truth_above_damage_luma"] = columns["truth_luma"] - columns["damage_luma"]
    return {
        name: {"mean": round(float(v.mean()), 2), "low": round(float(np.percentile(v, _LOW)), 2)}
        for name, v in columns.items()
    }
