"""Accuracies on cases small enough to count by hand."""

from dataclasses import replace

import numpy as np
import pytest

from gsvc import ConfigError
from gsvc.datasets.annotated.truth import NO_ID, Boxes, make_boxes, make_places
from gsvc.eval.bench.analysis.accuracy import (
    EVENTS,
    GROUND,
    POINTS,
    AveragePrecision,
    Pose,
    TimedEvent,
    accuracies,
    average_precision,
    box_moda,
    event_f1,
    ground_moda,
    judged,
    oks_ap,
    track_scores,
)
from gsvc.eval.bench.analysis.box_detectors import SeenClip, tracked, with_tracks
from needs import need_package

need_package("scipy")


def _walkers(frames: int = 4) -> Boxes:
    """Two people, each a frame four pixels on; id 1 above id 2."""
    rows = [(frame, number) for frame in range(frames) for number in (1, 2)]
    box = [(4 * f, 100 * n, 4 * f + 20, 100 * n + 50) for f, n in rows]
    return make_boxes([f for f, _ in rows], box, label="person", id=[n for _, n in rows])


def test_average_precision() -> None:
    need_package("pycocotools")
    truth = _walkers()
    assert average_precision(truth, truth) == pytest.approx((1, 1))
    half = truth.chosen(truth.id == 1)
    # Recall stops at a half: 51 of the 101 recalls at which COCO reads precision.
    assert average_precision(truth, half) == pytest.approx((51 / 101, 51 / 101))
    moved = replace(truth, box=truth.box + (0, 10, 0, 10))  # overlap 40 / 60: right up to .65
    assert average_precision(truth, moved) == pytest.approx((1, 0.4))
    assert average_precision(truth, replace(truth, label=np.full(8, "dog"))) == pytest.approx(
        (0, 0)
    )
    nothing = truth.chosen(np.zeros(8, bool))
    assert average_precision(truth, nothing) == pytest.approx((0, 0))
    assert average_precision(nothing, truth) is None


def test_average_precision_leaves_out_what_is_ignored() -> None:
    need_package("pycocotools")
    truth = _walkers()
    faint = replace(truth, ignored=truth.id == 2)
    assert average_precision(faint, truth.chosen(truth.id == 1)) == pytest.approx((1, 1))
    assert average_precision(faint, truth) == pytest.approx((1, 1))


def test_tracks() -> None:
    need_package("motmetrics")
    truth = _walkers()
    assert track_scores(truth, truth) == pytest.approx((1, 1))
    swapped = replace(truth, id=np.where(truth.frame < 2, truth.id, 3 - truth.id))
    # Two switches among eight boxes; either identity is right in half of its boxes.
    assert track_scores(truth, swapped) == pytest.approx((1 - 2 / 8, 0.5))
    found = swapped.chosen(truth.frame < 2)
    assert track_scores(truth, found) == pytest.approx((0.5, 2 * 4 / (8 + 4)))
    assert track_scores(truth.chosen(truth.id > 2), truth) is None
    with pytest.raises(ConfigError, match="found has boxes without ids"):
        track_scores(truth, replace(truth, id=np.full(8, NO_ID)))


def test_tracks_leave_out_what_is_ignored() -> None:
    need_package("motmetrics")
    truth = _walkers()
    faint = replace(truth, ignored=truth.id == 2)
    assert track_scores(faint, truth) == pytest.approx((1, 1))
    assert box_moda(faint, truth) == 1


def test_moda() -> None:
    truth = make_places([0, 0, 1], [[0, 0], [1, 0], [5, 5]], [1, 2, 1])
    assert ground_moda(truth, truth) == 1
    there = [[0.3, 0.0], [1.0, 0.8], [5.0, 5.5], [9.0, 9.0]]
    found = make_places([0, 0, 1, 2], there, [1, 2, 1, 7])
    # Two are within half a metre; one is missed, two are false, of three.
    assert ground_moda(truth, found) == pytest.approx(1 - 3 / 3)
    assert ground_moda(found.chosen(found.frame > 5), found) is None
    # The nearest is not always the right partner: both can be paired, and are.
    crowd = make_places([0, 0], [[0.0, 0.0], [0.4, 0.0]], [1, 2])
    assert ground_moda(crowd, make_places([0, 0], [[0.3, 0.0], [0.8, 0.0]], [1, 2])) == 1
    boxes = _walkers()
    assert box_moda(boxes, boxes.chosen(boxes.id == 1)) == 0.5


def test_events() -> None:
    truth = [TimedEvent("enters", 2, 2), TimedEvent("stays", 5, 15)]
    assert event_f1(truth, truth) == 1
    near = [TimedEvent("enters", 2.2, 2.2), TimedEvent("stays", 6, 13)]
    assert event_f1(truth, near) == 1
    found = [TimedEvent("enters", 4, 4), TimedEvent("stays", 5, 15), TimedEvent("leaves", 5, 15)]
    assert event_f1(truth, found) == pytest.approx(2 / 5)
    assert event_f1(truth, []) == 0
    assert event_f1([], []) is None


def test_the_tracker_follows_through_a_gap() -> None:
    truth = _walkers(8)
    found = truth.chosen((truth.frame != 3) | (truth.id == 1))
    given = tracked(replace(found, id=np.full(len(found), NO_ID)))
    for number in (1, 2):
        assert len(set(given.id[found.id == number])) == 1
    assert set(given.id) == {1, 2}


def test_what_is_found_in_frames_is_followed_as_what_is_read_from_streams() -> None:
    """What is unsure goes on with a thing and begins none; one frame without it is bridged."""
    seen = [0, 1, 2, 3, 5, 6, 7]
    stands = make_boxes(
        [*seen, 3, 4],
        [[20, 30, 50, 90]] * len(seen) + [[90, 30, 120, 90]] * 2,
        label="person",
        score=0.6,
        ignored=[frame == 6 for frame in seen] + [True, True],
    )
    frames = [np.full((96, 160, 3), 90, np.uint8)] * 8
    found = with_tracks(SeenClip(stands), frames).boxes
    assert found.frame.tolist() == list(range(8))
    assert set(found.id) == {1} and not found.ignored.any()
    assert found.box == pytest.approx(np.tile([20, 30, 50, 90], (8, 1)))
    own = replace(stands, id=np.arange(len(stands)))
    assert with_tracks(SeenClip(own), frames).boxes is own


def test_without_identities_tracks_have_no_scores() -> None:
    for package in ("motmetrics", "pycocotools"):
        need_package(package)
    found = _walkers()
    scores = accuracies(replace(found, id=np.full(8, NO_ID)), found)
    missing = dict.fromkeys(["mota", "idf1", EVENTS, GROUND, POINTS])
    assert scores == {"map50": 1, "map": 1, "moda": 1} | missing


def test_what_is_judged() -> None:
    truth = make_boxes(
        [0, 0, 0], np.eye(3, 4), label=["person", "animal", "person"], visibility=[1, 1, 0.1]
    )
    assert judged(truth, None).label.tolist() == ["thing"] * 3
    people = judged(truth, frozenset({"person"}))
    assert len(people) == 2 and people.ignored.tolist() == [False, True]


def test_key_points_are_judged_by_similarity() -> None:
    rng = np.random.default_rng(4)
    visible = np.ones(17, np.bool_)
    truth = [Pose(frame, rng.uniform(20, 120, (17, 2)), visible) for frame in range(8)]
    assert oks_ap(truth, truth) == AveragePrecision(1.0, 1.0)
    near = [one._replace(points=one.points + 3) for one in truth]
    far = [one._replace(points=one.points + 60) for one in truth]
    half = oks_ap(truth, truth[:4])
    scores = [oks_ap(truth, found) for found in (near, far)]
    assert half is not None and half.mean == pytest.approx(0.5, abs=0.01)
    assert scores[0] is not None and scores[1] is not None
    assert 0.5 < scores[0].mean < 1.0 and scores[1].at_half == 0.0
    assert oks_ap([], truth) is None
