"""Levels of blocks, coded by what is known of their neighbourhood.

A level's context is made of the levels of lower frequencies in its block and the four around it,
and of the same level of a picture that it resembles: the frame before, the source of a decoded
picture. DC levels are differences, to that picture or to the block before.
"""

import lzma
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.training.standalone.rans import (
    RansReader,
    RansRun,
    encode_rans,
    rans_frequencies,
)

LEVELS_SIDE = 8
"""Of a block."""
LEVELS_ORDER = sorted(range(LEVELS_SIDE**2), key=lambda n: (sum(divmod(n, LEVELS_SIDE)), n))
"""Frequencies, as row * 8 + column, from coarse to fine."""

_LEVELS_MOST = 15
"""Larger levels are coded as this one, and by how much they are larger."""
_LEVELS_SYMBOLS = 2 * (_LEVELS_MOST + 1) + 1
_LEVELS_CAP = 63
_LEVELS_CLASSES = 18
_LEVELS_BANDS = 9
_LEVELS_NEAR = 2
"""Levels of the picture that is resembled, from -2 to 2, are told apart."""
_LEVELS_LOOKS = 2 * _LEVELS_NEAR + 2
_LEVELS_SUMS = np.unique(np.round(1.42 ** np.arange(40)).astype(np.int64))[: _LEVELS_CLASSES - 1]
_LEVELS_CLASS = np.searchsorted(_LEVELS_SUMS, np.arange(1 << 12), side="right").astype(np.int64)
_LEVELS_CONTEXTS = 2 * _LEVELS_BANDS * _LEVELS_CLASSES * _LEVELS_LOOKS
_LEVELS_PER_LANE = 1 << 13
_LEVELS_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0}]

Plane = NDArray[np.int16]
"""Levels of a plane of pictures: (64, N, rows, columns), by frequency, picture and block."""
Planes = list[Plane]
"""Luma; or luma and both of chroma."""


@dataclass(frozen=True)
class Resembled:
    """What pictures resemble: levels that whoever decodes has before."""

    planes: Planes
    """Of other pictures; these come first in `rows`, then the pictures themselves."""
    rows: NDArray[np.int32]
    """For each picture the row of the one that it resembles, its own ones before it; -1: none."""


class _LevelWriter:
    """Notes what is to be coded."""

    def __init__(self) -> None:
        self.runs: list[RansRun] = []
        self.differences: list[Plane] = []
        self.excess: list[NDArray[np.uint16]] = []

    def levels(self, contexts: NDArray[np.int64], values: Plane) -> Plane:
        flat, most = values.ravel(), _LEVELS_MOST + 1
        symbols = (np.clip(flat, -most, most) + most).astype(np.uint8)
        self.runs.append((contexts.ravel().astype(np.uint16), symbols))
        self.excess.append((np.abs(flat[np.abs(flat) >= most]) - most).astype("<u2"))
        return values

    def plain(self, values: Plane) -> Plane:
        self.differences.append(values.ravel().astype("<i2"))
        return values

    def data(self, rows: NDArray[np.int32], lanes: int) -> bytes:
        counts = np.zeros(_LEVELS_CONTEXTS * _LEVELS_SYMBOLS, np.int64)
        for contexts, symbols in self.runs:
            found = np.bincount(contexts.astype(np.int64) * _LEVELS_SYMBOLS + symbols)
            counts[: len(found)] += found
        frequencies = rans_frequencies(counts.reshape(_LEVELS_CONTEXTS, _LEVELS_SYMBOLS))
        arrays = (
            rows.astype("<i4"),
            frequencies.astype("<u2"),
            np.concatenate(self.differences),
            np.concatenate(self.excess),
        )
        plain = b"".join(_bytes_apart(array) for array in arrays)
        side = lzma.compress(plain, lzma.FORMAT_RAW, filters=_LEVELS_FILTERS)
        return len(side).to_bytes(4, "little") + side + encode_rans(self.runs, frequencies, lanes)


def _bytes_apart(array: NDArray[np.generic]) -> bytes:
    """First bytes of all values, then second ones: high bytes are mostly 0."""
    return array.ravel().view(np.uint8).reshape(-1, array.itemsize).T.tobytes()


class _LevelReader:
    """Gives what a `_LevelWriter` noted."""

    def __init__(self, data: bytes, pictures: int, blocks: int, lanes: int) -> None:
        """`blocks`: of all planes of all pictures."""
        end = 4 + int.from_bytes(data[:4], "little")
        try:
            self._plain = lzma.decompress(data[4:end], lzma.FORMAT_RAW, filters=_LEVELS_FILTERS)
        except lzma.LZMAError as error:
            raise ValueError(f"packed pictures are damaged ({error})") from error
        self.rows = self._array("<i4", pictures).astype(np.int32)
        shape = _LEVELS_CONTEXTS, _LEVELS_SYMBOLS
        frequencies = self._array("<u2", shape[0] * shape[1]).astype(np.uint16).reshape(shape)
        self._differences = self._array("<i2", blocks).astype(np.int16)
        self._excess = self._array("<u2", len(self._plain) // 2).astype(np.int64)
        self._reader = RansReader(data[end:], frequencies, lanes)
        self.check_end = self._reader.check_end

    def _array(self, kind: str, count: int) -> NDArray[np.generic]:
        size = np.dtype(kind).itemsize
        taken, self._plain = self._plain[: count * size], self._plain[count * size :]
        if len(taken) < count * size:
            raise ValueError("packed pictures are not as many as the pack's manifest says")
        apart = np.frombuffer(taken, np.uint8).reshape(size, -1)
        return np.ascontiguousarray(apart.T).view(kind).ravel()

    def levels(self, contexts: NDArray[np.int64], values: Plane) -> Plane:
        most = _LEVELS_MOST + 1
        found = self._reader.read(contexts.ravel()) - most
        large = np.nonzero(np.abs(found) == most)[0]
        excess, self._excess = self._excess[: len(large)], self._excess[len(large) :]
        if len(excess) < len(large):
            raise ValueError("packed pictures are damaged")
        found[large] += np.sign(found[large]) * excess
        return found.astype(np.int16).reshape(values.shape)

    def plain(self, values: Plane) -> Plane:
        size = values.size
        taken, self._differences = self._differences[:size], self._differences[size:]
        return taken.reshape(values.shape)


def pack_levels(planes: Planes, resembled: Resembled) -> bytes:
    """Code the levels of pictures."""
    writer = _LevelWriter()
    _walk_planes(planes, resembled.planes, resembled.rows, writer)
    return writer.data(resembled.rows, _lanes(planes))


def unpack_levels(data: bytes, shapes: Sequence[tuple[int, ...]], known: Planes) -> Planes:
    """The planes, of `shapes` (64, N, rows, columns), that `pack_levels` coded.

    `known`: planes of the other pictures that they may resemble, or none. Raises ValueError for
    damaged data.
    """
    planes = [np.zeros(shape, np.int16) for shape in shapes]
    blocks = sum(plane[0].size for plane in planes)
    reader = _LevelReader(data, shapes[0][1], blocks, _lanes(planes))
    _walk_planes(planes, known, reader.rows, reader)
    reader.check_end()
    return planes


def _lanes(planes: Planes) -> int:
    return max(16, sum(plane.size for plane in planes) // _LEVELS_PER_LANE)


def _walk_planes(
    planes: Planes, known: Planes, rows: NDArray[np.int32], coder: _LevelWriter | _LevelReader
) -> None:
    """Code all planes, or read them: `coder` gives the levels."""
    others = known[0].shape[1] if known else 0
    for number, plane in enumerate(planes):
        before = known[number] if known else plane[:, :0]
        for own in _generations(rows, others):
            resembled = np.maximum(rows[own], 0)
            like = np.where(
                (resembled < others)[None, :, None, None],
                before[:, np.minimum(resembled, others - 1)] if others else 0,
                plane[:, np.maximum(resembled - others, 0)],
            )
            is_like = rows[own] >= 0
            like[:, ~is_like] = 0
            plane[:, own] = _walked(plane[:, own], like, is_like, int(number > 0), coder)


def _generations(rows: NDArray[np.int32], others: int) -> list[NDArray[np.int64]]:
    """Pictures that can be coded together, since those that they resemble were coded before.

    Raises ValueError where a picture resembles a later one.
    """
    ages: list[int] = []
    for number, row in enumerate(rows.tolist()):
        if row >= others + number:
            raise ValueError("packed pictures are damaged")
        ages.append(0 if row < others else ages[row - others] + 1)
    return [np.nonzero(np.array(ages) == age)[0] for age in range(max(ages, default=-1) + 1)]


def _walked(
    plane: Plane,
    like: Plane,
    is_like: NDArray[np.bool_],
    is_chroma: int,
    coder: _LevelWriter | _LevelReader,
) -> Plane:
    """A plane of pictures whose levels are coded, or read; `like`: what they resemble."""
    out = np.empty_like(plane)
    differences = coder.plain(_differences(plane[0], like[0], is_like))
    out[0] = _from_differences(differences, like[0], is_like)
    sizes, around = np.zeros(plane.shape, np.int16), np.zeros(plane.shape, np.int16)
    for number in LEVELS_ORDER[1:]:
        row, column = divmod(number, LEVELS_SIDE)
        total = _size_expected(sizes, around, row, column)
        total += 4 * np.minimum(np.abs(like[number]), _LEVELS_CAP)
        look = np.clip(like[number], -_LEVELS_NEAR, _LEVELS_NEAR) + _LEVELS_NEAR
        look[~is_like] = _LEVELS_LOOKS - 1
        band = is_chroma * _LEVELS_BANDS + min(row + column, _LEVELS_BANDS) - 1
        contexts = (band * _LEVELS_CLASSES + _LEVELS_CLASS[total]) * _LEVELS_LOOKS + look
        out[number] = coder.levels(contexts, plane[number])
        sizes[number] = np.minimum(np.abs(out[number]), _LEVELS_CAP)
        around[number] = _neighbours(sizes[number])
    return out


def _size_expected(sizes: Plane, around: Plane, row: int, column: int) -> Plane:
    """How large a level may be, by those of lower frequencies in its block and the four around."""
    total: Plane = np.zeros_like(sizes[0])
    for up, left, weight in ((1, 0, 4), (0, 1, 4), (1, 1, 2), (2, 0, 2), (0, 2, 2)):
        if row >= up and column >= left:
            lower = (row - up) * LEVELS_SIDE + column - left
            # The lowest one, a mean, says nothing: its size and those around it stay 0.
            total += weight * sizes[lower] + (around[lower] if up + left == 1 else 0)
    return total


def _neighbours(values: Plane) -> Plane:
    """The sum of the four blocks around each one."""
    sums = np.zeros_like(values)
    sums[:, 1:] += values[:, :-1]
    sums[:, :-1] += values[:, 1:]
    sums[:, :, 1:] += values[:, :, :-1]
    sums[:, :, :-1] += values[:, :, 1:]
    return sums


def _differences(levels: Plane, like: Plane, is_like: NDArray[np.bool_]) -> Plane:
    """To the picture that is resembled, else to the block on the left, or above at the border."""
    differences = levels - like
    own = levels[~is_like]
    differences[~is_like, 1:, 0] = own[:, 1:, 0] - own[:, :-1, 0]
    differences[~is_like, :, 1:] = own[:, :, 1:] - own[:, :, :-1]
    return differences


def _from_differences(differences: Plane, like: Plane, is_like: NDArray[np.bool_]) -> Plane:
    """What `_differences` took apart."""
    levels = differences + like
    own = differences[~is_like]
    own[:, :, 0] = np.cumsum(own[:, :, 0], axis=1)
    levels[~is_like] = np.cumsum(own, axis=2)
    return levels
