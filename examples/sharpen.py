"""A refiner of one's own: each step sharpens the key pictures a little.

    gsvc decode VIDEO.gsv -o VIDEO.mp4 --backend sharpen:Sharpen --steps 2

Run it in this folder. The motion carries what is done to a key picture to the frames between.
"""

import cv2
import numpy as np

import gsvc
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.refiner import KeyRefiner


class Sharpen(KeyRefiner):
    """An unsharp mask; put a network in its place."""

    def refine(self, key: Keyframe, *, steps: int, seed: int) -> gsvc.Picture:
        """The picture as coded, sharpened `steps` times: RGB uint8 (H, W, 3)."""
        picture = key.picture.astype(np.float32)
        for _ in range(steps):
            picture += 0.3 * (picture - cv2.GaussianBlur(picture, (0, 0), 1.5))
        return np.clip(picture.round(), 0, 255).astype(np.uint8)
