"""The layer of faces: what is stored comes back, what is drawn moves, what is none stays."""

import logging
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import gsvc
from gsvc import ConfigError
from gsvc.codec.bitstream.entropy_coding import Coder, Reader, Writer
from gsvc.codec.bitstream.group import Coding, code_coding
from gsvc.codec.bitstream.layers.camera import camera_nodes
from gsvc.codec.bitstream.layers.faces import FACES, NUMBERS, POSE_NUMBERS, Face, Faces
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place, Site
from gsvc.decoders.interpolation.rendering import IntervalRenderer, held_picture
from gsvc.decoders.interpolation.scaffold_motion import (
    MEAN,
    FaceMotion,
    openings,
    points_of,
    states_of,
)
from gsvc.encoders.config import CodingConfig
from gsvc.encoders.distortion import Distortion
from gsvc.encoders.tuning import LEVELS, PRESETS

GEOMETRY = Geometry(352, 288)
LENGTH = 12


def make_face(place: Place, seed: int = 0) -> Face:
    """A face in the middle of the picture, 60 pixels between its eyes, that moves."""
    random = np.random.default_rng(seed)
    start = np.array([350, 250, 120, 0, *[0] * 6], np.int32)
    end = start + random.integers(-9, 9, NUMBERS, np.int32) * (place is Place.BETWEEN)
    nodes = len(camera_nodes(place, LENGTH, 2))
    return Face(start, end, 2, random.integers(-20, 20, (nodes, NUMBERS), np.int32))


def all_of(faces: Faces | None) -> list[list[int]]:
    return [
        [slot, face.step_log2, *face.start, *face.end, *face.bends.ravel()]
        for slot, face in enumerate(faces or ())
        if face is not None
    ]


def test_faces_come_back() -> None:
    places = Place.BEFORE, Place.BETWEEN, Place.BETWEEN, Place.AFTER
    values: list[Faces] = [
        (make_face(place, n), None, make_face(place, 9), None) for n, place in enumerate(places)
    ]
    values[2] = (None, *values[2][1:])
    writer, reader = Writer(), Reader()
    before: Faces | None = None
    for place, value in zip(places, values, strict=True):
        before = FACES.code(writer, Site(GEOMETRY, place, LENGTH), before, value)
    reader.start(writer.finish())
    last = None
    for place, value in zip(places, values, strict=True):
        last = FACES.code(reader, Site(GEOMETRY, place, LENGTH), last, None)
        assert all_of(last) == all_of(value)


def test_a_group_says_whether_it_has_faces() -> None:
    for faces in (False, True):
        writer, reader = Writer(), Reader()
        layers = frozenset({FACES.name} if faces else ())
        code_coding(writer, Coding(40, 6, alone=True, layers=layers))
        reader.start(writer.finish())
        assert code_coding(reader, None) == Coding(40, 6, alone=True, layers=layers)


def test_a_still_face_takes_next_to_nothing() -> None:
    coder, site = Coder(), Site(GEOMETRY, Place.BETWEEN, LENGTH)
    state = make_face(Place.AFTER).start
    still = (Face(state, state, 2, np.zeros((2, NUMBERS), np.int32)), None, None, None)
    before = None
    for _ in range(9):
        begun, before = coder.total, FACES.code(coder, site, before, still)
    assert coder.total - begun < 4


def test_faces_that_cannot_be_stored_are_refused() -> None:
    face = make_face(Place.BETWEEN)
    held = Site(GEOMETRY, Place.AFTER, LENGTH)
    with pytest.raises(ConfigError, match="ends as it starts"):
        FACES.code(Coder(), held, None, (face, None, None, None))
    short = Face(face.start, face.end, 0, face.bends)
    with pytest.raises(ConfigError, match="needed"):
        FACES.code(Coder(), Site(GEOMETRY, Place.BETWEEN, LENGTH), None, (short, *[None] * 3))


def test_a_state_is_found_from_its_points() -> None:
    state = np.array([[350.0, 250, 110, 20, 3, -8, 12, 0, 5, -2]])
    assert np.abs(states_of(points_of(state)) - state).max() < 2.5
    assert openings(state + np.eye(NUMBERS)[[0]]) == pytest.approx(openings(state))


def test_a_face_moves_what_is_drawn_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 255, (36, 44), np.uint8).repeat(8, 0).repeat(8, 1)
    for place in (Place.BETWEEN, Place.BEFORE, Place.AFTER):
        faces = (make_face(place), None, None, None)
        plain = Interval((1,) * LENGTH, place=place)
        moved = Interval((1,) * LENGTH, values={FACES: faces}, place=place)
        if place is Place.BETWEEN:
            one, other = (
                IntervalRenderer(picture, picture, each, None).picture(6) for each in (plain, moved)
            )
        else:
            one, other = (held_picture(picture, each, 6) for each in (plain, moved))
        apart = np.abs(one.astype(int) - other).astype(float)
        y, x = (125 + 60 * MEAN[:, 1].mean(), 175)
        assert apart[int(y) - 30 : int(y) + 30, x - 30 : x + 30].mean() > 2
        assert apart[:, :40].max() == apart[:, -40:].max() == 0


@pytest.mark.parametrize("scale", [0, 1, 1 << 16])
def test_any_face_can_be_drawn(scale: int) -> None:
    state = np.full(NUMBERS, scale, np.int32)
    face = Face(state, -state, 4, np.zeros((0, NUMBERS), np.int32))
    picture = np.zeros((48, 64, 3), np.uint8)
    interval = Interval((1,) * LENGTH, values={FACES: (face, None, None, None)})
    assert IntervalRenderer(picture, picture, interval, None).picture(5).max() == 0


def test_points_that_lie_too_far_apart_move_nothing() -> None:
    """Else a forged face of small eyes would cost as much as the frame has pixels."""
    face = make_face(Place.BETWEEN)
    for weight, moves in ((0, True), (2000, False)):
        end = face.end.copy()
        end[POSE_NUMBERS:] = weight
        wide = Face(face.start, end, face.step_log2, face.bends)
        interval = Interval((1,) * LENGTH, values={FACES: (wide, None, None, None)})
        bend = FaceMotion(interval, None, GEOMETRY).bend(LENGTH - 2)
        assert bend is not None and bend.vectors.any() == moves


def test_without_its_models_there_are_no_faces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    video = gsvc.VideoFormat(64, 48, Fraction(1, 25), Fraction(25))
    config = CodingConfig(gsvc.Header(video, 1), LEVELS[1], PRESETS["medium"], 0.01, exact=False)
    with caplog.at_level(logging.WARNING):
        for one in (config, replace(config, face_weight=4.0, faces=True)):
            assert one.face_points(one.distortion()) is None
        (line,) = [record.getMessage() for record in caplog.records]
        assert "faces weigh no more" in line and "gsvc models pull" in line
        caplog.clear()
        assert replace(config, faces=True).face_points(Distortion()) is None
    (line,) = [record.getMessage() for record in caplog.records]
    assert "without their own motion" in line and "gsvc models pull" in line
