"""What a run says while it works: lines with the time left on standard error, or JSON objects."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from time import monotonic
from typing import TextIO

from gsvc.codec.api.reports import JsonLines
from gsvc.eval.bench.cells import CellJob
from gsvc.eval.bench.store import CellRecord
from gsvc.eval.bench.workers import DECODE, ENCODE, SCORE, CellStep

_Kind = tuple[str, str]
"""`CellStep.kind` and `CellStep.name`: such steps take about as long as each other."""


class RunProgress:
    """Knows the steps that are ahead, and what steps of each kind have taken so far."""

    def __init__(self, cells: int = 0, jobs: Iterable[CellJob] = ()) -> None:
        """`cells`: of the run; `jobs`: those that are not done."""
        self._ahead = {job.cell.key: Counter(steps_of(job)) for job in jobs}
        self._labels = {job.cell.key: job.cell.label for job in jobs}
        self.cells = cells
        self.resumed = self.done = cells - len(self._ahead)
        self._taken: defaultdict[_Kind, list[float]] = defaultdict(list)
        self._now: dict[int, tuple[CellStep, float]] = {}
        self._began = monotonic()

    def step(self, worker: int, step: CellStep) -> None:
        """A worker begins a step, or has done it; `worker` tells it from the others."""
        if step.seconds is None:
            self._now[worker] = step, monotonic()
            return
        self._now.pop(worker, None)
        for key in step.cells:
            self._ahead[key][step.kind, step.name] -= 1
            self._taken[step.kind, step.name].append(step.seconds / len(step.cells))

    def end(self, key: str) -> None:
        """A cell has ended; steps that it left out are not ahead any more."""
        self.done += 1
        self._ahead.pop(key, None)

    def left(self) -> float | None:
        """Seconds; None before anything is known."""
        taken = sum(map(sum, self._taken.values()))
        elapsed = monotonic() - self._began
        if not taken:
            return None
        ahead = sum((+counter for counter in self._ahead.values()), Counter[_Kind]())
        work = sum(count * self._expected(kind) for kind, count in ahead.items())
        return work * elapsed / taken

    def slowest(self) -> str:
        """What a worker has been at for longest: "gsvc: encode, 95 s, bikes 288 gsvc level=3"."""
        if not self._now:
            return ""
        step, began = min(self._now.values(), key=lambda one: one[1])
        more = f" and {len(step.cells) - 1} more" if len(step.cells) > 1 else ""
        label = self._labels[step.cells[0]]
        return f"{step.kind} {step.name} {monotonic() - began:.0f} s: {label}{more}"

    def text(self) -> str:
        """ "cell 12/40 (resumed 4/40), 31 % of the work, 0:12:05 left"."""
        text = f"cell {self.done}/{self.cells} (resumed {self.resumed}/{self.cells})"
        left = self.left()
        if left is None:
            return text
        elapsed = monotonic() - self._began
        minutes, seconds = divmod(round(left), 60)
        share = 100 * elapsed / (elapsed + left) if elapsed + left else 100
        clock = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
        return f"{text}, {share:.0f} % of the work, {clock} left"

    def _expected(self, kind: _Kind) -> float:
        """Its own mean, else that of its like, else that of all steps so far."""
        like = [s for other, many in self._taken.items() if other[0] == kind[0] for s in many]
        every = [s for many in self._taken.values() for s in many]
        return fmean(self._taken.get(kind) or like or every)


def steps_of(job: CellJob) -> Iterable[_Kind]:
    """The steps that a job needs."""
    cell = job.cell
    if job.stream is None:
        yield ENCODE, cell.codec_name
    for _, metrics in cell.lacking_ways(job.record or cell.empty_record()):
        yield DECODE, cell.codec_name
        yield from ((SCORE, metric) for metric in metrics)


_WIDEST = 160
"""Characters of a line on a terminal."""
_QUIET_SECONDS = 10.0
"""Between lines of progress where there is no terminal."""


class TextReporter:
    """Lines on standard error; one that is written over where that is a terminal."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._line = self._file.isatty()
        self._pace = RunProgress()
        self._shown = monotonic()

    def note(self, kind: str, text: str, **values: object) -> None:
        self.close()
        print(f"gsvc: {kind}: {text}", file=self._file, flush=True)

    def plan(self, cells: int, jobs: Sequence[CellJob]) -> None:
        self._pace = RunProgress(cells, jobs)
        done = self._pace.resumed
        print(f"{cells} cells, resumed {done}/{cells}", file=self._file, flush=True)

    def step(self, worker: int, step: CellStep) -> None:
        self._pace.step(worker, step)
        self.tick()

    def tick(self) -> None:
        if not self._pace.cells:
            return
        if self._line:
            self._file.write(f"\r\x1b[K{self._text()}"[:_WIDEST])
        elif monotonic() - self._shown < _QUIET_SECONDS:
            return
        else:
            print(self._text(), file=self._file)
        self._shown = monotonic()
        self._file.flush()

    def cell(self, label: str, record: CellRecord) -> None:
        self._pace.end(record.key)
        if record.error:
            self.note("failed", f"{label}: {record.error}")
        if self._pace.done == self._pace.cells and not self._line:
            print(self._pace.text(), file=self._file, flush=True)
        self.tick()

    def close(self) -> None:
        if self._line:
            self._file.write("\r\x1b[K")
            self._file.flush()

    def _text(self) -> str:
        return ", ".join(part for part in (self._pace.text(), self._pace.slowest()) if part)


class JsonReporter:
    """One JSON object a line on standard output; "type" tells what it is."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self._pace = RunProgress()

    def note(self, kind: str, text: str, **values: object) -> None:
        self._lines.put(kind, message=text, **values)

    def plan(self, cells: int, jobs: Sequence[CellJob]) -> None:
        self._pace = RunProgress(cells, jobs)
        decodes = sum(job.decodes for job in jobs)
        self._lines.put("plan", cells=cells, resumed=self._pace.resumed, decodes=decodes)

    def step(self, worker: int, step: CellStep) -> None:
        self._pace.step(worker, step)
        if step.seconds is not None:
            values = {"step": step.kind, "name": step.name, "cells": len(step.cells)}
            self._lines.put("step", **values, seconds=step.seconds, left=self._pace.left())

    def tick(self) -> None:
        pass

    def cell(self, label: str, record: CellRecord) -> None:
        self._pace.end(record.key)
        self._lines.put(
            "cell",
            key=record.key,
            clip=record.clip,
            size=record.size,
            codec=record.codec,
            settings=record.settings,
            error=record.error or None,
            bits=record.bits,
            bpp=record.bpp,
            encode_seconds=record.encode_seconds,
            decodes=[
                {
                    "way": one.way,
                    "seconds": one.seconds,
                    "scores": {name: scores.mean for name, scores in one.scores.items()},
                }
                for one in record.decodes
            ],
            done=self._pace.done,
            cells=self._pace.cells,
            left=self._pace.left(),
        )

    def close(self) -> None:
        pass


Reporter = TextReporter | JsonReporter
"""Is told what happens.

`note`: what a person must know: a "gap", a "damaged" cell, a "failed" one.
`plan`: the run has `cells`; `jobs` are those that are not complete.
`step`: a worker, told by a number, begins a step or has done it.
`tick`: time goes on.
`cell`: a cell was worked on.
`close`: nothing more is said.
"""
