"""Wan video to video: the rendering with noise, restored. It takes no key pictures of its own."""

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.refiners.pretrained.base import PretrainedWindows
from gsvc.decoders.refiners.pretrained.window import Window

STRENGTH = 0.3
"""Share of the schedule that is run, 0 to 1: nobody has tuned it."""


class WanV2vBackend(PretrainedWindows):
    """`WanVideoToVideoPipeline`: key pictures are frames of the rendering like others."""

    grid, multiple = 4, 16

    def _drawn(self, pipeline: Any, window: Window, steps: int, seed: int) -> NDArray[np.uint8]:
        import torch

        from gsvc.decoders.refiners.pretrained.tensors import frames_of, images_of, noise_from

        whole = ceil(steps / STRENGTH)
        with torch.no_grad():
            output = pipeline(
                video=images_of(window.frames),
                # In the middle of a step, so that rounding cannot change how many are run.
                strength=(steps + 0.5) / whole if steps < whole else 1.0,
                num_inference_steps=whole,
                **self._prompt(pipeline),
                height=window.frames.shape[1],
                width=window.frames.shape[2],
                guidance_scale=1.0,
                generator=noise_from(seed),
                output_type="pt",
            )
        return frames_of(output)
