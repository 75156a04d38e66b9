"""The metrics of motion: wrong motion is ranked as anyone would, and no motion is a gap."""

from collections.abc import Sequence
from fractions import Fraction

import cv2
import numpy as np
import pytest

from gsvc import Picture
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.eval.bench.work import score
from gsvc.eval.metrics import find_metric
from gsvc.eval.metrics.motion import diverging
from needs import need, need_clip

STEP = 3


@pytest.fixture(scope="module")
def pan() -> TestClip:
    """A texture of 144 lines that moves by three pixels a frame: six at 288 lines."""
    noise = np.random.default_rng(0).integers(0, 256, (144, 192, 3), np.uint8)
    first = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 3), None, 0, 255, cv2.NORM_MINMAX)
    frames = [np.roll(first, STEP * index, axis=1) for index in range(12)]
    return TestClip("pan", frames, Fraction(25))


def wrong_motion(frames: Sequence[Picture]) -> dict[str, Sequence[Picture]]:
    order = np.random.default_rng(0).permutation(len(frames))
    return {
        "itself": frames,
        "shifted": [np.roll(frame, 2, axis=1) for frame in frames],
        "half speed": [frames[index // 2] for index in range(len(frames))],
        "slides": [frames[index // 4 * 4] for index in range(len(frames))],
        "frozen": [frames[0]] * len(frames),
        "shuffled": [frames[index] for index in order],
    }


def means(name: str, clip: TestClip) -> dict[str, float]:
    tests = wrong_motion(clip.frames)
    with need(name):
        values = find_metric(name).measure(clip, list(tests.values()), range(len(clip.frames)))
    return dict(zip(tests, np.nanmean(values, axis=1), strict=True))


def test_motion_error_is_the_difference_in_pixels_at_288_lines(pan: TestClip) -> None:
    found = means("motion_error", pan)
    assert found["itself"] == 0
    assert found["shifted"] < 0.1
    # Every other step is missing, or every one; the texture wraps around at one side.
    assert found["half speed"] == pytest.approx(2 * STEP / 2, rel=0.15)
    assert found["frozen"] == pytest.approx(2 * STEP, rel=0.15)
    assert found["shuffled"] > 2 * found["frozen"]
    assert found["slides"] > found["half speed"]


def test_jumps_are_the_share_of_frames_that_change_too_much(pan: TestClip) -> None:
    found = means("jumps", pan)
    assert [found[name] for name in ("itself", "shifted", "half speed", "frozen")] == [0] * 4
    assert found["slides"] == pytest.approx(2 / 11)
    assert found["shuffled"] > 0.5


def test_cvvdp_ranks_wrong_motion(pan: TestClip) -> None:
    found = means("cvvdp", pan)
    wrong = [found[name] for name in ("half speed", "slides", "frozen", "shuffled")]
    assert found["itself"] > found["shifted"] > max(wrong)


def test_divergence_finds_where_motion_folds() -> None:
    motion = np.zeros((40, 60, 2), np.float32)
    motion[:, 30:, 0] = 5
    assert np.flatnonzero(diverging(motion)[20]).tolist() == [29, 30]
    motion[..., 0], motion[:, 30:, 1] = 0, 5  # it shears: nothing is squeezed or torn
    assert diverging(motion).all()


def test_psnr_div_looks_where_the_motion_folds(pan: TestClip) -> None:
    torn = [frame.copy() for frame in pan.frames]
    for before, frame in zip(pan.frames, torn[1:], strict=False):
        frame[40:100, 60:120] = before[40:100, 60:120]
    values = find_metric("psnr_div").measure(pan, [torn], [5])
    plain = find_metric("psnr_y").measure(pan, [torn], [5])
    assert np.isfinite(values).all()
    assert values[0, 0] < plain[0, 0]


@pytest.mark.parametrize(
    ("name", "count", "reason"),
    [
        ("motion_error", 6, "does not move"),
        ("motion_error", 1, "does not move"),
        ("jumps", 1, "one frame cannot jump"),
    ],
)
def test_no_motion_is_a_gap_with_its_reason(name: str, count: int, reason: str) -> None:
    still = TestClip("still", [np.full((64, 64, 3), 90, np.uint8)] * count, Fraction(25))
    tests = [still.frames, [frame + 1 for frame in still.frames]]
    found = score(name, "1", still, tests, range(count))
    assert [one.mean for one in found] == [None, None]
    assert all(reason in one.gap for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["carphone", "vtest"])
def test_wrong_motion_of_a_real_clip_is_ranked(name: str) -> None:
    frames, rate = load_clip(need_clip(name), frames=17)
    found = means("motion_error", TestClip(name, frames, rate))
    assert found["itself"] == 0
    assert found["itself"] < found["shifted"] < found["half speed"] < found["shuffled"]
    assert found["shifted"] < found["frozen"] < found["shuffled"]
