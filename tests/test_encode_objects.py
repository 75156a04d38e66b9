"""`gsvc encode --objects` and `--task`: what the encoder sees is what an analysis tells."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import gsvc
from gsvc.codec.bitstream.objects import ObjectReader, Parts
from gsvc.codec.command.main import main
from gsvc.encoders.scaffold.object_coder import AnchorMaker, SeenFrame, SeenObject, settled
from needs import need_clip, need_models
from squares import FRAMES, Eye, check_motion_follows, overlaps, square_pictures
from test_analyse_objects import HEADER, stream_of


@pytest.fixture(scope="module")
def square_clip(write_video: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("square")
    return write_video(folder / "square.mp4", square_pictures(FRAMES))


def test_a_task_sends_boxes_and_no_pictures(square_clip: Path, tmp_path: Path) -> None:
    settings = gsvc.EncoderSettings(task="motion")
    report = gsvc.encode(square_clip, tmp_path / "it.gsv", settings=settings)
    found = gsvc.analyse(tmp_path / "it.gsv")
    assert report.bitrate < 500 and report.frames == len(found.frames) == FRAMES
    assert found.cost.pictures == 0
    check_motion_follows(found)
    activities = [frame.activity for frame in found.frames[5:-5]]
    assert all(value is not None and 0 < value < 0.2 for value in activities)


def test_objects_beside_pictures_change_no_picture(square_clip: Path, tmp_path: Path) -> None:
    made = {}
    for objects in (False, True):
        settings = gsvc.EncoderSettings(
            level=1, preset="fast", low_delay=True, objects=objects, detector=Eye()
        )
        path = tmp_path / f"{objects}.gsv"
        gsvc.encode(square_clip, path, settings=settings, frames=30)
        with path.open("rb") as file:
            reader = gsvc.StreamReader(file)
            packets = list(reader)
        made[objects] = [p.payload for p in packets if p.is_picture]
        assert (packets[0].type == gsvc.PacketType.OBJECTS) == objects
    assert made[False] == made[True]
    found = gsvc.analyse(tmp_path / "True.gsv")
    assert found.totals.objects == {"square": 1} and found.cost.pictures == 0
    assert np.mean(overlaps(found)) > 0.85 and len(overlaps(found)) == 30


def test_a_cut_is_told_and_ends_tracks(write_video: Callable[..., Path], tmp_path: Path) -> None:
    pictures = square_pictures(30) + [255 - one for one in square_pictures(22, seed=9)]
    clip = write_video(tmp_path / "cut.mp4", pictures)
    gsvc.encode(clip, tmp_path / "cut.gsv", settings=gsvc.EncoderSettings(task="detect"))
    found = gsvc.analyse(tmp_path / "cut.gsv")
    assert [event.frame for event in found.events] == [30]
    tracks = [
        {one.track for frame in part for one in frame.objects}
        for part in (found.frames[:30], found.frames[30:])
    ]
    assert tracks[0] and tracks[1] and not tracks[0] & tracks[1]


def test_times_of_a_task_are_those_of_the_source(tmp_path: Path) -> None:
    video = gsvc.VideoFormat(64, 48, Fraction(1, 1000), Fraction(25))
    times = [0, 40, 80, 500, 540, 580, 700]
    with gsvc.Encoder(video, gsvc.EncoderSettings(task="motion")) as encoder:
        packets = []
        for pts in times:
            packets += encoder.encode(np.zeros((48, 64, 3), np.uint8), pts)
        packets += encoder.flush()
        with (tmp_path / "it.gsv").open("wb") as file:
            writer = gsvc.StreamWriter(file, encoder.header)
            for packet in packets:
                writer.write(packet)
    found = gsvc.analyse(tmp_path / "it.gsv")
    assert [round(1000 * frame.seconds) for frame in found.frames] == times


@pytest.mark.parametrize("rate", [1, 5000])
def test_any_frame_rate_keeps_the_tight_limits(rate: int) -> None:
    video = gsvc.VideoFormat(64, 48, Fraction(1, rate), Fraction(rate))
    with gsvc.Encoder(video, gsvc.EncoderSettings(task="motion")) as encoder:
        black = np.zeros((48, 64, 3), np.uint8)
        packets = [p for _ in range(600) for p in encoder.encode(black)] + encoder.flush()
    reader = ObjectReader(encoder.header, gsvc.Limits.restrictive())
    runs = [reader.read(p) for p in packets if p.type == gsvc.PacketType.OBJECTS]
    assert sum(len(run.ticks) for run in runs) == 600


def test_people_have_key_points_without_a_picture(tmp_path: Path) -> None:
    clip = need_clip("carphone")
    need_models()
    settings = gsvc.EncoderSettings(task="people")
    report = gsvc.encode(clip, tmp_path / "it.gsv", settings=settings, frames=40)
    found = gsvc.analyse(tmp_path / "it.gsv")
    assert found.totals.objects == {"person": 1} and report.bitrate < 3000
    people = [person for frame in found.frames for person in frame.people]
    assert len(people) >= 4 and all(person.visible.sum() > 3 for person in people)
    nose = people[0].points[0]
    assert 40 < nose[0] < 130 and 20 < nose[1] < 100


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--task", "detect", "--bitrate", "8k"], "sends no pictures"),
        (["--detector", "moving"], "add one of them"),
        (["--objects", "--detector", "eyes"], "choose auto"),
        (["--objects", "--detector", "eyes.onnx"], "no such file"),
        (["--task", "all"], "invalid choice"),
    ],
)
def test_bad_arguments_get_one_line(
    square_clip: Path,
    arguments: list[str],
    told: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out.gsv"
    try:
        code = main(["encode", str(square_clip), "-o", str(out), *arguments])
    except SystemExit as exit:
        code = int(exit.code or 0)
    error = capfd.readouterr().err
    assert code in (1, 2) and told in error and not out.exists()
    assert len(error.strip().splitlines()) == 1


def test_who_is_named_late_has_one_class_in_a_packet() -> None:
    boxes = {7: SeenObject("moving", np.array([1.0, 1, 9, 9]), 0.5)}
    frames = [SeenFrame(number, boxes, 0.0, None, False) for number in range(4)]
    named = replace(frames[-1], objects={7: replace(boxes[7], kind="dog")})
    assert {frame.objects[7].kind for frame in settled([*frames, named])} == {"dog"}


def test_who_is_named_in_a_later_packet_goes_on_as_that(tmp_path: Path) -> None:
    maker = AnchorMaker(HEADER.geometry, Parts(), 2, is_alone=True)
    told = [
        maker.run(_frames(kind, 4), {}, begins=not number)
        for number, kind in enumerate(("moving", "person", "person"))
    ]
    found = gsvc.analyse(stream_of(told, tmp_path / "it.gsv"))
    kinds = [(one.kind, one.track) for frame in found.frames for one in frame.objects]
    assert kinds[:4] == [("moving", 1)] * 4 and kinds[-6:] == [("person", 1)] * 6
    assert len(kinds) == 12 and found.totals.objects == {"person": 1}


def _frames(kind: str, count: int) -> list[SeenFrame]:
    box = np.array([100.0, 50.0, 150.0, 170.0])
    return [SeenFrame(1, {7: SeenObject(kind, box, 0.8)}, 0.0, None, False) for _ in range(count)]
