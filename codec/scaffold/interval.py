"""How an interval's scaffold is laid out in elements, with its predictions and contexts.

Each layer has a module of its own: `label_syntax`, `pose_syntax`, `flow_syntax`, `camera_syntax`,
`texture_syntax`. Each function takes the value to write, or None when reading, and returns the
value. Contexts and predictions come from integers that were already coded, never from floating
point.
"""

from copy import copy
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import BitstreamError, ConfigError, LimitError
from gsvc.codec.limits import MAX_SAMPLES
from gsvc.codec.scaffold.coder import Coder
from gsvc.codec.scaffold.layers.camera import code_camera
from gsvc.codec.scaffold.layers.flow import code_correction
from gsvc.codec.scaffold.layers.pose import code_people
from gsvc.codec.scaffold.layers.segmentation import code_labels, code_layers
from gsvc.codec.scaffold.layers.texture import code_texture
from gsvc.codec.scaffold.timing import FrameClock
from gsvc.codec.scaffold.types import Correction, Geometry, Interval, Person, Place, Sample, Texture


@dataclass(frozen=True)
class Tools:
    """Which scaffold layers a stream has."""

    segmentation: bool = True
    pose: bool = True
    flow: bool = True
    texture: bool = True
    camera: bool = True


TOOLS = tuple(field.name for field in fields(Tools))
"""Names of the layers."""


class Prediction:
    """What the next interval is predicted from; a new one at every intra picture."""

    def __init__(self, frame_ticks: Fraction, *, holds: bool, dissolves: bool) -> None:
        """`frame_ticks`, `holds`, `dissolves`: as in the header."""
        self.holds, self.dissolves = holds, dissolves
        self.opens_group = True
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
    *,
    has_picture: bool = True,
) -> Interval:
    """Code the frame times and the scaffold of an interval of `length` frames; `has_picture`: a key picture ends it."""
    place, ticks = code_times(coder, prediction, length, interval, has_picture=has_picture)
    dissolves = _code_dissolve(coder, prediction, place, length, interval)
    camera = texture = None
    samples: tuple[Sample, ...] = ()
    if tools.camera:
        value = None if interval is None else interval.camera
        camera = code_camera(coder, place, length, interval is None, value)
    if has_picture:
        if tools.texture:
            wanted = None if interval is None else interval.texture
            texture = code_texture(
                coder, geometry, prediction.texture, wanted, reading=interval is None
            )
            prediction.texture = texture
        samples = _code_samples(coder, prediction, geometry, tools, length, interval)
    return Interval(ticks, samples, texture, camera, place, dissolves)


def code_times(
    coder: Coder,
    prediction: Prediction,
    length: int,
    interval: Interval | None,
    *,
    has_picture: bool,
) -> tuple[Place, tuple[int, ...]]:
    """What `code_interval` begins with: where the frames lie and their ticks. Nothing after it in a packet bears on the
    times of the next one, so that they can be read alone."""
    place = _code_place(coder, prediction, length, interval, has_picture)
    return place, _code_ticks(coder, prediction.clock, length, interval)


def _code_place(
    coder: Coder,
    prediction: Prediction,
    length: int,
    interval: Interval | None,
    has_picture: bool,
) -> Place:
    opens_group, prediction.opens_group = prediction.opens_group, False
    may_hold = opens_group and prediction.holds and length > 1
    if interval is not None and (
        has_picture is (interval.place is Place.AFTER)
        or (interval.place is Place.BEFORE and not may_hold)
    ):
        raise ConfigError(f"frames cannot be held {interval.place.name.lower()} a picture here")
    if not has_picture:
        if opens_group or not prediction.holds:
            raise BitstreamError("a packet lacks its picture: the stream is damaged")
        return Place.AFTER
    if not may_hold:
        return Place.BETWEEN
    held = None if interval is None else int(interval.place is Place.BEFORE)
    return Place.BEFORE if coder.code("interval.held", held) else Place.BETWEEN


def _code_dissolve(
    coder: Coder, prediction: Prediction, place: Place, length: int, interval: Interval | None
) -> bool:
    may_dissolve = prediction.dissolves and place is Place.BETWEEN and length > 1
    if interval is not None and interval.dissolves and not may_dissolve:
        raise ConfigError("nothing can dissolve here")
    if not may_dissolve:
        return False
    return bool(coder.code("interval.dissolves", None if interval is None else interval.dissolves))


def _code_samples(
    coder: Coder,
    prediction: Prediction,
    geometry: Geometry,
    tools: Tools,
    length: int,
    interval: Interval | None,
) -> tuple[Sample, ...]:
    samples: list[Sample] = []
    while True:
        index = len(samples)
        value = None if interval is None else interval.samples[index : index + 1]
        if not coder.code("sample.more", None if value is None else len(value)):
            return tuple(samples)
        if index == MAX_SAMPLES:
            raise LimitError(f"an interval has more than {MAX_SAMPLES} scaffold samples")
        sample = value[0] if value else None
        last = samples[-1].offset if samples else 0
        gap = coder.code("sample.gap", None if sample is None else length - sample.offset)
        if not last < length - gap:
            raise LimitError("scaffold samples lie outside their interval or out of order")
        samples.append(_code_sample(coder, prediction, geometry, tools, length - gap, sample))


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
        wanted = sample.labels if sample else None
        labels = code_labels(coder, geometry, prediction.labels, wanted)
        prediction.labels = labels
        layers = code_layers(coder, labels, sample.layers if sample else None)
    if tools.pose:
        people = code_people(coder, prediction.people, sample.people if sample else None)
        prediction.people = people
    if tools.flow:
        moved = sample.correction if sample else None
        correction = code_correction(
            coder, geometry, prediction.correction, moved, reading=sample is None
        )
        prediction.correction = correction
    return Sample(offset, labels, layers, people, correction)


def _check_complete(sample: Sample, tools: Tools) -> None:
    if tools.segmentation and (sample.labels is None or sample.layers is None):
        raise ConfigError("this stream has segmentation: a sample needs labels and layers")
    if tools.pose and sample.people is None:
        raise ConfigError("this stream has pose: a sample needs people, if only an empty tuple")
