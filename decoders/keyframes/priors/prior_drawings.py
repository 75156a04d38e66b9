"""The prior of the larger refiners: what a network that knows many photographs would draw.

The networks have the published weights of Real-ESRGAN, which restore small damaged pictures at four
times their size. A keyframe is given to them shrunk, to where coding has left what it shows; how
far to believe them is the refiner's to say.
"""

from collections.abc import Iterable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from gsvc.decoders.keyframes.devices import in_tiles, placed
from gsvc.decoders.keyframes.priors.prior_files import prior_path
from gsvc.decoders.keyframes.priors.prior_networks import PRIORS, SCALE, PriorNetwork, drawn_at

_MARGIN = 32
_HALF = bytes.fromhex("476b3001")  # tag of weights in half precision


def load_prior(name: str, device: str = "cpu") -> PriorNetwork:
    """The network with its weights. Errors as of `prior_path`."""
    network = PRIORS[name]()
    layers = [part for part in network.modules() if isinstance(part, nn.Conv2d | nn.PReLU)]
    read_weights(prior_path(name).read_bytes(), layers)
    return placed(network.requires_grad_(False), device)


def read_weights(data: bytes, layers: Iterable[nn.Conv2d | nn.PReLU]) -> None:
    """Give layers the weights of an ncnn model file, which has them in the order of their use.

    Of a convolution: a tag, weights in half precision, biases in single; of a PReLU: slopes in
    single. Raises ValueError for other contents.
    """
    offset = 0

    def take(dtype: str, goal: Tensor) -> None:
        nonlocal offset
        values = np.frombuffer(data, dtype, goal.numel(), offset).astype(np.float32)
        goal.copy_(torch.from_numpy(values).view_as(goal))
        offset += -(-values.size * np.dtype(dtype).itemsize // 4) * 4

    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            tag = data[offset : offset + len(_HALF)]
            if tag != _HALF or layer.bias is None:
                raise ValueError(f"tag {tag.hex()} is not known")
            offset += len(_HALF)
            take("<f2", layer.weight.data)
            take("<f4", layer.bias.data)
        else:
            take("<f4", layer.weight.data)
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes more than there are layers for")


@torch.no_grad()
def drawings(network: PriorNetwork, picture: Tensor) -> Tensor:
    """What the network draws for a picture at each `shrunk` size: (B, 6, H, W) in [-1, 1].

    `picture`: (B, 3, H, W) in [-1, 1], sides multiples of 4.
    """
    return drawn_at(network.shrunk, partial(enlarged, network), picture)


def enlarged(network: PriorNetwork, picture: Tensor) -> Tensor:
    """What the network draws for a picture, as of its `forward`, in float32.

    A large one is drawn in tiles; RRDBNet sees further than their margin, which changes its drawing
    by 0.1 gray levels on average, by 10 in few places.
    """

    def run(part: Tensor) -> Tensor:
        drawn: Tensor = network(part.to(next(network.parameters()).dtype))
        return drawn.float()

    return in_tiles(run, [picture], tile=network.tile, margin=_MARGIN, scale=SCALE)
