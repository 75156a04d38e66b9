"""The prior of the larger refiner: what it draws, once for each key picture, and what it is worth to a viewer."""

import numpy as np
import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from torch import nn

from gsvc.codec.errors import InputError, MissingModelError
from gsvc.codec.frames import Color, Picture
from gsvc.codec.scaffold import Geometry
from gsvc.datasets.models import PRIOR, model_path
from gsvc.decoders import pipeline as pipelines
from gsvc.decoders import prior as priors
from gsvc.decoders.compact import SIZES, CompactRefiner
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.pictures import PictureDecoder
from gsvc.decoders.pipeline import RefinerPipeline
from gsvc.decoders.prior import PriorNetwork, drawings, read_weights
from gsvc.decoders.refiner import BACKENDS, load_pipeline, load_refiner
from gsvc.decoders.training.trainer import grow_weights
from gsvc.encoders.pictures import encode_pictures


@pytest.fixture(scope="module")
def small() -> PriorNetwork:
    """Shallow enough that no pixel sees farther than the margin of tiles."""
    torch.manual_seed(1)
    return PriorNetwork(blocks=1, channels=8, growth=4).eval()


def test_large_pictures_are_drawn_as_small_ones_are(
    small: PriorNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = torch.rand(1, 3, 88, 136) * 2 - 1
    whole = drawings(small, picture)
    assert whole.shape == (1, 6, 88, 136)
    monkeypatch.setattr(priors, "_TILE", 16)
    assert torch.allclose(drawings(small, picture), whole, atol=1e-4)


def test_it_draws_once_for_all_steps_of_a_picture(
    small: PriorNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []

    def draw(network: PriorNetwork, picture: torch.Tensor) -> torch.Tensor:
        drawn.append(picture.shape)
        return drawings(network, picture)

    monkeypatch.setattr(pipelines, "drawings", draw)
    network = CompactRefiner(**SIZES["base"]).eval()
    pipeline = RefinerPipeline(network, FlowMatchEulerDiscreteScheduler(), small)
    pixels = np.full((33, 47, 3), 90, np.uint8)
    key = KeyPicture(pixels, np.zeros((33, 47), np.float32), 0.8, 1.0)
    shown = pipeline(key, num_inference_steps=4)
    assert drawn == [(1, 3, 40, 48)]
    # Untrained, it believes nothing of what was drawn.
    assert np.abs(shown.astype(int) - pixels).max() <= 2


def test_weights_of_a_network_without_drawings_are_a_start() -> None:
    network = CompactRefiner(**SIZES["base"]).eval()
    grow_weights(network, BACKENDS["compact"])
    smaller = load_pipeline(BACKENDS["compact"]).refiner
    state, given = torch.rand(1, 3, 16, 16), torch.rand(1, 4, 16, 16)
    scalars, sigma = torch.rand(1, 2), torch.ones(1)
    drawn = torch.rand(1, 6, 16, 16)
    with torch.no_grad():
        one = smaller(state, sigma, given, scalars)
        other = network(state, sigma, torch.cat([given, drawn], dim=1), scalars)
    assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("data", [b"", b"\x47\x6b\x30\x01", bytes(400)])
def test_a_file_of_other_weights_is_refused(data: bytes) -> None:
    with pytest.raises(MissingModelError, match="run: gsvc models pull real_esrgan"):
        read_weights(data, [nn.Conv2d(3, 4, 3)])


def test_a_viewer_sees_more_with_the_prior_than_without() -> None:
    """Carphone is an evaluation clip: nothing is chosen here, it is only looked at."""
    pytest.importorskip("stlpips_pytorch")
    from gsvc.datasets.packaged import load_clip, packaged_clip
    from gsvc.eval.metrics import st_lpips

    try:
        model_path(PRIOR)
        path = packaged_clip("carphone", download=False)
    except (MissingModelError, InputError) as error:
        pytest.skip(str(error))
    (truth,), _ = load_clip(path, frames=1)
    key = coded(truth)
    nano, base = (
        load_refiner(name).refine(key, steps=1, seed=1) for name in ("compact:nano", "compact:base")
    )
    scores = [float(st_lpips([truth], [p], "vgg").mean()) for p in (key.picture, nano, base)]
    assert scores[2] < 0.97 * min(scores[:2])


def coded(picture: Picture) -> KeyPicture:
    """The picture as a decoder gets it at about level 1."""
    color, (height, width) = Color(matrix=1), picture.shape[:2]
    size = Geometry(width, height).coded_size(8)
    (unit,) = encode_pictures([picture], size=size, crf=62, color=color, preset=8)
    decoded = PictureDecoder((width, height), color).decode(unit, size)
    return KeyPicture.of(decoded, None, 62, 8)
