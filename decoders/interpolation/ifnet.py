"""IFNet, the network of RIFE: the motion of the frame between two pictures, straight from pixels.

Huang et al., "Real-Time Intermediate Flow Estimation for Video Frame Interpolation", ECCV 2022. As
in the published weights of the 4.0 line it has four blocks, from coarse to fine; each sees both
pictures moved by the motion so far and corrects it. Time is an input: any frame can be asked for.
"""

import torch
from torch import Tensor, nn

IFNET_MULTIPLE = 64
"""Height and width must be multiples of this: of 4 pixels at the coarsest of the scales."""

_IFNET_CHANNELS = 192, 128, 96, 64
_IFNET_SCALES = 8, 4, 2, 1
_FAST = 32.0
"""Change of motion by the second block, in pixels, from which everything is seen twice as coarse:
the coarsest block has missed motion that is too large for it."""


class IFNet(nn.Module):
    """Estimates where the pixels of a frame between two pictures are in these.

    `channels`: of each block, coarsest first.
    """

    def __init__(self, channels: tuple[int, int, int, int] = _IFNET_CHANNELS) -> None:
        super().__init__()
        self.settings = {"channels": channels}
        given = 7, 12, 12, 12  # two pictures and time; later the mask and both motions too
        self.blocks = nn.ModuleList(map(_FlowBlock, given, channels))

    def forward(
        self, left: Tensor, right: Tensor, time: Tensor, *, coarser: int = 1
    ) -> tuple[Tensor, Tensor]:
        """Motion and side of the frame at `time`.

        `left`, `right`: RGB (B, 3, H, W) in [0, 1], sides multiples of `IFNET_MULTIPLE`.
        `time`: (B,), 0 at the left picture, 1 at the right one.
        `coarser`: how many times coarser than usual the pictures are seen, 1 or 2. In evaluation
        fast motion chooses 2 by itself, for the whole batch.
        Returns the motion towards the left and the right picture, (B, 4, H, W): x and y in pixels
        of each, and a mask (B, 1, H, W), above 0 where the left picture should be drawn from.
        """
        times = time.view(-1, 1, 1, 1).expand(-1, 1, *left.shape[-2:])
        shown = torch.cat([left, right, times], 1)
        motion, mask = self.blocks[0](shown, None, _IFNET_SCALES[0] * coarser)
        for block, scale in zip(self.blocks[1:], _IFNET_SCALES[1:], strict=True):
            moved = moved_by(left, motion[:, :2]), moved_by(right, motion[:, 2:])
            change, more = block(torch.cat([*moved, times, mask], 1), motion, scale * coarser)
            if block is self.blocks[1] and coarser == 1 and not self.training:
                largest = change.abs().amax((0, 2, 3))
                if largest[:2].max() > _FAST and largest[2:].max() > _FAST:
                    return self(left, right, time, coarser=2)  # type: ignore[no-any-return]
            motion, mask = motion + change, mask + more
        return motion, mask


class _FlowBlock(nn.Module):
    """Convolutions at a quarter of a scale of the picture, with one skip around most of them."""

    def __init__(self, given: int, channels: int) -> None:
        super().__init__()
        self.shrink = nn.Sequential(
            _flow_layer(given, channels // 2, 2), _flow_layer(channels // 2, channels, 2)
        )
        self.body = nn.Sequential(*(_flow_layer(channels, channels, 1) for _ in range(8)))
        self.leave = nn.ConvTranspose2d(channels, 5, 4, 2, 1)

    def forward(self, shown: Tensor, motion: Tensor | None, scale: int) -> tuple[Tensor, Tensor]:
        """Corrections of the motion and the mask, seen at 1 / `scale` of the picture's size."""
        shown = _resized(shown, 1 / scale)
        if motion is not None:
            shown = torch.cat([shown, _resized(motion, 1 / scale) / scale], 1)
        features = self.shrink(shown)
        # Motion stays in single precision under autocast: parts of pixels count.
        change = _resized(self.leave(self.body(features) + features).float(), 2 * scale)
        return change[:, :4] * 2 * scale, change[:, 4:]


def moved_by(picture: Tensor, motion: Tensor, mode: str = "bilinear") -> Tensor:
    """`picture`, (B, C, H, W), looked up at every pixel plus its motion, (B, 2, H, W) in pixels.

    `mode`: bilinear or bicubic. The border is repeated outside.
    """
    height, width = picture.shape[-2:]
    rows = torch.linspace(-1, 1, height, device=picture.device).view(1, -1, 1)
    columns = torch.linspace(-1, 1, width, device=picture.device).view(1, 1, -1)
    across = columns + motion[:, 0].float() / ((width - 1) / 2)
    along = rows + motion[:, 1].float() / ((height - 1) / 2)
    grid = torch.stack([across, along], dim=-1)
    return nn.functional.grid_sample(
        picture.float(), grid, mode=mode, padding_mode="border", align_corners=True
    )


def _resized(x: Tensor, factor: float) -> Tensor:
    return nn.functional.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)


def _flow_layer(given: int, channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(given, channels, 3, stride, 1), nn.PReLU(channels))
