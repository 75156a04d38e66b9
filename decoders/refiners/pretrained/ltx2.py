"""LTX-2: keys, the whole rendering beside them, and how far to trust it at each pixel."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.refiners.pretrained.base import PretrainedWindows
from gsvc.decoders.refiners.pretrained.window import Window

if TYPE_CHECKING:
    from torch import Tensor

STRENGTH = 0.4
"""Noise level at which the rendering is taken up, 0 to 1: nobody has tuned it."""
_FRAME_RATE = 25.0
_GRID = 8
_PLAIN = {
    "guidance_scale": 1.0,
    "stg_scale": 0.0,
    "modality_scale": 1.0,
    "guidance_rescale": 0.0,
    "audio_guidance_scale": 1.0,
    "audio_stg_scale": 0.0,
    "audio_modality_scale": 1.0,
    "audio_guidance_rescale": 0.0,
    "spatio_temporal_guidance_blocks": None,
}
"""No guidance of any kind: each would be another evaluation of the network."""


class Ltx2Backend(PretrainedWindows):
    """`LTX2InContextPipeline`.

    It takes key pictures by the index of a latent, k, and puts them at frame 8 (k - 1) + 1: at 1,
    9, 17 .... A window has its own at 0, 8, 16 .... So it is given with its first frame twice.
    """

    grid, exact = _GRID, True

    def _drawn(self, pipeline: Any, window: Window, steps: int, seed: int) -> NDArray[np.uint8]:
        import torch
        from diffusers.pipelines.ltx2.pipeline_ltx2_ic_lora import LTX2ReferenceCondition

        from gsvc.decoders.refiners.pretrained.schedule import GivenLevels
        from gsvc.decoders.refiners.pretrained.tensors import (
            frame_tensors,
            noise_from,
            video_frames,
        )

        pipeline.scheduler = GivenLevels()
        frames, confidence = shifted(window.frames), shifted(window.confidence)
        with torch.no_grad():
            output = pipeline(
                conditions=_conditions(window),
                reference_conditions=[LTX2ReferenceCondition(frame_tensors(frames), strength=1.0)],
                conditioning_attention_mask=torch.from_numpy(confidence)[None, None],
                latents=_latents(pipeline, frames, self.device),
                noise_scale=STRENGTH,
                sigmas=[STRENGTH * (1 - step / steps) for step in range(steps)],
                num_inference_steps=steps,
                **self._prompt(pipeline),
                height=frames.shape[1],
                width=frames.shape[2],
                num_frames=len(frames),
                frame_rate=_FRAME_RATE,
                generator=noise_from(seed),
                output_type="latent",  # so that the sound is not decoded
                **_PLAIN,
            )
            vae = pipeline.vae
            time = torch.zeros(1) if vae.config.timestep_conditioning else None
            video = vae.decode(output.frames.to(vae.dtype), time, return_dict=False)[0]
        return video_frames(video)[1:]


def shifted(frames: NDArray[Any]) -> NDArray[Any]:
    """Frames (n, ...) with the first one twice, and the last one up to 8k + 1 again."""
    behind = -len(frames) % _GRID
    return np.concatenate([frames[:1], frames, np.repeat(frames[-1:], behind, 0)])


def _conditions(window: Window) -> list[Any]:
    from diffusers.pipelines.ltx2.pipeline_ltx2_condition import LTX2VideoCondition

    # crf=0: else the pipeline compresses key pictures once more.
    made = [
        LTX2VideoCondition(frames=picture, index=at // _GRID + 1, strength=1.0, crf=0)
        for at, picture in sorted(window.keys.items())
    ]
    if 0 in window.keys:
        made.insert(0, LTX2VideoCondition(frames=window.keys[0], index=0, strength=1.0, crf=0))
    return made


def _latents(pipeline: Any, frames: NDArray[np.uint8], device: str) -> "Tensor":
    """Of the rendering, as the autoencoder gives them: the pipeline normalises them itself."""
    from gsvc.decoders.refiners.pretrained.tensors import video_tensor

    vae = pipeline.vae
    latents: Tensor = vae.encode(video_tensor(frames).to(device, vae.dtype)).latent_dist.mode()
    return latents.float()
