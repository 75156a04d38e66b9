"""What `gsvc analyse` tells of streams whose content is known, without decoding their frames."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest

import gsvc
from gsvc.codec.command.main import main
from gsvc.decoders.detection.detectors import OnnxDetector, TorchvisionDetector
from gsvc.decoders.detection.findings import overlap
from gsvc.decoders.detection.motion_detection import Background, SmallPicture
from needs import need_clip, need_models, need_package
from squares import (
    FRAMES,
    SIDE,
    SPEED,
    Eye,
    check_motion_follows,
    is_on_square,
    square_pictures,
    true_box,
)

MOVING = gsvc.AnalysisSettings(detector="moving")


@pytest.fixture(scope="module")
def square_stream(
    write_video: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("square")
    clip = write_video(folder / "square.mp4", square_pictures(FRAMES))
    settings = gsvc.EncoderSettings(level=2, preset="fast")
    gsvc.encode(clip, folder / "square.gsv", settings=settings)
    return folder / "square.gsv"


def test_a_moving_square_has_one_track_where_it_is(square_stream: Path) -> None:
    found = gsvc.analyse(square_stream, settings=MOVING)
    assert len(found.frames) == FRAMES
    check_motion_follows(found)
    assert found.cost.frames == FRAMES and found.cost.not_decoded > FRAMES / 2
    assert found.cost.bytes_read == square_stream.stat().st_size


def test_it_crosses_a_line_once_and_dwells_in_a_zone(square_stream: Path) -> None:
    line = gsvc.Line("gate", (150, 192), (150, 0))
    zone = gsvc.Zone("hall", ((100, 40), (200, 40), (200, 140), (100, 140)))
    settings = gsvc.AnalysisSettings(Eye(), lines=(line,), zones=(zone,))
    found = gsvc.analyse(square_stream, settings=settings)
    assert found.totals.lines == {"gate": {"left to right": 1, "right to left": 0}}
    hall = found.totals.zones["hall"]
    assert hall["visits"] == 1
    assert hall["seconds"] == pytest.approx(100 / SPEED / 25, abs=0.2)
    (crossing,) = [event for event in found.events if event.kind == "line"]
    assert crossing.frame == pytest.approx((150 - 30 - SIDE / 2) / SPEED, abs=3)
    assert [event.kind for event in found.events] == ["enter", "line", "leave"]


def test_the_scaffold_alone_needs_no_picture(square_stream: Path) -> None:
    found = gsvc.analyse(square_stream, settings=gsvc.AnalysisSettings(detector="none"))
    assert len(found.frames) == FRAMES
    assert found.cost.pictures == 0 and found.cost.not_decoded == FRAMES


def test_a_detector_of_ones_own_is_asked_for_few_frames(square_stream: Path) -> None:
    asked = []

    def see(picture: gsvc.Picture) -> list[gsvc.Detection]:
        asked.append(picture.shape)
        where = np.argwhere(picture.mean(axis=2) > 140)
        (top, left), (bottom, right) = where.min(axis=0), where.max(axis=0)
        return [gsvc.Detection("box", np.array([left, top, right, bottom], np.float64), 0.9)]

    found = gsvc.analyse(square_stream, settings=gsvc.AnalysisSettings(see))
    assert found.totals.objects == {"box": 1}
    assert 1 < len(asked) == found.cost.detector_runs <= FRAMES / 5 + 1
    boxes = [(one.box, true_box(f.frame)) for f in found.frames for one in f.objects]
    assert len(boxes) > 0.9 * FRAMES
    assert np.mean([overlap([box], [true]).item() for box, true in boxes]) > 0.8


def test_a_detector_that_gives_no_boxes_is_told_so(square_stream: Path) -> None:
    def wrong(picture: gsvc.Picture) -> list[gsvc.Detection]:
        return [gsvc.Detection("box", np.array([5.0, 5.0, 1.0, 9.0]), 1.0)]

    with pytest.raises(gsvc.ConfigError, match="left, top, right, bottom"):
        gsvc.analyse(square_stream, settings=gsvc.AnalysisSettings(wrong))


@pytest.mark.slow
def test_a_cut_ends_all_tracks(write_video: Callable[..., Path], tmp_path: Path) -> None:
    pictures = square_pictures(30) + [255 - one for one in square_pictures(30, seed=9)]
    clip = write_video(tmp_path / "cut.mp4", pictures)
    settings = gsvc.EncoderSettings(level=2, preset="fast")
    gsvc.encode(clip, tmp_path / "cut.gsv", settings=settings)
    found = gsvc.analyse(tmp_path / "cut.gsv", settings=MOVING)
    assert [event.frame for event in found.events if event.kind == "cut"] == [30]
    tracks = [
        {one.track for frame in part for one in frame.objects}
        for part in (found.frames[:30], found.frames[30:])
    ]
    assert tracks[0] and tracks[1] and not tracks[0] & tracks[1]


def test_what_has_left_is_no_thing() -> None:
    """One thing stands in most pictures and is then gone; another comes."""
    empty, background = np.full((96, 160, 3), 90, np.uint8), Background()
    stood, came = empty.copy(), empty.copy()
    stood[30:60, 20:40] = came[30:60, 110:130] = 200
    for picture in [stood] * 7 + [came] * 2:
        background.add(SmallPicture(picture), None)
    speed = np.ones(empty.shape[:2], np.float32)
    *_, (found, _) = [background.places(speed) for _ in range(8)]
    (one,) = found
    assert overlap([one.box], [np.array([110.0, 30, 130, 60])]).item() > 0.6


def test_the_camera_is_told_from_what_moves(
    write_video: Callable[..., Path], tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    wide = np.kron(rng.integers(40, 220, (24, 60, 3)), np.ones((8, 8, 1))).astype(np.uint8)
    clip = write_video(tmp_path / "pan.mp4", [wide[:, 2 * n : 2 * n + 320] for n in range(24)])
    gsvc.encode(clip, tmp_path / "pan.gsv", settings=gsvc.EncoderSettings(level=3, preset="fast"))
    found = gsvc.analyse(tmp_path / "pan.gsv", settings=MOVING)
    steps = [frame.camera for frame in found.frames if frame.camera is not None]
    assert np.median([step.dx for step in steps]) == pytest.approx(-2, abs=0.3)
    assert np.median([step.dy for step in steps]) == pytest.approx(0, abs=0.2)
    assert sum(len(frame.objects) for frame in found.frames) < 10


@pytest.mark.slow
def test_people_are_found_in_vtest_without_its_frames(tmp_path: Path) -> None:
    clip = need_clip("vtest")
    settings = gsvc.EncoderSettings(level=1, preset="fast")
    gsvc.encode(clip, tmp_path / "vtest.gsv", settings=settings, frames=28)
    found = gsvc.analyse(tmp_path / "vtest.gsv", settings=MOVING)
    again = gsvc.analyse(tmp_path / "vtest.gsv", settings=MOVING)
    assert len(found.frames) == 28 and found.cost.not_decoded > 14
    assert [len(f.objects) for f in found.frames] == [len(f.objects) for f in again.frames]
    assert np.mean([len(frame.objects) for frame in found.frames]) > 1.5


def test_a_talking_man_is_one_person_with_key_points(tmp_path: Path) -> None:
    clip = need_clip("carphone")
    need_models()
    settings = gsvc.EncoderSettings(level=2, preset="fast", semantics=True)
    gsvc.encode(clip, tmp_path / "carphone.gsv", settings=settings, frames=20)
    people = gsvc.AnalysisSettings(detector="people")
    found = gsvc.analyse(tmp_path / "carphone.gsv", settings=people)
    assert found.totals.objects == {"person": 1}
    for frame in found.frames:
        (man,) = frame.objects
        left, top, right, bottom = man.box
        assert left < 80 < right and top < 70 < bottom  # his face
    scaffold = gsvc.analyse(
        tmp_path / "carphone.gsv", settings=gsvc.AnalysisSettings(detector="none")
    )
    assert scaffold.totals.objects == {"person": 1} and scaffold.cost.pictures == 0
    for frame in scaffold.frames[5:]:
        (sent_man,) = frame.objects
        left, top, right, bottom = sent_man.box
        assert left < 80 < right and top < 90 < bottom
    sent = [person for frame in scaffold.frames for person in frame.people]
    assert sent and sent[0].points.shape == (17, 2) and sent[0].visible.any()


def test_the_command_writes_three_formats_and_a_video(
    square_stream: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = {}
    for kind in ("jsonl", "csv", "mot"):
        command = ["analyse", str(square_stream), "--detector", "moving", "--format", kind]
        assert main(command) == 0
        made[kind], told = capfd.readouterr()
        assert f"read {square_stream.stat().st_size} bytes, {FRAMES} frames" in told
    lines = [json.loads(line) for line in made["jsonl"].splitlines()]
    objects = sum(len(line["objects"]) for line in lines if line["type"] == "frame")
    assert [line["type"] for line in lines] == ["stream", *["frame"] * FRAMES, "summary"]
    assert lines[-1]["objects"].keys() == {"moving"} and lines[-1]["saved"] > FRAMES / 2
    assert len(list(csv.DictReader(io.StringIO(made["csv"])))) == objects
    assert len(made["mot"].splitlines()) == objects
    frame, _, left, top, width, height, *_ = map(float, made["mot"].splitlines()[0].split(","))
    box = np.array([left, top, left + width, top + height])
    assert is_on_square(box, int(frame) - 1)

    drawn = tmp_path / "drawn.mp4"
    out = tmp_path / "found.csv"
    shown = ["analyze", str(square_stream), "--detector", "moving", "--draw", str(drawn)]
    assert main([*shown, "--zone", "hall=10,10,90,10,90,90", "-o", str(out)]) == 0
    with av.open(drawn) as video:
        assert sum(1 for _ in video.decode(video=0)) == FRAMES
    assert main([*shown, "-o", str(out)]) == 1
    assert "already exists" in capfd.readouterr().err


def test_what_comes_before_damage_is_told(
    square_stream: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = square_stream.read_bytes()
    cut, out = tmp_path / "cut.gsv", tmp_path / "out.jsonl"
    cut.write_bytes(data[: len(data) - 40])
    assert main(["analyse", str(cut), "--detector", "moving", "-o", str(out)]) == 1
    assert "ends early" in capfd.readouterr().err
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert 0 < sum(line["type"] == "frame" for line in lines) == lines[-1]["frames"] < FRAMES
    assert gsvc.analyse(cut, settings=MOVING, partial=True).damage is not None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--line", "1,2,3"], "write two points"),
        (["--line", "5,5,5,5"], "write two points"),
        (["--zone", "1,2,3,4"], "at least three points"),
        (["--zone", "1,2,3,x,5,6"], "in pixels"),
        (["--zone", "900,0,990,0,990,50"], "outside of the picture"),
        (["--line", "a=0,0,9,9", "--line", "a=0,9,9,0"], "named a"),
        (["--detector", "eyes"], "choose auto"),
        (["--detector", "eyes:Sharp"], "module:Class"),
        (["--detector", "eyes.onnx"], "no such file"),
        (["--detector", "none", "--line", "0,0,9,9"], "another detector"),
        (["--every", "0"], "1 or more"),
        (["--least-score", "2"], "0 to 1"),
    ],
)
def test_bad_arguments_get_one_line(
    square_stream: Path, arguments: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["analyse", str(square_stream), *arguments])
    except SystemExit as exit:
        code = int(exit.code or 0)
    out, error = capfd.readouterr()
    assert code in (1, 2) and told in error
    assert len(error.strip().splitlines()) == 1 and not out


def test_an_onnx_file_tells_its_classes(tmp_path: Path) -> None:
    onnx = need_package("onnx")
    model = onnx.load(Path(__file__).with_name("detector.onnx"))
    onnx.helper.set_model_props(model, {"names": "{0: 'cat', 1: 'dog'}", "task": "detect"})
    onnx.save(model, tmp_path / "told.onnx")
    picture = np.full((320, 640, 3), 128, np.uint8)
    told = OnnxDetector(tmp_path / "told.onnx")(picture)
    named = OnnxDetector(Path(__file__).with_name("detector.onnx"), ["cat", "dog"])(picture)
    assert told and [one.kind for one in told] == [one.kind for one in named]
    onnx.helper.set_model_props(model, {"names": "cat, dog", "imgsz": "x"})
    onnx.save(model, tmp_path / "odd.onnx")
    assert {one.kind for one in OnnxDetector(tmp_path / "odd.onnx")(picture)} <= {
        "class 0",
        "class 1",
    }


def test_an_onnx_file_is_a_detector() -> None:
    """The file gives two overlapping boxes of class 0 and one of class 1, for a bright picture."""
    detector = OnnxDetector(Path(__file__).with_name("detector.onnx"), ["cat", "dog"])
    found = detector(np.full((320, 1280, 3), 255, np.uint8))
    assert [(one.kind, round(one.score, 2)) for one in found] == [("cat", 0.9), ("dog", 0.7)]
    assert found[0].box.tolist() == [160, 160, 240, 320]
    assert not detector(np.zeros((640, 640, 3), np.uint8))


def test_a_model_of_torchvision_is_a_detector() -> None:
    torch = need_package("torch")

    def model(pictures: list[object]) -> list[dict[str, object]]:
        (picture,) = pictures
        assert picture.shape == (3, 20, 30) and picture.max() == 1  # type: ignore[attr-defined]
        boxes = torch.tensor([[1.0, 2.0, 11.0, 12.0]])
        return [{"boxes": boxes, "labels": torch.tensor([2]), "scores": torch.tensor([0.75])}]

    module = SimpleNamespace(eval=lambda: model)
    (one,) = TorchvisionDetector(module, ["nothing", "cat", "dog"])(
        np.full((20, 30, 3), 255, np.uint8)
    )
    assert (one.kind, one.score, one.box.tolist()) == ("dog", 0.75, [1, 2, 11, 12])
