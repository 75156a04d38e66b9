"""The compact refiner: what a viewer sees of it, and what its stream and its users may rely on."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from torch.utils.flop_counter import FlopCounterMode

from gsvc.codec.errors import ConfigError, DeviceError, InputError, MissingModelError
from gsvc.codec.frames import Color, Picture
from gsvc.codec.scaffold import Interval
from gsvc.decoders import pipeline as pipelines
from gsvc.decoders import refiner
from gsvc.decoders.compact import CompactRefiner
from gsvc.decoders.pictures import PictureDecoder
from gsvc.decoders.pipeline import RefinerPipeline, conditions
from gsvc.decoders.refiner import load_pipeline, load_refiner, model_id
from gsvc.decoders.rendering import IntervalRenderer, Rendering, still_rendering
from gsvc.decoders.samplers import euler, noise_field, noise_levels, walk
from gsvc.encoders.pictures import encode_pictures

SPACING, CRF = 6, 50


def frame(index: int, width: int = 200, height: int = 136) -> Picture:
    """A textured scene that a camera pans over, two pixels a frame."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    x += 2 * index
    grain = np.random.default_rng(7).normal(0, 40, (height // 2, 300))
    grain = cv2.resize(grain, (600, height), interpolation=cv2.INTER_CUBIC)
    grain = grain[:, 2 * index : 2 * index + width]
    waves = 120 + 50 * np.sin(x / 9) * np.cos(y / 13) + 30 * np.sign(np.sin(x / 23 + y / 31))
    return np.clip(np.dstack([waves + grain, waves + 0.8 * grain, 200 - waves / 2]), 0, 255).astype(
        np.uint8
    )


def interval_renderings(first: Picture, last: Picture) -> list[Rendering]:
    """Renderings of an interval as a decoder makes them: coded key pictures, estimated motion."""
    color, keys = Color(matrix=1), [first, last]
    size = keys[0].shape[1], keys[0].shape[0]
    units = encode_pictures(keys, size=size, crf=CRF, color=color, preset=10)
    decoder = PictureDecoder(size, color)
    left, right = (decoder.decode(unit, size) for unit in units)
    renderer = IntervalRenderer(left, right, Interval((1,) * SPACING), None, CRF / 63)
    between = [renderer.render(offset) for offset in range(1, SPACING)]
    return [*between, still_rendering(right, None, CRF / 63)]


@pytest.fixture(scope="module")
def renderings() -> list[Rendering]:
    return interval_renderings(frame(0), frame(SPACING))


@pytest.fixture(scope="module")
def pipeline() -> RefinerPipeline:
    """A small network whose last layer is not zero, so that everything in it shows."""
    torch.manual_seed(3)
    network = CompactRefiner(channels=(8, 16, 16), embedding=16).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    return RefinerPipeline(network, FlowMatchEulerDiscreteScheduler())


def test_zero_steps_show_the_rendering_without_torch(renderings: list[Rendering]) -> None:
    shown = list(load_refiner("compact", "cpu").refine(renderings, steps=0, seed=1))
    assert all(np.array_equal(a, r.picture) for a, r in zip(shown, renderings, strict=True))
    code = (
        "import sys; from gsvc.decoders.refiner import load_refiner, model_id; model_id();"
        "list(load_refiner().refine([], steps=0, seed=0)); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_trained_weights_bring_frames_nearer_to_the_source() -> None:
    pytest.importorskip("stlpips_pytorch")
    from gsvc.datasets.packaged import load_clip, packaged_clip
    from gsvc.eval.metrics import st_lpips

    try:
        path = packaged_clip("carphone", download=False)
    except InputError as error:
        pytest.skip(str(error))
    truth, _ = load_clip(path, frames=SPACING + 1)
    given = interval_renderings(truth[0], truth[-1])
    backend = load_refiner()
    scores = [
        st_lpips(truth[1:], list(backend.refine(given, steps=steps, seed=1)), "vgg").mean()
        for steps in (0, 1)
    ]
    assert scores[1] < scores[0]


def test_same_seed_same_pictures_and_one_window_does_not_hold_the_others(
    renderings: list[Rendering],
) -> None:
    taken = 0

    def source() -> Iterator[Rendering]:
        nonlocal taken
        for rendering in renderings * 3:
            taken += 1
            yield rendering

    backend = load_refiner()
    stream = backend.refine(source(), steps=1, seed=5)
    first = next(stream)
    assert taken == refiner.WINDOW
    rest = [first, *stream]
    again = list(load_refiner().refine(renderings * 3, steps=1, seed=5))
    other = list(backend.refine(renderings * 3, steps=1, seed=6))
    assert len(rest) == 3 * SPACING
    assert all(np.array_equal(a, b) for a, b in zip(rest, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(rest, other, strict=True))


@pytest.mark.parametrize("count", range(1, 10))
def test_every_rendering_gives_one_picture(count: int, renderings: list[Rendering]) -> None:
    small = [_cut(r, 16, 16) for r in renderings]
    shown = list(load_refiner().refine((small * 2)[:count], steps=1, seed=0))
    assert [p.shape for p in shown] == [(16, 16, 3)] * count


@pytest.mark.parametrize("size", [(1, 1), (17, 33), (135, 199)])
def test_any_size_comes_back_in_that_size(
    size: tuple[int, int], renderings: list[Rendering]
) -> None:
    (shown,) = load_refiner().refine([_cut(renderings[0], *size)], steps=2, seed=0)
    assert shown.shape == (*size, 3) and shown.dtype == np.uint8


def test_tiles_do_not_show(
    pipeline: RefinerPipeline, renderings: list[Rendering], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pipeline(renderings[:3], num_inference_steps=2, seed=1)
    monkeypatch.setattr(pipelines, "_WHOLE_PIXELS", 0)
    monkeypatch.setattr(pipelines, "_TILE", 48)
    tiled = pipeline(renderings[:3], num_inference_steps=2, seed=1)
    worst = max(np.abs(a.astype(int) - b).max() for a, b in zip(whole, tiled, strict=True))
    assert worst <= 1  # the last bit of float32 may round the other way


def test_untrained_network_shows_the_rendering(renderings: list[Rendering]) -> None:
    fresh = RefinerPipeline(CompactRefiner().eval(), FlowMatchEulerDiscreteScheduler())
    (shown,) = fresh(renderings[:1], num_inference_steps=1)
    assert np.array_equal(shown, renderings[0].picture)


def test_frames_of_a_window_see_each_other_only_through_time_mixing(
    pipeline: RefinerPipeline, renderings: list[Rendering]
) -> None:
    alone = pipeline(renderings[:1], seed=1)[0]
    together = pipeline(renderings[:2], seed=1)[0]
    assert not np.array_equal(alone, together)


def test_pipeline_saves_and_loads(
    pipeline: RefinerPipeline, renderings: list[Rendering], tmp_path: object
) -> None:
    pipeline.save_pretrained(str(tmp_path))
    loaded = RefinerPipeline.from_pretrained(str(tmp_path), local_files_only=True)
    shown = loaded(renderings[:2], num_inference_steps=2, seed=4)
    expected = pipeline(renderings[:2], num_inference_steps=2, seed=4)
    assert all(np.array_equal(a, b) for a, b in zip(shown, expected, strict=True))


def test_model_id_is_the_hash_of_the_weights() -> None:
    content = refiner.BACKENDS["compact"].read_bytes()
    assert model_id("compact") == sha256(content).digest()[:4]


def test_cost_stays_within_bounds() -> None:
    network = load_pipeline(refiner.BACKENDS["compact"]).refiner
    frames, height, width = 4, 64, 96
    inputs = (
        torch.zeros(1, frames, 3, height, width),
        torch.ones(1),
        torch.zeros(1, frames, 11, height, width),
        torch.zeros(1, frames, 3, height // 2, width // 2),
        torch.zeros(1, frames, 2),
    )
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(*inputs)
    assert counter.get_total_flops() / (frames * height * width) <= 60_000
    assert sum(p.numel() for p in network.parameters()) <= 1_000_000


def test_errors_name_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="compact"):
        load_refiner("grand")
    with pytest.raises(ConfigError, match="cuda"):
        load_refiner("compact", "tpu")
    with pytest.raises(ConfigError, match="steps"):
        load_refiner().refine([], steps=-1, seed=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="cpu"):
        load_refiner("compact", "cuda")
    monkeypatch.setitem(refiner.BACKENDS, "compact", tmp_path / "none.safetensors")
    with pytest.raises(MissingModelError, match="reinstall"):
        load_refiner("compact")


@pytest.mark.parametrize("suffix", [".safetensors", ".json"])
def test_weights_that_gsvc_did_not_come_with_are_refused(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(refiner.BACKENDS["compact"].parent, tmp_path / "weights"))
    monkeypatch.setitem(refiner.BACKENDS, "compact", copy / "compact.safetensors")
    load_refiner()
    damaged = copy / f"compact{suffix}"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b" ")
    with pytest.raises(MissingModelError, match="damaged or not what this gsvc came with"):
        load_refiner()


@pytest.mark.parametrize("steps", [1, 2, 4, 8])
def test_sampler_ends_on_a_perfect_models_frame(steps: int) -> None:
    truth, start = torch.rand(1, 2, 3, 8, 8), torch.rand(1, 2, 3, 8, 8)
    end = euler(lambda state, sigma: truth, start, noise_levels(steps))
    assert torch.allclose(end, truth, atol=1e-5)


def test_training_visits_the_states_of_sampling() -> None:
    def denoise(state: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        return 0.5 * state + 0.1 * sigma.view(-1, 1, 1, 1, 1)

    start, sigmas = torch.rand(2, 1, 3, 4, 4), noise_levels(4)
    assert torch.allclose(
        walk(denoise, start, sigmas, 0.0), euler(denoise, start, sigmas), atol=1e-5
    )


def test_noise_is_the_seeds_alone() -> None:
    a, b = (noise_field(8, 8, seed=9, deviation=1.0) for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, noise_field(8, 8, seed=10, deviation=1.0))


def test_conditions_say_what_training_said(renderings: list[Rendering]) -> None:
    pairs = pytest.importorskip("gsvc.decoders.pairs")
    train = pytest.importorskip("gsvc.decoders.train")
    packed = np.stack([pairs.pack(r, r.picture) for r in renderings])[:, :128, :192]
    scalars = np.array([(r.distance, r.quantizer) for r in renderings], np.float32)

    class Keep:
        def random(self) -> float:
            return 1.0

    trained = train.unpack(packed, scalars, Keep())
    shown = conditions([_cut(r, 128, 192) for r in renderings])
    for ours, theirs in zip(shown, trained[:3], strict=True):
        assert torch.allclose(ours[0], theirs, atol=0.5 / 255)


def _cut(rendering: Rendering, height: int, width: int) -> Rendering:
    y, x = slice(0, height), slice(0, width)
    return Rendering(
        picture=rendering.picture[y, x],
        left=rendering.left[y, x],
        right=rendering.right[y, x],
        trust=rendering.trust[y, x],
        labels=rendering.labels[y, x],
        pose=rendering.pose[y, x],
        distance=rendering.distance,
        quantizer=rendering.quantizer,
    )
