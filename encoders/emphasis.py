"""Pre-emphasis: what coding will take away of a key picture's detail is raised before it is coded.

A quantiser drops weak detail and keeps strong one, so a picture comes out softer than it went in; where, and by how
much, a coded trial shows. Detail raised by as much passes. That costs fewer bits than a finer quantiser.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.decoders.motion.estimation import gray
from gsvc.encoders.distortion import Reference

_FINEST, _COARSEST = 0.7, 3.0
"""Standard deviations, in pixels, of the Gaussians around the detail that is raised: finer one is not worth its bits."""
_SHARE, _MOST = 0.8, 1.0
"""Of what is lacking, how much is raised, and by how much detail is raised at most."""
_CRFS = 62.0, 70.0
"""Quantiser from which less is raised, and at which nothing is: there the decoder's texture gains are cheaper."""


def emphasised(source: Picture, reference: Reference, decoded: Picture, crf: float) -> Picture:
    """The source with the detail of its luma raised by what `decoded`, its luma in a trial at `crf`, lacks: at most doubled.

    `source`: RGB uint8 (H, W, 3), `reference`: of it, `decoded`: uint8 (H, W). Returns a picture like `source`.
    """
    height, width = decoded.shape
    share = float(np.interp(crf, _CRFS, (_SHARE, 0.0)))
    raised = np.clip(share * np.expm1(reference.weaker(decoded)), 0, _MOST)
    gain = cv2.resize(raised, (width, height), interpolation=cv2.INTER_LINEAR)
    added = gain * _detail(gray(source).astype(np.float32))
    return np.asarray(np.clip(np.rint(source + added[..., None]), 0, 255), np.uint8)


def _detail(luma: NDArray[np.float32]) -> NDArray[np.float32]:
    finer, coarser = (cv2.GaussianBlur(luma, (0, 0), spread) for spread in (_FINEST, _COARSEST))
    return np.asarray(finer - coarser, np.float32)
