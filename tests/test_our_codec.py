"""gsvc, its ablation and the floors as codecs of the benchmark."""

import io
from fractions import Fraction

import numpy as np
import pytest

from gsvc.codec.stream.info import read_info
from gsvc.datasets.clips import TestClip
from gsvc.eval.codecs.floors import Hold, Motion
from gsvc.eval.codecs.ours import ALL_TOOLS, NO_TOOLS, Gsvc, GsvcLayers, key_frames
from gsvc.eval.compute import count_flops
from needs import need


@pytest.fixture(scope="module")
def moving() -> TestClip:
    y, x = np.mgrid[0:64, 0:96]
    frames = [
        np.stack([128 + 90 * np.sin((x + 3 * i) / 9), y * 2, (x + y) % 256], 2).astype(np.uint8)
        for i in range(14)
    ]
    return TestClip("moving", frames, Fraction(25))


def test_hold_shows_the_latest_key_picture(moving: TestClip) -> None:
    codec = Hold(level=3)
    settings = codec.rate_points()[0]
    data = codec.encode(moving, settings).data
    assert data == Motion(level=3).encode(moving, settings).data
    held = codec.decode(data, moving.format, settings, {}).frames
    moved = Motion(level=3).decode(data, moving.format, settings, {"steps": 0}).frames
    keys = key_frames(read_info(io.BytesIO(data)))
    assert len(keys) > 1
    for index, frame in enumerate(held):
        latest = max((key for key in keys if key <= index), default=keys[0])
        assert np.array_equal(frame, moved[latest])


def test_floors_carry_no_scaffold(moving: TestClip) -> None:
    codec = Motion(level=2)
    ledger = codec.encode(moving, codec.rate_points()[0]).ledger
    assert not any(ledger[layer] for layer in ("segmentation", "pose", "flow", "texture", "camera"))


def test_each_layer_is_left_out_and_only_the_whole_is_refined() -> None:
    codec = GsvcLayers(level=2, steps=(0, 1, 8))
    points = codec.rate_points()
    assert [point["tools"] for point in points] == [
        NO_TOOLS,
        "pose-flow-texture-camera",
        "segmentation-flow-texture-camera",
        "segmentation-pose-texture-camera",
        "segmentation-pose-flow-camera",
        "segmentation-pose-flow-texture",
        ALL_TOOLS,
    ]
    ways = [[way["steps"] for way in codec.ways_to_decode(point)] for point in points]
    assert ways == [[0]] * 6 + [[0, 1, 8]]


def test_seeds_are_ways_to_decode_what_is_sampled() -> None:
    assert Gsvc(steps=(0, 1)).ways_to_decode({}) == [{"steps": 0}, {"steps": 1}]
    ways = Gsvc(steps=(0, 1), seed=(3, 4)).ways_to_decode({})
    assert ways == [{"steps": 0}, {"steps": 1, "seed": 3}, {"steps": 1, "seed": 4}]


def test_a_rate_can_be_asked_for(moving: TestClip) -> None:
    codec = Gsvc(bpp=(0.01, 0.03), tools=NO_TOOLS)
    low, high = (len(codec.encode(moving, point).data) for point in codec.rate_points())
    assert low < high


def test_version_names_the_state_of_the_code() -> None:
    assert Gsvc().version() == Motion().version()
    assert "opencv" in Gsvc().version()


def test_cost_is_what_decoding_really_runs(moving: TestClip) -> None:
    codec = Gsvc(level=1, steps=(0, 2))
    settings = codec.rate_points()[0]
    with need("models"):
        data = codec.encode(moving, settings).data
    way = {"steps": 2}
    run = count_flops(lambda: codec.decode(data, moving.format, settings, way))
    cost = codec.compute(data, moving.format, settings, way)
    assert cost is not None
    assert cost.flops_per_pixel * 14 * 64 * 96 == pytest.approx(run.count)
    assert cost.model_bytes > 1_000_000
    assert {"AV1 decoding", "silu"} <= set(cost.not_counted)
    nothing = codec.compute(data, moving.format, settings, {"steps": 0})
    assert nothing is not None and nothing.flops_per_pixel == 0
