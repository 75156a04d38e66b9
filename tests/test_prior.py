"""The priors of the larger refiners: drawn once for each key picture, and of use to a viewer."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from gsvc import Color, MissingDependencyError, MissingModelError, Picture
from gsvc.codec.bitstream.scaffold import Geometry
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.compact import pipeline as pipelines
from gsvc.decoders.keyframes.compact.backend import CompactBackend
from gsvc.decoders.keyframes.compact.network import SIZES, CompactRefiner
from gsvc.decoders.keyframes.compact.pipeline import RefinerPipeline
from gsvc.decoders.keyframes.keyframe import Keyframe, KeyframeDecoder
from gsvc.decoders.keyframes.priors import prior_files
from gsvc.decoders.keyframes.priors.prior_drawings import drawings, load_prior, read_weights
from gsvc.decoders.keyframes.priors.prior_files import prior_path
from gsvc.decoders.keyframes.priors.prior_networks import PriorNetwork, RRDBNet, SRVGGNetCompact
from gsvc.encoders.svt_av1 import encode_pictures
from needs import need_clip, need_package

SHALLOW: dict[str, PriorNetwork] = {
    "x4plus": RRDBNet(1, 8, 4),
    "animevideov3": SRVGGNetCompact(2, 8),
}
"""So shallow that no pixel sees farther than the margin of tiles."""


@pytest.mark.parametrize("network", SHALLOW.values(), ids=SHALLOW)
def test_large_pictures_are_drawn_as_small_ones_are(
    network: PriorNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = torch.rand(1, 3, 88, 136) * 2 - 1
    whole = drawings(network, picture)
    assert whole.shape == (1, 6, 88, 136)
    monkeypatch.setattr(type(network), "tile", 16)
    assert torch.allclose(drawings(network, picture), whole, atol=1e-4)


@pytest.mark.parametrize("name", SHALLOW)
def test_drawings_of_the_published_weights_are_near_the_picture(name: str) -> None:
    """Weights in another order, or read a byte too late, would draw noise."""
    ramp = torch.linspace(-0.8, 0.8, 64).expand(1, 3, 48, 64)
    drawn = drawings(load_prior(name), ramp)
    assert (drawn - ramp.repeat(1, 2, 1, 1)).abs().mean() < 0.05


def test_it_draws_once_for_all_steps_of_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def draw(network: PriorNetwork, picture: torch.Tensor) -> torch.Tensor:
        drawn.append(picture.shape)
        return drawings(network, picture)

    monkeypatch.setattr(pipelines, "drawings", draw)
    network = CompactRefiner(**SIZES["base"]).eval()
    pipeline = RefinerPipeline(network, SHALLOW["x4plus"])
    pixels = np.full((33, 47, 3), 90, np.uint8)
    key = Keyframe(pixels, np.zeros((33, 47), np.float32), 0.8, 1.0)
    shown = pipeline(key, num_inference_steps=4)
    assert drawn == [(1, 3, 40, 48)]
    # Untrained, it believes nothing of what was drawn.
    assert np.abs(shown.astype(int) - pixels).max() <= 2


@pytest.mark.parametrize("data", [b"", b"\x47\x6b\x30\x01", bytes(400)])
def test_a_file_of_other_weights_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_weights(data, [nn.Conv2d(3, 4, 3)])


def test_a_missing_or_other_file_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "other" / "models").mkdir(parents=True)
    (tmp_path / "other" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(prior_files, "_PACKAGE", "other")
    with pytest.raises(MissingModelError, match=r"damaged .* pip install .*compact:nano"):
        prior_path("x4plus")
    (tmp_path / "other" / "models" / "REALESRGAN_X4PLUS_UP4X.bin").write_bytes(b"?")
    with pytest.raises(MissingModelError, match="damaged"):
        prior_path("x4plus")
    monkeypatch.setattr(prior_files, "_PACKAGE", "none_such")
    with pytest.raises(MissingDependencyError, match=r"pip install 'gsvc\[refine\]'"):
        load_refiner("compact:base")
    with pytest.raises(MissingModelError, match="no prior is called 'x5'"):
        prior_path("x5")


@pytest.mark.slow
def test_a_viewer_sees_more_with_a_prior_than_without() -> None:
    """Carphone is an evaluation clip: nothing is chosen here, it is only looked at."""
    need_package("stlpips_pytorch")
    from gsvc.datasets.clips.clip_reader import TestClip, load_clip
    from gsvc.eval.metrics.perceptual import StLpips

    (truth,), rate = load_clip(need_clip("carphone"), frames=1)
    key = coded(truth)
    shown = [
        CompactBackend(f"compact:{size}").refine(key, steps=1, seed=1)
        for size in ("nano", "small", "base")
    ]
    clip, tests = TestClip("carphone", [truth], rate), [[one] for one in (key.picture, *shown)]
    scores = StLpips("vgg").measure(clip, tests, [0])[:, 0].tolist()
    assert max(scores[2:]) < min(scores[:2])


def coded(picture: Picture) -> Keyframe:
    """The picture as a decoder gets it at about level 1."""
    color, (height, width) = Color(matrix=1), picture.shape[:2]
    size = Geometry(width, height).coded_size(8)
    (unit,) = encode_pictures([picture], size=size, crf=62, color=color, preset=8)
    decoded = KeyframeDecoder((width, height), color).decode(unit, size)
    return Keyframe.of(decoded, None, 62, 8)
