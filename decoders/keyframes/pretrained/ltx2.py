"""LTX-2: keys, the rendering, and beside them the rendering again where it is to be trusted."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.keyframes.pretrained import pretrained
from gsvc.decoders.keyframes.pretrained.pretrained import pipes, torch

STRENGTH = 0.4
"""Noise level at which the rendering is taken up, 0 to 1: nobody has tuned it."""
TRUSTED = 0.3
"""Mean confidence from which a token of the rendering is attended to: nobody has tuned it."""
_FRAME_RATE = 25.0
_GRID = 8
_TOKEN = 32  # pixels of a token, in each direction
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


class Ltx2ConditionBackend(pretrained.PretrainedWindows):
    """`LTX2ConditionPipeline`: keyframes, and the rendering as latents.

    It takes keyframes by the index of a latent, k, and puts them at frame 8 (k - 1) + 1: at 1,
    9, 17 .... A window has its own at 0, 8, 16 .... So it is given with its first frame twice.
    """

    grid, exact = _GRID, True
    made_by = "LTX2ConditionPipeline"

    def _drawn(
        self, pipeline: Any, window: pretrained.PretrainedWindow, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        pipeline.scheduler = pipes.GivenLevels()
        frames = shifted(window.frames)
        output = pipeline(
            conditions=_conditions(window),
            latents=pipes.latents_of(pipeline.vae, frames, self.device),  # normalised by it
            noise_scale=STRENGTH,
            sigmas=[STRENGTH * (1 - step / steps) for step in range(steps)],
            num_inference_steps=steps,
            **self._beside(frames, shifted(window.confidence)),
            **self._prompt(pipeline),
            height=frames.shape[1],
            width=frames.shape[2],
            num_frames=len(frames),
            frame_rate=_FRAME_RATE,
            generator=pipes.noise_from(seed),
            output_type="latent",  # so that the sound is not decoded
            **_PLAIN,
        )
        vae = pipeline.vae
        time = torch.zeros(1) if vae.config.timestep_conditioning else None
        video = vae.decode(output.frames.to(vae.dtype), time, return_dict=False)[0]
        return pipes.video_frames(video)[1:]

    def _beside(self, frames: NDArray[np.uint8], confidence: NDArray[np.float32]) -> dict[str, Any]:
        """What the network is shown besides keys and latents, as arguments of the pipeline."""
        return {}


class Ltx2Backend(Ltx2ConditionBackend):
    """`LTX2InContextPipeline`: the rendering is a reference too, where it is to be trusted."""

    made_by = ""

    def _beside(self, frames: NDArray[np.uint8], confidence: NDArray[np.float32]) -> dict[str, Any]:
        from diffusers.pipelines.ltx2.pipeline_ltx2_ic_lora import LTX2ReferenceCondition

        reference = LTX2ReferenceCondition(pipes.frame_tensors(frames), strength=1.0)
        return {
            "reference_conditions": [reference],
            "conditioning_attention_mask": torch.from_numpy(attended(confidence))[None, None],
        }


def attended(confidence: NDArray[np.float32]) -> NDArray[np.float32]:
    """Which pixels of the reference are attended to: 0 or 1, float32 (8k + 1, H, W).

    All pixels of a token alike, by their mean confidence. The pipeline takes any value, but it adds
    -10000 (1 - value) to the attention, after a mean over the token: at .99 it shuts it off.
    """
    count, height, width = confidence.shape
    blocks = confidence.reshape(count, height // _TOKEN, _TOKEN, width // _TOKEN, _TOKEN)
    means = blocks.mean((2, 4))
    later = means[1:].reshape(-1, _GRID, *means.shape[1:]).mean(1)
    in_time = np.concatenate([means[:1], np.repeat(later, _GRID, 0)])
    trusted = (in_time >= TRUSTED).astype(np.float32)
    return trusted.repeat(_TOKEN, 1).repeat(_TOKEN, 2)


def shifted(frames: NDArray[Any]) -> NDArray[Any]:
    """Frames (n, ...) with the first one twice, and the last one up to 8k + 1 again."""
    return np.concatenate([frames[:1], frames, np.repeat(frames[-1:], -len(frames) % _GRID, 0)])


def _conditions(window: pretrained.PretrainedWindow) -> list[Any]:
    from diffusers.pipelines.ltx2.pipeline_ltx2_condition import LTX2VideoCondition

    # crf=0: else the pipeline compresses keyframes once more.
    made = [
        LTX2VideoCondition(frames=picture, index=at // _GRID + 1, strength=1.0, crf=0)
        for at, picture in sorted(window.keys.items())
    ]
    if 0 in window.keys:
        made.insert(0, LTX2VideoCondition(frames=window.keys[0], index=0, strength=1.0, crf=0))
    return made
