"""The synthetic set: its true motion is the true motion, and the decoder's estimator finds it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from gsvc import ConfigError
from gsvc.datasets.clips.sets import find_clips
from gsvc.datasets.clips.synthetic_clips import (
    FRAMES,
    HEIGHT,
    SCENES,
    WIDTH,
    DrawnClip,
    MovingLayer,
    coverage,
    grid,
    moved,
)
from gsvc.decoders.interpolation.optical_flow import Flow, dense_flow, gray, pixel_grid, warp


def true_flow(scene: DrawnClip, index: int, to: int) -> NDArray[np.float32]:
    """Displacement of each pixel from frame `index` to frame `to`, float32 (H, W, 2), in pixels.

    Also of pixels that become hidden or leave the frame; all NaN across a cut.
    """
    if scene.background_at(index) is not scene.background_at(to):
        return np.full((HEIGHT, WIDTH, 2), np.nan, np.float32)
    flow = _displacement(scene.background_at(index), index, to)
    if scene.sprite is not None:
        moves = _displacement(scene.sprite, index, to)
        flow = np.where(coverage(scene.sprite, index, grid())[..., None] > 0.5, moves, flow)
    return flow.astype(np.float32)


def visible(scene: DrawnClip, index: int, to: int) -> NDArray[np.bool_]:
    """Which pixels of frame `index` are visible in frame `to`, bool (H, W)."""
    target = grid() + np.nan_to_num(true_flow(scene, index, to), nan=1e6)
    inside = ((target >= 0) & (target <= (WIDTH - 1, HEIGHT - 1))).all(-1)
    if scene.sprite is None:
        return np.asarray(inside)
    in_front = coverage(scene.sprite, index, grid()) > 0.5
    covered = coverage(scene.sprite, to, target) > 0.5
    return np.asarray(inside & (in_front | ~covered))


def _displacement(layer: MovingLayer, index: int, to: int) -> NDArray[np.float64]:
    there = np.linalg.inv(layer.position(to)) @ layer.position(index)
    return moved(there, grid()) - grid()


def _endpoint_error(name: str, index: int, to: int) -> NDArray[np.float64]:
    """Of the decoder's estimator, in pixels, where there is something to find."""
    scene = SCENES[name]
    found = dense_flow(gray(scene.frame(index)), gray(scene.frame(to)))
    error = found - true_flow(scene, index, to)
    distance: NDArray[np.float64] = np.hypot(error[..., 0], error[..., 1]).astype(np.float64)
    return distance[visible(scene, index, to)]


def _warp_error(name: str, index: int, to: int, flow: Flow) -> float:
    """Distance in grey levels of frame `index` from frame `to` looked up where the flow points."""
    scene = SCENES[name]
    back = warp(scene.frame(to), pixel_grid(HEIGHT, WIDTH) + flow).astype(float)
    seen = visible(scene, index, to)
    return float(abs(back - scene.frame(index))[seen].mean())


@pytest.mark.parametrize("name", ["pan", "turn", "occlusion", "cut"])
@pytest.mark.parametrize("step", [1, 4, -3])
def test_true_flow_leads_to_the_same_picture(name: str, step: int) -> None:
    flow = true_flow(SCENES[name], 20, 20 + step)
    right = _warp_error(name, 20, 20 + step, flow)
    assert right < 2.0
    assert right < 0.3 * _warp_error(name, 20, 20 + step, np.zeros_like(flow))


@pytest.mark.parametrize(("first", "last"), [(5, 6), (30, 34)])
def test_the_decoder_finds_a_translation_within_a_fraction_of_a_pixel(
    first: int, last: int
) -> None:
    flow = true_flow(SCENES["pan"], first, last)
    np.testing.assert_allclose(flow[100, 100], (last - first) * np.array([2.25, -0.75]), atol=1e-5)
    error = _endpoint_error("pan", first, last)
    assert np.median(error) < 0.1
    assert np.percentile(error, 95) < 0.25


@pytest.mark.parametrize("name", ["turn", "occlusion", "flash"])
def test_the_decoder_finds_other_motion(name: str) -> None:
    assert np.percentile(_endpoint_error(name, 10, 14), 90) < 0.25


def test_what_the_disc_hides_is_not_visible() -> None:
    scene = SCENES["occlusion"]
    hidden = ~visible(scene, 20, 24)
    disc = np.isclose(true_flow(scene, 20, 24)[..., 0], 4 * 3.25)
    assert 10_000 < disc.sum() < 12_000  # 60 pixels of radius
    assert not (hidden & disc).any()
    # The disc comes 15 pixels nearer to the ground; it covers a crescent as high as itself.
    inner = hidden[20:-20, 20:-20]
    assert 0.8 * 15 * 120 < inner.sum() < 1.2 * 15 * 120
    assert _warp_error("occlusion", 20, 24, true_flow(scene, 20, 24)) < 2.0


def test_nothing_is_to_be_found_across_a_cut() -> None:
    scene = SCENES["cut"]
    assert np.isnan(true_flow(scene, 40, 41)).all()
    assert not visible(scene, 40, 41).any()
    assert np.isfinite(true_flow(scene, 39, 40)).all()
    np.testing.assert_allclose(true_flow(scene, 41, 42)[0, 0], (0, -1), atol=1e-6)
    assert abs(np.subtract(scene.frame(41), scene.frame(40), dtype=int)).mean() > 30


def test_still_and_flash() -> None:
    still, flash = SCENES["still"], SCENES["flash"]
    np.testing.assert_array_equal(still.frame(0), still.frame(FRAMES - 1))
    assert not true_flow(still, 0, 100).any()
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
    for index in (-1, FRAMES):
        with pytest.raises(ConfigError, match="0 to 120"):
            SCENES["pan"].frame(index)
