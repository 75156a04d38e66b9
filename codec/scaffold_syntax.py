"""How an interval's scaffold is laid out in elements, with its predictions and contexts.

Each function takes the value to write, or None when reading, and returns the value. Contexts and predictions
come from integers that were already coded, never from floating point.
"""

from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import BitstreamError, ConfigError, LimitError
from gsvc.codec.limits import MAX_POINT, MAX_SAMPLES, MAX_VECTOR
from gsvc.codec.scaffold import (
    BOTH,
    LEFT,
    MAX_LABEL,
    POINTS,
    RIGHT,
    Correction,
    Geometry,
    Interval,
    Person,
    Sample,
    Texture,
)
from gsvc.codec.syntax import Coder
from gsvc.codec.timing import FrameClock


@dataclass(frozen=True)
class Tools:
    """Which scaffold layers a stream has."""

    segmentation: bool = True
    pose: bool = True
    flow: bool = True
    texture: bool = True


class Prediction:
    """What the next interval is predicted from; a new one at every intra picture."""

    def __init__(self, frame_ticks: Fraction) -> None:
        self.clock = FrameClock(frame_ticks)
        self.labels: NDArray[np.uint8] | None = None
        self.people: tuple[Person, ...] = ()
        self.correction: Correction | None = None
        self.texture: Texture | None = None


def code_picture(coder: Coder, crf: int | None, eighths: int | None) -> tuple[int, int]:
    """Quantiser (1-70) and size (1-8 eighths of the display size) of a group's key pictures."""
    crf, eighths = coder.code("picture.crf", crf), coder.code("picture.eighths", eighths)
    if not (1 <= crf and 1 <= eighths):
        raise BitstreamError("a group's picture size or quantiser is zero: the stream is damaged")
    return crf, eighths


def code_interval(
    coder: Coder,
    prediction: Prediction,
    geometry: Geometry,
    tools: Tools,
    length: int,
    interval: Interval | None,
) -> Interval:
    """Code the frame times and the scaffold of an interval of `length` frames."""
    ticks = _code_ticks(coder, prediction.clock, length, interval)
    texture = _code_texture(coder, prediction, geometry, interval) if tools.texture else None
    samples: list[Sample] = []
    while True:
        index = len(samples)
        value = None if interval is None else interval.samples[index : index + 1]
        if not coder.code("sample.more", None if value is None else len(value)):
            break
        if index == MAX_SAMPLES:
            raise LimitError(f"an interval has more than {MAX_SAMPLES} scaffold samples")
        sample = value[0] if value else None
        last = samples[-1].offset if samples else 0
        gap = coder.code("sample.gap", None if sample is None else length - sample.offset)
        if not last < length - gap:
            raise LimitError("scaffold samples lie outside their interval or out of order")
        samples.append(_code_sample(coder, prediction, geometry, tools, length - gap, sample))
    return Interval(ticks, tuple(samples), texture)


def _code_ticks(
    coder: Coder, clock: FrameClock, length: int, interval: Interval | None
) -> tuple[int, ...]:
    steady = _steady_ticks(copy(clock), length)
    irregular = None if interval is None else int(interval.ticks != steady)
    is_irregular = coder.code("timing.irregular", irregular)
    ticks = []
    for n in range(length):
        tick = clock.predict()
        if is_irregular:
            value = None if interval is None else interval.ticks[n] - tick
            tick += coder.code("timing.deviation", value)
        if tick < 1:
            raise BitstreamError("frame times do not rise: the stream is damaged")
        clock.advance(tick)
        ticks.append(tick)
    return tuple(ticks)


def _steady_ticks(clock: FrameClock, length: int) -> tuple[int, ...]:
    ticks = []
    for _ in range(length):
        ticks.append(clock.predict())
        clock.advance(ticks[-1])
    return tuple(ticks)


def _code_texture(
    coder: Coder, prediction: Prediction, geometry: Geometry, interval: Interval | None
) -> Texture | None:
    """Gains of a key picture; context: the gains left, above, and of the key picture before."""
    value = None if interval is None else interval.texture
    if not coder.code("texture.present", None if interval is None else int(value is not None)):
        prediction.texture = None
        return None
    block_log2 = coder.code("texture.block", None if value is None else value.block_log2)
    rows, columns = geometry.block_shape(block_log2)
    if value is not None and value.gains.shape != (rows, columns):
        raise ConfigError(f"texture gains of {value.gains.shape}: {(rows, columns)} are needed")
    past = prediction.texture
    if past is None or past.block_log2 != block_log2:
        before = np.zeros((rows, columns), int).tolist()
    else:
        before = past.gains.tolist()
    wanted = None if value is None else value.gains.tolist()
    gains = np.zeros((rows + 1, columns + 1), int).tolist()
    for row in range(rows):
        for column in range(columns):
            around = gains[row][column + 1] + gains[row + 1][column] + 2 * before[row][column]
            target = None if wanted is None else wanted[row][column]
            context = _GAIN_CONTEXTS[min(around, len(_GAIN_CONTEXTS) - 1)]
            gains[row + 1][column + 1] = coder.code("texture.gain", target, context)
    prediction.texture = Texture(block_log2, np.asarray(gains, np.uint8)[1:, 1:])
    return prediction.texture


_GAIN_CONTEXTS = (0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5)
"""Context of a gain by the sum of its neighbours, the one before counted twice."""


def _code_sample(
    coder: Coder,
    prediction: Prediction,
    geometry: Geometry,
    tools: Tools,
    offset: int,
    sample: Sample | None,
) -> Sample:
    labels = layers = people = correction = None
    if sample is not None:
        _check_complete(sample, tools)
    if tools.segmentation:
        labels = _code_labels(coder, prediction, geometry, sample.labels if sample else None)
        layers = _code_layers(coder, labels, sample.layers if sample else None)
    if tools.pose:
        people = _code_people(coder, prediction, sample.people if sample else None)
    if tools.flow:
        correction = _code_correction(
            coder, prediction, geometry, sample is None, sample.correction if sample else None
        )
    return Sample(offset, labels, layers, people, correction)


def _check_complete(sample: Sample, tools: Tools) -> None:
    if tools.segmentation and (sample.labels is None or sample.layers is None):
        raise ConfigError("this stream has segmentation: a sample needs labels and layers")
    if tools.pose and sample.people is None:
        raise ConfigError("this stream has pose: a sample needs people, if only an empty tuple")


# --- segmentation: a template of coded neighbours, as in JBIG (ITU-T T.82), for several labels -------------


def _code_labels(
    coder: Coder,
    prediction: Prediction,
    geometry: Geometry,
    value: NDArray[np.uint8] | None,
) -> NDArray[np.uint8]:
    shape = geometry.label_shape
    before = prediction.labels if prediction.labels is not None else np.zeros(shape, np.uint8)
    if value is not None and value.shape != shape:
        raise ConfigError(f"segmentation of shape {value.shape}: this video takes {shape}")
    same = None if value is None else int(np.array_equal(value, before))
    if coder.code("labels.same", same):
        labels = before
    else:
        labels = _code_label_cells(coder, before, value)
    prediction.labels = labels
    return labels


def _code_label_cells(
    coder: Coder, before: NDArray[np.uint8], value: NDArray[np.uint8] | None
) -> NDArray[np.uint8]:
    rows, columns = before.shape
    # A border of background spares every special case at the edges.
    past = np.pad(before, 1).tolist()
    now = np.zeros((rows + 2, columns + 2), np.uint8).tolist()
    wanted = None if value is None else value.tolist()
    for row in range(1, rows + 1):
        above, here, old = now[row - 1], now[row], past[row]
        for column in range(1, columns + 1):
            target = None if wanted is None else wanted[row - 1][column - 1]
            here[column] = _code_label(
                coder,
                target,
                left=here[column - 1],
                above=above[column],
                above_left=above[column - 1],
                above_right=above[column + 1],
                before=old[column],
                below=past[row + 1][column],
            )
    return np.asarray(now, np.uint8)[1:-1, 1:-1]


def _code_label(
    coder: Coder,
    target: int | None,
    *,
    left: int,
    above: int,
    above_left: int,
    above_right: int,
    before: int,
    below: int,
) -> int:
    context = (
        (left == above)
        | (left == above_left) << 1
        | (left == above_right) << 2
        | (left == before) << 3
        | (left == below) << 4
    )
    if coder.code("labels.left", None if target is None else int(target == left), context):
        return left
    if above != left:
        context = (above == before) | (above == above_right) << 1
        if coder.code("labels.above", None if target is None else int(target == above), context):
            return above
    is_before = None if target is None else int(target == before)
    if before not in (left, above) and coder.code("labels.before", is_before):
        return before
    return coder.code("labels.value", target)


def _code_layers(
    coder: Coder, labels: NDArray[np.uint8], value: NDArray[np.int16] | None
) -> NDArray[np.int16]:
    layers = np.zeros((MAX_LABEL + 1, 2), np.int16)
    for label in np.unique(labels).tolist():
        vector = None if value is None else value[label].tolist()
        moves = None if vector is None else int(any(vector))
        if coder.code("layers.moves", moves, int(label > 0)):
            for axis in (0, 1):
                part = None if vector is None else vector[axis]
                layers[label, axis] = coder.code("layers.vector", part, axis)
    return layers


# --- pose: each person against the same person before ----------------------------------------------------


def _code_people(
    coder: Coder, prediction: Prediction, value: tuple[Person, ...] | None
) -> tuple[Person, ...]:
    writing = value is not None
    found = {person.identity: person for person in value or ()}
    if len(found) < len(value or ()):
        raise ConfigError("two people of one sample have the same identity")
    people: list[Person] = []
    for old in prediction.people:
        stays = int(old.identity in found) if writing else None
        if coder.code("pose.stays", stays):
            people.append(_code_person(coder, old.identity, old, found.get(old.identity)))
    known = {person.identity for person in prediction.people}
    new = [person for person in value or () if person.identity not in known]
    while coder.code("pose.more", int(bool(new)) if writing else None):
        person = new.pop(0) if new else None
        identity = coder.code("pose.identity", person.identity if person else None)
        if any(other.identity == identity for other in people):
            raise BitstreamError("two people have the same identity: the stream is damaged")
        people.append(_code_person(coder, identity, None, person))
    prediction.people = tuple(people)
    return prediction.people


def _code_person(coder: Coder, identity: int, old: Person | None, value: Person | None) -> Person:
    moves = coder.code("pose.moves_picture", None if value is None else int(value.moves_picture))
    shift = [0, 0]
    if old is not None:
        guess = None if value is None else _common_shift(old, value)
        shift = [coder.code("pose.shift", None if guess is None else guess[k], k) for k in (0, 1)]
    points = np.zeros((POINTS, 2), np.int16)
    visible = np.zeros(POINTS, np.bool_)
    last: list[int] | None = None
    for point in range(POINTS):
        context = 2 if old is None else int(old.visible[point])
        seen = None if value is None else int(value.visible[point])
        if not coder.code("pose.visible", seen, context):
            continue
        target = None if value is None else value.points[point].tolist()
        element = "pose.point"
        if old is not None and old.visible[point]:
            base = [int(old.points[point, k]) + shift[k] for k in (0, 1)]
        elif last is not None:
            base = last
        else:
            base, element = [0, 0], "pose.origin"
        last = [
            base[k] + coder.code(element, None if target is None else target[k] - base[k], k)
            for k in (0, 1)
        ]
        if max(abs(last[0]), abs(last[1])) > MAX_POINT:
            raise LimitError(f"a key point lies beyond {MAX_POINT} units")
        points[point], visible[point] = last, True
    return Person(identity, points, visible, bool(moves))


def _common_shift(old: Person, new: Person) -> tuple[int, int]:
    both = old.visible & new.visible
    if not both.any():
        return 0, 0
    moved = new.points[both].astype(int) - old.points[both]
    return int(median(moved[:, 0].tolist())), int(median(moved[:, 1].tolist()))


# --- flow: sparse corrections on a grid ------------------------------------------------------------------


def _code_correction(
    coder: Coder,
    prediction: Prediction,
    geometry: Geometry,
    reading: bool,
    value: Correction | None,
) -> Correction | None:
    if not coder.code("flow.present", None if reading else int(value is not None)):
        prediction.correction = None
        return None
    block_log2 = coder.code("flow.block", None if value is None else value.block_log2)
    rows, columns = geometry.block_shape(block_log2)
    if value is not None and value.sides.shape != (rows, columns):
        raise ConfigError(f"a correction grid of {value.sides.shape}: {(rows, columns)} is needed")
    before = prediction.correction
    if before is not None and before.block_log2 != block_log2:
        before = None
    sides = np.zeros((rows, columns), np.uint8)
    vectors = np.zeros((rows, columns, 2), np.int16)
    coded = np.zeros((rows + 1, columns + 1), np.int8)
    for row in range(rows):
        for column in range(columns):
            neighbours = int(coded[row, column + 1]) + int(coded[row + 1, column])
            past = before is not None and _is_coded(before, row, column)
            flag = None if value is None else int(_is_coded(value, row, column))
            if not coder.code("flow.coded", flag, neighbours + 3 * past):
                continue
            coded[row + 1, column + 1] = 1
            guess = _guess_vector(vectors, coded, before if past else None, row, column)
            side = None if value is None else int(value.sides[row, column])
            context = 0
            if coded[row + 1, column]:
                context = 1 + (int(sides[row, column - 1]) != BOTH)
            sides[row, column] = _code_side(coder, side, context)
            for axis in (0, 1):
                part = (
                    None if value is None else int(value.vectors[row, column, axis]) - guess[axis]
                )
                moved = guess[axis] + coder.code("flow.vector", part, axis)
                if abs(moved) > MAX_VECTOR:
                    raise LimitError(f"a motion vector is beyond {MAX_VECTOR} units")
                vectors[row, column, axis] = moved
    prediction.correction = Correction(block_log2, sides, vectors)
    return prediction.correction


def _is_coded(correction: Correction, row: int, column: int) -> bool:
    return bool(correction.sides[row, column]) or bool(correction.vectors[row, column].any())


def _code_side(coder: Coder, side: int | None, context: int) -> int:
    one_sided = None if side is None else int(side != BOTH)
    if not coder.code("flow.one_sided", one_sided, context):
        return BOTH
    right = coder.code("flow.right", None if side is None else int(side == RIGHT), context)
    return RIGHT if right else LEFT


def _guess_vector(
    vectors: NDArray[np.int16],
    coded: NDArray[np.int8],
    before: Correction | None,
    row: int,
    column: int,
) -> tuple[int, int]:
    """Median of the coded neighbours: left, above, and the same block at the anchor before."""
    known = []
    if coded[row + 1, column]:
        known.append(vectors[row, column - 1].tolist())
    if coded[row, column + 1]:
        known.append(vectors[row - 1, column].tolist())
    if before is not None:
        known.append(before.vectors[row, column].tolist())
    if not known:
        return 0, 0
    middle = [sorted(v[axis] for v in known)[len(known) // 2] for axis in (0, 1)]
    return middle[0], middle[1]
