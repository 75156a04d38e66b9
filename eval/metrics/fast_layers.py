"""The same layers of a convolutional network, computed faster on a CPU.

Winograd's minimal filtering F(4x4, 3x3): 36 multiplications for 16 outputs of a 3x3 filter instead
of 144 (A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016). In
float32 its results differ from direct convolution by some 1e-5 of the largest value. PyTorch's own
CPU library has direct convolution only, and its maximum over a sliding window is not vectorised.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_LEAST_CHANNELS = 128
"""Below it the transforms cost more than the multiplications saved (measured at 64: 1.25 times)."""
_BYTES_AT_ONCE = 20 * 2**20
"""Transformed tiles in work at once, about a CPU's last cache; half as fast without the limit."""
_TILE = 4
_KERNEL_TRANSFORM = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)


def accelerate(network: nn.Module) -> None:
    """Replace, in place, the layers that have a faster form here; for inference only.

    The network then wants float32 tensors, channels last in memory.
    """
    for parent in list(network.modules()):
        if isinstance(parent, nn.Sequential):
            _merge_blurs(parent)
        for name, layer in parent.named_children():
            faster = _faster(layer)
            if faster is not None:
                setattr(parent, name, faster)


def _merge_blurs(layers: nn.Sequential) -> None:
    children = list(layers.named_children())
    for (name, first), (following, second) in pairwise(children):
        if isinstance(first, nn.Conv2d) and first.stride == (1, 1) and _is_halving_blur(second):
            setattr(layers, name, BlurredConvolution(first, second))
            setattr(layers, following, nn.Identity())


def _is_halving_blur(layer: nn.Module) -> bool:
    """Whether this is BlurPool (R. Zhang, ICML 2019): 3x3, stride 2, reflection of 2 pixels."""
    form = tuple(getattr(layer, name, None) for name in ("filt_size", "stride", "pad_sizes"))
    return form == (3, 2, [2, 2, 2, 2])


class BlurredConvolution(nn.Module):
    """A convolution and the halving blur after it as one convolution with stride 2.

    The blur reflects the convolution's result at the borders, which no convolution of the input
    does: the outermost line on each side is computed in the old way, on a strip of the input.
    """

    def __init__(self, first: nn.Conv2d, blur: nn.Module) -> None:
        super().__init__()
        self.first, self.blur = first, blur
        self.weight = blurred_weight(first, blur).contiguous(memory_format=torch.channels_last)
        # Three lines of the first result, less what its own padding gives.
        self.reach = int(first.kernel_size[0]) + 2 - int(first.padding[0])

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C', about H / 2, about W / 2)."""
        first = self.first
        inner = functional.conv2d(x, self.weight, first.bias, stride=2, padding=first.padding)
        count, channels, height, width = inner.shape
        shape = (count, channels, height + 2, width + 2)
        out = torch.empty(shape, dtype=x.dtype, memory_format=torch.channels_last)
        out[:, :, 1:-1, 1:-1] = inner
        for dim in (2, 3):
            length = x.shape[dim]
            strip = self.reach + (length - self.reach) % 2  # the blur's steps must meet the far end
            near = self.blur(first(x.narrow(dim, 0, strip)))
            far = self.blur(first(x.narrow(dim, length - strip, strip)))
            out.narrow(dim, 0, 1).copy_(near.narrow(dim, 0, 1))
            out.narrow(dim, -1, 1).copy_(far.narrow(dim, -1, 1))
        return out


def blurred_weight(first: nn.Conv2d, blur: Any) -> Tensor:
    """The weight of the one convolution that is `first` and the 3x3 blur after it."""
    spread = first.weight.detach().flatten(0, 1)[:, None]
    weight = functional.conv2d(spread, blur.filt[:1].flip(2, 3), padding=2)
    return weight.reshape(*first.weight.shape[:2], *weight.shape[2:])


def _faster(layer: nn.Module) -> nn.Module | None:
    if isinstance(layer, nn.MaxPool2d) and layer.stride == 1 and layer.padding == 0:
        return SlidingMaximum(int(layer.kernel_size))  # type: ignore[arg-type]
    if isinstance(layer, nn.Conv2d) and _suits_winograd(layer):
        return WinogradConvolution(layer)
    return None


def _suits_winograd(layer: nn.Conv2d) -> bool:
    form = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.groups)
    return (
        form == ((3, 3), (1, 1), (1, 1), (1, 1), 1)
        and min(layer.in_channels, layer.out_channels) >= _LEAST_CHANNELS
        and layer.bias is not None
    )


class SlidingMaximum(nn.Module):
    """The maximum over each `side` x `side` window, stride 1, no padding."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) → (N, C, H - side + 1, W - side + 1)."""
        for dim in (3, 2):
            length = x.shape[dim] - self.side + 1
            largest = torch.maximum(x.narrow(dim, 0, length), x.narrow(dim, 1, length))
            for start in range(2, self.side):
                torch.maximum(largest, x.narrow(dim, start, length), out=largest)
            x = largest
        return x


class WinogradConvolution(nn.Module):
    """A 3x3 convolution, stride 1, zero padding of 1."""

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__()
        transform = torch.tensor(_KERNEL_TRANSFORM, dtype=torch.float64)
        weight = layer.weight.detach().double()
        kernels = torch.einsum("ai,ocij,bj->aboc", transform, weight, transform)
        self.kernels = [_prepared(one) for one in kernels.flatten(0, 1).float().contiguous()]
        self.channels, self.read = weight.shape[:2]
        assert layer.bias is not None
        self.bias = layer.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W), channels last in memory → (N, C', H, W), likewise."""
        x = x.permute(0, 2, 3, 1)
        count, height, width, _ = x.shape
        rows, columns = -(-height // _TILE), -(-width // _TILE)
        right, below = _TILE * columns + 1 - width, _TILE * rows + 1 - height
        x = functional.pad(x, (0, 0, 1, right, 1, below))
        channels = self.channels
        out = x.new_empty(count, rows, _TILE, columns, _TILE, channels)
        tile_bytes = 36 * 4 * (self.read + channels)
        step = max(1, _BYTES_AT_ONCE // (tile_bytes * count * columns))
        for top in range(0, rows, step):
            bottom = min(top + step, rows)
            self._strip(x[:, _TILE * top : _TILE * bottom + 2], out[:, top:bottom])
        out = out.view(count, _TILE * rows, _TILE * columns, channels)
        return out[:, :height, :width].permute(0, 3, 1, 2)

    def _strip(self, x: Tensor, out: Tensor) -> None:
        count, height, width, channels = x.shape
        rows, columns = out.shape[1], out.shape[3]
        by_rows = x.new_empty(6, count, rows, width, channels)
        _into_tiles([x[:, i : i + height - 5 : _TILE] for i in range(6)], by_rows)
        tiles = x.new_empty(6, 6, count, rows, columns, channels)
        views = [by_rows[:, :, :, i : i + width - 5 : _TILE] for i in range(6)]
        _into_tiles(views, tiles.transpose(0, 1))
        pairs = zip(tiles.view(36, -1, channels), self.kernels, strict=True)
        products = [_product(one, kernel) for one, kernel in pairs]
        by_columns = [_out_of_tiles(products[j::6]) for j in range(6)]
        for i, row in enumerate(zip(*by_columns, strict=True)):
            for j, values in enumerate(_out_of_tiles(row)):
                values = values.view(count, rows, columns, -1)
                torch.add(values, self.bias, out=out[:, :, i, :, j])


# On AMD's processors MKL, behind PyTorch's own product, does not use AVX-512; oneDNN is 2.6 times
# as fast there. PyTorch has it for its compiler.
_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _prepared(kernel: Tensor) -> Tensor:
    """A matrix (C', C) in the form that `_product` wants."""
    if not _ONEDNN:
        return kernel.T.contiguous()
    prepared: Tensor = torch.ops.mkldnn._reorder_linear_weight(kernel)
    return prepared


def _product(x: Tensor, kernel: Tensor) -> Tensor:
    """(N, C), C' x C → (N, C')."""
    if not _ONEDNN:
        return x @ kernel
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, kernel, None, "none", [], "")
    return product


def _into_tiles(d: Sequence[Tensor], out: Tensor) -> None:
    """The input transform along one direction: six samples of each tile into six sums."""
    torch.sub(d[4], d[2], alpha=4, out=out[0])
    torch.sub(d[3], d[1], alpha=4, out=out[5])
    torch.add(out[0], out[5], out=out[1])
    torch.sub(out[0], out[5], out=out[2])
    torch.sub(d[4], d[2], out=out[0])
    torch.sub(d[3], d[1], out=out[5])
    torch.add(out[0], out[5], alpha=2, out=out[3])
    torch.sub(out[0], out[5], alpha=2, out=out[4])
    torch.add(d[4], d[0], alpha=4, out=out[0]).sub_(d[2], alpha=5)
    torch.add(d[5], d[1], alpha=4, out=out[5]).sub_(d[3], alpha=5)


def _out_of_tiles(m: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The output transform along one direction: six products into four samples."""
    near, near_odd = m[1] + m[2], m[1] - m[2]
    far, far_odd = m[3] + m[4], m[3] - m[4]
    return (
        (m[0] + near).add_(far),
        torch.add(near_odd, far_odd, alpha=2),
        torch.add(near, far, alpha=4),
        torch.add(near_odd, far_odd, alpha=8).add_(m[5]),
    )
