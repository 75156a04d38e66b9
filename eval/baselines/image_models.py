"""Learned image models frame by frame.

Ballé et al. (ICLR 2018), Minnen et al. (NeurIPS 2018), Cheng et al. (CVPR 2020).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gsvc.datasets.clips.clip import ClipFormat
from gsvc.eval.baselines.learned import LearnedCodec

if TYPE_CHECKING:
    import torch


class ImageModel(LearnedCodec):
    """Every frame an independent image: the floor of learned codecs."""

    zoo = "compressai.zoo.image"
    multiple = 64

    def _compress(
        self, network: Any, pictures: "Iterator[torch.Tensor]", interval: int
    ) -> Iterator[bytes]:
        for picture in pictures:
            for strings in network.compress(picture)["strings"]:
                yield strings[0]

    def _decompress(
        self, network: Any, parts: Iterator[bytes], shape: tuple[int, int], clip: ClipFormat
    ) -> "list[torch.Tensor]":
        found = []
        for _ in range(clip.frames):
            strings = [[next(parts)], [next(parts)]]
            found.append(network.decompress(strings, shape)["x_hat"])
        return found


class Hyperprior(ImageModel):
    """Scale hyperprior."""

    name = "bmshj2018-hyperprior"
    qualities = range(1, 9)


class MeanHyperprior(ImageModel):
    """Mean and scale hyperprior."""

    name = "mbt2018-mean"
    qualities = range(1, 9)


class Cheng2020(ImageModel):
    """Residual blocks and a serial context model: minutes a clip on a CPU."""

    name = "cheng2020-anchor"
    qualities = range(1, 7)


CODECS = (Hyperprior, MeanHyperprior, Cheng2020)
