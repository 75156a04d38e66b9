"""Wan VACE: keyframes are kept, the rendering around them is drawn anew.

VACE gets a video and a mask: black is kept, white is drawn anew after what the video shows there,
and where that is gray, out of nothing. So groups of frames that end in a keyframe are black, all
else is white, and gray where motion was not to be trusted.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.keyframes.pretrained import pretrained
from gsvc.decoders.keyframes.pretrained.pretrained import pipes

TRUSTED = 0.3
"""Confidence from which the rendering is shown to the model: nobody has tuned it."""
_GRAY = 128
_GROUP = 4  # frames that one latent stands for; the first stands for one
_SIDE = 8  # pixels that one latent stands for, in each direction


class WanVaceBackend(pretrained.PretrainedWindows):
    """`WanVACEPipeline`, 1.3B and 14B."""

    grid, exact, multiple = _GROUP, True, 16
    keeps_latents = True

    def _drawn(
        self, pipeline: Any, window: pretrained.PretrainedWindow, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        video, mask = control(window)
        count, height, width = video.shape[:3]
        size = (count - 1) // _GROUP + 1, height // _SIDE, width // _SIDE
        channels: int = pipeline.transformer.config.in_channels
        noise = pipes.first_noise((1, channels, *size), seed, self.device)
        loop = pretrained.late_loop(self, noise, window, steps, seed)

        def passed(_: Any, step: int, time: Any, given: dict[str, Any]) -> dict[str, Any]:
            loop.passed(loop.done + step + 1, given["latents"])
            return {}

        with pretrained.steps_left(pipeline, loop.done):
            output = pipeline(
                latents=loop.state,
                video=pipes.images_of(video),
                mask=pipes.images_of(mask),
                conditioning_scale=1.0,
                **self._prompt(pipeline),
                height=height,
                width=width,
                num_frames=count,
                num_inference_steps=steps,
                guidance_scale=1.0,
                callback_on_step_end=passed,
                output_type="pt",
            )
        loop.keep()
        return pipes.frames_of(output)


def control(window: pretrained.PretrainedWindow) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The video, RGB (n, H, W, 3), and the mask, 0 or 255 (n, H, W), of a window."""
    kept = kept_frames(len(window.frames), set(window.keys))
    video = np.where((window.confidence < TRUSTED)[..., None], np.uint8(_GRAY), window.frames)
    video[kept] = window.frames[kept]
    for at, picture in window.keys.items():
        video[at] = picture
    mask = np.full(window.frames.shape[:3], 255, np.uint8)
    mask[kept] = 0
    return video, mask


def kept_frames(count: int, keys: set[int]) -> NDArray[np.bool_]:
    """Which frames of a window are black in the mask, bool (count,); keys at multiples of 4.

    The pipeline asks the mask twice. The frames themselves are split by it, each by its own. But
    what a latent is told is looked up on one frame, by nearest-exact resizing: of 33 on 1, 5, 9,
    12, 16 ..., where latents stand for frames 0, 1-4, 5-8, 9-12, 13-16 .... So a frame that is
    looked up answers for that latent, and every other one for its own.
    """
    latents = (count - 1) // _GROUP + 1
    own = -(-np.arange(count) // _GROUP)
    looked_up = np.floor((np.arange(latents) + 0.5) * count / latents).astype(int)
    own[looked_up] = np.arange(latents)
    return np.isin(own, [at // _GROUP for at in keys])
