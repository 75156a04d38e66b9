"""`gsvc bench analyse`: one small run, from pictures to tables."""

import csv
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gsvc import ConfigError, InputError, Picture
from gsvc.codec.command.main import main
from gsvc.datasets.annotated.synthetic import SceneSettings, make_scene, write_synthetic
from gsvc.datasets.annotated.truth import Boxes, joined, make_boxes
from gsvc.datasets.clips.clip_reader import ClipFormat, TestClip
from gsvc.decoders.detection.rules import parse_file
from gsvc.eval.baselines import find_codec
from gsvc.eval.bench.analysis.accuracy import GROUND, Pose, TimedEvent
from gsvc.eval.bench.analysis.analysis_run import (
    AnalysisRunSettings,
    load_ground,
    rate_for,
    run_analysis,
)
from gsvc.eval.bench.analysis.box_detectors import SeenClip
from gsvc.eval.bench.analysis.rate_accuracy import (
    FROM_STREAM,
    SOURCE,
    Subject,
    check_events,
    measure,
    rule_events,
)
from needs import need_package
from task_rates import main as task_rates

for package in ("bjontegaard", "matplotlib", "motmetrics", "pycocotools", "scipy"):
    need_package(package)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "scene"
    settings = SceneSettings(seed=1, frames=8, width=256, height=160, pillars=0)
    write_synthetic(make_scene(settings), folder)
    return folder


@pytest.mark.slow
def test_a_run_measures_codecs_and_streams(scene: Path, tmp_path: Path) -> None:
    from gsvc.eval.bench.analysis.analysis_run import find_sources

    (source,) = find_sources([str(scene)])
    _, truth = source.load("native", None)
    read: list[bytes] = []

    def analyse(stream: bytes) -> Boxes:
        assert truth is not None
        read.append(stream)
        return truth

    codecs = ("jpeg:quality=10+80,scale=1", "gsvc:level=0,steps=0,preset=fast")
    rules = parse_file("line gate = 128,0,128,160\nbusy: count anything > 3", "rules")
    settings = AnalysisRunSettings((str(scene),), codecs, analyser=analyse, rules=rules)
    done = run_analysis(settings, tmp_path)
    assert done.failed == 0
    names = [point.curve for point in done.points]
    assert names == [SOURCE, "jpeg", "jpeg", "gsvc, steps 0", f"gsvc, {FROM_STREAM}"]
    *_, last = done.points
    assert last.accuracies["map50"] == last.accuracies["mota"] == pytest.approx(1)
    assert last.accuracies["event_f1"] == 1
    assert all(point.accuracies["event_f1"] is not None for point in done.points)
    assert len(read) == 1 and last.bytes == len(read[0])
    assert last.bits_per_second == pytest.approx(8 * last.bytes * 25 / 8)
    with (tmp_path / "points.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["curve"] for row in rows] == names
    assert {row["truth"] for row in rows} == {"truth"}
    assert "against jpeg" in done.report
    assert (tmp_path / "analysis-map50.svg").stat().st_size > 1000


def test_events_are_those_that_rules_make_of_boxes() -> None:
    """One walks through a zone and over a line, from frame 0 to 40, and is not seen for a while."""
    seen = np.array([n for n in range(41) if not 15 <= n < 20])
    left = 2.0 * seen
    box = np.stack([left, np.full(len(left), 40.0), left + 10, np.full(len(left), 60.0)], axis=1)
    boxes = make_boxes(seen[::-1], box[::-1], label="person", id=7)
    rules = parse_file(
        "line gate = 50,0,50,100\nzone door = 25,0,75,0,75,100,25,100\nlong: person in door > 1 s",
        "rules",
    )
    form = ClipFormat(100, 100, Fraction(10), 50)
    stays, crossed, visit = sorted(rule_events(boxes, rules, form))
    assert crossed == TimedEvent("person at gate, right to left", 2.4, 2.4)
    assert stays.name == "long" and visit.name == "person in door"
    # The zone's border has a width: one enters behind it, and leaves before it.
    assert (visit.start, visit.end) == pytest.approx((1.1, 3.5))
    assert (stays.start, stays.end) == pytest.approx((2.1, 3.5))


@pytest.mark.parametrize(
    ("rule", "labels", "message"),
    [
        ("person in door", None, "write anything"),
        ("tree in door", frozenset({"person"}), "finds no tree"),
        ("activity > 1", None, "no activity"),
        ("anything in hall", None, "no zone 'hall'"),
    ],
)
def test_rules_that_no_detector_can_fulfil(
    rule: str, labels: frozenset[str] | None, message: str
) -> None:
    regions = parse_file(f"zone door = 0,0,9,0,9,9\n{rule}", "rules")
    with pytest.raises(ConfigError, match=message):
        check_events(regions, labels)


def test_streams_are_read_by_default(scene: Path, tmp_path: Path) -> None:
    settings = AnalysisRunSettings((str(scene),), ("gsvc:level=0,steps=0,preset=fast",))
    done = run_analysis(settings, tmp_path)
    *_, last = done.points
    assert done.failed == 0
    assert last.curve == f"gsvc, {FROM_STREAM}" and last.accuracies["map50"] is not None


@pytest.mark.slow
def test_streams_of_objects_stand_beside_others(scene: Path, tmp_path: Path) -> None:
    codecs = ("jpeg:quality=2+90,scale=1", "gsvc-task", "gsvc-objects")
    done = run_analysis(AnalysisRunSettings((str(scene),), codecs), tmp_path)
    assert done.failed == 0
    rates = {f"{point.curve}, {point.settings}": point.bits_per_second for point in done.points}
    task = f"gsvc-task, {FROM_STREAM}, task motion"
    levels = [f"gsvc-objects, {FROM_STREAM}, level {level}" for level in (1, 2)]
    assert rates[task] < rates[levels[0]] < rates[levels[1]]
    assert "bits in per cent of others' at equal mAP@.5" in done.report


def test_the_rate_for_an_accuracy_lies_on_the_hull() -> None:
    line = [(1000.0, 0.8), (4000.0, 0.2)]  # bits per second, and what lacks to 1
    rate, side = rate_for(line, 0.5)
    assert rate == pytest.approx(2000.0) and side == ""
    assert rate_for(line, 0.1) == (1000.0, "<")
    assert rate_for(line, 0.9) == (4000.0, ">")


def test_what_a_detector_is_not_sure_of_is_neither_true_nor_false(tmp_path: Path) -> None:
    class Unsure:
        name = "unsure"
        labels: frozenset[str] | None = frozenset({"person"})

        def __call__(self, frames: Sequence[Picture]) -> Boxes:
            count = len(frames)
            boxes = np.tile([[0.0, 0, 9, 9], [20.0, 0, 29, 9]], (count, 1))
            both = np.tile([False, True], count)
            frame = np.repeat(np.arange(count), 2)
            return make_boxes(frame, boxes, label="person", ignored=both)

    clip = TestClip("blank", [np.zeros((64, 64, 3), np.uint8)] * 3, Fraction(25))
    subject = Subject([find_codec("jpeg", quality=50, scale="1")], Unsure())
    points = list(measure(clip, None, subject, lambda name, error: pytest.fail(str(error))))
    assert [point.accuracies["moda"] for point in points] == [1.0, 1.0]


def test_key_points_are_judged_against_the_source(tmp_path: Path) -> None:
    class Posing:
        name = "posing"
        labels: frozenset[str] | None = frozenset({"person"})

        def __call__(self, frames: Sequence[Picture]) -> SeenClip:
            """The first call is the source's: nobody is found in what was coded."""
            body = np.stack([np.linspace(5, 60, 17), np.linspace(5, 60, 17) ** 1.1], axis=1)
            count = 0 if hasattr(self, "called") else len(frames)
            self.called = True
            poses = [Pose(n, body, np.ones(17, np.bool_)) for n in range(count)]
            box = np.tile([4.0, 4.0, 61.0, 61.0], (count, 1))
            return SeenClip(make_boxes(np.arange(count), box, label="person"), poses)

    clip = TestClip("blank", [np.zeros((64, 64, 3), np.uint8)] * 3, Fraction(25))
    codecs = [find_codec("jpeg", quality=50, scale="1")]
    points = list(measure(clip, None, Subject(codecs, Posing()), lambda *told: pytest.fail()))
    assert [point.accuracies["oks_ap"] for point in points] == [pytest.approx(1), 0]


def test_places_of_epfl_are_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "gt_terrace1.txt").write_text("1\n1 1 30 44 25 0 0\n914\n")
    with pytest.raises(InputError, match="leave out --ground"):
        load_ground(str(tmp_path), None, None)


@pytest.mark.slow
def test_places_on_the_ground(tmp_path: Path) -> None:
    settings = SceneSettings(seed=2, frames=8, cameras=3, pillars=0, animals=0, things=0)
    made = make_scene(settings)
    write_synthetic(made, tmp_path / "set")
    views = [joined([shot.truth for shot in made.shots(camera)]) for camera in range(3)]
    turn = iter(views)  # the streams come camera by camera
    codecs = ("jpeg:quality=60,scale=1", "gsvc:level=0,steps=0,preset=fast")
    run = AnalysisRunSettings(
        (str(tmp_path / "set"),), codecs, analyser=lambda _: next(turn), ground=True
    )
    done = run_analysis(run, tmp_path / "run")
    scores = {point.curve: point.accuracies[GROUND] for point in done.points}
    assert done.failed == 0
    assert scores[f"gsvc, {FROM_STREAM}"] == pytest.approx(1, abs=0.15)
    assert "MODA on the ground" in done.report and "IDF1" not in done.report


@pytest.mark.slow
def test_a_task_beside_hevc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = SceneSettings(seed=1, frames=6, width=384, height=256, pillars=0)
    write_synthetic(make_scene(settings), tmp_path / "scene")
    assert task_rates([str(tmp_path / "scene")]) == 0
    told = capsys.readouterr().out
    assert "exact truth" in told and "at equal map50: " in told
    assert sum("crf" in line for line in told.splitlines()) == 9


def test_the_command(scene: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = scene / "C1" / "img1"  # without its truth
    code = main(
        ["bench", "analyse", str(video), "-o", str(tmp_path / "run"), "--codec", "webp:quality=50"]
    )
    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert "pseudo-truth: what the detector finds in the source" in shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "no such set, folder or file"),
        (("synthetic/pan", "--detector", "eye"), "unknown detector 'eye'"),
        (("synthetic/pan", "--detector", "json:loads"), "made without values"),
        (("synthetic/pan", "--detector", "builtins:list"), "is no detector"),
        (("synthetic/pan", "--codec", "jpeg:quality=0"), "quality 0 is out of range"),
    ],
)
def test_errors_are_one_line(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "analyse", *arguments, "-o", str(tmp_path / "run")]) != 0
    shown = capsys.readouterr().err
    assert message in shown and len(shown.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["jpeg", "webp"])
def test_picture_codecs_go_there_and_back(name: str) -> None:
    scene = make_scene(SceneSettings(frames=2, width=256, height=160))
    frames = [shot.picture for shot in scene.shots(0)]
    codec = find_codec(name, quality=(20, 90), scale="1")
    clip = TestClip("it", frames, scene.settings.frame_rate)
    sizes, errors = [], []
    for settings in codec.rate_points():
        data = codec.encode(clip, settings).data
        decoded = codec.decode(data, clip.format, settings, {}).frames
        sizes.append(len(data))
        errors.append(np.abs(np.subtract(decoded[1], frames[1], dtype=int)).mean())
    assert sizes[0] < sizes[1] and errors[1] < errors[0] < 12
