"""Stands in for the package of SwiftVR's authors: its names, shapes and counts, and no network.

After github.com/H-oliday/SwiftVR at 7cb5de2, README and swiftvr/pipeline.py. Frames come back as
they were given.
"""

from pathlib import Path

import torch
from torch import Tensor

CHECKPOINT = "reae.safetensors", "prompt_embedding.safetensors", "transformer/config.json"
"""What `from_pretrained` reads, besides the transformer's weights."""


class SwiftVRPipeline:
    """Of autoencoder and transformer."""

    @classmethod
    def from_pretrained(cls, checkpoint_dir: str) -> "SwiftVRPipeline":
        """From a folder with the files of `CHECKPOINT`."""
        assert all((Path(checkpoint_dir) / name).is_file() for name in CHECKPOINT)
        return cls()

    def to(self, device: str | None = None, dtype: str | None = None) -> "SwiftVRPipeline":
        """Where and in what it computes."""
        self.device, self.dtype = torch.device(device or "cpu"), dtype
        return self

    def stream(
        self,
        *,
        clip_len: int = 24,
        resolution: tuple[int, int] | None = None,
        upscale: int = 4,
        dit_overlap: int = 1,
    ) -> "StreamSession":
        """A session; `resolution` is (width, height) of what comes back."""
        assert clip_len % 4 == 0
        return StreamSession(self, resolution)


class StreamSession:
    """Four frames are one latent; of the first latent's, the first three are left out."""

    def __init__(self, pipe: SwiftVRPipeline, resolution: tuple[int, int] | None) -> None:
        self._pipe, self._resolution = pipe, resolution
        self._given = torch.empty(0)
        self._shown = 0

    def step(self, frames_uint8: Tensor) -> Tensor | None:
        """(T, H, W, 3) uint8 -> (1, T', 3, H, W) in [0, 1], or None while fewer than four wait."""
        frames = frames_uint8.to(self._pipe.device)
        assert (
            frames.dtype == torch.uint8 and (frames.shape[2], frames.shape[1]) == self._resolution
        )
        self._given = torch.cat([self._given, frames]) if len(self._given) else frames
        return self._restored(len(self._given) // 4)

    def flush(self) -> Tensor | None:
        """What waits."""
        return self._restored(-(-len(self._given) // 4)) if len(self._given) % 4 else None

    def _restored(self, latents: int) -> Tensor | None:
        if not latents:
            return None
        shown = self._given[self._shown : 4 * latents - 3]
        self._shown = 4 * latents - 3
        return shown.permute(0, 3, 1, 2)[None].float() / 255
