"""Which frames may be compared, and the luma that several metrics look at."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import InputError
from gsvc.codec.frames import Picture

_BT709_LUMA = np.array([0.2126, 0.7152, 0.0722])


def check_pairs(reference: Sequence[Picture], test: Sequence[Picture]) -> None:
    """Raise InputError unless both hold RGB uint8 pictures of one size, and equally many."""
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


def check_sides(frames: Sequence[Picture], smallest: int, metric: str) -> None:
    """Raise InputError when a side is under `smallest` pixels."""
    height, width = frames[0].shape[:2]
    if min(height, width) < smallest:
        raise InputError(
            f"{metric} needs sides of {smallest} pixels or more, got {width}x{height}: "
            "measure larger frames"
        )


def chosen(frames: Sequence[Picture], indices: Sequence[int]) -> list[Picture]:
    """The frames at `indices`."""
    return [frames[index] for index in indices]


def luma(picture: Picture) -> NDArray[np.float64]:
    """BT.709 luma of RGB uint8 (H, W, 3): float64 (H, W), full range, 0-255, not rounded."""
    return np.asarray(picture @ _BT709_LUMA)
