"""LTX-Video: keyframes at their own frames, the rendering as latents to begin with."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.keyframes.pretrained.pretrained import (
    LateLoop,
    PretrainedWindow,
    PretrainedWindows,
)

if TYPE_CHECKING:
    from torch import Tensor

STRENGTH = 0.4
"""Noise level at which the rendering is taken up, 0 to 1: nobody has tuned it."""
_FRAME_RATE = 25
"""That the model is told; a window does not know its own."""
_DECODE = {"decode_timestep": 0.05, "decode_noise_scale": 0.025}
"""Of autoencoders that also denoise, as published."""


class LtxBackend(PretrainedWindows):
    """`LTXConditionPipeline`: it takes a keyframe at any frame, to the pixel."""

    keeps_latents = True

    def _drawn(
        self, pipeline: Any, window: PretrainedWindow, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        import torch

        from gsvc.decoders.keyframes.pretrained.diffusers_pipeline import (
            GivenLevels,
            frames_of,
            noise_from,
        )

        pipeline.scheduler = GivenLevels()
        levels = [STRENGTH * (1 - step / steps) for step in range(steps)]
        with torch.no_grad():
            clean = _latents(pipeline, window.frames, self.device)
            begun = _Begun(self, clean, window, levels, seed)
            output = pipeline(
                conditions=_conditions(window),
                latents=begun.latents,
                # A strength below 1 leaves out the first of the times: one that is not meant.
                denoise_strength=0.9999,
                timesteps=[1000.0, *(1000 * level for level in levels[begun.done :])],
                **self._prompt(pipeline),
                height=window.frames.shape[1],
                width=window.frames.shape[2],
                num_frames=len(window.frames),
                frame_rate=_FRAME_RATE,
                guidance_scale=1.0,
                image_cond_noise_scale=0.0,
                generator=noise_from(seed),
                callback_on_step_end=begun.passed,
                output_type="pt",
                **_DECODE,
            )
        begun.keep()
        return frames_of(output)


def _latents(pipeline: Any, frames: NDArray[np.uint8], device: str) -> "Tensor":
    """Of the rendering, normalised, float32: the pipeline takes them so."""
    from gsvc.decoders.keyframes.pretrained.diffusers_pipeline import video_tensor

    vae = pipeline.vae
    encoded = vae.encode(video_tensor(frames).to(device, vae.dtype)).latent_dist.mode().float()
    scale = vae.config.scaling_factor
    normal: Tensor = pipeline._normalize_latents(encoded, vae.latents_mean, vae.latents_std, scale)
    return normal


def _conditions(window: PretrainedWindow) -> list[Any]:
    from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXVideoCondition

    from gsvc.decoders.keyframes.pretrained.diffusers_pipeline import picture_tensor

    return [
        LTXVideoCondition(image=picture_tensor(picture), frame_index=at, strength=1.0)
        for at, picture in sorted(window.keys.items())
    ]


class _Begun:
    """A loop with the latent cache, if there is one: where it begins, and what it passes."""

    def __init__(
        self,
        backend: LtxBackend,
        clean: "Tensor",
        window: PretrainedWindow,
        levels: list[float],
        seed: int,
    ) -> None:
        """`levels`: of noise, one a step; the pipeline mixes the first into `latents` itself."""
        self._loop = LateLoop(backend, clean, window, len(levels), seed)
        self.latents, self.done, self.keep = clean, self._loop.done, self._loop.keep
        if self.done:
            noise, level = _noise(clean, seed), levels[self.done]
            self.latents = (self._loop.state - level * noise) / (1 - level)

    def passed(self, pipeline: Any, step: int, time: Any, given: dict[str, Any]) -> dict[str, Any]:
        """Called after each step, with the latents as tokens, those of keys in front."""
        frames, height, width = self.latents.shape[2:]
        own = given["latents"][:, -frames * height * width :]
        state = pipeline._unpack_latents(own, frames, height, width)
        self._loop.passed(self.done + step + 1, state)
        return {}


def _noise(like: "Tensor", seed: int) -> "Tensor":
    """The noise that the pipeline draws first of its generator, and mixes into the latents."""
    from diffusers.utils.torch_utils import randn_tensor

    from gsvc.decoders.keyframes.pretrained.diffusers_pipeline import noise_from

    drawn: Tensor = randn_tensor(
        like.shape, generator=noise_from(seed), device=like.device, dtype=like.dtype
    )
    return drawn
