"""Models that return their conditioning, in diffusers' own pipelines: nothing is drawn.

An autoencoder folds the pixels of a token into its channels and unfolds them again. A network shows
in each frame: as red the rendering's red, as green the green of the key picture that it was given
for just this frame, or black, and as blue the blue of the rendering or, if it hears of it, whether
the rendering is to be trusted. Noise is zero.
"""

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from torch import Tensor, nn

RED, GREEN, BLUE = 0, 1, 2
_MEAN, _STD = 0.25, 2.0


class Folding(nn.Module):
    """An autoencoder whose latents are the pixels: of the first frame, then of `time` each."""

    dtype, device = torch.float32, torch.device("cpu")

    def __init__(self, time: int, space: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.time, self.space, self.scale = time, space, scale
        self.channels = 3 * time * space**2
        self.temporal_compression_ratio, self.spatial_compression_ratio = time, space
        self.latents_mean = torch.full((self.channels,), _MEAN)
        self.latents_std = torch.full((self.channels,), _STD)
        self.config = SimpleNamespace(
            scaling_factor=scale,
            timestep_conditioning=False,
            z_dim=self.channels,
            latents_mean=[_MEAN] * self.channels,
            latents_std=[_STD] * self.channels,
        )

    def encode(self, video: Tensor) -> Any:
        """(1, 3, n, H, W) -> latents (1, C, N, h, w), and a first frame that stands alone."""
        if video.shape[2] % self.time == 1 % self.time:
            video = torch.cat([video[:, :, :1]] * (self.time - 1) + [video], 2)
        height, width = video.shape[3:]
        grid = video.reshape(
            3, -1, self.time, height // self.space, self.space, width // self.space, self.space
        )
        latents = grid.permute(0, 2, 4, 6, 1, 3, 5).flatten(0, 3)[None]
        told = SimpleNamespace(mode=lambda: latents, sample=lambda noise=None: latents)
        return SimpleNamespace(latent_dist=told)

    def decode(self, latents: Tensor, *_: Any, return_dict: bool = True) -> Any:
        """The other way."""
        grid = self.pixels(latents).permute(0, 4, 1, 5, 2, 6, 3)
        video = grid.flatten(5).flatten(3, 4).flatten(1, 2)[None, :, self.time - 1 :]
        return SimpleNamespace(sample=video) if return_dict else (video,)

    def pixels(self, latents: Tensor) -> Tensor:
        """Latents (1, C, N, h, w) as (3, time, space, space, N, h, w)."""
        return latents[0].reshape(3, self.time, self.space, self.space, *latents.shape[2:])

    def normal(self, level: float) -> float:
        """A level, -1 to 1, as the pipelines normalise it."""
        return (level - _MEAN) / _STD


class Returning(nn.Module):
    """What a pipeline asks of a network besides its answer."""

    dtype, device = torch.float32, torch.device("cpu")

    def __init__(self, like: Any, vae: Folding, channels: int) -> None:
        super().__init__()
        self.config = SimpleNamespace(**{**like.config, "in_channels": channels})
        self.vae, self.rope = vae, getattr(like, "rope", None)
        self.audio_rope = getattr(like, "audio_rope", None)

    def cache_context(self, _: str) -> Any:
        """Nothing is kept."""
        return nullcontext()

    def shown(self, rendering: Tensor, blue: Tensor | None, keys: dict[int, Tensor]) -> Tensor:
        """Latents that show the conditioning, as (3, time, space, space, N, h, w).

        `keys`: frame -> (3, space, space, h, w); `blue`: (N, h, w).
        """
        made = rendering.clone()
        made[GREEN] = self.vae.normal(-1)
        if blue is not None:
            made[BLUE] = blue
        for at, picture in keys.items():
            latent, slot = divmod(at + self.vae.time - 1, self.vae.time)
            made[GREEN, slot, :, :, latent] = picture[GREEN]
        return made


class ReturningLtx(Returning):
    """Of tokens: those of keys in front, told by their time; (1, T, C) with places (1, 3, T)."""

    def forward(self, hidden_states: Tensor, timestep: Tensor, **given: Any) -> tuple[Tensor]:
        """The velocity that leads to what is shown."""
        frames = (given["video_coords"][0, 0] * 25).round().long()
        level, size = float(timestep.max()) / 1000, _size_of(given["video_coords"][0])
        still = size[0] * size[1]
        own = len(frames) - still * (1 + (int(frames[-1]) + 7) // 8)
        is_key = timestep[0].expand(len(frames)) == 0
        base = _grid(hidden_states[:, own:], size)
        clean = torch.where(_grid(is_key[None, own:, None], size), base, base / (1 - level))
        keys = {
            int(frames[at]): _key(self.vae, hidden_states[:, at : at + still], size)
            for at in range(0, own, still)
        }
        target = self.shown(self.vae.pixels(clean), None, keys)
        velocity = torch.zeros_like(hidden_states)
        velocity[:, own:] = (hidden_states[:, own:] - _tokens(target)) / level
        return (velocity,)


class ReturningLtx2(Returning):
    """Tokens of the window, of keys, and of the rendering as a reference, if there is one."""

    def forward(self, hidden_states: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
        """Velocities of pictures and sound."""
        size, level = (given["height"], given["width"]), float(given["timestep"].max()) / 1000
        still, count = size[0] * size[1], given["num_frames"] * size[0] * size[1]
        mask = given.get("video_self_attention_mask")
        ends = hidden_states.shape[1] - (count if mask is not None else 0)
        is_key = given["timestep"][:, :count, None] == 0
        base = hidden_states[:, :count]
        clean = torch.where(is_key, base, base / (1 - level))
        starts = (given["video_coords"][0, 0, :, 0] * 25).round().long()
        keys = {
            int(starts[at]): _key(self.vae, hidden_states[:, at : at + still], size)
            for at in range(count, ends, still)
        }
        blue = None
        if mask is not None:
            assert torch.allclose(hidden_states[:, ends:], clean, atol=1e-4)  # the same rendering
            assert set(torch.unique(mask[0, :count]).tolist()) <= {0.0, 1.0}
            trusted = mask[0, count - 1, ends:].reshape(-1, *size)
            blue = torch.where(trusted > 0, self.vae.normal(1), self.vae.normal(-1))
        target = self.shown(self.vae.pixels(_grid(clean, size)), blue, keys)
        velocity = torch.zeros_like(hidden_states)
        velocity[:, :count] = (base - _tokens(target)) / level
        return velocity, torch.zeros_like(given["audio_hidden_states"])


class ReturningVace(Returning):
    """Control: what is kept, what is drawn anew, and a mask."""

    def forward(
        self, hidden_states: Tensor, timestep: Tensor, control_hidden_states: Tensor, **_: Any
    ) -> tuple[Tensor]:
        """The velocity that leads to what is shown."""
        depth = self.vae.channels
        kept, drawn = control_hidden_states[:, :depth], control_hidden_states[:, depth : 2 * depth]
        # Each is gray where the other shows something.
        video = self.vae.pixels(kept + drawn - self.vae.normal(0))
        mask = control_hidden_states[0, 2 * depth :]
        keys = {
            4 * at: video[:, -1, :, :, at] for at in range(mask.shape[1]) if not mask[:, at].any()
        }
        target = self.shown(video, None, keys).flatten(0, 3)[None]
        return ((hidden_states - target) * 1000 / timestep.max(),)


class ReturningV2v(Returning):
    """Latents of the rendering with noise, which is none."""

    def forward(self, hidden_states: Tensor, timestep: Tensor, **_: Any) -> tuple[Tensor]:
        """The velocity that leads to what is shown."""
        level = float(timestep.max()) / 1000
        return ((hidden_states - hidden_states / (1 - level)) / level,)


class ReturningSpark(Returning):
    """Latents of rendering and references side by side, (1, F, 2C, h, w)."""

    alphas: Tensor
    """The scheduler's, cumulated."""

    def forward(self, hidden_states: Tensor, timestep: Tensor, **_: Any) -> tuple[Tensor]:
        """What the scheduler's velocity turns into what is shown."""
        depth, scale = self.vae.channels, self.vae.scale
        latents = hidden_states[:, 1:].transpose(1, 2)  # the first one is there twice
        seen, told = latents[:, :depth], self.vae.pixels(latents[:, depth:] / scale)
        keys = {
            4 * at: told[:, -1, :, :, at]
            for at in range(latents.shape[2])
            if latents[0, depth:, at].any()
        }
        target = self.vae.pixels(seen / scale).clone()
        target[GREEN] = -1
        for at, picture in keys.items():
            target[GREEN, -1, :, :, at // 4] = picture[GREEN]
        wanted = torch.cat([seen[:, :, :1], scale * target.flatten(0, 3)[None]], 2)
        share = self.alphas[int(timestep)]
        given = hidden_states[:, :, :depth].transpose(1, 2)
        answer = (share**0.5 * given - wanted) / (1 - share) ** 0.5
        return (torch.cat([answer, torch.zeros_like(answer)], 1).transpose(1, 2),)


def _size_of(places: Tensor) -> tuple[int, int]:
    """Tokens down and across, of places (3, T)."""
    return len(torch.unique(places[1])), len(torch.unique(places[2]))


def _grid(tokens: Tensor, size: tuple[int, int]) -> Tensor:
    """(1, T, C) as (1, C, N, h, w)."""
    return tokens[0].T.reshape(1, tokens.shape[2], -1, *size)


def _tokens(pixels: Tensor) -> Tensor:
    """(3, time, space, space, N, h, w) as (1, T, C)."""
    return pixels.flatten(0, 3).flatten(1).T[None]


def _key(vae: Folding, tokens: Tensor, size: tuple[int, int]) -> Tensor:
    """One frame's tokens as (3, space, space, h, w)."""
    return vae.pixels(_grid(tokens, size))[:, -1, :, :, 0]


_NETWORKS: dict[str, tuple[type[Returning], Folding, int]] = {
    "ltx": (ReturningLtx, Folding(8, 32), 1),
    "ltx2": (ReturningLtx2, Folding(8, 32), 1),
    "ltx2:condition": (ReturningLtx2, Folding(8, 32), 1),
    "wan-vace": (ReturningVace, Folding(4, 8), 1),
    "wan-v2v": (ReturningV2v, Folding(4, 8), 1),
    "sparkvsr": (ReturningSpark, Folding(4, 8, scale=0.7), 2),
}


def put_returning(backend: Any, patch: pytest.MonkeyPatch) -> None:
    """Have a back end run a model that returns its conditioning, in the pipeline that it loads."""
    if backend.name == "swiftvr":  # its stand-in does so already
        return
    made, vae, times = _NETWORKS[backend.name]
    pipeline = backend._loaded(1)
    network = made(pipeline.transformer, vae, times * vae.channels)
    if backend.name.startswith("wan"):
        pipeline.scheduler = FlowMatchEulerDiscreteScheduler()
    if backend.name == "sparkvsr":
        network.alphas = pipeline.scheduler.alphas_cumprod
    pipeline.vae, pipeline.transformer = vae, network
    module = sys.modules[type(pipeline).__module__]
    if hasattr(module, "randn_tensor"):
        patch.setattr(module, "randn_tensor", lambda shape, **_: torch.zeros(tuple(shape)))
