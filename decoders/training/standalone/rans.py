"""Entropy coding of very many symbols at once: range ANS (Duda, arXiv 1311.2540), many lanes.

Symbol n of a run is coded in lane n modulo the number of lanes (Giesen, arXiv 1402.3392), so that
numpy codes as many symbols in a step. All numbers are integers: any machine decodes what any other
one coded.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RANS_BITS = 12
"""Frequencies of a context's symbols add up to 2^RANS_BITS."""
_RANS_LEAST = 1 << 31
_RANS_WORD = 32

RansRun = tuple[NDArray[np.uint16], NDArray[np.uint8]]
"""Contexts and symbols, of equal shape (n,)."""


def rans_frequencies(counts: NDArray[np.int64]) -> NDArray[np.uint16]:
    """Frequencies in proportion to counts, (contexts, symbols), at least 1 where a count is.

    They add up to 2^RANS_BITS for each context that occurs.
    """
    total = 1 << RANS_BITS
    sums = counts.sum(1, keepdims=True)
    shares = np.where(counts > 0, np.maximum(1, counts * total // np.maximum(1, sums)), 0)
    # Many symbols of a single count may take more than there is: the commonest gives it back.
    for _ in range(total):
        rest = np.where(sums[:, 0] > 0, total - shares.sum(1), 0)
        rows = np.nonzero(rest)[0]
        if not len(rows):
            break
        best = shares[rows].argmax(1)
        shares[rows, best] += np.maximum(rest[rows], 1 - shares[rows, best])
    return shares.astype(np.uint16)


def encode_rans(runs: Sequence[RansRun], frequencies: NDArray[np.uint16], lanes: int) -> bytes:
    """Code the runs' symbols one after the other."""
    sizes = frequencies.astype(np.uint64)
    starts = np.cumsum(sizes, axis=1, dtype=np.uint64) - sizes
    states = np.full(lanes, _RANS_LEAST, np.uint64)
    words: list[NDArray[np.uint32]] = []
    bits, word = np.uint64(RANS_BITS), np.uint64(_RANS_WORD)
    most = np.uint64((_RANS_LEAST >> RANS_BITS) << _RANS_WORD)
    for contexts, symbols in reversed(runs):
        size, start = sizes[contexts, symbols], starts[contexts, symbols]
        for first in reversed(range(0, len(symbols), lanes)):
            part = slice(first, first + lanes)
            state, own = states[: len(size[part])], size[part]
            full = state >= most * own
            words.append(state[full].astype(np.uint32))
            state[full] >>= word
            state[:] = ((state // own) << bits) + state % own + start[part]
    coded = np.concatenate([np.empty(0, np.uint32), *reversed(words)])
    return states.astype("<u8").tobytes() + coded.astype("<u4").tobytes()


class RansReader:
    """Reads runs that `encode_rans` coded, in their order."""

    def __init__(self, data: bytes, frequencies: NDArray[np.uint16], lanes: int) -> None:
        """Raises ValueError for frequencies that were not made by `rans_frequencies`."""
        contexts, symbols = frequencies.shape
        sums = frequencies.sum(1, dtype=np.int64)
        if ((sums != 0) & (sums != 1 << RANS_BITS)).any() or len(data) < 8 * lanes:
            raise ValueError("packed pictures are damaged")
        self._lanes, self._place = lanes, 0
        self._states = np.frombuffer(data[: 8 * lanes], "<u8").astype(np.uint64)
        end = len(data) - len(data) % 4
        self._words = np.frombuffer(data[8 * lanes : end], "<u4").astype(np.uint64)
        self._sizes = frequencies.astype(np.uint64).ravel()
        starts = np.cumsum(frequencies, axis=1, dtype=np.uint64) - frequencies
        self._starts = starts.astype(np.uint64).ravel()
        self._width, self._found = symbols, np.zeros((contexts, 1 << RANS_BITS), np.uint8)
        for context in np.nonzero(sums)[0]:
            self._found[context] = np.repeat(np.arange(symbols), frequencies[context])

    def read(self, contexts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The symbols of a run with these contexts. Raises ValueError where the data end."""
        symbols = np.empty(len(contexts), np.int64)
        mask, bits = np.uint64((1 << RANS_BITS) - 1), np.uint64(RANS_BITS)
        for first in range(0, len(contexts), self._lanes):
            own = contexts[first : first + self._lanes]
            state = self._states[: len(own)]
            slot = state & mask
            symbol = self._found[own, slot].astype(np.int64)
            symbols[first : first + self._lanes] = symbol
            index = own * self._width + symbol
            state[:] = self._sizes[index] * (state >> bits) + slot - self._starts[index]
            empty = np.nonzero(state < _RANS_LEAST)[0]
            end = self._place + len(empty)
            if end > len(self._words):
                raise ValueError("packed pictures are cut off")
            state[empty] = (state[empty] << np.uint64(_RANS_WORD)) | self._words[self._place : end]
            self._place = end
        return symbols

    def check_end(self) -> None:
        """Raise ValueError unless all is as before the first symbol was coded: nothing changed."""
        if self._place < len(self._words) or (self._states != _RANS_LEAST).any():
            raise ValueError("packed pictures are damaged")
