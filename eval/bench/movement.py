"""How much of a clip moves: a judge of video must see it, see `gsvc.eval.summary.slideshow`."""

from collections.abc import Sequence

import cv2
import numpy as np

from gsvc.codec.frames import Picture
from gsvc.decoders.motion.estimation import dis_flow, gray

_STEP = 4
"""One pair of neighbouring frames in so many is looked at."""
_LEAST = 0.5
"""Pixels a frame, in a picture whose short side is 288: less is noise."""


def moving_share(frames: Sequence[Picture]) -> float:
    """The share of pixels that move from a frame to the next, 0 to 1, by DIS; 0 for one frame.

    `frames`: RGB uint8 (H, W, 3).
    """
    least = _LEAST * min(frames[0].shape[:2]) / 288
    shares = []
    for index in range(1, len(frames), _STEP):
        before, after = gray(frames[index - 1]), gray(frames[index])
        flow = dis_flow(before, after, cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        shares.append(float((np.linalg.norm(flow, axis=2) > least).mean()))
    return float(np.mean(shares)) if shares else 0.0
