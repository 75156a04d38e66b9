import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gsvc.codec.errors import InputError
from gsvc.codec.frames import Picture
from gsvc.eval.hull import PointFile, add_points, hull_at, lower_hull


def test_hull_keeps_what_no_mix_of_others_beats() -> None:
    points = [(0.01, 0.1), (0.001, 0.5), (0.002, 0.3), (0.005, 0.29), (0.002, 0.4), (0.02, 0.15)]
    assert lower_hull(points) == [(0.001, 0.5), (0.002, 0.3), (0.01, 0.1)]


def test_hull_drops_points_on_its_lines_and_needs_points() -> None:
    assert lower_hull([(1, 4), (2, 3), (3, 2)]) == [(1, 4), (3, 2)]
    assert lower_hull([(1, 4)]) == [(1, 4)]
    assert lower_hull([(1, 1), (2, 2)]) == [(1, 1)]
    with pytest.raises(InputError, match="at least one"):
        lower_hull([])


def test_hull_at_is_linear_inside_and_silent_outside() -> None:
    hull = [(0.001, 0.5), (0.002, 0.3), (0.01, 0.1)]
    assert hull_at(hull, 0.0015) == pytest.approx(0.4)
    assert hull_at(hull, 0.006) == pytest.approx(0.2)
    assert hull_at(hull, 0.001) == 0.5
    assert hull_at(hull, 0.01) == pytest.approx(0.1)
    assert hull_at(hull, 0.0009) is None
    assert hull_at(hull, 0.011) is None
    assert hull_at([(0.5, 2.0)], 0.5) == 2.0
    assert hull_at([(0.5, 2.0)], 0.4) is None


def clip(phase: int = 0) -> list[Picture]:
    y, x = np.mgrid[0:128, 0:128]
    return [np.stack([x + phase + i, y, (x * y) // 128], 2).astype(np.uint8) for i in range(3)]


def test_points_are_measured_once_and_again_when_the_frames_change(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "points.json"
    add_points(PointFile(path), "clip", clip(), Fraction(25), [63, 40], ["1", "1/2"])
    first = PointFile(path).points("clip")
    assert sorted((point.crf, point.scale) for point in first) == [
        (40, "1"),
        (40, "1/2"),
        (63, "1"),
        (63, "1/2"),
    ]
    assert [point.bpp for point in first] == sorted(point.bpp for point in first)
    assert all(point.st_lpips_vgg > 0 and point.bits > 0 for point in first)

    written = path.stat().st_mtime_ns
    add_points(PointFile(path), "clip", clip(), Fraction(25), [63, 40], ["1"])
    assert path.stat().st_mtime_ns == written

    add_points(PointFile(path), "clip", clip(3), Fraction(25), [50], ["1"])
    assert [point.crf for point in PointFile(path).points("clip")] == [50]


def test_a_file_keeps_to_its_stride(tmp_path: Path) -> None:
    path = tmp_path / "points.json"
    add_points(PointFile(path, stride=2), "clip", clip(), Fraction(25), [63], ["1"])
    every_second = PointFile(path)
    assert every_second.stride == 2
    with pytest.raises(InputError, match="one frame in 2"):
        PointFile(path, stride=1)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "points.json"
    path.write_text("no JSON")
    with pytest.raises(InputError, match="not a file of points"):
        PointFile(path)
    path.write_text(json.dumps({"schema": 0, "made_with": {}, "clips": {}}))
    with pytest.raises(InputError, match="choose another file"):
        PointFile(path)
