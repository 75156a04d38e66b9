from fractions import Fraction

import cv2
import numpy as np
import pytest

from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.decoders.detection.people import DetectedPose
from gsvc.encoders.face_landmarks import OUTER_EYE_CORNERS, FaceMesh
from gsvc.eval.bench.work import score
from gsvc.eval.metrics import find_metric
from gsvc.eval.metrics.base import Metric
from gsvc.eval.metrics.semantic import (
    intersection_over_union,
    key_point_similarity,
    normalised_error,
)
from needs import need, need_clip

NAMES = ["mask_iou", "pose_oks"]


def pose(shift: float = 0, hidden: int = 0) -> DetectedPose:
    """Points on a circle in a box of 100 x 100; the first `hidden` of the 33 are not visible."""
    angles = np.linspace(0, 2 * np.pi, 33, endpoint=False)
    points = 50 + 50 * np.stack([np.cos(angles), np.sin(angles)], axis=1) + [shift, 0]
    visibility = np.ones(33, np.float32)
    visibility[:hidden] = 0
    return DetectedPose(points.astype(np.float32), visibility, (0, 0, 100, 100))


def test_intersection_over_union_of_known_masks() -> None:
    one, other = np.zeros((4, 4), bool), np.zeros((4, 4), bool)
    one[:2], other[1:3] = True, True
    assert intersection_over_union(one, other) == pytest.approx(4 / 12)
    assert np.isnan(intersection_over_union(one & False, one & False))


def test_oks_is_cocos_formula() -> None:
    sigmas = np.array([26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89]) / 1000
    expected = np.exp(-(6**2) / (2 * 100 * 100 * (2 * sigmas) ** 2))
    assert key_point_similarity(pose(), pose(6)) == pytest.approx(expected.mean(), rel=1e-4)
    # Without the nose, the first of both lists.
    seen = key_point_similarity(pose(hidden=1), pose(6))
    assert seen == pytest.approx(expected[1:].mean(), rel=1e-4)
    assert key_point_similarity(pose(), pose()) == 1


def ready(name: str) -> Metric:
    metric = find_metric(name)
    with need("models"):
        metric.version()
    return metric


@pytest.fixture(scope="module")
def talking() -> TestClip:
    frames, rate = load_clip(need_clip("carphone"), frames=2)
    return TestClip("carphone", frames, rate)


@pytest.mark.parametrize("name", NAMES)
def test_the_person_is_found_again_or_not(name: str, talking: TestClip) -> None:
    grey = [np.full_like(frame, 128) for frame in talking.frames]
    shifted = [np.roll(frame, 120, axis=1) for frame in talking.frames]
    values = ready(name).measure(talking, [talking.frames, shifted, grey], [0, 1])
    assert values[0].tolist() == [1, 1]
    assert np.all(values[1] < 0.95)
    assert np.all(values[2] < values[1])


@pytest.mark.parametrize("name", NAMES)
def test_a_source_without_people_has_no_value(name: str) -> None:
    empty = TestClip("empty", [np.full((96, 128, 3), 90, np.uint8)], Fraction(25))
    assert np.isnan(ready(name).measure(empty, [empty.frames], [0])).all()


def test_face_error_is_the_mean_distance_over_that_of_the_eyes() -> None:
    points = np.zeros((468, 2))
    points[list(OUTER_EYE_CORNERS)] = (0, 0), (40, 0)
    assert normalised_error(points, points) == 0
    assert normalised_error(points, points + (6, 8)) == pytest.approx(10 / 40)
    assert normalised_error(points, points + 1000) == 1
    assert normalised_error(points, None) == 1


def test_face_error_ranks_a_face_that_moves_wrongly() -> None:
    frames, rate = load_clip(need_clip("carphone"), frames=33)
    clip = TestClip("carphone", frames, rate)
    tests = {
        "itself": frames,
        "shifted": [np.roll(frame, 4, axis=1) for frame in frames],
        "half speed": [frames[index // 2] for index in range(33)],
        "shuffled": [frames[-1 - index] for index in range(33)],
        "nobody": [np.full_like(frame, 128) for frame in frames],
    }
    values = ready("face_nme").measure(clip, list(tests.values()), range(0, 33, 4))
    found = dict(zip(tests, values.mean(axis=1), strict=True))
    assert found["itself"] == 0
    assert 0 < found["shifted"] < found["half speed"] < found["shuffled"] < found["nobody"] == 1


@pytest.mark.parametrize("name", ["face_nme", "mask_iou"])
def test_the_gap_of_a_source_without_people_says_so(name: str) -> None:
    empty = TestClip("empty", [np.full((96, 128, 3), 90, np.uint8)], Fraction(25))
    ready(name)
    (found,) = score(name, "1", empty, [empty.frames], [0])
    assert found.mean is None
    assert "the source shows no" in found.gap  # "nobody", "no face"


def test_a_mouth_that_speaks_in_step_and_one_that_does_not() -> None:
    frames, rate = load_clip(need_clip("carphone"), frames=48)
    clip = TestClip("carphone", frames, rate)
    tests = [frames, frames[:1] * 48, [np.full_like(frame, 128) for frame in frames], frames[::-1]]
    values = ready("mouth_opening").measure(clip, tests, [0])[:, 0]
    assert values[0] == pytest.approx(1) and values[2] == 0
    assert values[1] < 0.5 and values[3] < 0.7


@pytest.mark.parametrize("name", ["face_cvvdp", "face_st_lpips_vgg"])
def test_only_what_is_in_the_box_of_the_face_counts(name: str, talking: TestClip) -> None:
    corner, middle = ([frame.copy() for frame in talking.frames] for _ in range(2))
    for one, other in zip(corner, middle, strict=True):
        one[:24, :24], other[132:156, 164:188] = 0, 0
    same, outside, inside = (
        ready(name).measure(talking, [talking.frames, corner, middle], [0, 1]).mean(axis=1)
    )
    assert outside == same != inside
    empty = TestClip("empty", [np.full((96, 128, 3), 90, np.uint8)], Fraction(25))
    assert np.isnan(ready(name).measure(empty, [empty.frames], [0])).all()


def test_motion_counts_on_people_alone(talking: TestClip) -> None:
    metric = ready("person_motion_error")
    still = [talking.frames[0]] * 2
    assert metric.measure(talking, [talking.frames, still], [0, 1])[:, 1].tolist() > [0, 0.5]
    moved = [np.roll(np.full((96, 128, 3), 90, np.uint8), n, axis=1) for n in range(2)]
    assert np.isnan(metric.measure(TestClip("empty", moved, Fraction(25)), [moved], [1])).all()


def test_the_box_of_a_small_face_at_the_edge_is_large_enough_for_the_network() -> None:
    frames, rate = load_clip(need_clip("carphone"), frames=2)
    pictures = [
        np.ascontiguousarray(cv2.resize(frame, (64, 52), interpolation=cv2.INTER_AREA)[:, 24:])
        for frame in frames
    ]
    clip = TestClip("small", pictures, rate)
    values = ready("face_st_lpips_vgg").measure(clip, [pictures, pictures[:1] * 2], [0, 1])
    assert values[0].tolist() == [0, 0] and values[1, 0] == 0 < values[1, 1]


def test_the_faces_of_a_source_are_found_once_for_all_metrics(
    talking: TestClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["mouth_opening", "face_cvvdp", "face_st_lpips_vgg"]
    ready(names[0]).measure(talking, [talking.frames], [0])
    monkeypatch.setattr(FaceMesh, "squares", lambda *_: pytest.fail("looked for again"))
    for name in names:
        ready(name).measure(talking, [talking.frames], [0])


def test_the_mask_of_people_is_that_of_the_frame_from_which_motion_starts(
    talking: TestClip,
) -> None:
    metric = ready("person_motion_error")
    empty = np.full_like(talking.frames[0], 90)
    for pair, seen in (([*talking.frames], True), ([empty, talking.frames[0]], False)):
        values = metric.measure(TestClip("pair", pair, Fraction(25)), [pair], [1])
        assert np.isfinite(values).all() == seen
