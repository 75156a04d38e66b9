"""The synthetic set: its true motion is the true motion, and the decoder's estimator finds it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from gsvc.codec.errors import ConfigError
from gsvc.datasets.sets import find_clips
from gsvc.datasets.synthetic import FRAMES, HEIGHT, SCENES, WIDTH
from gsvc.decoders.motion.estimation import Flow, dense_flow, gray, pixel_grid, warp


def _endpoint_error(name: str, index: int, to: int) -> NDArray[np.float64]:
    """Of the decoder's estimator, in pixels, where there is something to find."""
    scene = SCENES[name]
    found = dense_flow(gray(scene.frame(index)), gray(scene.frame(to)))
    error = found - scene.true_flow(index, to)
    distance: NDArray[np.float64] = np.hypot(error[..., 0], error[..., 1]).astype(np.float64)
    return distance[scene.visible(index, to)]


def _warp_error(name: str, index: int, to: int, flow: Flow) -> float:
    """Distance in grey levels of frame `index` from frame `to` looked up where the flow points."""
    scene = SCENES[name]
    back = warp(scene.frame(to), pixel_grid(HEIGHT, WIDTH) + flow).astype(float)
    seen = scene.visible(index, to)
    return float(abs(back - scene.frame(index))[seen].mean())


@pytest.mark.parametrize("name", ["pan", "turn", "occlusion", "cut"])
@pytest.mark.parametrize("step", [1, 4, -3])
def test_true_flow_leads_to_the_same_picture(name: str, step: int) -> None:
    flow = SCENES[name].true_flow(20, 20 + step)
    right = _warp_error(name, 20, 20 + step, flow)
    assert right < 2.0
    assert right < 0.3 * _warp_error(name, 20, 20 + step, np.zeros_like(flow))


@pytest.mark.parametrize(("first", "last"), [(5, 6), (30, 34)])
def test_the_decoder_finds_a_translation_within_a_fraction_of_a_pixel(
    first: int, last: int
) -> None:
    flow = SCENES["pan"].true_flow(first, last)
    np.testing.assert_allclose(flow[100, 100], (last - first) * np.array([2.25, -0.75]), atol=1e-5)
    error = _endpoint_error("pan", first, last)
    assert np.median(error) < 0.1
    assert np.percentile(error, 95) < 0.25


@pytest.mark.parametrize("name", ["turn", "occlusion", "flash"])
def test_the_decoder_finds_other_motion(name: str) -> None:
    assert np.percentile(_endpoint_error(name, 10, 14), 90) < 0.25


def test_what_the_disc_hides_is_not_visible() -> None:
    scene = SCENES["occlusion"]
    hidden = ~scene.visible(20, 24)
    disc = np.isclose(scene.true_flow(20, 24)[..., 0], 4 * 3.25)
    assert 10_000 < disc.sum() < 12_000  # 60 pixels of radius
    assert not (hidden & disc).any()
    # The disc comes 15 pixels nearer to the ground; it covers a crescent as high as itself.
    inner = hidden[20:-20, 20:-20]
    assert 0.8 * 15 * 120 < inner.sum() < 1.2 * 15 * 120
    assert _warp_error("occlusion", 20, 24, scene.true_flow(20, 24)) < 2.0


def test_nothing_is_to_be_found_across_a_cut() -> None:
    scene = SCENES["cut"]
    assert np.isnan(scene.true_flow(40)).all()
    assert not scene.visible(40).any()
    assert np.isfinite(scene.true_flow(39)).all()
    np.testing.assert_allclose(scene.true_flow(41)[0, 0], (0, -1), atol=1e-6)
    assert abs(np.subtract(scene.frame(41), scene.frame(40), dtype=int)).mean() > 30


def test_still_and_flash() -> None:
    still, flash = SCENES["still"], SCENES["flash"]
    np.testing.assert_array_equal(still.frame(0), still.frame(FRAMES - 1))
    assert not still.true_flow(0, 100).any()
    means = [flash.frame(index).mean() for index in (28, 29, 30, 31, 32)]
    assert means[2] - means[1] > 40 and means[3] - means[4] > 40 and abs(means[0] - means[1]) < 3


def test_clips_are_the_scenes_and_repeat() -> None:
    for source in find_clips(["synthetic"]):
        clip = source.load("native", 3)
        assert clip.frames[2].shape == (HEIGHT, WIDTH, 3)
        np.testing.assert_array_equal(clip.frames[2], SCENES[source.name].frame(2))
        assert clip.frame_rate == 25
    assert find_clips(["synthetic/pan"])[0].load("480", 1).format.height == 480


def test_outside_the_clip() -> None:
    for index, to in ((-1, 0), (FRAMES - 1, FRAMES)):
        with pytest.raises(ConfigError, match="0 to 120"):
            SCENES["pan"].true_flow(index, to)
