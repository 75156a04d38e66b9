"""`gsvc analyse` of streams that carry objects: read, not detected; no picture is decoded."""

import io
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import gsvc
from gsvc.codec.bitstream.container import varint
from gsvc.codec.bitstream.layers.pose import Person
from gsvc.codec.bitstream.objects import (
    MAX_TRACK,
    Anchor,
    AnchorMotion,
    ObjectBox,
    ObjectRun,
    ObjectWriter,
    Parts,
)
from gsvc.codec.command.main import main

GOLDEN = Path(__file__).parent / "golden"
HEADER = gsvc.Header(gsvc.VideoFormat(320, 192, Fraction(1, 25), Fraction(25)), 0)


def walker(track: int, left: int, top: int = 50, early: int = 0, kind: str = "person") -> ObjectBox:
    return ObjectBox(track, kind, left, top, 20, 40, 12, early)


def stream_of(runs: Iterable[ObjectRun], path: Path) -> Path:
    """A stream of objects alone."""
    file, writer = io.BytesIO(), ObjectWriter(HEADER)
    out = gsvc.StreamWriter(file, HEADER)
    for run in runs:
        out.write(gsvc.Packet(gsvc.PacketType.OBJECTS, 0, writer.write(run)))
    out.write(gsvc.Packet(gsvc.PacketType.END, 0, varint(0)))
    path.write_bytes(file.getvalue())
    return path


def run_of(*anchors: Anchor, begins: bool = False, parts: Parts | None = None) -> ObjectRun:
    ticks = (1,) * sum(anchor.gap for anchor in anchors)
    return ObjectRun(ticks, anchors, parts or Parts(), begins=begins, is_alone=True)


def lefts(found: gsvc.Analysis, track: int) -> dict[int, float]:
    return {f.frame: o.box[0] for f in found.frames for o in f.objects if o.track == track}


def test_boxes_are_linear_between_anchors_and_reach_beyond_them(tmp_path: Path) -> None:
    runs = [
        run_of(
            Anchor(1, (walker(7, 10),)),
            Anchor(10, (walker(7, 30), walker(8, 100, early=4))),
            Anchor(10, (walker(8, 120),), late={7: 5}),
            begins=True,
        )
    ]
    found = gsvc.analyse(stream_of(runs, tmp_path / "it.gsv"))
    assert len(found.frames) == 21 and found.cost.pictures == found.cost.detector_runs == 0
    assert found.totals.objects == {"person": 2}
    first, second = lefts(found, 1), lefts(found, 2)
    assert first == pytest.approx({n: 10 + 2 * n for n in range(16)})
    assert second == pytest.approx({n: max(100, 100 + 2 * (n - 10)) for n in range(6, 21)})
    assert found.frames[20].seconds == pytest.approx(20 / 25)
    assert found.frames[3].objects[0].score == pytest.approx(12.5 / 16)


def test_numbers_that_come_again_are_other_tracks(tmp_path: Path) -> None:
    runs = [
        run_of(Anchor(2, (walker(MAX_TRACK, 5), walker(0, 90))), begins=True),
        run_of(Anchor(2, (walker(0, 90),)), Anchor(2, (walker(0, 90), walker(MAX_TRACK, 200)))),
        run_of(Anchor(1, (walker(0, 90), walker(MAX_TRACK, 200))), begins=True),
    ]
    found = gsvc.analyse(stream_of(runs, tmp_path / "it.gsv"))
    assert [one.track for one in found.frames[-1].objects] == [2, 3]


def test_cuts_motion_lines_and_zones(tmp_path: Path) -> None:
    parts = Parts(motion=True)
    motion = AnchorMotion(51, (-32, 0, 0, 64))
    anchors = [Anchor(1 if not n else 5, (walker(1, 10 * n),), motion=motion) for n in range(12)]
    anchors.append(Anchor(1, (walker(2, 4),), is_cut=True, motion=motion))
    path = stream_of([run_of(*anchors, begins=True, parts=parts)], tmp_path / "it.gsv")
    gate = gsvc.Line("gate", (60, 192), (60, 0))
    hall = gsvc.Zone("hall", ((40, 20), (90, 20), (90, 120), (40, 120)))
    found = gsvc.analyse(path, settings=gsvc.AnalysisSettings(lines=(gate,), zones=(hall,)))
    assert [event.kind for event in found.events] == ["enter", "line", "leave", "cut"]
    assert found.totals.cuts == 1 and found.totals.lines["gate"]["left to right"] == 1
    step = found.frames[5].camera
    assert step is not None and (step.dx, step.dy, step.zoom, step.turn) == (-2, 0, 1, 1)
    assert found.frames[5].activity == pytest.approx(0.2)


def test_a_scene_without_objects_is_told_too(tmp_path: Path) -> None:
    runs = [run_of(Anchor(250), begins=not n) for n in range(4)]
    path = stream_of(runs, tmp_path / "it.gsv")
    found = gsvc.analyse(path)
    assert len(found.frames) == 1000 and not found.totals.objects
    assert 8 * (path.stat().st_size - 32) / 40 < 20  # bits per second


def test_boxes_lie_within_the_picture(tmp_path: Path) -> None:
    run = run_of(Anchor(1, (walker(1, -5), walker(2, 319), walker(3, 400))), begins=True)
    (frame,) = gsvc.analyse(stream_of([run], tmp_path / "it.gsv")).frames
    assert [one.box.tolist() for one in frame.objects] == [[0, 50, 15, 90]]


def test_objects_beside_pictures_are_read_without_them() -> None:
    found = gsvc.analyse(GOLDEN / "with_objects.gsv")
    assert len(found.frames) == 17 and found.cost.not_decoded == 17
    assert {"person", "moving", "forklift truck"} == set(found.totals.objects)
    assert found.totals.cuts == 1
    assert sum(len(frame.people) for frame in found.frames) == 5
    info = gsvc.info(GOLDEN / "with_objects.gsv")
    assert info.bits["objects"] > 0 and info.frames == 17
    seen = gsvc.analyse(
        GOLDEN / "with_objects.gsv", settings=gsvc.AnalysisSettings(detector="moving")
    )
    assert seen.cost.pictures == 3


def test_people_of_the_scaffold_stand_beside_objects() -> None:
    data = (GOLDEN / "every_tool.gsv").read_bytes()
    scaffold = gsvc.analyse(io.BytesIO(data), settings=gsvc.AnalysisSettings("none")).frames
    reader, file = gsvc.StreamReader(io.BytesIO(data)), io.BytesIO()
    anchor = Anchor(len(scaffold), (walker(1, 5, top=2),))
    run = replace(run_of(anchor, begins=True), is_alone=False)
    writer = gsvc.StreamWriter(file, reader.header)
    payload = ObjectWriter(reader.header).write(run)
    for packet in (gsvc.Packet(gsvc.PacketType.OBJECTS, 0, payload), *reader):
        writer.write(packet)
    file.seek(0)
    found = gsvc.analyse(file)
    assert found.cost.pictures == 0 and found.frames[-1].objects
    assert sum(len(frame.people) for frame in scaffold) > 0
    for one, other in zip(found.frames, scaffold, strict=True):
        for person, same in zip(one.people, other.people, strict=True):
            assert np.array_equal(person.points, same.points)


def test_a_stream_of_objects_alone_has_frames_and_a_rate(tmp_path: Path) -> None:
    run = run_of(Anchor(50, (walker(1, 5),)), begins=True)
    info = gsvc.info(stream_of([run], tmp_path / "it.gsv"))
    assert info.frames == 50 and info.duration == 2 and info.bitrate == 4 * info.size


def test_half_a_file_is_analysed_up_to_where_it_is(tmp_path: Path) -> None:
    runs = [run_of(Anchor(10, (walker(1, n),)), begins=not n) for n in range(6)]
    path = stream_of(runs, tmp_path / "it.gsv")
    path.write_bytes(path.read_bytes()[:-20])
    found = gsvc.analyse(path, partial=True)
    assert isinstance(found.damage, gsvc.TruncatedStreamError)
    assert 20 <= len(found.frames) < 60 and found.frames[-1].objects


@pytest.mark.parametrize(
    ("stream", "detector", "told"),
    [
        ("every_tool", "objects", "encode it with --objects"),
        ("alone", "people", "has objects and no pictures"),
        ("alone", "moving", "encode it without"),
        ("sound_and_the_unknown", "none", "neither objects nor pose"),
    ],
)
def test_what_a_stream_lacks_is_told_in_a_line(
    stream: str, detector: str, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = GOLDEN / f"{stream}.gsv"
    if stream == "alone":
        path = stream_of([run_of(Anchor(5), begins=True)], tmp_path / "it.gsv")
    code = main(["analyse", str(path), "--detector", detector, "-o", str(tmp_path / "out.jsonl")])
    error = capfd.readouterr().err
    assert told in error and code == (0 if detector == "none" else 2)
    assert code == 0 or (len(error.splitlines()) == 1 and not (tmp_path / "out.jsonl").exists())


def _person(identity: int, left: int, *hidden: int) -> Person:
    visible = np.ones(17, np.bool_)
    visible[list(hidden)] = False
    points = np.stack([np.full(17, left), np.arange(17)], axis=1) * visible[:, None]
    return Person(identity, points.astype(np.int16), visible)


def test_people_are_linear_between_anchors(tmp_path: Path) -> None:
    anchors = (
        Anchor(1, people=(_person(3, 10),)),
        Anchor(4, people=(_person(3, 50, 2), _person(5, 9))),
        Anchor(2, people=(_person(3, 50),), is_cut=True),
    )
    run = run_of(*anchors, begins=True, parts=Parts(people=True))
    found = gsvc.analyse(stream_of([run], tmp_path / "it.gsv"))
    told = [{one.person: one for one in frame.people} for frame in found.frames]
    assert [set(people) for people in told] == [{3}, {3}, {3}, {3}, {3, 5}, set(), {3}]
    lefts = [people[3].points[0, 0] for people in told[:5]]
    assert np.ptp(np.diff(lefts)) == pytest.approx(0) and lefts[4] == pytest.approx(5 * lefts[0])
    assert [bool(people[3].visible[2]) for people in told[:5]] == [True] + 4 * [False]
    assert not told[2][3].points[2].any()
