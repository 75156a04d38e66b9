"""Features of EfficientNet-Lite0 at four depths: what a network that knows objects sees.

M. Tan and Q. Le, "EfficientNet", ICML 2019; Lite: Google, 2020. Its batch normalisations are in its
convolutions (see `frozen_networks`).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

_COLOUR_MEAN, _COLOUR_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_STEM = 32
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
)
"""Blocks, side of the kernel, stride of the first, expansion, channels. Two more stages are left
out: what they see is 32 pixels apart."""
BLOCKS = sum(stage[0] for stage in _STAGES)
"""Those of EfficientNet-Lite0 that are here, the first ones."""
_SEEN_AFTER = (0, 2, 4, 10)
"""Blocks, counted from 0, whose outputs are the features: strides 2, 4, 8, 16."""


class EfficientFeatures(nn.Module):
    """Its blocks without their normalisations, up to a stride of 16."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, state: dict[str, Tensor]) -> None:
        """`state`: weights by the names of this class, of any type (see `frozen_networks`)."""
        super().__init__()
        self.stem = _SameConvolution(3, _STEM, 3, 2)
        blocks, channels = [], _STEM
        for count, side, stride, expansion, outputs in _STAGES:
            for number in range(count):
                blocks.append(
                    _MobileBlock(channels, outputs, side, 1 if number else stride, expansion)
                )
                channels = outputs
        self.blocks = nn.ModuleList(blocks)
        self.load_state_dict({name: value.float() for name, value in state.items()})
        colours = {"mean": _COLOUR_MEAN, "deviation": _COLOUR_DEVIATION}
        for name, values in colours.items():
            self.register_buffer(name, torch.tensor(values).view(1, 3, 1, 1), persistent=False)
        self.eval().requires_grad_(False)

    def forward(self, pictures: Tensor) -> list[Tensor]:
        """Four maps of pictures (B, 3, H, W) in [-1, 1], finest first."""
        x = functional.relu6(self.stem((pictures / 2 + 0.5 - self.mean) / self.deviation))
        seen = []
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number in _SEEN_AFTER:
                seen.append(x)
        return seen


class _MobileBlock(nn.Module):
    """An inverted bottleneck: wider, filtered channel by channel, narrower again."""

    def __init__(self, inputs: int, outputs: int, side: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = nn.Conv2d(inputs, inner, 1) if expansion > 1 else nn.Identity()
        self.widened = expansion > 1
        self.filter = _SameConvolution(inner, inner, side, stride, groups=inner)
        self.project = nn.Conv2d(inner, outputs, 1)
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu6(self.expand(x)) if self.widened else x
        result: Tensor = self.project(functional.relu6(self.filter(inner)))
        return result + x if self.skips else result


class _SameConvolution(nn.Conv2d):
    """Padded as TensorFlow does: the odd pixel right and below."""

    def __init__(self, inputs: int, outputs: int, side: int, stride: int, groups: int = 1) -> None:
        super().__init__(inputs, outputs, side, stride, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        padding = []
        for length in (x.shape[3], x.shape[2]):
            step, side = self.stride[0], self.kernel_size[0]
            total = max(0, (-(-length // step) - 1) * step + side - length)
            padding += [total // 2, total - total // 2]
        return super().forward(functional.pad(x, padding))
