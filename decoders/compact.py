"""The compact refiner's network: a U-Net over a short window of frames, 0.6 M parameters.

It estimates the frame from a state between the frame and its rendering (see `samplers`), as the rendering
plus a residual; its last layer starts at zero, so an untrained network shows the rendering.
"""

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from torch import Tensor, nn
from torch.nn import functional

PICTURE_CHANNELS = 11
"""Blend, left, right (RGB in [-1, 1]), trust of left and right (0-1)."""
GUIDE_CHANNELS = 3
"""Person, any other region, pose heat (0-1)."""
SCALARS = 2
"""Distance to the nearest key picture, quantizer (0-1), one pair a frame."""
MULTIPLE = 16
"""Height and width must be multiples of this."""


class CompactRefiner(ModelMixin, ConfigMixin):  # type: ignore[misc]
    """Residual U-Net at 1/2, 1/4 and 1/8 of the picture, with mixing over time at 1/4 and 1/8.

    `noise` is the standard deviation of the noise in the state, in units of [-1, 1]; shipped weights may ask
    for less than they were trained with.
    """

    @register_to_config  # type: ignore[untyped-decorator]
    def __init__(
        self,
        channels: tuple[int, int, int] = (32, 64, 80),
        embedding: int = 64,
        noise: float = 0.01,
    ) -> None:
        super().__init__()
        fine, middle, coarse = channels
        self.embed = nn.Sequential(
            nn.Linear(2 * _WAVES + SCALARS, embedding), nn.SiLU(), nn.Linear(embedding, embedding)
        )
        self.enter = nn.Conv2d(4 * (3 + PICTURE_CHANNELS), fine, 3, padding=1)
        self.fine_in = _Block(fine, embedding)
        self.to_middle = nn.Conv2d(fine + GUIDE_CHANNELS, middle, 3, stride=2, padding=1)
        self.middle_in = _Block(middle, embedding)
        self.to_coarse = nn.Conv2d(middle, coarse, 3, stride=2, padding=1)
        self.coarse_in = _Block(coarse, embedding)
        self.coarse_time = _TimeMix(coarse)
        self.coarse_out = _Block(coarse, embedding)
        self.from_coarse = nn.Conv2d(coarse, middle, 1)
        self.middle_time = _TimeMix(middle)
        self.middle_out = _Block(middle, embedding)
        self.from_middle = nn.Conv2d(middle, fine, 1)
        self.fine_out = _Block(fine, embedding)
        self.leave = nn.Conv2d(fine, 12, 3, padding=1)
        _silence(self.leave)

    def forward(
        self, state: Tensor, sigma: Tensor, pictures: Tensor, guides: Tensor, scalars: Tensor
    ) -> Tensor:
        """Estimate the frames.

        `state`: (B, T, 3, H, W), the sampler's state; `sigma`: (B,), 1 = rendering and noise, 0 = frame;
        `pictures`: (B, T, 11, H, W); `guides`: (B, T, 3, H/2, W/2); `scalars`: (B, T, 2). All float, the
        ranges are those of the constants above. H and W are multiples of 16.
        Returns the frames, (B, T, 3, H, W) in about [-1, 1].
        """
        frames = state.shape[1]
        rendering = pictures[:, :, :3]
        offset = state - rendering
        keep = _skip(sigma).view(-1, 1, 1, 1, 1)
        inputs = torch.cat([offset, pictures], dim=2).flatten(0, 1)
        guides = guides.flatten(0, 1)
        waves = _sigma_waves(sigma)[:, None].expand(-1, frames, -1)
        embedding = self.embed(torch.cat([waves, scalars], dim=2)).flatten(0, 1)

        fine = self.fine_in(self.enter(functional.pixel_unshuffle(inputs, 2)), embedding)
        middle = self.middle_in(self.to_middle(torch.cat([fine, guides], dim=1)), embedding)
        coarse = self.coarse_in(self.to_coarse(middle), embedding)
        coarse = self.coarse_out(self.coarse_time(coarse, frames), embedding)
        middle = middle + _double(self.from_coarse(coarse))
        middle = self.middle_out(self.middle_time(middle, frames), embedding)
        fine = self.fine_out(fine + _double(self.from_middle(middle)), embedding)
        residual = functional.pixel_shuffle(self.leave(fine), 2)
        estimate: Tensor = rendering + keep * offset + residual.reshape(rendering.shape)
        return estimate


class _Block(nn.Module):
    """Two convolutions with a skip; the embedding scales and shifts between them."""

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.modulate = nn.Linear(embedding, 2 * channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        _silence(self.modulate)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        scale, shift = self.modulate(embedding)[:, :, None, None].chunk(2, dim=1)
        inner = self.first(functional.silu(x))
        inner = functional.silu(torch.addcmul(inner + shift, inner, scale))
        result: Tensor = x + self.second(inner)
        return result


class _TimeMix(nn.Module):
    """Adds what the frames before and after say at the same place; zero at first and outside the window."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before = nn.Conv2d(channels, channels, 1)
        self.after = nn.Conv2d(channels, channels, 1)
        for side in (self.before, self.after):
            _silence(side)

    def forward(self, x: Tensor, frames: int) -> Tensor:
        if frames == 1:
            return x
        window = x.reshape(-1, frames, *x.shape[1:])
        shorter = -1, frames - 1, *x.shape[1:]
        before = self.before(window[:, :-1].flatten(0, 1)).reshape(shorter)
        after = self.after(window[:, 1:].flatten(0, 1)).reshape(shorter)
        before = functional.pad(before, (0, 0, 0, 0, 0, 0, 1, 0))
        after = functional.pad(after, (0, 0, 0, 0, 0, 0, 0, 1))
        return (window + before + after).flatten(0, 1)


_WAVES = 4
_NOISE_TO_RESIDUAL = 0.6


def _sigma_waves(sigma: Tensor) -> Tensor:
    angles = sigma[:, None] * torch.pi * 2.0 ** torch.arange(_WAVES, device=sigma.device) / 2
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(sigma.dtype)


def _skip(sigma: Tensor) -> Tensor:
    """How much of the state's offset from the rendering to keep: the linear least-squares estimate.

    As `c_skip` of Karras et al. (NeurIPS 2022), for noise 0.6 times as strong as the residual: 0 at sigma 1,
    1 at sigma 0.
    """
    rest = 1 - sigma
    return rest / (rest**2 + (_NOISE_TO_RESIDUAL * sigma) ** 2)


def _silence(layer: nn.Conv2d | nn.Linear) -> None:
    """Make a layer give zero until it has learned something."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)


def _double(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2, mode="nearest")
