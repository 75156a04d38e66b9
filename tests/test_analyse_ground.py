"""Several cameras of one piece of ground: objects joined where they stand."""

import csv
import json
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import gsvc
from gsvc import ConfigError
from gsvc.codec.api.analysis import open_ground
from gsvc.codec.command.analysis_page import seen_ground
from gsvc.codec.command.main import main
from gsvc.datasets.annotated.synthetic import SceneSettings, make_scene
from gsvc.decoders.detection.findings import TrackedObject
from gsvc.decoders.detection.tracker import GroundTracker, standing

SCENE = SceneSettings(
    seed=7, frames=45, width=480, height=272, cameras=2, people=2, animals=0, things=0, pillars=0
)


@pytest.fixture(scope="module")
def cameras(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Path]:
    """A stream of what moves for each camera, and their homographies."""
    folder, scene = tmp_path_factory.mktemp("ground"), make_scene(SCENE)
    rate = Fraction(SCENE.frame_rate)
    video = gsvc.VideoFormat(SCENE.width, SCENE.height, 1 / rate, rate)
    streams, maps = [], []
    for camera in range(SCENE.cameras):
        streams.append(folder / f"{camera}.gsv")
        with (
            streams[-1].open("wb") as file,
            gsvc.Encoder(video, gsvc.EncoderSettings(task="motion")) as encoder,
        ):
            writer = gsvc.StreamWriter(file, encoder.header)
            for index in range(SCENE.frames):
                for packet in encoder.encode(scene.shot(camera, index).picture):
                    writer.write(packet)
            for packet in encoder.flush():
                writer.write(packet)
        maps.append(scene.cameras[camera].homography(0.0).tolist())
    (folder / "maps.json").write_text(json.dumps(maps))
    return streams, folder / "maps.json"


def test_two_cameras_give_one_list_of_places(cameras: tuple[list[Path], Path]) -> None:
    streams, maps = cameras
    scene = make_scene(SCENE)
    with open_ground(streams, json.loads(maps.read_text())) as reader:
        frames = list(reader.frames())
    assert len(frames) == SCENE.frames
    assert reader.cost.pictures == 0 and reader.cost.frames == 2 * SCENE.frames
    assert any(len(one.seen) == 2 for frame in frames for one in frame.objects)
    for frame in frames[10:35]:
        truth = scene.places.place[scene.places.frame == frame.frame]
        for one in frame.objects:
            assert np.linalg.norm(truth - one.place, axis=1).min() < 1.0
        assert len(frame.objects) <= SCENE.people


def test_the_command_writes_metres(cameras: tuple[list[Path], Path], tmp_path: Path) -> None:
    streams, maps = cameras
    command = ["analyse", *map(str, streams), "--homography", str(maps), "-q"]
    everywhere = "--zone=z=-50,-50,50,-50,50,50,-50,50"
    assert main([*command, "-o", str(tmp_path / "out.jsonl"), everywhere]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert rows[0]["type"] == "ground" and rows[-1]["zones"]["z"]["visits"] >= 2
    assert {"enter", "leave"} <= {row.get("event") for row in rows}
    assert main([*command, "-o", str(tmp_path / "out.csv"), "--format", "csv"]) == 0
    table = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert {row["streams"] for row in table} >= {"0+1"}


def test_the_page_shows_every_way_on_the_ground(
    cameras: tuple[list[Path], Path], tmp_path: Path
) -> None:
    streams, maps = cameras
    command = ["analyse", *map(str, streams), "--homography", str(maps), "-q"]
    everywhere = "--zone=<all>=-50,-50,50,-50,50,50,-50,50"
    page = tmp_path / "ground.html"
    assert main([*command, "--format", "html", "-o", str(page), everywhere]) == 0
    svg = page.read_text().split('<div class="wide">')[1].split("</div>")[0]
    drawing = ElementTree.fromstring(svg)
    kinds = [one.get("class", "").split() for one in drawing]
    with open_ground(streams, json.loads(maps.read_text())) as reader:
        tracks = {one.track for frame in reader.frames() for one in frame.objects}
    assert sum(one.tag == "circle" for one in drawing) == len(tracks)
    assert ["view"] in kinds and ["zone"] in kinds and any("shared" in kind for kind in kinds)


def test_a_camera_sees_what_its_homography_shows() -> None:
    shift = np.array([[10.0, 0, 50], [0, 10, 50], [0, 0, 1]])  # a map of 10 pixels a metre
    corners = seen_ground(shift, (100, 80), np.array([-100.0, -100]), np.array([100.0, 2]))
    np.testing.assert_allclose(
        [np.min(corners, axis=0), np.max(corners, axis=0)], [[-5, -5], [5, 2]]
    )
    behind = -shift
    assert seen_ground(behind, (100, 80), np.array([-9.0, -9]), np.array([9.0, 9])) == []


@pytest.mark.parametrize(
    ("maps", "options", "says"),
    [
        ("[[[1,0,0],[0,1,0],[0,0,1]]]", [], "2 streams and 1 homographies"),
        ("[[[1,2,3],[2,4,6],[3,6,9]], [[1,0,0],[0,1,0],[0,0,1]]]", [], "cannot be inverted"),
        ('{"a":\n [1, 2], "b": "x"}', [], "maps.json: stream 0: no matrix of 3 rows"),
        ("[[[1,0,0],\n[0,1,0],\n[0,true,1]]]", [], "maps.json: stream 0: no number"),
        ("[[[1,0,0],[0,1,0],[0,0]]]", [], "maps.json: stream 0: no matrix of 3 rows"),
        ("[[[[1,0,0],[0,1,0],[0,0,1]], [[1,0,0],[0,1,0],[0,0,NaN]]]]", [], "stream 0: no number"),
        ("[]", [], "maps.json: no list of homographies"),
        ("[[1", [], "maps.json:1:4: no JSON"),
        ("[]", ["--draw", "x.mp4"], "draw each alone"),
        ("[]", ["--format", "mot"], "jsonl, csv, html"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    cameras: tuple[list[Path], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    maps: str,
    options: list[str],
    says: str,
) -> None:
    (tmp_path / "maps.json").write_text(maps)
    streams = map(str, cameras[0])
    command = ["analyse", *streams, "--homography", str(tmp_path / "maps.json"), *options]
    assert main([*command, "-o", str(tmp_path / "out")]) != 0
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main(["analyse", *map(str, cameras[0])]) != 0
    assert "--homography" in capsys.readouterr().err


def _seen(track: int, kind: str = "person") -> TrackedObject:
    return TrackedObject(kind, track, np.zeros(4), 0.5)


def test_who_leaves_one_camera_goes_on_in_the_other() -> None:
    tracker = GroundTracker()
    for step in range(40):
        at = np.array([0.1 * step, 0.0])
        first = [(_seen(1), at)] if step < 25 else []
        second = [(_seen(8, "moving"), at + 0.3)] if step > 15 else []
        (found,) = tracker.step(step / 10, [first, second])
        assert found.track == 1 and found.kind == "person"


def test_two_at_one_place_from_the_first_are_joined_and_others_are_not() -> None:
    tracker = GroundTracker()
    for step in range(10):
        apart = max(0.4, 3.0 - step)  # one of them was misplaced at first
        here, there = np.array([0.0, 0.0]), np.array([apart, 0.0])
        far = np.array([20.0, 0.0])
        found = tracker.step(step / 5, [[(_seen(1), here)], [(_seen(1), there), (_seen(2), far)]])
    assert [sorted(one.seen) for one in found] == [[0, 1], [1]]


def test_classes_that_differ_are_not_one() -> None:
    at = np.zeros(2)
    found = GroundTracker().step(0.0, [[(_seen(1, "car"), at)], [(_seen(1, "person"), at)]])
    assert [one.kind for one in found] == ["car", "person"]


def test_feet_out_of_sight_have_no_place() -> None:
    box = TrackedObject("person", 1, np.array([10.0, 10.0, 30.0, 99.0]), 1.0)
    assert standing(box, np.eye(3), 100) is None
    place = standing(box, np.diag([2.0, 2.0, 1.0]), 200)
    assert place is not None
    np.testing.assert_allclose(place, [10.0, 49.5])
    sky = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, -0.1, 1.0]])
    assert standing(box, np.linalg.inv(sky), 200) is None


def test_a_name_used_twice_is_refused(cameras: tuple[list[Path], Path]) -> None:
    streams, maps = cameras
    line = gsvc.Line("gate", (0.0, 0.0), (1.0, 0.0))
    settings = gsvc.AnalysisSettings(lines=(line, line))
    with (
        pytest.raises(ConfigError, match="gate"),
        open_ground(streams, json.loads(maps.read_text()), settings),
    ):
        pass
