"""The rendering: what it promises to encoder and refiner, for every scaffold a stream may hold."""

import time
from dataclasses import replace

import cv2
import numpy as np
import pytest

from gsvc.codec.bitstream.layers.camera import MAX_CAMERA, Camera, camera_nodes
from gsvc.codec.bitstream.layers.flow import LEFT, RIGHT, Correction
from gsvc.codec.bitstream.layers.pose import POINTS, Person
from gsvc.codec.bitstream.layers.segmentation import MAX_LABEL
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place
from gsvc.decoders.interpolation.optical_flow import MotionBetween
from gsvc.decoders.interpolation.rendering import IntervalRenderer, held_picture
from scaffolds import make_interval, make_sample

SIZE = 96, 64


def scene(shift: float, size: tuple[int, int] = SIZE) -> np.ndarray:
    """A smooth texture, `shift` pixels to the right."""
    width, height = size
    y, x = np.mgrid[:height, :width].astype(np.float64)
    x = x - shift
    waves = [np.sin(x / 5 + k) * np.cos(y / (4 + k)) + np.sin((x + y) / (9 + k)) for k in range(3)]
    picture: np.ndarray = np.clip(128 + 55 * np.dstack(waves), 0, 255).astype(np.uint8)
    return picture


def error(picture: np.ndarray, truth: np.ndarray) -> float:
    inner = np.s_[8:-8, 16:-16]
    return float(np.abs(picture[inner].astype(float) - truth[inner]).mean())


def test_steady_motion_is_found_without_a_bit() -> None:
    renderer = IntervalRenderer(scene(0), scene(8), Interval((1,) * 4), None)
    for offset in (1, 2, 3):
        assert error(renderer.picture(offset), scene(2 * offset)) < 4


def test_corrections_bend_the_path_where_they_are() -> None:
    geometry, length = Geometry(*SIZE), 8
    shape = geometry.block_shape(1)
    # The frame in the middle lies 3 pixels right of the straight path: looked up 3 to the left.
    vectors = np.zeros((*shape, 2), np.int16)
    vectors[..., 0] = -3
    sample = make_sample(4, correction=Correction(1, np.zeros(shape, np.uint8), vectors))
    renderer = IntervalRenderer(scene(0), scene(8), Interval((1,) * length, (sample,)), None)
    assert error(renderer.picture(4), scene(4 + 3)) < 4
    assert error(renderer.picture(2), scene(2 + 1.5)) < 4
    renderer.set_samples(None, ())
    assert error(renderer.picture(4), scene(4)) < 4


def test_the_camera_bends_the_path_of_everything() -> None:
    """Between two equal pictures, the camera was 4 pixels further to the right in the middle."""
    still, corners = scene(0), np.zeros((1, 3, 2), np.int16)
    corners[..., 0] = 4 * 32 // 8
    interval = make_interval((1,) * 8, camera=Camera(2, corners))
    renderer = IntervalRenderer(still, still, interval, None)
    for offset, shift in ((2, 2), (4, 4), (6, 2)):
        assert error(renderer.picture(offset), scene(-shift)) < 1


def test_the_camera_adds_to_what_is_sent_of_the_motion() -> None:
    geometry, still = Geometry(*SIZE), scene(0)
    vectors = np.zeros((*geometry.block_shape(1), 2), np.int16)
    vectors[..., 0] = -3
    sample = make_sample(
        4, correction=Correction(1, np.zeros(vectors.shape[:2], np.uint8), vectors)
    )
    corners = np.full((1, 3, 2), (8 * 4, 0), np.int16)
    interval = make_interval((1,) * 8, (sample,), camera=Camera(2, corners))
    renderer = IntervalRenderer(still, still, interval, None)
    assert error(renderer.picture(4), scene(3 - 8)) < 1


@pytest.mark.parametrize("place", [Place.BEFORE, Place.AFTER])
def test_held_frames_are_moved_corner_by_corner(place: Place) -> None:
    """A frame at a node has its pixels where its corners say; in between, half-way there."""
    still, length = scene(0), 5 if place is Place.BEFORE else 4
    # The right edge lies 8 pixels to the right, the lower one 4 pixels up: wider and flatter.
    corners = np.array([[[0, 0], [32, 0], [0, -16]]], np.int16)
    held = make_interval((1,) * length, camera=Camera(2, corners), place=place)
    assert len(camera_nodes(place, length, 2)) == 1
    assert np.array_equal(held_picture(still, Interval((1,) * length, place=place), 4), still)
    y, x = np.mgrid[:64, :96].astype(np.float32)
    for distance, share in ((4, 1.0), (2, 0.5)):
        at_x, at_y = x + share * 8 * x / 95, y - share * 4 * y / 63
        there = cv2.remap(
            still,
            at_x.astype(np.float32),
            at_y.astype(np.float32),
            cv2.INTER_CUBIC,
            borderMode=cv2.BORDER_REPLICATE,
        )
        moved = held_picture(still, held, distance)
        assert np.abs(moved.astype(int) - there).max() <= 1


@pytest.mark.parametrize(("side", "value"), [(LEFT, 0), (RIGHT, 200)])
def test_one_sided_blocks_show_that_side_alone(side: int, value: int) -> None:
    shape = Geometry(*SIZE).block_shape(2)
    sides = np.full(shape, side, np.uint8)
    sample = make_sample(1, correction=Correction(2, sides, np.zeros((*shape, 2), np.int16)))
    left, right = (np.full((64, 96, 3), level, np.uint8) for level in (0, 200))
    picture = IntervalRenderer(left, right, Interval((1, 1), (sample,)), None).picture(1)
    assert np.abs(picture.astype(int) - value).max() <= 1


def test_light_crosses_over_and_detail_does_not_blur() -> None:
    """What both pictures show is as light as its time says and as sharp as either of them."""
    textured = scene(0).astype(np.float64)
    left, right = ((textured / 2 + add).astype(np.uint8) for add in (10, 50))
    renderer = IntervalRenderer(left, right, Interval((1,) * 4), None)
    means = [float(renderer.picture(offset).mean()) for offset in (1, 2, 3)]
    ends = float(left.mean()), float(right.mean())
    wanted = [ends[0] + share * (ends[1] - ends[0]) for share in (0.25, 0.5, 0.75)]
    assert means == pytest.approx(wanted, abs=2)
    assert renderer.picture(2).std() == pytest.approx(left.std(), rel=0.05)


def passing(time: float) -> np.ndarray:
    """A textured square that moves right over a textured wall, 3 pixels a frame."""
    rng = np.random.default_rng(5)
    wall, square = (
        cv2.GaussianBlur(rng.integers(0, 256, shape, np.uint8), (0, 0), 3)
        for shape in ((192, 256, 3), (80, 80, 3))
    )
    cv2.normalize(wall, wall, 0, 160, cv2.NORM_MINMAX)
    cv2.normalize(square, square, 120, 255, cv2.NORM_MINMAX)
    x = 80 + round(3 * time)
    wall[56:136, x : x + 80] = square
    return np.asarray(wall, np.uint8)


def test_what_passes_is_whole_and_leaves_its_surroundings_alone() -> None:
    renderer = IntervalRenderer(passing(0), passing(4), Interval((1,) * 4), None)
    for offset in (1, 2, 3):
        drawn, x = renderer.picture(offset), 80 + 3 * offset
        wrong = np.abs(drawn.astype(float) - passing(offset))[72:120]
        assert wrong[:, x + 4 : x + 76].mean() < 2
        assert wrong[:, :76].mean() < 2 and wrong[:, 176:].mean() < 2


def flying(time: float) -> np.ndarray:
    """A ball of 16 pixels before a smooth wall, 9 pixels a frame: farther than flow follows."""
    picture = np.dstack([np.tile(np.linspace(60, 110, 256), (192, 1))] * 3).astype(np.uint8)
    return np.asarray(cv2.circle(picture, (80 + round(9 * time), 90), 9, (235,) * 3, -1))


def test_what_is_small_and_fast_is_seen_once_and_where_it_is() -> None:
    renderer = IntervalRenderer(flying(0), flying(4), Interval((1,) * 4), None)
    older = IntervalRenderer(flying(0), flying(4), Interval((1,) * 4), None, estimator=1)
    for offset in (1, 2, 3):
        source = flying(offset).astype(int)
        drawn, doubled = (one.picture(offset) for one in (renderer, older))
        assert np.abs(drawn - source).mean() < 0.5 * np.abs(doubled - source).mean()


def test_what_one_picture_alone_shows_is_no_ghost() -> None:
    wall = np.dstack([np.tile(np.linspace(60, 110, 256), (192, 1))] * 3).astype(np.uint8)
    shown = np.asarray(cv2.rectangle(wall.copy(), (60, 60), (160, 140), (235,) * 3, -1))
    frames = IntervalRenderer(wall, shown, Interval((1,) * 6), None)
    ghosts = IntervalRenderer(wall, shown, Interval((1,) * 6), None, estimator=2)
    for offset in range(1, 6):
        whole = wall if offset <= 3 else shown
        off, blended = (
            np.abs(one.picture(offset).astype(int) - whole)[70:130, 70:150].mean()
            for one in (frames, ghosts)
        )
        assert off < 1 and blended > 15


def test_motion_does_not_depend_on_where_pictures_lie_in_memory() -> None:
    rng = np.random.default_rng(0)
    left = cv2.GaussianBlur(rng.integers(0, 255, (96, 130), np.uint8), (0, 0), 2)
    right, held, found = np.roll(left, (2, 5), (0, 1)), list[np.ndarray](), set[bytes]()
    for _ in range(40):
        motion = MotionBetween(left, right).at(0.4)
        held += [np.empty(rng.integers(1, 4000), np.uint8), *motion]
        found.add(b"".join(one.tobytes() for one in motion))
    assert len(found) == 1


def test_borders_that_the_camera_uncovers_come_from_the_other_picture() -> None:
    wide = cv2.GaussianBlur(np.random.default_rng(3).random((128, 240, 3), np.float32), (0, 0), 4)
    wide = cv2.normalize(wide, np.empty(0), 0, 255, cv2.NORM_MINMAX).astype(np.uint8)
    left, right = wide[:, :192], wide[:, 16:208]
    renderer = IntervalRenderer(left, right, Interval((1,) * 4), None)
    # The left picture ends 8 pixels before the frame's border, the right one begins 8 after it.
    drawn = renderer.picture(2)[16:-16].astype(int)
    assert np.abs(drawn[:, -8:] - wide[16:-16, 192:200]).mean() < 6
    assert np.abs(drawn[:, :8] - wide[16:-16, 8:16]).mean() < 6


def test_layers_move_their_label_alone() -> None:
    geometry = Geometry(*SIZE)
    labels = np.zeros(geometry.label_shape, np.uint8)
    labels[:, 6:] = 2
    layers = np.zeros((MAX_LABEL + 1, 2), np.int16)
    layers[2] = 5, 0
    sample = make_sample(1, labels, layers)
    still = scene(0)
    picture = IntervalRenderer(still, still, Interval((1, 1), (sample,)), None).picture(1)
    assert np.abs(picture[:, :46].astype(int) - still[:, :46]).max() <= 2
    assert np.abs(picture[:, 50:-6].astype(int) - still[:, 55:-1]).mean() < 2


def test_limbs_follow_their_key_points() -> None:
    def person(x: int, moves: bool) -> tuple[Person, ...]:
        points = np.zeros((POINTS, 2), np.int16)
        points[5], points[7] = (x, 8), (x, 24)
        visible = np.zeros(POINTS, bool)
        visible[[5, 7]] = True
        return (Person(0, points, visible, moves),)

    before, end = make_sample(0, people=person(24, False)), make_sample(8, people=person(24, False))
    anchor = make_sample(4, people=person(27, True))
    still = scene(0)
    interval = Interval((1,) * 8, (anchor, end))
    to_left, _ = IntervalRenderer(still, still, interval, before).motion_at(4)
    assert to_left[32, 54, 0] == pytest.approx(-6, abs=1.5)  # 3 units of 2 pixels, towards the line
    assert abs(to_left[32, 5, 0]) < 0.1


@pytest.mark.parametrize("size", [(16, 16), (33, 47), (97, 65), (400, 40)])
@pytest.mark.parametrize("seed", range(6))
def test_every_scaffold_renders_in_shape_and_range(size: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    geometry, (width, height) = Geometry(*size), size
    block = geometry.block_shape(seed % 4)
    visible = rng.random(POINTS) < 0.8
    points = rng.integers(-8192, 8193, (POINTS, 2)).astype(np.int16)
    samples = tuple(
        make_sample(
            offset,
            rng.integers(0, 8, geometry.label_shape).astype(np.uint8),
            rng.integers(-1023, 1024, (8, 2)).astype(np.int16),
            (Person(0, points, visible, True),),
            Correction(
                seed % 4,
                rng.integers(0, 3, block).astype(np.uint8),
                rng.integers(-1023, 1024, (*block, 2)).astype(np.int16),
            ),
        )
        for offset in (1, 3, 5)
    )
    camera = Camera(0, rng.integers(-MAX_CAMERA, MAX_CAMERA + 1, (4, 3, 2)).astype(np.int16))
    interval = make_interval((1,) * 5, samples, None, camera)
    renderer = IntervalRenderer(scene(0, size), scene(3, size), interval, samples[0])
    held = held_picture(scene(0, size), replace(interval, place=Place.BEFORE), 3)
    for picture in (renderer.picture(2), held):
        assert picture.shape == (height, width, 3) and picture.dtype == np.uint8


def test_motion_is_that_of_the_decoded_pictures_whatever_is_drawn() -> None:
    interval = Interval((1,) * 4)
    other = IntervalRenderer(scene(0), scene(8), interval, None, drawn=(scene(20), scene(28)))
    for offset in (1, 3):
        assert error(other.picture(offset), scene(20 + 2 * offset)) < 4


@pytest.mark.slow
def test_rendering_keeps_up_with_playback() -> None:
    """25 frames a second at 288 lines on two cores; half of that, since the machine may be busy."""
    cv2.setNumThreads(2)
    size = 512, 288
    shape = Geometry(*size).block_shape(2)
    sample = make_sample(
        6, correction=Correction(2, np.ones(shape, np.uint8), np.ones((*shape, 2), np.int16))
    )
    began, frames = time.process_time(), 0
    for _ in range(4):
        renderer = IntervalRenderer(
            scene(0, size), scene(9, size), Interval((1,) * 12, (sample,)), None
        )
        frames += len([renderer.picture(offset) for offset in range(1, 12)])
    assert frames / (time.process_time() - began) > 6
