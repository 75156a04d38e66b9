"""The window restorer's network: a recurrent U-Net over the frames of a window.

It gives a frame as its rendering plus what it draws itself, at half the size, and as much as it
believes of the keyframes before and after it as they are, in bands: where motion tears a frame,
what stood still is in one of them. Each frame leaves features to the next one. The last layer
starts at zero, so an untrained network shows the rendering.
"""

import torch
from torch import Tensor, nn

from gsvc.decoders.keyframes.compact.network import UNet, doubled
from gsvc.decoders.keyframes.restorer.network import BANDS, all_bands, detail_bands

WINDOW_MULTIPLE = 8
"""Height and width must be multiples of this."""
_WINDOW_CHANNELS = 11
"""Of the input: rendering, the keyframes before and after it, confidence, time."""
_WINDOW_STRENGTHS = BANDS + 2 * (BANDS + 2)
"""One for each band of the rendering and of what the keyframes have otherwise."""


class WindowRestorer(UNet):
    """Residual U-Net: 2.9 M parameters, 216 kFLOP a pixel and frame.

    `channels`, `blocks`: as of `UNet`.
    """

    def __init__(
        self,
        channels: tuple[int, int, int] = (48, 96, 160),
        blocks: tuple[int, int, int] = (1, 2, 2),
    ) -> None:
        super().__init__(_WINDOW_CHANNELS, 3 + _WINDOW_STRENGTHS, channels, blocks, _plain_blocks)
        self.settings = {"channels": channels, "blocks": blocks}
        self.remember = nn.Conv2d(channels[1], channels[1], 3, padding=1)

    @property
    def reach(self) -> int:
        """How many pixels away a pixel of the same frame is still seen, rounded up.

        A multiple of `WINDOW_MULTIPLE`, twice which is for what the changes of scale add.
        """
        fine, middle, coarse = self.settings["blocks"]
        reach = 2 * (4 * fine + 3) + 4 * (4 * middle + 2) + 8 * (4 * coarse) + 6
        return reach + -reach % WINDOW_MULTIPLE + 2 * WINDOW_MULTIPLE

    def forward(
        self,
        rendering: Tensor,
        before: Tensor,
        after: Tensor,
        confidence: Tensor,
        time: Tensor,
        memory: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Restore one frame of each window.

        `rendering`: RGB (B, 3, H, W) in [-1, 1]; of a key frame the keyframe.
        `before`, `after`: the keyframes around it, as `rendering`.
        `confidence`: (B, 1, H, W), 0 to 1.
        `time`: (B,), from 0 at the keyframe before to 1 at the one after.
        `memory`: what the frame before left; None for the first one of a window.
        All are float; H and W are multiples of `WINDOW_MULTIPLE`. Returns the frame in about
        [-1, 1], and what it leaves: features (B, middle channels, H / 4, W / 4).
        """
        times = time.view(-1, 1, 1, 1).expand_as(confidence)
        given = torch.cat([rendering, before, after, confidence, times], 1)
        fine = self.fine_in(self.enter(nn.functional.pixel_unshuffle(given, 2)))
        middle = self.to_middle(fine)
        if memory is not None:
            middle = middle + self.remember(memory)
        middle = self.middle_in(middle)
        coarse = self.coarse(self.to_coarse(middle))
        middle = self.middle_out(middle + doubled(self.from_coarse(coarse)))
        fine = self.fine_out(fine + doubled(self.from_middle(middle)))
        drawn = nn.functional.interpolate(self.leave(fine), scale_factor=2, mode="bilinear")
        bands = detail_bands(rendering)
        bands += all_bands(before - rendering) + all_bands(after - rendering)
        strengths = drawn[:, 3:].chunk(len(bands), dim=1)
        frame = rendering + drawn[:, :3]
        for strength, band in zip(strengths, bands, strict=True):
            frame = torch.addcmul(frame, strength, band)
        return frame, middle


class _PlainBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = self.second(nn.functional.silu(self.first(nn.functional.silu(x))))
        return x + inner


def _plain_blocks(count: int, channels: int) -> nn.Sequential:
    return nn.Sequential(*(_PlainBlock(channels) for _ in range(count)))
