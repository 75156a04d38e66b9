"""What a network that knows many photographs would draw for a key picture: the prior of the larger refiner.

The network is RRDBNet (ESRGAN, Wang et al., ECCV workshops 2018), with the published weights of Real-ESRGAN (Wang et al., ICCV
workshops 2021), which restores small damaged pictures at four times their size; `gsvc models pull real_esrgan` brings them. A
key picture is given to it shrunk, to where coding has left what it shows; how far to believe it is the refiner's to say.
"""

from collections.abc import Sequence

import numpy as np
import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from torch import Tensor, nn
from torch.nn import functional

from gsvc.codec.errors import MissingModelError
from gsvc.datasets.models import PRIOR, model_path, pull_command
from gsvc.decoders.tiles import in_tiles

SHRUNK = (2, 4)
"""How much smaller the network is given a key picture, one drawing for each."""
_SCALE = 4
_TILE, _MARGIN = 192, 32
_HALF = bytes.fromhex("476b3001")
"""Tag of weights in half precision."""


class PriorNetwork(ModelMixin, ConfigMixin):  # type: ignore[misc]
    """RRDBNet: residual in residual dense blocks, then four times the size."""

    @register_to_config  # type: ignore[untyped-decorator]
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
            x = _rectified(convolution(functional.interpolate(x, scale_factor=2, mode="nearest")))
        drawn: Tensor = self.leave(_rectified(self.fine(x)))
        return drawn


class _Residual(nn.Module):
    """Three dense blocks with a skip."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.dense = nn.Sequential(*(_DenseBlock(channels, growth) for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + _SHARE * self.dense(x)
        return result


class _DenseBlock(nn.Module):
    """Five convolutions, each of which sees all before it."""

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


_SHARE = 0.2


def _convolution(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


def _rectified(x: Tensor) -> Tensor:
    return functional.leaky_relu(x, 0.2)


def load_prior(device: str = "cpu") -> PriorNetwork:
    """The network with Real-ESRGAN's weights (x4plus). Raises MissingModelError when they are not on this machine."""
    path, network = model_path(PRIOR), PriorNetwork()
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    read_weights(path.read_bytes(), convolutions)
    network.eval().requires_grad_(False)
    ready: PriorNetwork = network.to(device, memory_format=torch.channels_last)
    return ready


def read_weights(data: bytes, convolutions: Sequence[nn.Conv2d]) -> None:
    """Give convolutions the weights of an ncnn model file, which has them in the order of their use: each a tag, weights in half
    precision and biases in single. Raises MissingModelError for other contents."""
    offset = 0
    try:
        for layer in convolutions:
            tag, weight, bias = data[offset : offset + 4], layer.weight, layer.bias
            if tag != _HALF or bias is None:
                raise ValueError(f"tag {tag.hex()}")
            offset += 4
            weights = np.frombuffer(data, "<f2", weight.numel(), offset)
            offset += -(-weights.nbytes // 4) * 4
            biases = np.frombuffer(data, "<f4", bias.numel(), offset)
            offset += biases.nbytes
            weight.data.copy_(torch.from_numpy(weights.astype(np.float32)).view_as(weight))
            bias.data.copy_(torch.from_numpy(biases.copy()))
        if offset != len(data):
            raise ValueError(f"{len(data) - offset} bytes more")
    except ValueError as error:
        raise MissingModelError(
            f"the file of model {PRIOR} is not what gsvc knows ({error}); run: {pull_command(PRIOR)}"
        ) from error


@torch.no_grad()
def drawings(network: PriorNetwork, picture: Tensor) -> Tensor:
    """What the network draws for `picture` (B, 3, H, W) in [-1, 1], sides multiples of 4: (B, 6, H, W) in [-1, 1].

    Half and quarter of the size, in this order. Large pictures are drawn in tiles; the network sees further than their margin, which
    changes what it draws by 0.1 gray levels on average, by 10 in few places.
    """
    drawn = []
    for shrunk in SHRUNK:
        small = functional.avg_pool2d(picture.add(1).div(2), shrunk)
        large = in_tiles(network, [small], tile=_TILE, margin=_MARGIN, scale=_SCALE)
        drawn.append(functional.avg_pool2d(large.clamp(0, 1), _SCALE // shrunk).mul(2).sub(1))
    return torch.cat(drawn, dim=1)
