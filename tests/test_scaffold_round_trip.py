"""Scaffolds come back bit for bit: 120 random ones, hostile bytes, and those of real video."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import floor

import numpy as np
import pytest

from gsvc import BitstreamError, ConfigError, Tools
from gsvc.codec.bitstream.entropy_coding import Coder, Reader, Writer
from gsvc.codec.bitstream.group import MAX_SAMPLES
from gsvc.codec.bitstream.header import TOOLS
from gsvc.codec.bitstream.layers.camera import MAX_CAMERA, Camera, camera_nodes
from gsvc.codec.bitstream.layers.flow import FLOW, Correction
from gsvc.codec.bitstream.layers.pose import MAX_PEOPLE, MAX_POINT, POINTS, POSE, People, Person
from gsvc.codec.bitstream.layers.segmentation import MAX_LABEL, SEGMENTATION, Segmentation
from gsvc.codec.bitstream.layers.texture import MAX_GAIN, Texture
from gsvc.codec.bitstream.scaffold import MAX_VECTOR, Geometry, Interval, Place, Sample
from gsvc.codec.bitstream.stream_info import scaffold_bytes
from scaffolds import GroupCoder, make_interval, make_sample, only, scaffold_hash

SIZES = [(16, 16), (17, 31), (64, 48), (176, 144), (333, 95), (96, 400), (512, 288)]
TICKS = [Fraction(1), Fraction(1001, 30), Fraction(512), Fraction(3, 2), Fraction(1, 3)]
TOOL_SETS = [
    Tools(**dict(zip(TOOLS, on, strict=True))) for on in product((False, True), repeat=len(TOOLS))
]
LABELS = np.zeros((6, 8), np.uint8)
NOBODY = Person(3, np.zeros((17, 2), np.int16), np.zeros(17, bool))
Random = np.random.Generator


class Crowd:
    """Random people who enter, move, hide and leave."""

    def __init__(self, rng: Random, geometry: Geometry, most: int) -> None:
        self.rng, self.most = rng, most
        self.reach = 4 * max(geometry.label_shape)
        self.people: dict[int, Person] = {}

    def step(self) -> tuple[Person, ...]:
        rng = self.rng
        for identity in list(self.people):
            if rng.random() < 0.2:
                del self.people[identity]
        while len(self.people) < self.most and rng.random() < 0.5:
            identity = int(rng.choice([k for k in range(MAX_PEOPLE) if k not in self.people]))
            self.people[identity] = self._person(identity, rng.integers(0, self.reach, 2))
        for identity, old in self.people.items():
            self.people[identity] = self._person(identity, old.points.mean(0) + rng.integers(-9, 9))
        order = rng.permutation(list(self.people))
        return tuple(self.people[int(k)] for k in order)

    def _person(self, identity: int, where: np.ndarray) -> Person:
        rng = self.rng
        spread = MAX_POINT if rng.random() < 0.1 else 20
        points = np.clip(
            where + rng.integers(-spread, spread + 1, (POINTS, 2)), -MAX_POINT, MAX_POINT
        )
        visible = rng.random(POINTS) < rng.choice([0.0, 0.5, 1.0])
        points[~visible] = 0
        return Person(identity, points.astype(np.int16), visible, bool(rng.random() < 0.5))


def random_labels(rng: Random, geometry: Geometry, before: np.ndarray) -> np.ndarray:
    kind = rng.integers(4)
    if kind == 0:
        return before
    if kind == 1:
        return rng.integers(0, MAX_LABEL + 1, geometry.label_shape).astype(np.uint8)
    labels = before.copy()
    rows, columns = labels.shape
    top, left = rng.integers(rows), rng.integers(columns)
    labels[top : top + rows // 2 + 1, left : left + columns // 3 + 1] = rng.integers(MAX_LABEL + 1)
    return labels


def random_layers(rng: Random, labels: np.ndarray) -> np.ndarray:
    layers = np.zeros((MAX_LABEL + 1, 2), np.int16)
    for label in np.unique(labels):
        if rng.random() < 0.5:
            layers[label] = random_vectors(rng, (2,))
    return layers


def random_vectors(rng: Random, shape: tuple[int, ...]) -> np.ndarray:
    longest = rng.choice([0, 1, 5, 60, MAX_VECTOR])
    return rng.integers(-longest, longest + 1, shape).astype(np.int16)


def random_correction(rng: Random, geometry: Geometry) -> Correction | None:
    if rng.random() < 0.3:
        return None
    block_log2 = int(rng.integers(4))
    shape = geometry.block_shape(block_log2)
    coded = rng.random(shape) < rng.choice([0.0, 0.1, 0.6, 1.0])
    sides = rng.integers(0, 3, shape) * coded
    vectors = random_vectors(rng, (*shape, 2)) * coded[..., None]
    return Correction(block_log2, sides.astype(np.uint8), vectors.astype(np.int16))


def random_texture(rng: Random, geometry: Geometry) -> Texture | None:
    if rng.random() < 0.3:
        return None
    block_log2 = int(rng.integers(4))
    gains = rng.integers(0, int(rng.choice([0, 2, MAX_GAIN])) + 1, geometry.block_shape(block_log2))
    return Texture(block_log2, gains.astype(np.uint8))


def random_camera(rng: Random, place: Place, length: int) -> Camera | None:
    if rng.random() < 0.3 or (length == 1 and place is not Place.AFTER):
        return None
    step_log2 = int(rng.integers(5))
    farthest = rng.choice([0, 3, 200, MAX_CAMERA])
    shape = len(camera_nodes(place, length, step_log2)), 3, 2
    corners = rng.integers(-farthest, farthest + 1, shape)
    if rng.random() < 0.3:
        corners = np.sign(corners) * farthest  # from one extreme to the other
    return Camera(step_log2, corners.astype(np.int16))


def random_ticks(rng: Random, frame_ticks: Fraction, length: int) -> tuple[int, ...]:
    kind, steady = rng.integers(3), max(1, round(frame_ticks))
    if kind == 0:
        return (steady,) * length
    if kind == 1:
        return tuple(rng.integers(1, 3 * steady + 1, length).tolist())
    return tuple(rng.integers(1, 1 << 30, length).tolist())


def random_intervals(
    rng: Random, geometry: Geometry, tools: Tools, ticks: Fraction, *, holds: bool
) -> list[Interval]:
    """The intervals of a group."""
    crowd = Crowd(rng, geometry, int(rng.choice([1, 3, MAX_PEOPLE])))
    labels = np.zeros(geometry.label_shape, np.uint8)
    intervals = []
    for index in range(rng.integers(1, 5)):
        length = int(rng.choice([1, 2, 7, 16, 60]))
        place = random_place(rng, length, index) if holds else Place.BETWEEN
        camera = random_camera(rng, place, length) if "camera" in tools else None
        times = random_ticks(rng, ticks, length)
        if place is Place.AFTER:
            intervals.append(make_interval(times, camera=camera, place=place))
            continue
        count = min(length, int(rng.choice([0, 1, 3, MAX_SAMPLES])))
        offsets = sorted(rng.choice(length, count, replace=False) + 1)
        samples = []
        for offset in offsets:
            labels = random_labels(rng, geometry, labels)
            samples.append(
                make_sample(
                    int(offset),
                    labels if "segmentation" in tools else None,
                    random_layers(rng, labels) if "segmentation" in tools else None,
                    crowd.step() if "pose" in tools else None,
                    random_correction(rng, geometry) if "flow" in tools else None,
                )
            )
        texture = random_texture(rng, geometry) if "texture" in tools else None
        may_dissolve = place is Place.BETWEEN and length > 1
        dissolves = may_dissolve and bool(rng.random() < 0.3)
        intervals.append(make_interval(times, tuple(samples), texture, camera, place, dissolves))
    return intervals


def random_place(rng: Random, length: int, index: int) -> Place:
    """Of an interval that is the group's number `index`."""
    if index:
        return Place.AFTER if rng.random() < 0.3 else Place.BETWEEN
    return Place.BEFORE if length > 1 and rng.random() < 0.5 else Place.BETWEEN


def by_identity(interval: Interval) -> Interval:
    """The interval with people in order of identity: the order within a sample is not coded."""

    def ordered(people: People | None) -> People | None:
        return people and tuple(sorted(people, key=lambda person: person.identity))

    samples = tuple(sample.having(POSE, ordered(sample[POSE])) for sample in interval.samples)
    return replace(interval, samples=samples)


def models_of(coder: Coder) -> dict[object, int]:
    return {key: model.probability for key, model in coder._models.items()}


def random_packets(
    rng: np.random.Generator, intervals: Iterable[Interval]
) -> Iterator[list[Interval]]:
    """One to four intervals a packet; one AFTER a picture ends it."""
    batch: list[Interval] = []
    for interval in intervals:
        batch.append(interval)
        if interval.place is Place.AFTER or rng.random() < 0.4 or len(batch) == 4:
            yield batch
            batch = []
    if batch:
        yield batch


@pytest.mark.parametrize("seed", range(120))
def test_random_scaffolds_come_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tools = TOOL_SETS[seed % len(TOOL_SETS)]
    geometry = Geometry(*SIZES[rng.integers(len(SIZES))])
    ticks = TICKS[rng.integers(len(TICKS))]
    writer, reader, counter = Writer(), Reader(), Coder()
    holds = bool(rng.random() < 0.7)
    written, read, counted = (
        GroupCoder(coder, geometry, tools, ticks, holds=holds)
        for coder in (writer, reader, counter)
    )
    intervals = random_intervals(rng, geometry, tools, ticks, holds=holds)
    for batch in random_packets(rng, intervals):
        frames, before = sum(one.length for one in batch), sum(writer.bits.values())
        canonical = written.code(frames, batch)
        data = writer.finish()
        reader.start(data)
        back = read.code(frames, None)
        counted.code(frames, batch)

        assert list(map(scaffold_bytes, back)) == list(map(scaffold_bytes, canonical))
        for one, given in zip(back, batch, strict=True):
            assert scaffold_bytes(by_identity(one)) == scaffold_bytes(by_identity(given))
        assert models_of(writer) == models_of(reader) == models_of(counter)
        assert writer.bits == reader.bits == counter.bits
        counted_bytes = (sum(writer.bits.values()) - before) / 8
        # Zeros at the end of a packet are not sent; now and then there are two or three.
        assert -3 <= len(data) - counted_bytes <= 1.5 + counted_bytes / 5_000


@pytest.mark.parametrize("seed", range(60))
def test_hostile_scaffolds_are_decoded_or_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reader, writer = Reader(), Writer()
    read, written = (GroupCoder(coder, Geometry(64, 48)) for coder in (reader, writer))
    for _ in range(6):
        reader.start(rng.bytes(int(rng.integers(200))))
        try:
            intervals = read.code(9, None)
        except BitstreamError:
            return
        again = written.code(9, intervals)
        assert list(map(scaffold_bytes, again)) == list(map(scaffold_bytes, intervals))


def steady_bits(ticks: Fraction, phase: Fraction, frames: int) -> float:
    """Bits for the times of a steady rate whose first frame lies `phase` ticks after its stamp."""
    stamps = [floor(phase + ticks * n + Fraction(1, 2)) for n in range(frames + 1)]
    counter = Coder()
    coder = GroupCoder(counter, Geometry(64, 48), only(), ticks, holds=False)
    for start in range(0, frames, 10):
        steps = tuple(
            b - a for a, b in zip(stamps[start:], stamps[start + 1 : start + 11], strict=False)
        )
        coder.code_one(len(steps), Interval(steps))
    return counter.bits["timing"]


@pytest.mark.parametrize(
    "ticks", [Fraction(1001, 30), Fraction(1000, 24), Fraction(512), Fraction(1)]
)
@pytest.mark.parametrize("phase", [Fraction(0), Fraction(1, 4), Fraction(-2, 5)])
def test_a_steady_clock_costs_next_to_nothing(ticks: Fraction, phase: Fraction) -> None:
    assert steady_bits(ticks, phase, 120) < 60


@pytest.mark.parametrize(
    "sample",
    [
        make_sample(1, None, None, ()),
        make_sample(1, LABELS),
        make_sample(1, np.zeros((2, 2), np.uint8), None, ()),
        make_sample(1, LABELS, None, (NOBODY, NOBODY)),
        make_sample(
            1,
            LABELS,
            None,
            (),
            Correction(1, np.zeros((2, 2), np.uint8), np.zeros((2, 2, 2), np.int16)),
        ),
    ],
    ids=["no labels", "no people", "label shape", "identity twice", "block shape"],
)
def test_incomplete_samples_are_refused(sample: Sample) -> None:
    with pytest.raises(ConfigError):
        GroupCoder(Writer(), Geometry(64, 48)).code_one(1, Interval((1,), (sample,)))


@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_a_camera_path_of_another_length_is_refused(nodes: int) -> None:
    camera = Camera(2, np.zeros((nodes, 3, 2), np.int16))
    interval = make_interval((1,) * 9, camera=camera)
    with pytest.raises(ConfigError, match="camera"):
        GroupCoder(Writer(), Geometry(64, 48)).code_one(9, interval)


@pytest.mark.parametrize("length", [1, 2, 3, 16, 17, 60])
@pytest.mark.parametrize("step_log2", range(5))
def test_nodes_reach_every_held_frame_and_no_key_picture(length: int, step_log2: int) -> None:
    step = 1 << step_log2
    for place, farthest in ((Place.BEFORE, length - 1), (Place.AFTER, length)):
        nodes = camera_nodes(place, length, step_log2)
        assert nodes == [step * (n + 1) for n in range(len(nodes))]
        assert farthest <= step * len(nodes) < farthest + step
    between = camera_nodes(Place.BETWEEN, length, step_log2)
    assert between == [time for time in range(1, length) if time % step == 0]


def test_hash_sees_every_field() -> None:
    rng = np.random.default_rng(2)
    geometry = Geometry(64, 48)
    labels = random_labels(rng, geometry, np.zeros(geometry.label_shape, np.uint8))
    crowd = Crowd(rng, geometry, 3)
    sample = make_sample(2, labels, random_layers(rng, labels), crowd.step())
    block = Correction(0, np.zeros((6, 8), np.uint8), np.zeros((6, 8, 2), np.int16))
    texture = Texture(2, np.zeros((2, 2), np.uint8))
    path = np.zeros((1, 3, 2), np.int16)
    moved = path + np.eye(3, 2, dtype=np.int16)
    samples = [
        (sample,),
        (),
        (replace(sample, offset=1),),
        (sample.having(SEGMENTATION, None),),
        (sample.having(SEGMENTATION, Segmentation.still(labels)),),
        (sample.having(POSE, ()),),
        (sample.having(POSE, None),),
        (sample.having(FLOW, block),),
        (sample.having(FLOW, replace(block, block_log2=1)),),
    ]
    variants = [make_interval((1, 1), each) for each in samples] + [
        make_interval((1, 2), (sample,)),
        make_interval((1, 1), (sample,), texture),
        make_interval((1, 1), (sample,), replace(texture, gains=texture.gains + np.uint8(1))),
        make_interval((1, 1), (sample,), None, Camera(0, path)),
        make_interval((1, 1), (sample,), None, Camera(1, path)),
        make_interval((1, 1), (sample,), None, Camera(0, moved)),
        make_interval((1, 1), (sample,), texture, Camera(0, path)),
        make_interval((1, 1), (sample,), place=Place.BEFORE),
        make_interval((1, 1), (sample,), None, Camera(0, path), Place.BEFORE),
        make_interval((1, 1), (), place=Place.AFTER),
        make_interval((1, 1), (), None, Camera(0, path), Place.AFTER),
    ]
    assert len({scaffold_hash([variant]) for variant in variants}) == len(variants)
