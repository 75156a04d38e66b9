"""The networks that a training run takes from its pack are those of the installed packages."""

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

from gsvc.datasets.clips.clip_reader import load_clip
from needs import need_clip, need_package

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
