"""Refiners, priors and their speeds on every device that is here.

Each test of a device runs on the CPU too, so that it is known to work where a GPU is.
"""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from commands import run_gsvc
from gsvc import DeviceError, Picture
from gsvc.codec.weights import model_files
from gsvc.decoders.interpolation.rife import between, load_rife
from gsvc.decoders.keyframes import devices
from gsvc.decoders.keyframes.backends import check_device, load_refiner
from gsvc.decoders.keyframes.compact import pipeline as pipelines
from gsvc.decoders.keyframes.compact.backend import WEIGHTS, CompactBackend, load_pipeline
from gsvc.decoders.keyframes.compact.network import SIZES, CompactRefiner
from gsvc.decoders.keyframes.compact.pipeline import RefinerPipeline, noise_field
from gsvc.decoders.keyframes.devices import bfloat16_pays
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.priors.prior_drawings import drawings, load_prior
from gsvc.decoders.keyframes.priors.prior_networks import PRIORS
from gsvc.decoders.keyframes.refiner import WindowRefiner, enough_memory
from gsvc.decoders.keyframes.restorer.network import detail_bands
from gsvc.decoders.keyframes.windowed import window_frames as windowed
from gsvc.decoders.keyframes.windowed.window_network import WindowRestorer
from gsvc.eval.bench.speed import MOTION, measure, timed
from needs import need, need_gpu

TOLERANCE = 2
"""Gray levels by which a pixel on a GPU may differ from the CPU's (docs/limits.md)."""
MEAN_TOLERANCE = 0.2
"""The same for the mean of a picture's pixels."""
NOISE = 4
NAMES = [
    name if name == "compact:nano" else pytest.param(name, marks=pytest.mark.slow)
    for name in sorted(set(WEIGHTS) - {"compact"})
]
PRIOR_NAMES = "animevideov3", pytest.param("x4plus", marks=pytest.mark.slow)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda":
        need_gpu()
    return str(request.param)


def key_picture(width: int = 90, height: int = 66, shift: int = 0) -> Keyframe:
    """Waves, edges and grain, as damaged as a key picture may be."""
    y, x = np.mgrid[:height, :width].astype(np.float64)
    waves = [np.sin((x + shift) / (4 + k)) * np.cos(y / (5 + k)) for k in range(3)]
    edges = 60 * np.sign(np.sin((x + shift) / 17 + y / 23))[..., None]
    grain = np.random.default_rng(3).normal(0, 8, (height, width, 1))
    picture = np.clip(128 + 50 * np.dstack(waves) + edges + grain, 0, 255).astype(np.uint8)
    return Keyframe(picture, np.full((height, width), 0.5, np.float32), 0.8, 1.0)


def extreme_picture() -> Keyframe:
    """Pixels of black and full colour at random: nothing makes the networks' values larger.

    Networks change it by up to 80 gray levels on average, so rounding counts NOISE times as much.
    """
    colors = np.random.default_rng(1).integers(0, 2, (64, 96, 3)).astype(np.uint8) * 255
    return Keyframe(colors, np.full((64, 96), 1.75, np.float32), 1.0, 1.0)


def assert_near(picture: Picture, truth: Picture, times: int = 1) -> None:
    difference = np.abs(picture.astype(int) - truth)
    assert difference.max() <= times * TOLERANCE
    assert difference.mean() <= times * MEAN_TOLERANCE


@pytest.mark.parametrize("name", NAMES)
def test_a_refiner_shows_the_same_on_every_device(name: str, device: str) -> None:
    steps = 1 if name == "compact:base" else 4
    here, there = (CompactBackend(name, place) for place in ("cpu", device))
    with need("prior"):
        _ = here.files
    for key, times in ((key_picture(), 1), (extreme_picture(), NOISE)):
        shown = there.refine(key, steps=steps, seed=5)
        assert_near(shown, here.refine(key, steps=steps, seed=5), times)
        assert np.array_equal(shown, there.refine(key, steps=steps, seed=5))


@pytest.mark.parametrize("tile", [640, pytest.param(48, marks=pytest.mark.slow)])
def test_windows_are_restored_the_same_on_every_device(
    tile: int, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(3)
    network = WindowRestorer(channels=(8, 16, 16), blocks=(1, 1, 1))
    nn.init.normal_(network.leave.weight, std=0.01)
    save_file(network.state_dict(), tmp_path / "it.safetensors")
    about = {"_class_name": "WindowRestorer", **network.settings}
    (tmp_path / "it.json").write_text(json.dumps(about))
    monkeypatch.setattr(windowed, "WHOLE_PIXELS", 100 * tile)
    monkeypatch.setattr(windowed, "_TILE", tile)
    frames = np.stack([key_picture(shift=2 * index).picture for index in range(9)])
    keys, trust = {0: frames[0], 8: frames[8]}, np.full(frames.shape[:3], 0.7, np.float32)
    shown = []
    for place in ("cpu", device, device):
        refiner = load_refiner(f"{tmp_path}/it.safetensors", place)
        assert isinstance(refiner, WindowRefiner)
        shown.append(np.stack(refiner.restore(frames, keys, trust, steps=1, seed=5)))
    assert not np.array_equal(shown[0], frames)
    assert_near(shown[1], shown[0])
    assert np.array_equal(shown[1], shown[2])


def test_learned_motion_draws_the_same_on_every_device(device: str) -> None:
    with need("models"):
        here, there = load_rife(), load_rife(device)
    left, right = (key_picture(shift=shift).picture for shift in (0, 6))
    shown = between(there, left, right, 0.5)
    # At its edge the mask may choose the other picture: a few pixels may be far off.
    difference = np.abs(shown.astype(int) - between(here, left, right, 0.5))
    assert np.quantile(difference, 0.99) <= TOLERANCE and difference.mean() <= MEAN_TOLERANCE
    assert np.array_equal(shown, between(there, left, right, 0.5))


@pytest.mark.parametrize("name", PRIOR_NAMES)
def test_a_prior_draws_the_same_on_every_device(name: str, device: str) -> None:
    with need("prior"):
        here, there = load_prior(name), load_prior(name, device)
    for key in (key_picture(96, 64), extreme_picture()):
        given = torch.tensor(key.picture).permute(2, 0, 1)[None] / 127.5 - 1
        drawn = drawings(there, given.to(device)).cpu()
        difference = 127.5 * (drawn - drawings(here, given)).abs()
        assert drawn.dtype == torch.float32
        assert difference.max() <= TOLERANCE and difference.mean() <= MEAN_TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_enough(name: str) -> None:
    """What a GPU does, by the CPU: rounding hardly shows, and no value is too large."""
    with need("prior"):
        _ = CompactBackend(name).files
    single, half = (load_pipeline(WEIGHTS[name]) for _ in range(2))
    for network in filter(None, (half.refiner, half.prior)):
        nn.Module.half(network)
    for key, times in ((key_picture(48, 40), 1), (extreme_picture(), NOISE)):
        truth = single(key, num_inference_steps=1, seed=5)
        with torch.autocast("cpu", torch.float16):
            assert_near(half(key, num_inference_steps=1, seed=5), truth, times)


def test_bands_stay_in_single_precision(device: str) -> None:
    picture = torch.linspace(-1, 1, 3 * 32 * 40, device=device).view(1, 3, 32, 40)
    with torch.autocast(device, torch.bfloat16):
        rounded = detail_bands(picture)
    for band, truth in zip(rounded, detail_bands(picture), strict=True):
        assert band.dtype == torch.float32 and torch.equal(band, truth)


def test_noise_is_the_same_on_every_device(device: str) -> None:
    here = noise_field(24, 40, seed=9, deviation=0.1)
    there = noise_field(24, 40, seed=9, deviation=0.1, device=device)
    assert there.device.type == device
    assert torch.equal(there.cpu(), here)


@pytest.mark.slow
def test_tiles_do_not_show_on_any_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, key = load_pipeline(WEIGHTS["compact:nano"], device), key_picture(200, 136)
    whole = pipeline(key, num_inference_steps=2, seed=1)
    monkeypatch.setattr(pipelines, "WHOLE_PIXELS", 0)
    monkeypatch.setattr(pipelines, "_TILE", 48)
    assert_near(pipeline(key, num_inference_steps=2, seed=1), whole)


def test_pictures_at_once_are_as_alone(device: str) -> None:
    pipeline = load_pipeline(WEIGHTS["compact:nano"], device)
    keys = [key_picture(), replace(key_picture(shift=9), quantizer=0.4)]
    together = pipeline.together(keys, num_inference_steps=2, seed=4)
    for key, shown in zip(keys, together, strict=True):
        assert_near(shown, pipeline(key, num_inference_steps=2, seed=4))


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_all_that_a_gpu_computes_with_is_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU of torch's imagination: tensors with a device and a shape, but no values."""
    shown: list[torch.Tensor] = []
    monkeypatch.setattr(pipelines, "pictures_of", shown.append)
    with FakeTensorMode(allow_non_fake_inputs=True):
        with torch.device("cuda"):
            network, prior = CompactRefiner(**SIZES["small"]), PRIORS["animevideov3"]()
        pipeline = RefinerPipeline(network, prior)
        pipeline.together([key_picture(), key_picture()], num_inference_steps=2)
        monkeypatch.setattr(pipelines, "WHOLE_PIXELS", 0)
        pipeline(key_picture(), num_inference_steps=1)
    assert [(one.device.type, *one.shape) for one in shown] == [("cuda", 1, 3, 66, 90)] * 3


@pytest.mark.slow
def test_1080p_takes_no_more_than_a_small_gpu_has(device: str) -> None:
    refiner, key = CompactBackend("compact", device), key_picture(1920, 1080)
    refiner.load()
    memory = timed(lambda: refiner.refine(key, steps=1, seed=0), device).memory
    assert memory is not None and 100e6 < memory < 2e9


@pytest.mark.slow
def test_speeds_are_measured_on_every_device(device: str) -> None:
    subjects = MOTION, "compact:nano", "no_such_module:Refiner"
    motion, nano, missing = measure(subjects, (64,), device)
    assert motion.device == "cpu" and motion.motion_frames == 1 and motion.flops is None
    assert nano.device == device and nano.seconds and nano.motion_frames
    assert nano.flops and 90e3 < nano.flops < 120e3
    # Work is counted once, with the sides as padded; a busy machine only lowers what is reached.
    assert nano.share and 0 < nano.share < 2
    assert nano.together > 1 and nano.rate_together
    assert missing.seconds is None and "no_such_module" in missing.reason


@pytest.mark.slow
def test_the_command_makes_a_table_or_json(device: str) -> None:
    asked = "bench", "speed", "--size", "64", "--backend", "motion", "--device", device
    table = run_gsvc(*asked).stdout.decode()
    assert "motion (steps 0)" in table and "114x64" in table and "torch" in table
    machine, speed = map(json.loads, run_gsvc(*asked, "--json").stdout.splitlines())
    assert machine["device"] == device and torch.__version__.startswith(
        machine["versions"]["torch"]
    )
    assert (speed["type"], speed["subject"], speed["height"]) == ("speed", "motion", 64)
    assert run_gsvc(*asked[:3], "3").returncode == 2


def test_bfloat16_is_asked_for_and_measured_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[torch.dtype] = []

    def seconds(dtype: torch.dtype) -> float:
        asked.append(dtype)
        return 1.0 if dtype == torch.float32 else 0.4

    monkeypatch.setattr(model_files, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(devices, "_convolution_seconds", seconds)
    monkeypatch.setattr(devices, "has_bfloat16", lambda: False)
    assert not bfloat16_pays.__wrapped__() and not asked
    monkeypatch.setattr(devices, "has_bfloat16", lambda: True)
    assert bfloat16_pays.__wrapped__() and bfloat16_pays.__wrapped__() and len(asked) == 2


def test_bfloat16_on_a_cpu_shows_the_same_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    refiner, key = CompactBackend("compact", "cpu"), key_picture(64, 48)
    shown = {}
    for low in (False, True):
        monkeypatch.setattr(devices, "bfloat16_pays", partial(bool, low))
        shown[low] = refiner.refine(key, steps=1, seed=0).astype(int)
    difference = np.abs(shown[True] - shown[False])
    assert 0 < difference.mean() < 0.3 and difference.max() <= 8


def test_memory_that_runs_out_is_said_in_words() -> None:
    said = "cuda has not enough free memory for this: take cpu"
    with pytest.raises(DeviceError, match=said), enough_memory("cuda"):
        raise torch.OutOfMemoryError


@pytest.mark.gpu
def test_a_full_gpu_is_a_device_error() -> None:
    need_gpu()
    refiner = CompactBackend("compact", "cuda")
    refiner.load()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties("cuda").total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_allocated() + 1e6) / total)
    try:
        with pytest.raises(DeviceError, match="not enough free memory"):
            refiner.refine(key_picture(1280, 720), steps=1, seed=0)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert refiner.refine(key_picture(), steps=1, seed=0).shape == (66, 90, 3)


@pytest.mark.gpu
def test_a_gpu_that_is_not_there_is_a_device_error() -> None:
    need_gpu()
    with pytest.raises(DeviceError, match="cuda:99 is not there"):
        check_device("cuda:99")
