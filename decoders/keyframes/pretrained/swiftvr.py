"""SwiftVR, a one-step restorer, through its authors' own package where the user has it."""

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import DeviceError, MissingDependencyError
from gsvc.codec.weights.hub import hub_folder
from gsvc.decoders.keyframes.pretrained.pretrained import PretrainedWindow, PretrainedWindows, torch

_CLIP = 24  # frames that it takes at once, a multiple of 4


class SwiftVrBackend(PretrainedWindows):
    """`SwiftVRPipeline.stream`, a session a window. It takes no keyframes of its own.

    Its package asks for other versions of numpy and diffusers than gsvc, so it goes in without
    what it asks for; version 0.1.0 does with those of gsvc.
    """

    multiple = 32
    most_steps = 1
    keeps_steps = False
    can_quantize = False

    def check(self, height: int, width: int, *, steps: int) -> None:
        """See `Backend.check`. Raises MissingDependencyError without its package."""
        if find_spec("swiftvr") is None:
            raise MissingDependencyError(
                "swiftvr needs its authors' package: git clone https://github.com/H-oliday/SwiftVR "
                "and pip install --no-deps ./SwiftVR decord einops imageio"
            )
        super().check(height, width, steps=steps)

    def _loaded(self, pixels: int) -> Any:
        if self._pipeline is None:
            from swiftvr import SwiftVRPipeline

            made = SwiftVRPipeline.from_pretrained(str(hub_folder(self.name)))
            dtype = "bfloat16" if self.device.startswith("cuda") else "float32"
            self._pipeline = made.to(self.device, dtype=dtype)
        return self._pipeline

    def _drawn(
        self, pipeline: Any, window: PretrainedWindow, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        height, width = window.frames.shape[1:3]
        session = pipeline.stream(clip_len=_CLIP, resolution=(width, height))
        given = torch.from_numpy(window.frames)
        told = [session.step(given[at : at + _CLIP]) for at in range(0, len(given), _CLIP)]
        videos = [video for video in (*told, session.flush()) if video is not None]
        levels = torch.cat(videos, 1)[0].float().mul(255).round().clamp(0, 255).byte()
        drawn: NDArray[np.uint8] = levels.permute(0, 2, 3, 1).contiguous().cpu().numpy()
        if drawn.shape != window.frames.shape:
            raise DeviceError(
                f"swiftvr gave {drawn.shape[0]} frames of {window.frames.shape[0]}: this version "
                "of its package is not known"
            )
        return drawn
