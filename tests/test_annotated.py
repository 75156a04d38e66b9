"""Clips with truth: the synthetic set's is exact, and the readers refuse what is wrong."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from gsvc import ConfigError, InputError, OutputError
from gsvc.datasets.annotated.annotation_formats import (
    mot_text,
    read_coco,
    read_mot,
    read_vatic,
    read_visdrone,
    read_wildtrack,
    sequence_info,
)
from gsvc.datasets.annotated.synthetic import (
    SceneSettings,
    SyntheticScene,
    make_scene,
    read_synthetic,
    write_synthetic,
)
from gsvc.datasets.annotated.truth import arrays, joined, make_boxes
from gsvc.decoders.detection.findings import overlap
from gsvc.eval.bench.analysis.analysis_run import find_sources
from video_clips import Clip, scene

SMALL = SceneSettings(seed=3, frames=6, width=320, height=192, noise=0.0)


def _foreground(scene: SyntheticScene, index: int, *without: int) -> NDArray[np.bool_]:
    """Which pixels change when the actors of these ids are taken away."""
    bare = replace(scene, actors=tuple(one for one in scene.actors if one.id not in without))
    shots = scene.shot(0, index).picture, bare.shot(0, index).picture
    return np.asarray(np.abs(np.subtract(*shots, dtype=np.int16)).max(axis=-1) > 12)


@pytest.mark.parametrize("label", ["people", "animals", "things"])
def test_a_box_is_what_the_picture_shows(label: str) -> None:
    none = {"people": 0, "animals": 0, "things": 0, "pillars": 0}
    scene = make_scene(replace(SMALL, **none | {label: 1}))  # type: ignore[arg-type]
    for index in (0, 5):
        truth = scene.shot(0, index).truth
        left, top, width, height = cv2.boundingRect(_foreground(scene, index, 1).astype(np.uint8))
        shown = left, top, left + width, top + height
        np.testing.assert_allclose(truth.box, [shown], atol=1.5)
        assert truth.visibility == 1.0


@pytest.mark.slow
def test_visibility_is_the_share_of_pixels_that_show() -> None:
    large = replace(SMALL, width=1280, height=720)  # so that soft edges are few pixels
    scene = make_scene(replace(large, people=1, animals=0, things=0, pillars=1))
    post, walker = scene.actors
    behind = np.tile([6.0, 7.0], (SMALL.frames, 1))
    walker = replace(walker, path=behind)
    alone = replace(scene, actors=(walker,))
    for across, most in ((6.0, 0.5), (6.13, 0.8), (7.5, 1.0)):
        hiding = replace(post, path=np.tile([across, 4.0], (SMALL.frames, 1)))
        found = replace(scene, actors=(hiding, walker))
        truth = found.shot(0, 0).truth
        whole = _foreground(alone, 0, 1).sum()
        shown = _foreground(found, 0, 1).sum() / whole
        assert truth.visibility[0] == pytest.approx(shown, abs=0.06)
        assert truth.visibility[0] <= most
        np.testing.assert_array_equal(truth.box, alone.shot(0, 0).truth.box)


def test_feet_are_where_the_homographies_say() -> None:
    scene = make_scene(replace(SMALL, cameras=3, sway=3.0, pillars=0, animals=0, things=0))
    checked = 0
    for camera in range(3):
        for index in (0, 4):
            truth, height = scene.shot(camera, index).truth, scene.settings.height
            matrix = scene.cameras[camera].homography(scene.time(index))
            for box, number in zip(truth.box, truth.id, strict=True):
                (place,) = scene.places.place[
                    (scene.places.frame == index) & (scene.places.id == number)
                ]
                x, y, depth = matrix @ (*place, 1)
                if box[3] < height:
                    assert box[0] - 1 <= x / depth <= box[2] + 1
                    assert y / depth == pytest.approx(box[3], abs=0.05 * (box[3] - box[1]) + 1)
                    checked += 1
    assert checked > 10


def test_the_ground_moves_as_the_camera_turns() -> None:
    scene = make_scene(
        replace(SMALL, frames=20, sway=4.0, people=0, animals=0, things=0, pillars=0)
    )
    first, last = (scene.shot(0, index).picture for index in (0, 19))
    start, end = (scene.cameras[0].homography(scene.time(index)) for index in (0, 19))
    moved = cv2.warpPerspective(first, end @ np.linalg.inv(start), (320, 192))
    inner = np.s_[90:180, 40:280]  # the ground, and nothing that was outside the first frame
    assert np.abs(np.subtract(moved[inner], last[inner], dtype=int)).mean() < 2.5
    assert np.abs(np.subtract(first[inner], last[inner], dtype=int)).mean() > 4


def test_the_seed_decides_everything() -> None:
    shots = [make_scene(replace(SMALL, seed=seed, noise=2.0)).shot(0, 3) for seed in (5, 5, 6)]
    np.testing.assert_array_equal(shots[0].picture, shots[1].picture)
    for name, values in arrays(shots[0].truth).items():
        np.testing.assert_array_equal(values, arrays(shots[1].truth)[name])
    assert (shots[0].picture != shots[2].picture).any()


def test_a_set_comes_back_from_its_files(tmp_path: Path) -> None:
    cutouts = tmp_path / "cutouts" / "animal"
    cutouts.mkdir(parents=True)
    shape = np.zeros((40, 60, 4), np.uint8)
    shape[10:30, 5:55] = (20, 60, 240, 255)
    cv2.imwrite(str(cutouts / "block.png"), shape)
    photo = np.random.default_rng(0).integers(0, 255, (90, 120, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "photo.png"), photo)
    given = {"cutouts": tmp_path / "cutouts", "background": tmp_path / "photo.png"}
    scene = make_scene(replace(SMALL, cameras=2, frames=3, **given))  # type: ignore[arg-type]
    write_synthetic(scene, tmp_path / "out")
    read = read_synthetic(tmp_path / "out")
    assert [view.name for view in read.views] == ["C1", "C2"]
    clip, truth = read.views[1].load()
    assert clip.frame_rate == 25 and len(clip.frames) == 3
    np.testing.assert_array_equal(clip.frames[2], scene.shot(1, 2).picture)
    drawn = joined([shot.truth for shot in scene.shots(1)])
    order = np.lexsort((drawn.id, drawn.frame))
    np.testing.assert_allclose(truth.box, drawn.box[order], atol=2e-3)
    np.testing.assert_array_equal(truth.label, drawn.label[order])
    np.testing.assert_allclose(truth.visibility, drawn.visibility[order], atol=1e-5)
    assert len(read.places) == len(scene.places)
    cameras = json.loads((tmp_path / "out" / "cameras.json").read_text())
    assert np.array(cameras["C2"]).shape == (3, 3, 3)
    with pytest.raises(OutputError, match="already exists"):
        write_synthetic(scene, tmp_path / "out")


def test_scenes_refuse_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cameras 0: must be 1 to 16"):
        SceneSettings(cameras=0)
    with pytest.raises(InputError, match=r"no .png or .webp"):
        make_scene(replace(SMALL, cutouts=tmp_path))
    cv2.imwrite(str(tmp_path / "opaque.png"), np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(InputError, match="has no alpha"):
        make_scene(replace(SMALL, cutouts=tmp_path))


def _mot(folder: Path, rows: str, info: str = "") -> Path:
    (folder / "gt").mkdir(exist_ok=True)
    (folder / "gt" / "gt.txt").write_text(rows)
    text = info or sequence_info("some", Fraction(30), 2, (64, 48))
    (folder / "seqinfo.ini").write_text(text)
    return folder


def test_mot_truth(tmp_path: Path) -> None:
    rows = "1,7,11,21,30,40,1,1,0.5\n2,8,1,1,5,5,0,7,1\n2,9,1,1,5,5,0,3,1\n"
    clip = read_mot(_mot(tmp_path, rows))
    assert clip.name == "some" and clip.frame_rate == 30
    assert clip.pictures[1] == tmp_path / "img1" / "000002.png"
    truth = clip.truth
    assert truth.frame.tolist() == [0, 1] and truth.id.tolist() == [7, 8]
    assert truth.box[0].tolist() == [10, 20, 40, 60]  # MOT counts pixels from 1
    assert truth.label.tolist() == ["person", "person"]
    assert truth.ignored.tolist() == [False, True]  # one who stands still may be found or not
    assert mot_text(truth).splitlines()[0] == "1,7,11,21,30,40,1,1,0.5"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,7,11,21,30,40,1\n", r"gt.txt:1: 7 columns: truth has 9"),
        ("1,7,11,21,30,40,1,1,1\nx,7,1,1,1,1,1,1,1\n", r"gt.txt:2: could not convert"),
        ("3,7,11,21,30,40,1,1,1\n", r"gt.txt:1: frame 3: there are pictures 1 to 2"),
        ("1,7,11,21,30,40,1,55,1\n", r"gt.txt:1: class 55"),
        ("1,7,11,21,nan,40,1,1,1\n", r"gt.txt:1: class 1, size nan"),
    ],
)
def test_mot_errors_name_the_line(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_mot(_mot(tmp_path, rows))


@pytest.mark.parametrize("info", ["nothing", "[Sequence]\nframeRate=0\nseqLength=2\n"])
def test_mot_needs_its_information(tmp_path: Path, info: str) -> None:
    with pytest.raises(InputError, match="Sequence"):
        read_mot(_mot(tmp_path, "", info))


COCO = {
    "images": [{"id": 40, "file_name": "a.png"}, {"id": 30, "file_name": "b.png"}],
    "categories": [{"id": 3, "name": "dog"}],
    "annotations": [
        {"id": 1, "image_id": 30, "category_id": 3, "bbox": [1, 2, 30, 40]},
        {"id": 2, "image_id": 40, "category_id": 3, "bbox": [1, 2, 3, 4], "iscrowd": 1},
    ],
}


def test_coco_truth(tmp_path: Path) -> None:
    (tmp_path / "it.json").write_text(json.dumps(COCO))
    for name in ("a.png", "b.png"):
        cv2.imwrite(str(tmp_path / name), np.zeros((96, 128, 3), np.uint8))
    clip = read_coco(tmp_path / "it.json")
    assert clip.truth.frame.tolist() == [1, 0]
    assert clip.truth.box[0].tolist() == [1, 2, 31, 42]
    assert clip.truth.ignored.tolist() == [False, True]
    loaded, truth = clip.load("288", 1)
    assert loaded.format.height == 288 and truth.box.tolist() == [[3, 6, 12, 18]]
    cv2.imwrite(str(tmp_path / "b.png"), np.zeros((96, 120, 3), np.uint8))
    with pytest.raises(InputError, match=r"b.png: of another size"):
        clip.load()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"annotations": [{"image_id": 30, "category_id": 3}]}, "'bbox' is missing"),
        (
            {"annotations": [{"image_id": 30, "category_id": 3, "bbox": [1, 2, -3, 4]}]},
            r"annotations\[0\].bbox",
        ),
        ({"categories": {}}, "3 is missing"),
        ({"images": [], "annotations": []}, "json: lists no images"),
    ],
)
def test_coco_errors(tmp_path: Path, change: dict[str, object], message: str) -> None:
    (tmp_path / "it.json").write_text(json.dumps(COCO | change))
    with pytest.raises(InputError, match=message):
        read_coco(tmp_path / "it.json")
    (tmp_path / "it.json").write_text('{"images": [,')
    with pytest.raises(InputError, match=r"it.json:1:13: no JSON"):
        read_coco(tmp_path / "it.json")


def test_wildtrack_truth(tmp_path: Path) -> None:
    folder = tmp_path / "annotations_positions"
    folder.mkdir()
    hidden = {"viewNum": 0, "xmin": -1, "ymin": -1, "xmax": -1, "ymax": -1}
    seen = {"viewNum": 1, "xmin": 10, "ymin": 20, "xmax": 30, "ymax": 90}
    person = {"personID": 5, "positionID": 480 * 2 + 40, "views": [hidden, seen]}
    (folder / "00000000.json").write_text("[]")
    (folder / "00000005.json").write_text(json.dumps([person]))
    read = read_wildtrack(tmp_path)
    assert [len(view.truth) for view in read.views] == [0, 1]
    assert read.views[1].truth.frame.tolist() == [1]
    assert read.views[1].pictures[1] == tmp_path / "Image_subsets" / "C2" / "00000005.png"
    np.testing.assert_allclose(read.places.place, [[-3 + 40 * 0.025, -9 + 2 * 0.025]])
    (folder / "00000010.json").write_text(json.dumps([person | {"positionID": -1}]))
    with pytest.raises(InputError, match=r"00000010.json: positionID -1"):
        read_wildtrack(tmp_path)


def test_boxes_fit_together() -> None:
    with pytest.raises(ConfigError, match="different lengths"):
        make_boxes([0, 1], [[0, 0, 1, 1]])
    boxes = make_boxes([0, 0], [[0, 0, 2, 2], [1, 0, 3, 2]], label="person")
    assert boxes.label.tolist() == ["person", "person"]
    np.testing.assert_allclose(overlap(boxes.box, boxes.box), [[1, 1 / 3], [1 / 3, 1]])
    assert len(joined([])) == 0


def _visdrone(folder: Path, text: str) -> Path:
    pictures = folder / "sequences" / "uav1"
    pictures.mkdir(parents=True)
    (folder / "annotations").mkdir()
    (folder / "annotations" / "uav1.txt").write_text(text)
    for number in (1, 2):
        cv2.imwrite(str(pictures / f"{number:07}.jpg"), np.zeros((48, 64, 3), np.uint8))
    return pictures


def test_visdrone_is_read_with_what_it_leaves_out(tmp_path: Path) -> None:
    rows = "1,7,4,6,10,20,1,1,0,2\n2,7,5,6,10,20,1,5,0,0,\n1,0,0,0,30,30,0,0,0,0\n"
    folder = _visdrone(tmp_path, rows)
    clip, truth = read_visdrone(folder).load()
    assert clip.format.frame_count == 2 and truth.label.tolist() == ["person", "car", "ignored"]
    assert truth.box[0].tolist() == [4, 6, 14, 26] and truth.frame.tolist() == [0, 1, 0]
    assert truth.ignored.tolist() == [False, False, True] and truth.visibility[0] == 0.25
    assert [source.name for source in find_sources([str(folder)])] == ["uav1"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("1,7,4,6,10,20,1,1,0", "uav1.txt:1: 9 columns"),
        ("3,7,4,6,10,20,1,1,0,0", "frame 3: there are pictures 1 to 2"),
        ("1,7,4,6,10,20,1,12,0,0", "class 12"),
        ("1,7,4,6,a,20,1,1,0,0", "whole numbers"),
    ],
)
def test_what_is_no_visdrone_is_told(tmp_path: Path, row: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_visdrone(_visdrone(tmp_path, row))


_EPFL = """3 10 20 30 60 1 0 1 0 "PERSON"
3 12 20 32 60 2 1 0 1 "PERSON"
4 0 0 8 8 0 0 0 0 "Car/Vehicle"
"""


def _epfl(folder: Path, text: str) -> Path:
    Clip([scene(index) for index in range(3)]).write(folder / "terrace1-c0.mkv")
    (folder / "terrace1-c0.txt").write_text(text)
    (folder / "gt_terrace1.txt").write_text("# of places on the ground: no boxes, no video\n")
    return folder / "terrace1-c0.txt"


def test_boxes_beside_a_video_are_read(tmp_path: Path) -> None:
    clip, truth = read_vatic(_epfl(tmp_path, _EPFL)).load(frames=2)
    assert clip.format.frame_count == 2 and clip.frame_rate == 25
    assert truth.frame.tolist() == [1, 0] and truth.id.tolist() == [3, 4]  # who is lost is left out
    assert truth.label.tolist() == ["person", "car"] and truth.visibility.tolist() == [0.5, 1]
    assert truth.box[0].tolist() == [10, 20, 30, 60]
    assert [source.name for source in find_sources([str(tmp_path)])] == ["terrace1-c0"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("3 10 20 30 60 1 0 1 0", "c0.txt:1: 9 columns: write track xmin"),
        ('3 10 20 30 60 -1 0 1 0 "PERSON"', "c0.txt:1: track 3, frame -1"),
        ('3 10 20 5 60 1 0 1 0 "PERSON"', "frame 1, box"),
        ('3 10 20 a 60 1 0 1 0 "PERSON"', "invalid literal"),
        ('3 10 20 30 60 1 0 1 0 "PERSON', "No closing quotation"),
    ],
)
def test_what_is_no_box_beside_a_video_is_told(tmp_path: Path, row: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_vatic(_epfl(tmp_path, row))
