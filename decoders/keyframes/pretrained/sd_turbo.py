"""SD-Turbo: keyframes from image to image, with little noise."""

from math import ceil
from typing import Any

import numpy as np

from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.keyframes import keyframe, refiner
from gsvc.decoders.keyframes.pretrained.pretrained import Pretrained, pipes, torch

STRENGTH = 0.25
"""Share of the schedule that is run, 0 to 1: nobody has tuned it."""
_MULTIPLE = 64


class SdTurboBackend(Pretrained, refiner.KeyRefiner):
    """`StableDiffusionImg2ImgPipeline` on each keyframe alone."""

    most_steps = 4

    def refine(self, key: keyframe.Keyframe, *, steps: int, seed: int) -> Picture:
        """See `KeyRefiner.refine`. Errors as of `Backend.check` and `Backend.files`."""
        height, width = key.picture.shape[:2]
        sides = (0, -height % _MULTIPLE), (0, -width % _MULTIPLE), (0, 0)
        padded = np.pad(key.picture, sides, "edge")
        with refiner.enough_memory(self.device):
            drawn = self._drawn(self._loaded(height * width), padded, steps, seed)
        return drawn[:height, :width]

    def _drawn(self, pipeline: Any, picture: Picture, steps: int, seed: int) -> Picture:
        whole = ceil(steps / STRENGTH)
        with torch.no_grad():
            output = pipeline(
                image=pipes.frame_tensors(picture[None]),
                strength=(steps + 0.5) / whole,
                num_inference_steps=whole,
                **self._prompt(pipeline),
                guidance_scale=0.0,
                generator=pipes.noise_from(seed),
                output_type="np",
            )
        levels: Picture = np.rint(output.images[0] * 255).clip(0, 255).astype(np.uint8)
        return levels
