"""The bytes that are hashed of a decoded scaffold: equal if and only if all its integers are."""

import numpy as np

from gsvc.codec.scaffold.layer import Scope, digest_array, digest_integer
from gsvc.codec.scaffold.layers import ALL_LAYERS
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval, Sample

_DISSOLVES = -2


def scaffold_bytes(interval: Interval) -> bytes:
    """All integers of an interval, 8 bytes each, little-endian; each array follows its shape."""
    parts = [
        digest_array(np.asarray(interval.ticks, np.int64)),
        digest_integer(len(interval.samples)),
        *(_sample_bytes(sample) for sample in interval.samples),
        *(one.digest(interval[one]) for one in ALL_LAYERS if one.scope is not Scope.SAMPLE),
    ]
    if interval.place is not Place.BETWEEN:
        parts.append(digest_integer(interval.place.value))
    if interval.dissolves:
        parts.append(digest_integer(_DISSOLVES))
    return b"".join(parts)


def _sample_bytes(sample: Sample) -> bytes:
    layers = (one.digest(sample[one]) for one in ALL_LAYERS if one.scope is Scope.SAMPLE)
    return digest_integer(sample.offset) + b"".join(layers)
