"""The faster layers give what PyTorch's own give, at every size and parity."""

import pytest
import torch
from torch import Tensor, nn

from gsvc.eval.metrics.fast_layers import BlurredConvolution, SlidingMaximum, accelerate


class Blur(nn.Module):
    """The halving blur as ST-LPIPS has it: 3x3 binomial, stride 2, reflection by two pixels."""

    filt: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.filt_size, self.stride, self.pad_sizes = 3, 2, [2, 2, 2, 2]
        line = torch.tensor([1.0, 2, 1])
        self.register_buffer("filt", (line[:, None] * line / 16).repeat(channels, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        padded = nn.functional.pad(x, (2, 2, 2, 2), mode="reflect")
        return nn.functional.conv2d(padded, self.filt, stride=2, groups=x.shape[1])


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 128, 11, padding=2), Blur(128), nn.ReLU(inplace=True)),
        nn.Sequential(nn.MaxPool2d(3, stride=1), nn.Conv2d(128, 160, 3, padding=1), nn.ReLU()),
    )
    return made.eval().requires_grad_(False).to(memory_format=torch.channels_last)


@pytest.mark.parametrize("size", [(32, 33), (41, 64), (70, 47), (64, 128)])
def test_faster_layers_give_the_same(size: tuple[int, int]) -> None:
    plain, fast = layers(), layers()
    accelerate(fast)
    kinds = [type(layer) for layer in fast.modules()]
    assert BlurredConvolution in kinds and SlidingMaximum in kinds
    x = torch.randn(2, 3, *size).contiguous(memory_format=torch.channels_last)
    expected = plain(x)
    assert torch.allclose(fast(x), expected, atol=1e-5 * expected.abs().max().item())


def test_layers_of_another_shape_are_left_alone() -> None:
    others = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.Conv2d(128, 128, 3, stride=2, padding=1),
        nn.Conv2d(128, 128, 3),
        nn.MaxPool2d(2),
    )
    kinds = [type(layer) for layer in others]
    accelerate(others)
    assert [type(layer) for layer in others] == kinds
