"""The compact refiner's network: a U-Net over one keyframe, and the states that it sees.

A state at level sigma is (1 - sigma) * source + sigma * (keyframe + noise): flow matching (Liu et
al., ICLR 2023; Lipman et al., ICLR 2023) that starts at the keyframe, not at noise, as in inversion
by direct iteration (Delbracio & Milanfar, TMLR 2023). One step goes from sigma 1 straight to the
network's estimate of the source.

The estimate is the keyframe plus a residual: what the network draws itself, at half the size, the
keyframe's own detail raised or lowered in bands, and as much as it believes of what a prior drew
(see `priors`). Finer detail that it drew itself pleased the network in its loss and displeased
others (see docs/logs/training.md). Its last layer starts at zero, so an untrained network shows the
keyframe.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gsvc.decoders.keyframes.restorer.network import BANDS, all_bands, detail_bands

if TYPE_CHECKING:
    from gsvc.decoders.keyframes.latent_cache import CachedLoop

Denoiser = Callable[[Tensor, Tensor], Tensor]
"""(state (B, 3, H, W), sigma (B,)) -> estimate of the source, same shape as the state."""


def noise_levels(steps: int) -> list[float]:
    """Sigma at the start of each of `steps` steps, and at the end: evenly spaced from 1 to 0."""
    return [1 - step / steps for step in range(steps + 1)]


def walk(
    denoise: Denoiser, state: Tensor, levels: Sequence[float], loop: "CachedLoop | None" = None
) -> Tensor:
    """Go by Euler steps from the first of `levels`, which descend from at most 1, to the last.

    The velocity is (state - estimate) / sigma, so a step to 0 ends on the model's own estimate.
    `loop`, of a cache, began with `state`: its steps are told, and those it has done are left out.
    """
    sigmas = torch.tensor(levels, device=state.device)
    state, done = (loop.state, loop.done) if loop else (state, 0)
    for number, (sigma, following) in enumerate(pairwise(sigmas[done:]), done + 1):
        velocity = (state - denoise(state, sigma.expand(len(state)))) / sigma
        state = state + (following - sigma) * velocity
        if loop:
            loop.passed(number, state)
    return state


GIVEN_CHANNELS = 4
"""The keyframe (RGB in [-1, 1]) and its texture gain (0 to 1.75)."""
SCALARS = 2
"""Quantizer and coded size (0-1)."""
MULTIPLE = 8
"""Height and width must be multiples of this."""

_NANO: dict[str, Any] = {"channels": (48, 64, 96), "blocks": (1, 1, 2), "embedding": 64}
SIZES: dict[str, dict[str, Any]] = {
    "nano": _NANO,
    "small": {**_NANO, "prior": "animevideov3"},
    "base": {**_NANO, "prior": "x4plus"},
    "medium": {
        "channels": (96, 144, 208),
        "blocks": (2, 2, 2),
        "embedding": 64,
        "prior": "animevideov3",
    },
}
"""nano: 1.1 M parameters, 94 kFLOP a pixel and step; small and base: 102 kFLOP; medium: 6.0 M, 672
kFLOP. And once the drawings of a prior, which has 0.6 M parameters and takes 1.6 MFLOP a pixel
(small, medium), 16.7 M and 11 (base)."""
DRAWINGS = 2
"""Pictures that a prior draws."""


class UNet(nn.Module):
    """Blocks at 1/2, 1/4 and 1/8 of a picture on the way down and up."""

    def __init__(
        self,
        given: int,
        drawn: int,
        channels: tuple[int, int, int],
        blocks: tuple[int, int, int],
        in_row: Callable[[int, int], nn.Module],
    ) -> None:
        """`given`: channels of the picture's size; `drawn`: those that it gives, at half the size.

        `channels`, `blocks`: of each scale, finest first, and on each way; `in_row` makes so many
        blocks with so many channels.
        """
        super().__init__()
        fine, middle, coarse = channels
        self.enter = nn.Conv2d(4 * given, fine, 3, padding=1)
        self.fine_in = in_row(blocks[0], fine)
        self.to_middle = nn.Conv2d(fine, middle, 3, stride=2, padding=1)
        self.middle_in = in_row(blocks[1], middle)
        self.to_coarse = nn.Conv2d(middle, coarse, 3, stride=2, padding=1)
        self.coarse = in_row(2 * blocks[2], coarse)
        self.from_coarse = nn.Conv2d(coarse, middle, 1)
        self.middle_out = in_row(blocks[1], middle)
        self.from_middle = nn.Conv2d(middle, fine, 1)
        self.fine_out = in_row(blocks[0], fine)
        self.leave = nn.Conv2d(fine, drawn, 3, padding=1)
        _silence(self.leave)


class CompactRefiner(UNet):
    """Residual U-Net.

    `channels`, `blocks`: as of `UNet`.
    `embedding`: channels of the embedding of noise level, quantizer and size.
    `noise`: standard deviation of the noise in the state, in units of [-1, 1].
    `prior`: the network whose drawings it is given, a name of `priors.files`; None: of none.
    """

    def __init__(
        self,
        channels: tuple[int, int, int] = (48, 64, 96),
        blocks: tuple[int, int, int] = (1, 1, 2),
        embedding: int = 64,
        noise: float = 0.003,
        prior: str | None = None,
    ) -> None:
        drawings = DRAWINGS if prior else 0
        given, drawn = 3 + GIVEN_CHANNELS + 3 * drawings, 3 + BANDS + drawings * (BANDS + 2)
        super().__init__(given, drawn, channels, blocks, partial(_Blocks, embedding))
        self.settings: dict[str, Any] = {"channels": channels, "blocks": blocks}
        self.settings |= {"embedding": embedding, "noise": noise, "prior": prior}
        self.embed = nn.Sequential(
            nn.Linear(2 * _WAVES + SCALARS, embedding), nn.SiLU(), nn.Linear(embedding, embedding)
        )

    @property
    def reach(self) -> int:
        """How many pixels away a pixel is still seen, rounded up to a multiple of 8.

        Twice `MULTIPLE` is for what the changes of scale add."""
        fine, middle, coarse = self.settings["blocks"]
        reach: int = 2 * (4 * fine + 3) + 4 * (4 * middle + 1) + 8 * (4 * coarse) + 2 * MULTIPLE + 6
        return reach

    def forward(self, state: Tensor, sigma: Tensor, given: Tensor, scalars: Tensor) -> Tensor:
        """Estimate the source.

        `state`: (B, 3, H, W), the sampler's.
        `sigma`: (B,), from 1, the keyframe and noise, to 0, the source.
        `given`: (B, 4, H, W), see `GIVEN_CHANNELS`, and 3 channels more for each drawing.
        `scalars`: (B, 2), see `SCALARS`.
        All are float; H and W are multiples of 8. Returns (B, 3, H, W) in about [-1, 1].
        """
        picture = given[:, :3]
        offset = state - picture
        angles = sigma[:, None] * torch.pi * 2.0 ** torch.arange(_WAVES, device=sigma.device) / 2
        waves = torch.cat([angles.sin(), angles.cos()], dim=1).to(sigma.dtype)
        embedding = self.embed(torch.cat([waves, scalars], dim=1))
        inputs = nn.functional.pixel_unshuffle(torch.cat([offset, given], dim=1), 2)
        fine = self.fine_in(self.enter(inputs), embedding)
        middle = self.middle_in(self.to_middle(fine), embedding)
        coarse = self.coarse(self.to_coarse(middle), embedding)
        middle = self.middle_out(middle + doubled(self.from_coarse(coarse)), embedding)
        fine = self.fine_out(fine + doubled(self.from_middle(middle)), embedding)
        drawn = nn.functional.interpolate(self.leave(fine), scale_factor=2, mode="bilinear")
        # Sharpening by what is there already need not be learned and cannot make noise.
        bands = detail_bands(picture)
        for first in range(GIVEN_CHANNELS, given.shape[1], 3):
            bands += all_bands(given[:, first : first + 3] - picture)
        raised = zip(drawn[:, 3:].chunk(len(bands), dim=1), bands, strict=True)
        residual = drawn[:, :3] + sum(strength * band for strength, band in raised)
        estimate: Tensor = picture + _skip(sigma).view(-1, 1, 1, 1) * offset + residual
        return estimate


class _Blocks(nn.Module):
    def __init__(self, embedding: int, count: int, channels: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block(channels, embedding) for _ in range(count))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, embedding)
        return x


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
        inner = self.first(nn.functional.silu(x))
        inner = nn.functional.silu(torch.addcmul(inner + shift, inner, scale))
        result: Tensor = x + self.second(inner)
        return result


_WAVES = 4
_NOISE_TO_RESIDUAL = 0.6


def _skip(sigma: Tensor) -> Tensor:
    """Share of the state's offset from the keyframe to keep: the least-squares estimate. As
    `c_skip` of Karras et al. (NeurIPS 2022), for noise 0.6 times as strong as the residual: 0 at
    sigma 1, 1 at sigma 0."""
    rest = 1 - sigma
    return rest / (rest**2 + (_NOISE_TO_RESIDUAL * sigma) ** 2)


def _silence(layer: nn.Conv2d | nn.Linear) -> None:
    """Make a layer give zero until it has learned something."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)


def doubled(x: Tensor) -> Tensor:
    """Twice as high and as wide, (B, C, H, W)."""
    return nn.functional.interpolate(x, scale_factor=2, mode="nearest")
