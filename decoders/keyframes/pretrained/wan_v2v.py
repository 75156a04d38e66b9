"""Wan video to video: the rendering with noise, restored. It takes no keyframes of its own."""

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.keyframes.pretrained import pretrained
from gsvc.decoders.keyframes.pretrained.pretrained import pipes, torch

STRENGTH = 0.3
"""Share of the schedule that is run, 0 to 1: nobody has tuned it."""


class WanV2vBackend(pretrained.PretrainedWindows):
    """`WanVideoToVideoPipeline`: keyframes are frames of the rendering like others."""

    grid, multiple = 4, 16
    keeps_latents = True

    def _drawn(
        self, pipeline: Any, window: pretrained.PretrainedWindow, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        whole = ceil(steps / STRENGTH)
        begun = _begun(pipeline, window, whole, steps, seed, self.device)
        shares = _shares(pipeline, whole, steps)
        # Keys are not given to the model: windows may be alike whose keys lie elsewhere.
        loop = pretrained.late_loop(self, begun, replace(window, keys={}), steps, seed)

        def passed(_: Any, step: int, time: Any, given: dict[str, Any]) -> dict[str, Any]:
            done = loop.done + step + 1
            if done < steps:
                loop.passed(done, given["latents"] / shares[done])
            return {}

        output = pipeline(
            latents=loop.state * shares[loop.done] if loop.done else begun,
            strength=_strength(steps - loop.done, whole),
            num_inference_steps=whole,
            **self._prompt(pipeline),
            height=window.frames.shape[1],
            width=window.frames.shape[2],
            guidance_scale=1.0,
            callback_on_step_end=passed,
            output_type="pt",
        )
        loop.keep()
        return pipes.frames_of(output)


def _strength(steps: int, whole: int) -> float:
    """With which `steps` of a `whole` schedule run; half a step more, against rounding."""
    return (steps + 0.5) / whole if steps < whole else 1.0


def _begun(
    pipeline: Any,
    window: pretrained.PretrainedWindow,
    whole: int,
    steps: int,
    seed: int,
    device: str,
) -> "torch.Tensor":
    """The latents that the pipeline makes of a video itself: with noise, float32."""
    size = window.frames.shape[1:3]
    pipeline.scheduler.set_timesteps(whole, device=device)
    times = pipeline.scheduler.timesteps
    times, _ = pipeline.get_timesteps(whole, times, _strength(steps, whole), device)
    video = pipeline.video_processor.preprocess_video(pipes.images_of(window.frames), *size)
    latents: torch.Tensor = pipeline.prepare_latents(
        video.to(device, torch.float32),
        1,
        pipeline.transformer.config.in_channels,
        *size,
        torch.float32,
        torch.device(device),
        pipes.noise_from(seed),
        None,
        times[:1],
    )
    return latents


def _shares(pipeline: Any, whole: int, steps: int) -> list[float]:
    """How much of the video is left in the latents after each step, relative to the first ones.
    Divided by it, latents of two windows with one noise differ as much as those that they began
    with: so what a loop has moved in one can be added in the other."""
    levels = [float(level) for level in pipeline.scheduler.sigmas[whole - steps :]]
    return [(1 - level) / (1 - levels[0]) for level in levels]
