"""The networks of published priors: given a small picture, each draws it at four times its size.

Both are of ESRGAN's line (Wang et al., ECCV workshops 2018; Real-ESRGAN, Wang et al., ICCV
workshops 2021): a large one, for photographs, and a compact one.
"""

from collections.abc import Callable, Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn

SCALE = 4
"""How many times larger a network draws."""
_SHARE = 0.2


class RRDBNet(nn.Module):
    """Residual in residual dense blocks, then four times the size."""

    shrunk: ClassVar = (2, 4)
    """How much smaller it is given a keyframe, one drawing for each."""
    tile: ClassVar = 192
    """Side of the parts that it is given at a time, in pixels: bounds its memory."""

    def __init__(self, blocks: int = 23, channels: int = 64, growth: int = 32) -> None:
        super().__init__()
        self.enter = _convolution(3, channels)
        self.trunk = nn.Sequential(*(_Residual(channels, growth) for _ in range(blocks)))
        self.body = _convolution(channels, channels)
        self.enlarge = nn.ModuleList(_convolution(channels, channels) for _ in range(2))
        self.fine = _convolution(channels, channels)
        self.leave = _convolution(channels, 3)

    def forward(self, picture: Tensor) -> Tensor:
        """`picture` (B, 3, H, W) in [0, 1]; returns (B, 3, 4 H, 4 W) in about [0, 1]."""
        entered = self.enter(picture)
        x = entered + self.body(self.trunk(entered))
        for convolution in self.enlarge:
            x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
            x = _rectified(convolution(x))
        drawn: Tensor = self.leave(_rectified(self.fine(x)))
        return drawn


class SRVGGNetCompact(nn.Module):
    """Convolutions in a row at the size of the input; the last makes all pixels of the output."""

    shrunk: ClassVar = (1, 2)
    tile: ClassVar = 512
    """See `RRDBNet`."""

    def __init__(self, layers: int = 16, channels: int = 64) -> None:
        super().__init__()
        body: list[nn.Module] = []
        for inputs in (3, *[channels] * layers):
            body += [_convolution(inputs, channels), nn.PReLU(channels)]
        self.body = nn.Sequential(*body, _convolution(channels, 3 * SCALE**2))

    def forward(self, picture: Tensor) -> Tensor:
        drawn: Tensor = nn.functional.pixel_shuffle(self.body(picture), SCALE)
        return drawn + nn.functional.interpolate(picture, scale_factor=SCALE, mode="nearest")


PriorNetwork = RRDBNet | SRVGGNetCompact
PRIORS: dict[str, type[PriorNetwork]] = {"animevideov3": SRVGGNetCompact, "x4plus": RRDBNet}


def drawn_at(sizes: Iterable[int], network: Callable[[Tensor], Tensor], picture: Tensor) -> Tensor:
    """What a network draws of a picture that was shrunk, at the picture's own size.

    `sizes`: how many times it is shrunk, one drawing for each; divisors of SCALE.
    `picture`: (B, 3, H, W) in [-1, 1], sides multiples of `sizes`.
    Returns (B, 3 n, H, W) in [-1, 1].
    """
    drawn = []
    for shrunk in sizes:
        large = network(nn.functional.avg_pool2d(picture.add(1).div(2), shrunk))
        drawn.append(nn.functional.avg_pool2d(large.clamp(0, 1), SCALE // shrunk).mul(2).sub(1))
    return torch.cat(drawn, dim=1)


class _Residual(nn.Module):
    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.dense = nn.Sequential(*(_DenseBlock(channels, growth) for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + _SHARE * self.dense(x)
        return result


class _DenseBlock(nn.Module):
    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            _convolution(channels + n * growth, growth if n < 4 else channels) for n in range(5)
        )

    def forward(self, x: Tensor) -> Tensor:
        *inner, last = self.layers
        seen = x
        for layer in inner:
            seen = torch.cat([seen, _rectified(layer(seen))], dim=1)
        result: Tensor = x + _SHARE * last(seen)
        return result


def _convolution(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


def _rectified(x: Tensor) -> Tensor:
    return nn.functional.leaky_relu(x, 0.2)
