"""Pre-emphasis: detail that coding will take from a key picture is raised before it is coded.

A quantiser drops weak detail and keeps strong detail, so a picture comes out softer than it went
in; where, and by how much, a coded trial shows. Detail raised by as much passes, for fewer bits
than a finer quantiser takes (docs/logs/search.md, "Pre-emphasis").
"""

import cv2
import numpy as np

from gsvc.codec.frames import Picture
from gsvc.decoders.motion.estimation import gray
from gsvc.encoders.distortion import Reference
from gsvc.encoders.tuning import (
    EMPHASIS_BAND,
    EMPHASIS_CRFS,
    EMPHASIS_MOST,
    EMPHASIS_SHARE,
)


def emphasised(source: Picture, reference: Reference, decoded: Picture, crf: float) -> Picture:
    """The source with the detail of its luma raised by what a trial lacks, at most doubled.

    `source`: RGB uint8 (H, W, 3); `reference`: made of it; `decoded`: luma of the trial, uint8
    (H, W), coded at `crf`. Returns a picture like `source`.
    """
    height, width = decoded.shape
    share = float(np.interp(crf, EMPHASIS_CRFS, (EMPHASIS_SHARE, 0.0)))
    raised = np.clip(share * np.expm1(reference.weaker(decoded)), 0, EMPHASIS_MOST)
    gain = cv2.resize(raised, (width, height), interpolation=cv2.INTER_LINEAR)
    luma = gray(source).astype(np.float32)
    finer, coarser = (cv2.GaussianBlur(luma, (0, 0), spread) for spread in EMPHASIS_BAND)
    added = gain * (finer - coarser)
    return np.asarray(np.clip(np.rint(source + added[..., None]), 0, 255), np.uint8)
