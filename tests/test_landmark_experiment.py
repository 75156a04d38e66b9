"""The experiment on landmarks: it really brings a face to its place."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.encoders.face_landmarks import FaceMesh
from gsvc.eval.metrics.semantic import normalised_error
from landmark_experiment import FaceMover, main
from needs import need_clip, need_models


def test_a_face_that_is_misplaced_is_moved_back() -> None:
    need_models()
    source = load_clip(need_clip("carphone"), 1)[0][0]
    away = np.asarray(cv2.warpAffine(source, np.array([[1.0, 0, 4], [0, 1, -3]]), (352, 288)))
    find = FaceMesh()
    square = find.squares(source)[0]
    wanted = find.points(source, square)
    assert wanted is not None
    before, after = (
        normalised_error(wanted, find.points(one, square))
        for one in (away, FaceMover().moved(away, source))
    )
    assert after < 0.3 * before
    nobody = np.full_like(source, 128)
    assert np.array_equal(FaceMover().moved(nobody, source), nobody)


def test_what_shows_no_face_is_one_line(
    clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_models()
    path = tmp_path / "none.mp4"
    path.write_bytes(b"no video")
    for one, told in ((path, "none.mp4"), (clip, "shows no face: name a clip that does")):
        assert main([str(one), "--frames", "3"]) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and told in error
