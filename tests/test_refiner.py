"""The compact refiner: what a viewer sees of it, and what its stream and its users may rely on."""

import shutil
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from gsvc import Color, ConfigError, DeviceError, MissingModelError, Picture
from gsvc.codec.bitstream.layers.texture import Texture
from gsvc.codec.bitstream.scaffold import Geometry
from gsvc.decoders.keyframes.backends import load_refiner, model_id
from gsvc.decoders.keyframes.compact import pipeline as pipelines
from gsvc.decoders.keyframes.compact.backend import WEIGHTS, CompactBackend, load_pipeline
from gsvc.decoders.keyframes.compact.network import SIZES, CompactRefiner, noise_levels, walk
from gsvc.decoders.keyframes.compact.pipeline import RefinerPipeline, conditions, noise_field
from gsvc.decoders.keyframes.keyframe import Keyframe, KeyframeDecoder
from gsvc.decoders.keyframes.priors.prior_networks import PRIORS
from gsvc.encoders.svt_av1 import encode_pictures
from needs import need_clip, need_package

CRF = 60


def source(width: int = 200, height: int = 136) -> Picture:
    """A textured scene."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    grain = np.random.default_rng(7).normal(0, 40, (height // 2, 150))
    grain = cv2.resize(grain, (width, height), interpolation=cv2.INTER_CUBIC)
    waves = 120 + 50 * np.sin(x / 9) * np.cos(y / 13) + 30 * np.sign(np.sin(x / 23 + y / 31))
    colors = np.dstack([waves + grain, waves + 0.8 * grain, 200 - waves / 2])
    picture: Picture = np.clip(colors, 0, 255).astype(np.uint8)
    return picture


def coded(picture: Picture) -> Keyframe:
    """The picture as a decoder gets it, with some texture raised."""
    color, (height, width) = Color(matrix=1), picture.shape[:2]
    size = Geometry(width, height).coded_size(8)
    (unit,) = encode_pictures([picture], size=size, crf=CRF, color=color, preset=10)
    decoded = KeyframeDecoder((width, height), color).decode(unit, size)
    gains = np.zeros(Geometry(width, height).block_shape(2), np.uint8)
    gains[1:] = 2
    return Keyframe.of(decoded, Texture(2, gains), CRF, 8)


@pytest.fixture(scope="module")
def key() -> Keyframe:
    return coded(source())


@pytest.fixture(scope="module")
def pipeline() -> RefinerPipeline:
    """A small network whose last layer is not zero, so that everything in it shows."""
    torch.manual_seed(3)
    network = CompactRefiner(channels=(8, 16, 16), blocks=(1, 1, 1), embedding=16).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    return RefinerPipeline(network)


def test_zero_steps_do_without_torch_and_loading_too() -> None:
    code = (
        "import sys; from gsvc.decoders.keyframes.backends import load_refiner, model_id;"
        "model_id(); load_refiner(); import gsvc.codec.api.decoder;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# VGG of nano is a tie here: see the model card for what these weights are worth.
@pytest.mark.parametrize(
    ("backend", "backbones"),
    [("compact", ["alex"]), pytest.param("compact:small", ["alex", "vgg"], marks=pytest.mark.slow)],
)
def test_trained_weights_bring_key_pictures_nearer_to_the_source(
    backend: str, backbones: list[Any]
) -> None:
    need_package("stlpips_pytorch")
    from gsvc.datasets.clips.clip_reader import TestClip, load_clip
    from gsvc.eval.metrics.perceptual import StLpips

    (truth,), rate = load_clip(need_clip("carphone"), frames=1)
    clip = TestClip("carphone", [truth], rate)
    given = coded(truth)
    refined = CompactBackend(backend).refine(given, steps=1, seed=1)
    for backbone in backbones:
        before, after = StLpips(backbone).measure(clip, [[given.picture], [refined]], [0])[:, 0]
        assert after < before


def test_same_seed_same_picture(key: Keyframe) -> None:
    backend = CompactBackend("compact")
    one = backend.refine(key, steps=1, seed=5)
    assert np.array_equal(one, CompactBackend("compact").refine(key, steps=1, seed=5))
    assert not np.array_equal(one, backend.refine(key, steps=1, seed=6))


@pytest.mark.parametrize("size", [(1, 1), (17, 33), (135, 199)])
def test_any_size_comes_back_in_that_size(size: tuple[int, int], key: Keyframe) -> None:
    shown = CompactBackend("compact").refine(_cut(key, *size), steps=2, seed=0)
    assert shown.shape == (*size, 3) and shown.dtype == np.uint8


def test_tiles_do_not_show(
    pipeline: RefinerPipeline, key: Keyframe, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pipeline(key, num_inference_steps=2, seed=1)
    monkeypatch.setattr(pipelines, "WHOLE_PIXELS", 0)
    monkeypatch.setattr(pipelines, "_TILE", 48)
    tiled = pipeline(key, num_inference_steps=2, seed=1)
    # The last bit of float32 may round the other way.
    assert np.abs(whole.astype(int) - tiled).max() <= 1


def test_no_pixel_sees_farther_than_the_margin_of_tiles(pipeline: RefinerPipeline) -> None:
    network, side = pipeline.refiner, 512
    inputs = [torch.zeros(1, c, side, side, requires_grad=True) for c in (3, 4)]
    network(inputs[0], torch.ones(1), inputs[1], torch.zeros(1, 2))[..., 256, 256].sum().backward()
    gradient = inputs[1].grad
    assert gradient is not None
    seen = torch.nonzero(gradient[0].abs().sum(0))
    assert (seen - 256).abs().max() <= network.reach


def test_untrained_network_shows_the_picture(key: Keyframe) -> None:
    fresh = RefinerPipeline(CompactRefiner().eval())
    assert np.array_equal(fresh(key, num_inference_steps=1), key.picture)


def test_quantizer_size_and_gain_are_heard(pipeline: RefinerPipeline, key: Keyframe) -> None:
    shown = pipeline(key, seed=1)
    for change in ({"quantizer": 0.1}, {"size": 0.5}, {"gain": 0 * key.gain}):
        assert not np.array_equal(shown, pipeline(replace(key, **change), seed=1))


def test_model_id_is_the_hash_of_the_weights() -> None:
    content = WEIGHTS["compact"].read_bytes()
    assert model_id("compact") == sha256(content).digest()[:4]


def test_sizes_stay_within_bounds() -> None:
    shipped = load_pipeline(WEIGHTS["compact:nano"]).refiner
    side = 64
    with torch.device("meta"):
        network = CompactRefiner(**SIZES["nano"])
        inputs = [torch.zeros(1, 3, side, side), torch.ones(1), torch.zeros(1, 4, side, side)]
        with FlopCounterMode(display=False) as counter:
            network(*inputs, torch.zeros(1, 2))
        base = CompactRefiner(**SIZES["base"]), PRIORS["x4plus"]()
    assert counter.get_total_flops() / side**2 <= 100_000
    assert sum(p.numel() for n in base for p in n.parameters()) * 2 <= 40e6  # bytes in bfloat16
    count = sum(p.numel() for p in network.parameters())
    assert sum(p.numel() for p in shipped.parameters()) == count


def test_errors_name_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="compact"):
        load_refiner("grand")
    with pytest.raises(
        ConfigError, match="unknown refiner 'compact:grand'; take restorer, compact"
    ):
        load_refiner("compact:grand")
    for name in ("no_such_module:Refiner", "::", ".:Refiner"):
        with pytest.raises(ConfigError, match="write module:Class"):
            load_refiner(name)
    with pytest.raises(ConfigError, match="cuda"):
        load_refiner("compact", "tpu")
    with pytest.raises(MissingModelError, match="json"):
        load_refiner(f"{tmp_path}/none.safetensors")
    with pytest.raises(ConfigError, match="num_inference_steps"):
        CompactBackend("compact").refine(coded(source(16, 16)), steps=0, seed=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="cpu"):
        load_refiner("compact", "cuda")
    monkeypatch.setitem(WEIGHTS, "compact", tmp_path / "none.safetensors")
    with pytest.raises(MissingModelError, match="reinstall"):
        load_refiner("compact")


@pytest.mark.parametrize("suffix", [".safetensors", ".json"])
def test_weights_that_gsvc_did_not_come_with_are_refused(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(WEIGHTS["compact"].parent, tmp_path / "weights"))
    monkeypatch.setitem(WEIGHTS, "compact", copy / "nano.safetensors")
    load_refiner("compact")
    damaged = copy / f"nano{suffix}"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b" ")
    with pytest.raises(MissingModelError, match="damaged or not what this gsvc came with"):
        load_refiner("compact")


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    copy = Path(shutil.copy(WEIGHTS["compact"], tmp_path))
    copy.with_suffix(".json").write_text('{"embedding": 32}')
    with pytest.raises(MissingModelError, match="does not fit the network of this version"):
        load_refiner(str(copy)).load()


@pytest.mark.parametrize("settings", ["{", "[1]", '{"colour": 3}', '{"channels": "abc"}', None])
def test_damaged_weights_of_a_user_are_refused_in_words(
    settings: str | None, tmp_path: Path
) -> None:
    copy = Path(shutil.copy(WEIGHTS["compact"], tmp_path))
    if settings is None:
        copy.write_bytes(copy.read_bytes()[:1000])
    copy.with_suffix(".json").write_text(settings or "{}")
    with pytest.raises(MissingModelError, match="train it anew with gsvc train"):
        load_refiner(str(copy)).load()


@pytest.mark.parametrize("steps", [1, 2, 4, 8])
def test_sampler_ends_on_a_perfect_models_frame(steps: int) -> None:
    truth, start = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)
    end = walk(lambda state, sigma: truth, start, noise_levels(steps))
    assert torch.allclose(end, truth, atol=1e-5)


def test_noise_is_the_seeds_alone() -> None:
    a, b = (noise_field(8, 8, seed=9, deviation=1.0) for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, noise_field(8, 8, seed=10, deviation=1.0))


def test_conditions_say_what_training_said(key: Keyframe) -> None:
    from gsvc.decoders.training.packs import Pack
    from gsvc.decoders.training.tasks import given_to, held_pictures

    small = _cut(key, 128, 128)
    picture = torch.from_numpy(small.picture).permute(2, 0, 1)[None]
    gain = torch.from_numpy(small.gain * 128).round().byte()[None, None]
    scalars = torch.tensor([[small.quantizer, small.size]]).half()
    stacks = {"truth": picture, "given": picture, "gain": gain}
    pack = Pack({}, stacks, {"scalars": scalars}, {})
    (trained,) = held_pictures(pack, torch.tensor([0]), 1)
    shown = conditions(small)
    assert torch.allclose(shown[0], given_to(trained, {}, with_gradient=False), atol=0.5 / 128)
    assert torch.allclose(shown[1], trained["scalars"], atol=1e-3)


def _cut(key: Keyframe, height: int, width: int) -> Keyframe:
    part = slice(0, height), slice(0, width)
    return replace(key, picture=np.ascontiguousarray(key.picture[part]), gain=key.gain[part])
