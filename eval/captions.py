"""A line of text under a picture."""

import cv2
import numpy as np

from gsvc.codec.frames import Picture

_BAR = 26
_INK, _PAPER = (240, 240, 240), 24


def captioned(picture: Picture, text: str) -> Picture:
    """The picture, RGB uint8 (H, W, 3), over a bar of 26 lines with `text`, cut at its width."""
    bar = np.full((_BAR, picture.shape[1], 3), _PAPER, np.uint8)
    cv2.putText(bar, text, (6, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.42, _INK, 1, cv2.LINE_AA)
    return np.vstack([picture, bar])
