"""gsvc, its ablation and the floors as codecs of the benchmark."""

import io
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gsvc.codec.bitstream.stream_info import read_info
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.baselines import code_hash as hashes
from gsvc.eval.baselines.base import Settings
from gsvc.eval.baselines.code_hash import own_hash, used_modules
from gsvc.eval.baselines.gsvc import (
    ALL_TOOLS,
    NO_TOOLS,
    Gsvc,
    GsvcLayers,
    HoldFloor,
    MotionFloor,
    key_frames,
)
from gsvc.eval.compute import count_flops
from needs import need, need_models


@pytest.fixture(scope="module")
def moving() -> TestClip:
    y, x = np.mgrid[0:64, 0:96]
    frames = [
        np.stack([128 + 90 * np.sin((x + 3 * i) / 9), y * 2, (x + y) % 256], 2).astype(np.uint8)
        for i in range(14)
    ]
    return TestClip("moving", frames, Fraction(25))


def test_hold_shows_the_latest_key_picture(moving: TestClip) -> None:
    codec = HoldFloor(level=3)
    settings = codec.rate_points()[0]
    data = codec.encode(moving, settings).data
    assert data == MotionFloor(level=3).encode(moving, settings).data
    held = codec.decode(data, moving.format, settings, {}).frames
    moved = MotionFloor(level=3).decode(data, moving.format, settings, {"steps": 0}).frames
    keys = key_frames(read_info(io.BytesIO(data)))
    assert len(keys) > 1
    for index, frame in enumerate(held):
        latest = max((key for key in keys if key <= index), default=keys[0])
        assert np.array_equal(frame, moved[latest])


def test_floors_carry_no_scaffold(moving: TestClip) -> None:
    codec = MotionFloor(level=2)
    ledger = codec.encode(moving, codec.rate_points()[0]).ledger
    assert not any(ledger[layer] for layer in ("segmentation", "pose", "flow", "texture", "camera"))


def test_each_layer_is_left_out_and_only_the_whole_is_refined() -> None:
    codec = GsvcLayers(level=2, steps=(0, 1))
    points = codec.rate_points()
    assert [point["tools"] for point in points] == [
        NO_TOOLS,
        "pose-flow-texture-camera-guide",
        "segmentation-flow-texture-camera-guide",
        "segmentation-pose-texture-camera-guide",
        "segmentation-pose-flow-camera-guide",
        "segmentation-pose-flow-texture-guide",
        "segmentation-pose-flow-texture-camera",
        ALL_TOOLS,
    ]
    ways = [[way["steps"] for way in codec.ways_to_decode(point)] for point in points]
    assert ways == [[0]] * 7 + [[0, 1]]


def test_seeds_are_ways_to_decode_what_is_sampled() -> None:
    assert Gsvc(steps=(0, 1)).ways_to_decode({}) == [{"steps": 0}, {"steps": 1}]
    ways = Gsvc(steps=(0, 1), seed=(3, 4)).ways_to_decode({})
    assert ways == [{"steps": 0}, {"steps": 1, "seed": 3}, {"steps": 1, "seed": 4}]


def test_a_rate_can_be_asked_for(moving: TestClip) -> None:
    codec = Gsvc(bpp=(0.01, 0.03), tools=NO_TOOLS, preset="fast")
    low, high = (len(codec.encode(moving, point).data) for point in codec.rate_points())
    assert low < high


def test_version_names_libraries_and_the_weights_that_are_used() -> None:
    assert MotionFloor().version() == HoldFloor().version()
    assert "opencv" in MotionFloor().version() and "torch" not in MotionFloor().version()
    versions = [
        codec.version() for codec in (MotionFloor(), GsvcLayers(), Gsvc(), Gsvc(model="base"))
    ]
    assert len(set(versions)) == 3 and versions[2] == versions[3]


@pytest.mark.slow
def test_the_code_hash_covers_what_coding_loads() -> None:
    need_models()
    script = """
import sys
from fractions import Fraction
import numpy as np
import gsvc
video = gsvc.VideoFormat(96, 64, Fraction(1, 25), Fraction(25))
encoder = gsvc.Encoder(video, gsvc.EncoderSettings(level=1, preset="fast"))
pixels = np.random.default_rng(1).integers(0, 255, (9, 64, 96, 3)).astype(np.uint8)
frames = [gsvc.Frame(one, pts) for pts, one in enumerate(pixels)]
packets = [packet for frame in frames for packet in encoder.encode(frame)]
decoder = gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=1))
for packet in [*packets, *encoder.flush()]:
    decoder.decode(packet)
loaded = (name for name in sys.modules if name.startswith("gsvc"))
print(*(name for name in loaded if not hasattr(sys.modules[name], "__path__")))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    used = set(used_modules())
    assert set(done.stdout.split()) <= used
    aside = ("gsvc.codec.network", "gsvc.codec.command", "gsvc.codec.api.encode_", "gsvc.eval")
    assert not [name for name in used if name.startswith(aside)]


@pytest.mark.slow
def test_comments_and_docstrings_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    read, before = Path.read_text, own_hash()

    def hash_with(more: str) -> str:
        monkeypatch.setattr(
            Path, "read_text", lambda path: read(path) + (more if path.suffix == ".py" else "")
        )
        return own_hash()

    assert hash_with('\n\n# why\n"""A string that stands alone."""\n') == before
    assert hash_with("\n_MORE = 1\n") != before


@pytest.mark.slow
def test_code_that_was_shown_to_make_the_same_bytes_keeps_the_hash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hash_now = hashes.code_hash.__wrapped__
    monkeypatch.setattr(hashes, "SAME_BYTES", tmp_path / "same.json")
    hashes.SAME_BYTES.write_text(json.dumps({"code": own_hash(), "as": "the older"}))
    assert hash_now() == "the older"
    monkeypatch.setattr(hashes, "code_hash", hash_now)
    page = tmp_path / "summary.md"
    page.write_text(f"| gsvc | codec |  gsvc 0.1.0 {own_hash()}-c5ae38f9-999b59a9, av 18 |")
    assert "was not shown to give the same bytes" in next(hashes.measured_by(page))
    hashes.SAME_BYTES.write_text(json.dumps({"code": own_hash(), "as": own_hash()}))
    assert "gives the same bytes" in next(hashes.measured_by(page))
    hashes.SAME_BYTES.write_text(json.dumps({"code": "another", "as": "the older"}))
    assert hash_now() == own_hash()


def test_cost_is_what_decoding_really_runs(moving: TestClip) -> None:
    codec = Gsvc(level=1, steps=(0, 2), model="nano")
    settings = codec.rate_points()[0]
    with need("models"):
        data = codec.encode(moving, settings).data
    way: Settings = {"steps": 2, "model": "nano"}
    run = count_flops(lambda: codec.decode(data, moving.format, settings, way))
    cost = codec.compute(data, moving.format, settings, way)
    assert cost is not None
    assert cost.flops_per_pixel * 14 * 64 * 96 == pytest.approx(run)
    assert cost.model_bytes > 1_000_000
    nothing = codec.compute(data, moving.format, settings, {"steps": 0})
    assert nothing is not None and nothing.flops_per_pixel == 0
