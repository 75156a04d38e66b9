"""Erasure coding: rows of parity from which any so many lost rows of equal length are made again.

A systematic Reed-Solomon code of GF(2^8) with a Cauchy matrix (Blömer et al., An XOR-Based
Erasure-Resilient Coding Scheme, 1995), of which every square part can be inverted. Libraries of it
have no wheels for the small computers that radios hang on.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import BitstreamError, ConfigError

MOST_ROWS = 256
"""Most rows, data and parity together: the field has no more elements."""
_POLYNOMIAL = 0x11D
_MAY_FAIL = 0.01
"""Chance of too many losses from which more parity is worth its bits."""

_Bytes = NDArray[np.uint8]


@cache
def _products() -> _Bytes:
    """(256, 256): all products of two elements."""
    powers = [1]
    while len(powers) < MOST_ROWS - 1:
        double = powers[-1] << 1
        powers.append(double ^ _POLYNOMIAL if double & MOST_ROWS else double)
    logarithms = np.argsort(powers)
    table = np.zeros((MOST_ROWS, MOST_ROWS), np.uint8)
    table[1:, 1:] = np.array(powers)[np.add.outer(logarithms, logarithms) % (MOST_ROWS - 1)]
    return table


def _inverse(element: int) -> int:
    return int(np.argmax(_products()[element] == 1))


def _coefficient(parity: int, row: int) -> int:
    return _inverse(MOST_ROWS - 1 - parity ^ row)


def failure_chance(count: int, parity: int, loss: float) -> float:
    """Chance that more than `parity` of all rows are lost, each alone with the chance `loss`."""
    rows, kept = count + parity, 1 - loss
    return sum(comb(rows, n) * loss**n * kept ** (rows - n) for n in range(parity + 1, rows + 1))


def enough_parity(count: int, loss: float) -> int:
    """Fewest rows of parity with which at most 1 transfer in 100 fails. Raises ConfigError."""
    if not 0 <= loss < 1:
        raise ConfigError(f"a loss of {loss:g}: write a share from 0 to below 1, 0.1 for 10 %")
    for parity in range(max(1, MOST_ROWS - count + 1)):
        if failure_chance(count, parity, loss) <= _MAY_FAIL:
            return parity
    told = f"{100 * loss:g} % loss takes more parity beside {count} packets than fits {MOST_ROWS}"
    raise ConfigError(f"{told} in all: take fewer, larger packets")


def rows_within(total: int, loss: float) -> int:
    """Most rows that go with `enough_parity` into `total`; 0: none do, or `total` is too much."""
    fits = range(total if total <= MOST_ROWS else 0)
    return next((total - p for p in fits if failure_chance(total - p, p, loss) <= _MAY_FAIL), 0)


def parity_rows(rows: Sequence[bytes], count: int) -> list[bytes]:
    """`count` rows of parity for rows of equal length. Raises ValueError for too many in all."""
    if len(rows) + count > MOST_ROWS:
        raise ValueError(f"{len(rows)} + {count} rows: at most {MOST_ROWS}")
    own, empty = dict(enumerate(rows)), bytes(len(rows[0]))
    return [_with(own, parity, empty).tobytes() for parity in range(count)]


def _with(rows: Mapping[int, bytes], parity: int, data: bytes) -> _Bytes:
    """A row of parity with these rows added, or taken away: the same here."""
    total = np.frombuffer(data, np.uint8).copy()
    for row, own in rows.items():
        total ^= _products()[_coefficient(parity, row)][np.frombuffer(own, np.uint8)]
    return total


def lost_rows(
    rows: Mapping[int, bytes], parities: Mapping[int, bytes], count: int
) -> dict[int, bytes]:
    """The rows of 0 to count - 1 that are not there, one at least, from as many of parity.

    Raises BitstreamError where that is not possible: for too few of these, rows of different
    lengths, or too many rows.
    """
    lost = [row for row in range(count) if row not in rows]
    if len(lost) > len(parities) or count + max(parities, default=0) >= MOST_ROWS:
        raise BitstreamError(f"{len(parities)} rows of parity do not make {len(lost)} good")
    if len({len(data) for data in (*rows.values(), *parities.values())}) > 1:
        raise BitstreamError("rows of different lengths: one is damaged")
    used = sorted(parities)[: len(lost)]
    known = np.stack([_with(rows, parity, parities[parity]) for parity in used])
    matrix = np.array([[_coefficient(parity, row) for row in lost] for parity in used], np.uint8)
    solved = _solved(matrix, known)
    return {row: data.tobytes() for row, data in zip(lost, solved, strict=True)}


def _solved(matrix: _Bytes, right: _Bytes) -> _Bytes:
    """Gauss and Jordan's; no pivot of a Cauchy matrix is 0."""
    products = _products()
    both = np.concatenate([matrix, right], axis=1)
    for place, row in enumerate(both):
        row[:] = products[_inverse(int(row[place]))][row]
        for other in (*both[:place], *both[place + 1 :]):
            other ^= products[other[place]][row]
    return both[:, len(matrix) :]
