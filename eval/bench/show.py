"""What a run says while it works: lines and an estimate on standard error, or JSON objects."""

import sys
from collections.abc import Sequence
from time import monotonic
from typing import TextIO

from gsvc.codec.command.progress import JsonLines
from gsvc.eval.bench.cells import Job
from gsvc.eval.bench.pace import Pace
from gsvc.eval.bench.record import CellRecord
from gsvc.eval.bench.steps import Step

_WIDEST = 160
"""Characters of a line on a terminal."""
_QUIET_SECONDS = 10.0
"""Between lines of progress where there is no terminal."""


class TextReporter:
    """Lines on standard error; one that is written over where that is a terminal."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._line = self._file.isatty()
        self._pace = Pace()
        self._shown = monotonic()

    def note(self, kind: str, text: str, **values: object) -> None:
        self.close()
        print(f"gsvc: {kind}: {text}", file=self._file, flush=True)

    def plan(self, cells: int, jobs: Sequence[Job]) -> None:
        self._pace = Pace(cells, jobs)
        done = self._pace.resumed
        print(f"{cells} cells, resumed {done}/{cells}", file=self._file, flush=True)

    def step(self, worker: int, step: Step) -> None:
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
        self._pace = Pace()

    def note(self, kind: str, text: str, **values: object) -> None:
        self._lines.put(kind, message=text, **values)

    def plan(self, cells: int, jobs: Sequence[Job]) -> None:
        self._pace = Pace(cells, jobs)
        decodes = sum(job.decodes for job in jobs)
        self._lines.put("plan", cells=cells, resumed=self._pace.resumed, decodes=decodes)

    def step(self, worker: int, step: Step) -> None:
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
