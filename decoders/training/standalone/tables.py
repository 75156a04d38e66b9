"""The tables of a run: what training measures, about once a second, and the scores."""

import csv
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

_ROW_EVERY = 1.0


class LossTable:
    """`log.csv`: means of the terms since the row before."""

    def __init__(self, path: Path, terms: Sequence[str], is_new: bool) -> None:
        """`is_new`: begin the file anew."""
        self._path, self._terms = path, terms
        self._sums: dict[str, Tensor] = {}
        self._steps = 0
        self._written = time.monotonic()
        if is_new:
            _write(path, "w", ["step", "seconds", "samples/s", "rate", *terms])

    def add(self, terms: Mapping[str, Tensor]) -> None:
        """Of one step; nothing waits for the device."""
        for name, term in terms.items():
            self._sums[name] = self._sums[name] + term if name in self._sums else term
        self._steps += 1

    @property
    def is_due(self) -> bool:
        """Whether a row should be written."""
        return self._steps > 0 and time.monotonic() - self._written >= _ROW_EVERY

    def write(self, step: int, seconds: float, samples: int, rate: float) -> dict[str, float]:
        """A row; `samples`: of a step. Returns its means and `samples/s`."""
        now = time.monotonic()
        speed = self._steps * samples / (now - self._written)
        means = {name: float(total) / self._steps for name, total in self._sums.items()}
        shown = [f"{means[name]:.5g}" if name in means else "" for name in self._terms]
        _write(self._path, "a", [step, f"{seconds:.1f}", f"{speed:.1f}", f"{rate:.2e}", *shown])
        self._sums, self._steps, self._written = {}, 0, now
        return {"samples/s": speed, **means}


class ScoreTable:
    """`scores.csv`: a row for each result and save."""

    def __init__(self, path: Path, is_new: bool) -> None:
        """`is_new`: begin the file anew."""
        self._path = path
        if is_new:
            _write(path, "w", ["step", "seconds", "result", "alex", "psnr"])

    def write(self, step: int, seconds: float, scores: Mapping[str, Mapping[str, float]]) -> None:
        """Rows of one save."""
        for name, score in scores.items():
            values = f"{score['alex']:.5f}", f"{score['psnr']:.3f}"
            _write(self._path, "a", [step, f"{seconds:.1f}", name, *values])


def _write(path: Path, mode: str, values: Sequence[object]) -> None:
    with path.open(mode, newline="") as file:
        csv.writer(file).writerow(values)
