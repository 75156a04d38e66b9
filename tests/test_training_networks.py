"""The networks that a training run takes from its pack are those of the installed packages."""

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

from gsvc.datasets.clips.clip_reader import load_clip
from needs import need, need_clip, need_package

need_package("stlpips_pytorch")


@pytest.fixture(scope="module")
def pair() -> tuple[Tensor, Tensor]:
    """A frame and the same blurred, (1, 3, 144, W) in [-1, 1]."""
    source = load_clip(need_clip("bigbuckbunny"), 1, 144)[0][0]
    pictures = np.stack([source, cv2.GaussianBlur(source, (0, 0), 1.2)])
    values = torch.from_numpy(pictures).permute(0, 3, 1, 2).float().div(127.5).sub(1)
    return values[:1], values[1:]


def test_alexnet_distance_is_the_metrics(pair: tuple[Tensor, Tensor]) -> None:
    from gsvc.decoders.training.frozen import frozen_networks
    from gsvc.decoders.training.losses import AlexDistance
    from gsvc.eval.metrics.perceptual import load_network

    state = frozen_networks(["alex"])["alex"]
    expected = float(load_network("alex")(*pair))
    assert float(AlexDistance(state)(*pair)) == pytest.approx(expected, rel=1e-3)
    assert float(AlexDistance(state, merged=True)(*pair)) == pytest.approx(expected, rel=1e-2)


def test_efficientnet_features_are_the_packages(pair: tuple[Tensor, Tensor]) -> None:
    from gsvc.decoders.training.frozen import frozen_networks
    from gsvc.decoders.training.losses import EfficientFeatures
    from gsvc.eval.metrics.perceptual import efficientnet

    with need("efficientnet_lite_pytorch"):
        network = efficientnet()
    features = EfficientFeatures(frozen_networks(["features"])["features"])
    deviation = torch.tensor((0.229, 0.224, 0.225)).view(1, 3, 1, 1)
    mean = torch.tensor((0.485, 0.456, 0.406)).view(1, 3, 1, 1)

    def theirs(picture: Tensor) -> list[Tensor]:
        x = ((picture + 1) / 2 - mean) / deviation
        x = network._swish(network._bn0(network._conv_stem(x)))
        seen = []
        for block in network._blocks[:11]:
            x = block(x)
            seen.append(x)
        return [seen[number] for number in (0, 2, 4, 10)]

    with torch.no_grad():
        distances = [
            [float((a - b).norm()) for a, b in zip(*map(see, pair), strict=True)]
            for see in (theirs, features)
        ]
    assert distances[1] == pytest.approx(distances[0], rel=1e-3)
