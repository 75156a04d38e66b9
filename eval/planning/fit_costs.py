"""Fits what the planner foretells of time and memory: lines in what is counted, beside a profile.

Errors are relative; intervals hold 90 % of them on clips that were left out of the fit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.planning.model import LONG_LATENCY, decoding_parts, kind_of, memory_parts
from gsvc.codec.planning.profile import Profile
from gsvc.codec.planning.ways import WAYS
from gsvc.codec.planning.work import seen_work
from gsvc.encoders.tuning import PRESETS
from gsvc.eval.planning.points import LEAN, Row

KINDS = "plain", "rife", "refined"
"""Of ways to decode, as of `model.kind_of`."""
_FEW = 8
"""Rows below which they tell one share of all parts alone."""
Machines = Mapping[Row, Profile]
"""Of each row, the profile of the machine as it was when the row was measured."""
Fit = Callable[[Sequence[Row]], NDArray[np.float64]]
Foretell = Callable[[Row, NDArray[np.float64]], float]


@dataclass(frozen=True)
class Cost:
    """One number that is foretold."""

    name: str
    """Of the intervals in `fitted.json`."""
    key: str
    """A preset, or one of `KINDS`."""
    rows: Sequence[Row]
    """That measured it."""
    fit: Fit
    foretell: Foretell
    measured: Callable[[Row], float]

    @property
    def numbers(self) -> list[float]:
        """Fitted to all rows; empty where there are none."""
        return list(map(float, self.fit(self.rows))) if self.rows else []

    @property
    def ratios(self) -> list[float]:
        """What was measured over what is foretold from the other clips."""
        found = []
        for clip in dict.fromkeys(row.clip for row in self.rows):
            others = [row for row in self.rows if row.clip != clip]
            if others:
                line = self.fit(others)
                own = (row for row in self.rows if row.clip == clip)
                found += [self.measured(row) / self.foretell(row, line) for row in own]
        return found


def costs(rows: Sequence[Row], machines: Machines) -> list[Cost]:
    """All of them."""
    found = []
    for preset in PRESETS:
        of_preset = [row for row in rows if row.is_plain and row.preset == preset]
        found += [_seconds(of_preset, machines, preset), _memory(of_preset, machines, preset)]
        lean = [row for row in rows if row.preset == preset + LEAN]
        found.append(_lean_memory(lean, machines, preset, found[-1]))
    return [*found, *(_decoding(rows, machines, kind) for kind in KINDS)]


def spreads(found: Sequence[Cost]) -> dict[str, list[float]]:
    """By name, the ends of 90 % of what was measured over what was foretold."""
    spread: dict[str, list[float]] = {}
    for name in dict.fromkeys(cost.name for cost in found):
        ratios = [ratio for cost in found if cost.name == name for ratio in cost.ratios]
        if ratios:
            low, high = (float(end) for end in np.quantile(ratios, (0.05, 0.95)))
            spread[name] = [min(low, 1.0), 1.0, max(high, 1.0)]
    return spread


def told(found: Sequence[Cost]) -> str:
    """How far each errs on clips that were left out."""
    lines = []
    for cost in found:
        errors = np.abs(1 / np.array(cost.ratios or [np.nan]) - 1)
        lines.append(f"{cost.name}, {cost.key}: median error {100 * np.median(errors):.0f} %, nine "
                     f"in ten within {100 * np.quantile(errors, 0.9):.0f} %")  # fmt: skip
    return "\n".join(lines)


def _seconds(rows: Sequence[Row], machines: Machines, preset: str) -> Cost:
    def start(row: Row) -> float:
        return machines[row].encode[preset].start

    def unit(row: Row) -> float:
        return machines[row].encode["fast"].frame

    def seen(row: Row) -> list[float]:
        return seen_work(row.trial_seconds / unit(row), row.trial_keys, row.bpp)

    def fit(some: Sequence[Row]) -> NDArray[np.float64]:
        taken = [
            log((row.encode_seconds - start(row)) / (unit(row) * row.pixels * row.frames))
            for row in some
        ]
        return np.asarray(np.linalg.lstsq(np.array([seen(row) for row in some]), taken)[0])

    def foretell(row: Row, line: NDArray[np.float64]) -> float:
        per_pixel = unit(row) * exp(float(np.dot(line, seen(row))))
        return start(row) + per_pixel * row.pixels * row.frames

    timed = [row for row in rows if isfinite(row.encode_seconds)]
    return Cost("encode_seconds", preset, timed, fit, foretell, lambda row: row.encode_seconds)


def _memory(rows: Sequence[Row], machines: Machines, preset: str) -> Cost:
    def base(row: Row) -> float:
        return machines[row].encode[preset].memory

    def seen(row: Row) -> list[float]:
        held = min(row.frames, LONG_LATENCY * row.rate)
        return memory_parts(machines[row].encode[preset], row.pixels, held)

    def foretell(row: Row, line: NDArray[np.float64]) -> float:
        return base(row) + float(np.dot(line, seen(row)))

    def fit(some: Sequence[Row]) -> NDArray[np.float64]:
        weights = [1 / row.encode_memory for row in some]
        rest = [row.encode_memory - base(row) for row in some]
        return _positive([seen(row) for row in some], rest, weights)

    known = [row for row in rows if isfinite(row.encode_memory)]
    return Cost("encode_memory", preset, known, fit, foretell, lambda row: row.encode_memory)


def _lean_memory(rows: Sequence[Row], machines: Machines, preset: str, usual: Cost) -> Cost:
    """A share of what the usual encoding is foretold to hold beside its programs."""
    line = np.array(usual.numbers)

    def base(row: Row) -> float:
        return machines[row].encode[preset].memory

    def seen(row: Row) -> list[float]:
        return [usual.foretell(row, line) - base(row)]

    def foretell(row: Row, share: NDArray[np.float64]) -> float:
        return base(row) + float(np.dot(share, seen(row)))

    def fit(some: Sequence[Row]) -> NDArray[np.float64]:
        rest = [row.encode_memory - base(row) for row in some]
        return _positive([seen(row) for row in some], rest, [1 / row.encode_memory for row in some])

    return Cost("encode_memory", preset + LEAN, rows, fit, foretell, lambda row: row.encode_memory)


def _decoding(rows: Sequence[Row], machines: Machines, kind: str) -> Cost:
    def seen(row: Row, keys: float) -> list[float]:
        usage, pixels = machines[row].decode[row.way], row.pixels * row.frames
        return decoding_parts(usage, WAYS[row.way], pixels, keys)

    def foretell(row: Row, line: NDArray[np.float64]) -> float:
        return float(np.dot(line, seen(row, row.trial_keys)))

    def fit(some: Sequence[Row]) -> NDArray[np.float64]:
        seconds = [row.decode_seconds for row in some]
        parts = [seen(row, row.keys) for row in some]  # what came: the trial's would blur it
        if len(some) < _FEW:
            return np.full(3, np.median(np.array(seconds) / np.sum(parts, axis=1)))
        return _positive(parts, seconds, [1 / one for one in seconds])

    timed = [
        row
        for row in rows
        if kind_of(WAYS[row.way]) == kind
        and isfinite(row.decode_seconds)
        and isfinite(row.trial_keys)
        and (row.keys * row.frames > 1.5 or kind != "rife")  # else there is nothing to draw
    ]
    return Cost("decode_seconds", kind, timed, fit, foretell, lambda row: row.decode_seconds)


def _positive(
    seen: Sequence[Sequence[float]], values: Sequence[float], weights: Sequence[float]
) -> NDArray[np.float64]:
    """Weighted least squares; columns that would count against themselves are left out."""
    columns, scale = np.array(seen), np.array(weights)
    used = [n for n in range(columns.shape[1]) if np.any(columns[:, n])]
    while True:
        line = np.linalg.lstsq(columns[:, used] * scale[:, None], np.array(values) * scale)[0]
        if np.all(line >= 0) or len(used) == 1:
            break
        del used[int(np.argmin(line * np.abs(columns[:, used]).mean(axis=0)))]
    found = np.zeros(columns.shape[1])
    found[used] = np.maximum(line, 0)
    return found


def by_key(found: Sequence[Cost], name: str) -> Mapping[str, list[float]]:
    """The fitted numbers of one name."""
    return {cost.key: cost.numbers for cost in found if cost.name == name and cost.rows}
