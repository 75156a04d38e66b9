"""LTX-Video: keyframes at their own frames, the rendering as latents to begin with."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.keyframes.pretrained import pretrained
from gsvc.decoders.keyframes.pretrained.pretrained import pipes

if TYPE_CHECKING:
    from torch import Tensor

    from gsvc.decoders.keyframes.latent_cache import CachedLoop

STRENGTH = 0.4
"""Noise level at which the rendering is taken up, 0 to 1: nobody has tuned it."""
_FRAME_RATE = 25  # that the model is told; a window does not know its own
_DECODE = {"decode_timestep": 0.05, "decode_noise_scale": 0.025}
"""Of autoencoders that also denoise, as published."""


class LtxBackend(pretrained.PretrainedWindows):
    """`LTXConditionPipeline`: it takes a keyframe at any frame, to the pixel."""

    keeps_latents = True

    def _drawn(
        self, pipeline: Any, window: pretrained.PretrainedWindow, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        pipeline.scheduler = pipes.GivenLevels()
        levels = [STRENGTH * (1 - step / steps) for step in range(steps)]
        vae = pipeline.vae
        clean = pipeline._normalize_latents(  # the pipeline takes them so
            pipes.latents_of(vae, window.frames, self.device),
            *(vae.latents_mean, vae.latents_std, vae.config.scaling_factor),
        )
        loop = pretrained.late_loop(self, clean, window, steps, seed)
        output = pipeline(
            conditions=_conditions(window),
            latents=_begun(loop, levels, seed),
            # A strength below 1 leaves out the first of the times: one that is not meant.
            denoise_strength=0.9999,
            timesteps=[1000.0, *(1000 * level for level in levels[loop.done :])],
            **self._prompt(pipeline),
            height=window.frames.shape[1],
            width=window.frames.shape[2],
            num_frames=len(window.frames),
            frame_rate=_FRAME_RATE,
            guidance_scale=1.0,
            image_cond_noise_scale=0.0,
            generator=pipes.noise_from(seed),
            callback_on_step_end=partial(_passed, loop),
            output_type="pt",
            **_DECODE,
        )
        loop.keep()
        return pipes.frames_of(output)


def _conditions(window: pretrained.PretrainedWindow) -> list[Any]:
    from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXVideoCondition

    return [
        LTXVideoCondition(image=pipes.frame_tensors(picture[None]), frame_index=at, strength=1.0)
        for at, picture in sorted(window.keys.items())
    ]


def _begun(loop: "CachedLoop", levels: list[float], seed: int) -> "Tensor":
    """What the pipeline itself mixes noise of the first level into."""
    if not loop.done:
        return loop.start
    level, like = levels[loop.done], loop.start
    noise = pipes.first_noise(like.shape, seed, like.device)
    return (loop.state - level * noise) / (1 - level)


def _passed(
    loop: "CachedLoop", pipeline: Any, step: int, time: Any, given: dict[str, Any]
) -> dict[str, Any]:
    """Called after each step, with the latents as tokens, those of keys in front."""
    frames, height, width = loop.start.shape[2:]
    own = given["latents"][:, -frames * height * width :]
    loop.passed(loop.done + step + 1, pipeline._unpack_latents(own, frames, height, width))
    return {}
