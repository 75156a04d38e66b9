"""A fingerprint of a decoded scaffold: equal on every machine if, and only if, every integer is equal."""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.scaffold.types import Correction, Interval, Person, Place, Sample


def scaffold_hash(intervals: Iterable[Interval]) -> str:
    """SHA-256 (64 hexadecimal digits) over `scaffold_bytes` of every interval, in order."""
    digest = hashlib.sha256()
    for interval in intervals:
        digest.update(scaffold_bytes(interval))
    return digest.hexdigest()


def scaffold_bytes(interval: Interval) -> bytes:
    """All integers of an interval, each array led by its shape, absent parts marked; 8 bytes little-endian each."""
    parts = [_numbers(np.asarray(interval.ticks, np.int64)), _count(len(interval.samples))]
    parts += [_sample(sample) for sample in interval.samples]
    if interval.texture is not None:
        parts += [_count(interval.texture.block_log2), _numbers(interval.texture.gains)]
    if interval.camera is not None:
        parts += [_count(interval.camera.step_log2), _numbers(interval.camera.corners)]
    if interval.place is not Place.BETWEEN:
        parts += [_count(interval.place.value)]
    if interval.dissolves:
        parts += [_count(-2)]
    return b"".join(parts)


def _sample(sample: Sample) -> bytes:
    people = sample.people
    return b"".join(
        (
            _count(sample.offset),
            _optional(sample.labels),
            _optional(sample.layers),
            _count(-1 if people is None else len(people)),
            *(_person(person) for person in people or ()),
            _correction(sample.correction),
        )
    )


def _person(person: Person) -> bytes:
    return (
        _count(person.identity)
        + _count(int(person.moves_picture))
        + _numbers(person.points)
        + _numbers(person.visible)
    )


def _correction(correction: Correction | None) -> bytes:
    if correction is None:
        return _count(-1)
    return _count(correction.block_log2) + _numbers(correction.sides) + _numbers(correction.vectors)


Integers = NDArray[np.int64] | NDArray[np.int16] | NDArray[np.uint8] | NDArray[np.bool_]


def _optional(values: Integers | None) -> bytes:
    return _count(-1) if values is None else _numbers(values)


def _numbers(values: Integers) -> bytes:
    shape = _count(values.ndim) + b"".join(map(_count, values.shape))
    return shape + values.astype("<i8").tobytes()


def _count(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)
