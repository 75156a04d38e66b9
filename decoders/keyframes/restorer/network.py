"""The restorer: a network that gives three pictures of a decoded one, to be mixed.

It works at half the picture's size and at a quarter and an eighth of it, where a convolution costs
less and sees farther. Its blocks are trained as a 3x3 and a 1x1 convolution beside the identity and
run as one convolution (Ding et al., "RepVGG", CVPR 2021). Its outputs are residuals: one trained
for fidelity, one for texture, one free. A picture is the decoded one plus their weighted sum, so
the weights say how to restore it, and 0 leaves it as it is (Kong et al., "Guided CNN Restoration
with Explicitly Signaled Linear Combination", ICIP 2020).
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

OUTPUTS = 3
"""Fidelity, texture, free."""
_CONDITIONS = 6  # quantiser, size, and which of four temporal layers
_HIDDEN = 32
_COLOURS = 3
_SLOPE = 0.1


class Restorer(nn.Module):
    """Three residuals of a decoded picture; untrained, they are 0."""

    def __init__(
        self, widths: Sequence[int] = (32, 64, 96), depths: Sequence[int] = (4, 10, 4)
    ) -> None:
        """`widths`, `depths`: channels and blocks by scale, from half the picture's size down."""
        super().__init__()
        self.settings = {"widths": list(widths), "depths": list(depths)}
        self._channels = [n for n, depth in zip(widths, depths, strict=True) for _ in range(depth)]
        self._starts = [sum(depths[:scale]) for scale in range(len(depths) + 1)]
        last = nn.Linear(_HIDDEN, sum(self._channels))
        self.embed = nn.Sequential(nn.Linear(_CONDITIONS, _HIDDEN), nn.SiLU(), last)
        self.enter = nn.Conv2d(4 * _COLOURS + 1, widths[0], 3, padding=1)
        self.blocks = nn.ModuleList(MergedBlock(channels) for channels in self._channels)
        scales = list(pairwise(widths))
        self.down = nn.ModuleList(nn.Conv2d(fine, deep, 2, stride=2) for fine, deep in scales)
        self.up = nn.ModuleList(nn.Conv2d(deep, 4 * fine, 1) for fine, deep in scales)
        self.leave = nn.Conv2d(widths[0], OUTPUTS * (_COLOURS + 1), 3, padding=1)
        for parameter in (*last.parameters(), *self.leave.parameters()):
            nn.init.zeros_(parameter)

    @property
    def multiple(self) -> int:
        """Pixels that each side of a picture is a multiple of."""
        return 2 << len(self.down)

    def forward(self, picture: Tensor, gain: Tensor, conditions: Tensor) -> Tensor:
        """The residuals (B, 3, 3, H, W): output, then colour.

        `picture`: (B, 3, H, W) in [-1, 1], its texture raised; `gain`: (B, 1, H, W), by how much;
        `conditions`: (B, 6): quantiser, crf / 70, and share of the side, each times 4 less 3; then
        which of four temporal layers, one-hot. H and W are multiples of `multiple`.
        """
        inputs = [nn.functional.pixel_unshuffle(picture, 2), nn.functional.avg_pool2d(gain, 2)]
        drawn = self.drawn(torch.cat(inputs, 1), conditions).float()
        drawn = nn.functional.interpolate(drawn, scale_factor=2, mode="bilinear")
        drawn = drawn.view(-1, OUTPUTS, _COLOURS + 1, *drawn.shape[2:])
        # What it draws itself stays at half the size; finer detail can only be raised or lowered.
        fine = fine_band(picture)
        residuals: Tensor = drawn[:, :, :_COLOURS] + drawn[:, :, _COLOURS:] * fine[:, None]
        return residuals

    def drawn(self, inputs: Tensor, conditions: Tensor) -> Tensor:
        """What is drawn at half the size, (B, 12, H / 2, W / 2): RGB and sharpness by output.

        `inputs`: the picture, unshuffled, and its gain, (B, 13, H / 2, W / 2).
        """
        biases = self.embed(conditions)[:, :, None, None].split(self._channels, 1)
        x = nn.functional.leaky_relu(self.enter(inputs), _SLOPE)
        drawn: Tensor = self.leave(self._scale(x, 0, biases))
        return drawn

    def _scale(self, x: Tensor, scale: int, biases: Sequence[Tensor]) -> Tensor:
        """The blocks of a scale; all deeper scales come after half of them."""
        first, last = self._starts[scale : scale + 2]
        if scale == len(self.down):
            return self._run(x, range(first, last), biases)
        middle = (first + last) // 2
        x = self._run(x, range(first, middle), biases)
        deep = nn.functional.leaky_relu(self.down[scale](x), _SLOPE)
        deep = self.up[scale](self._scale(deep, scale + 1, biases))
        return self._run(x + nn.functional.pixel_shuffle(deep, 2), range(middle, last), biases)

    def _run(self, x: Tensor, numbers: range, biases: Sequence[Tensor]) -> Tensor:
        for number in numbers:
            x = nn.functional.leaky_relu(self.blocks[number](x) + biases[number], _SLOPE)
        return x

    def merged(self) -> "Restorer":
        """The same network with one convolution a block, for use: it does not learn."""
        made = Restorer(**self.settings)
        made.load_state_dict(self.state_dict())
        for one in made.blocks:
            assert isinstance(one, MergedBlock)
            one.merge()
        return made.eval().requires_grad_(False)


class MergedBlock(nn.Module):
    """A 3x3 and a 1x1 convolution and the identity, run as one convolution.

    All are linear, so their kernels are added up before, in training too: it costs nothing there.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        reach = (9 * channels) ** -0.5
        self.wide = nn.Parameter(0.3 * reach * (2 * torch.rand(channels, 9 * channels) - 1))
        self.point = nn.Parameter(torch.zeros(channels, channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self._whole: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        kernel = self._kernel() if self._whole is None else self._whole
        return nn.functional.conv2d(x, kernel, self.bias, padding=1)

    def merge(self) -> None:
        """Add the kernels up for good."""
        self._whole = self._kernel().detach().contiguous(memory_format=torch.channels_last)

    def _kernel(self) -> Tensor:
        middle = self.point + torch.eye(len(self.point), device=self.point.device)
        wide = self.wide.view(*middle.shape, 3, 3)
        return wide + nn.functional.pad(middle[:, :, None, None], (1, 1, 1, 1))


_SPREADS = (0.7, 1.5, 3.0)
"""Standard deviations, in pixels, of the Gaussians around the bands. Finer detail stays as it is:
in a decoded picture most of it is wrong; raised, it makes ST-LPIPS VGG worse by 7 %."""
BANDS = len(_SPREADS) - 1


def detail_bands(pictures: Tensor) -> list[Tensor]:
    """What lies between Gaussians, finest first: `BANDS` tensors like `pictures`, (B, C, H, W)."""
    return all_bands(pictures)[1:-1]


def all_bands(pictures: Tensor) -> list[Tensor]:
    """`detail_bands` between what is finer and what is coarser: their sum is `pictures`."""
    levels = [pictures, *(_blurred(pictures, spread) for spread in _SPREADS)]
    return [*(finer - coarser for finer, coarser in pairwise(levels)), levels[-1]]


def fine_band(pictures: Tensor) -> Tensor:
    """The first of `detail_bands` alone."""
    return _blurred(pictures, _SPREADS[0]) - _blurred(pictures, _SPREADS[1])


def _blurred(pictures: Tensor, spread: float) -> Tensor:
    kind = pictures.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        # Rounded to half precision, it would differ from the picture by more than faint detail.
        with torch.autocast(kind, enabled=False):
            return _blurred(pictures.float(), spread)
    reach, channels = round(3 * spread), pictures.shape[1]
    x = torch.arange(-reach, reach + 1, device=pictures.device) / spread
    kernel = torch.exp(-0.5 * x.square())
    kernel = (kernel / kernel.sum()).to(pictures).expand(channels, 1, 1, -1)
    pictures = nn.functional.pad(pictures, (reach, reach, reach, reach), mode="replicate")
    pictures = nn.functional.conv2d(pictures, kernel, groups=channels)
    return nn.functional.conv2d(pictures, kernel.transpose(2, 3), groups=channels)
