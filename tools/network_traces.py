"""Networks that change: synthetic traces of capacity, and a link that keeps to one.

They are drawn by rules of thumb, not recorded: the shapes are those of cells and satellites, the
rates those of a share of one that a stream of a few kilobits may have.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import InputError

SLOT = 0.1
"""Seconds for which a capacity holds."""


@dataclass(frozen=True)
class Trace:
    """One direction of a network."""

    capacity: NDArray[np.float64]
    """Bits per second, a value for each `SLOT`."""
    delay: float
    """Seconds that a datagram is under way besides; the other direction takes the same."""
    queue: int
    """Bytes that wait at most; what comes beyond is lost."""
    loss: float
    """Share of datagrams that is lost besides."""

    @property
    def mean(self) -> float:
        """Bits per second."""
        return float(self.capacity.mean())


def lte_like(seconds: float, seed: int = 0) -> Trace:
    """A cell: capacity wanders by a factor of three about 30 kbit/s, and falls at handovers.

    A geometric random walk that returns in 6 s; a second and a half of 2 kbit/s every 25 s on
    average; 40 ms under way; a deep queue, nothing lost but by it.
    """
    rng, slots = np.random.default_rng(seed), round(seconds / SLOT)
    wander, back = np.zeros(slots), SLOT / 6
    for slot in range(1, slots):
        wander[slot] = (1 - back) * wander[slot - 1] + rng.normal(0, 0.5 * np.sqrt(2 * back))
    capacity = np.minimum(100_000, 30_000 * np.exp(wander))
    for start in np.flatnonzero(rng.random(slots) < SLOT / 25):
        capacity[start : start + 15] = 2_000
    return Trace(capacity, delay=0.04, queue=8_000, loss=0.0)


def satellite_like(seconds: float, seed: int = 0) -> Trace:
    """A narrow channel by a geostationary satellite: steps of coding with the weather, outages.

    8, 16 or 24 kbit/s for 10 to 20 s each; 2 s of nothing every 40 s on average; 270 ms under way;
    1 % lost.
    """
    rng, slots = np.random.default_rng(seed), round(seconds / SLOT)
    capacity = np.zeros(slots)
    at = 0
    while at < slots:
        length = int(rng.uniform(10, 20) / SLOT)
        capacity[at : at + length] = rng.choice([8_000, 16_000, 24_000])
        at += length
    for start in np.flatnonzero(rng.random(slots) < SLOT / 40):
        capacity[start : start + 20] = 0
    return Trace(capacity, delay=0.27, queue=6_000, loss=0.01)


def shared_like(seconds: float, seed: int = 0) -> Trace:
    """A wireless network that others use: jumps as they come and go, and a queue far too deep.

    6, 12, 24 or 48 kbit/s for 3 to 12 s each; .3 s of nothing every 8 s on average; 15 ms under
    way; nothing lost but beyond 30 kB of queue.
    """
    rng, slots = np.random.default_rng(seed), round(seconds / SLOT)
    capacity = np.zeros(slots)
    at = 0
    while at < slots:
        length = int(rng.uniform(3, 12) / SLOT)
        capacity[at : at + length] = rng.choice([6_000, 12_000, 24_000, 48_000])
        at += length
    for start in np.flatnonzero(rng.random(slots) < SLOT / 8):
        capacity[start : start + 3] = 0
    return Trace(capacity, delay=0.015, queue=30_000, loss=0.0)


def recorded(path: str | Path, seconds: float, mean: float) -> list[Trace]:
    """A recorded trace in pieces of so many seconds, scaled to `mean` bits per second over all.

    The format is Mahimahi's: a line for each opportunity to send 1500 bytes, in milliseconds from
    the start, in order. 40 ms under way and 8 kB of queue are added, as of `lte_like`. Raises
    InputError for a file that is no trace, or one shorter than a piece.
    """
    try:
        lines = Path(path).read_text("ascii").split()
        at = np.array([int(line) for line in lines], np.int64)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no trace: a line for each packet, in milliseconds") from error
    if at.size == 0 or at[0] < 0 or np.any(np.diff(at) < 0):
        raise InputError(f"{path}: no trace: times in milliseconds rise from line to line")
    counts = np.bincount(at // round(1000 * SLOT)).astype(np.float64)
    length = round(seconds / SLOT)
    if counts.size < length:
        raise InputError(f"{path}: {counts.size * SLOT:.0f} s long: choose fewer --seconds")
    capacity = counts * mean / counts.mean()
    starts = range(0, capacity.size - length + 1, length)
    return [Trace(capacity[n : n + length], delay=0.04, queue=8_000, loss=0.0) for n in starts]


TRACES: Mapping[str, Callable[[float, int], Trace]] = {
    "LTE-like": lte_like,
    "satellite-like": satellite_like,
}
HELD_OUT: Mapping[str, Callable[[float, int], Trace]] = {"shared wireless": shared_like}
"""A kind that no constant of the control was chosen on."""


class Link:
    """Carries datagrams as a trace says; times are its seconds."""

    def __init__(self, trace: Trace, seed: int = 0) -> None:
        self._trace, self._chance = trace, np.random.default_rng(seed)
        self._waiting: list[tuple[float, int]] = []
        self._free_at = 0.0
        self.lost = 0

    def send(self, size: int, now: float) -> float | None:
        """When a datagram of `size` bytes, headers included, arrives; None: it is lost."""
        self._waiting = [(until, bytes_) for until, bytes_ in self._waiting if until > now]
        is_full = size + sum(bytes_ for _, bytes_ in self._waiting) > self._trace.queue
        if is_full or self._chance.random() < self._trace.loss:
            self.lost += 1
            return None
        self._free_at = self._through(max(now, self._free_at), 8 * size)
        self._waiting.append((self._free_at, size))
        return self._free_at + self._trace.delay

    def _through(self, start: float, bits: float) -> float:
        """When so many bits are through that begin at `start`; the trace begins anew at its end."""
        capacity, at = self._trace.capacity, start
        while True:
            slot = int(at / SLOT + 1e-9)
            rate, end = float(capacity[slot % len(capacity)]), (slot + 1) * SLOT
            if rate * (end - at) >= bits:
                return at + bits / rate
            bits -= rate * (end - at)
            at = end
