"""How far a run is, and how long it has still to go, as lines or as JSON objects."""

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from time import monotonic
from typing import TextIO

from gsvc.codec.api.reports import JsonLines, shown_time, write_over
from gsvc.eval.bench.cells import CellJob
from gsvc.eval.bench.store import CellRecord
from gsvc.eval.bench.workers import DECODE, ENCODE, SCORE, CellStep

_Kind = tuple[str, str]
"""`CellStep.kind` and `CellStep.name`: such steps take about as long as each other."""


class RunProgress:
    """Knows the steps that are ahead, and what steps of each kind have taken so far."""

    def __init__(
        self,
        cells: int = 0,
        jobs: Sequence[CellJob] = (),
        records: Iterable[CellRecord] = (),
        stride: int = 1,
        workers: int = 1,
    ) -> None:
        """`cells`: of the run; `jobs`: those not done; `records`: what others have taken before."""
        self._ahead = {job.cell.key: Counter(steps_of(job)) for job in jobs}
        self._labels = {job.cell.key: job.cell.label for job in jobs}
        self._steps = {j.cell.key: 1 + len(j.cell.ways) * (1 + len(j.cell.metrics)) for j in jobs}
        self._sizes = {j.cell.key: _megapixels(j.cell.empty_record()) for j in jobs}
        self.cells = cells
        self.resumed = self.done = cells - len(self._ahead)
        self._seconds: defaultdict[_Kind, float] = defaultdict(float)
        self._pixels: defaultdict[_Kind, float] = defaultdict(float)
        self._now: dict[int, tuple[CellStep, float]] = {}
        self._stride, self._workers = stride, workers
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        self._busy = max(1.0, (load + workers) / (os.cpu_count() or 1))
        """How much longer than usual a step takes beside all others on this machine, about."""
        for cell in (one for one in records if one.bits):
            pixels = _megapixels(cell)
            self._took((ENCODE, cell.codec), cell.encode_seconds, pixels)
            for one in cell.decodes:
                self._took((DECODE, cell.codec), one.seconds, pixels)
                for name, scores in one.scores.items():
                    self._took((SCORE, name), scores.seconds, pixels)
        self._older = {*self._pixels}

    def _took(self, kind: _Kind, seconds: float, pixels: float) -> None:
        if seconds:  # which a metric that this machine lacked has not
            self._seconds[kind] += seconds
            self._pixels[kind] += pixels

    def step(self, worker: int, step: CellStep) -> None:
        """A worker begins a step, or has done it; `worker` tells it from the others."""
        if step.seconds is None:
            self._now[worker] = step, monotonic()
            return
        self._now.pop(worker, None)
        for key in step.cells:
            self._ahead[key][step.kind, step.name] -= 1
        pixels, kind = sum(self._sizes[key] for key in step.cells), (step.kind, step.name)
        if kind in self._older:  # the machine may be busier now, or less
            self._older.remove(kind)
            del self._seconds[kind], self._pixels[kind]
        self._took(kind, step.seconds, pixels)

    def end(self, key: str) -> None:
        """A cell has ended; steps that it left out are not ahead any more."""
        self.done += 1
        self._ahead.pop(key, None)
        self._now = {w: one for w, one in self._now.items() if key not in one[0].cells}

    def left(self) -> tuple[float, bool]:
        """Seconds: the steps ahead, each at the pace of those like it; whether all paces are known.

        No less than the step that now takes longest: of one that is late, a quarter is to come.
        """
        seconds, is_known, longest = 0.0, True, 0.0
        for key, counter in self._ahead.items():
            for kind, count in (+counter).items():
                pace, is_measured = self._pace(kind)
                seconds += count * pace * self._sizes[key]
                is_known &= is_measured
        for step, began in self._now.values():
            spent = monotonic() - began
            whole = self._pace((step.kind, step.name))[0] * sum(self._sizes[k] for k in step.cells)
            rest = max(whole - spent, _LATE * spent)
            seconds += rest - whole
            longest = max(longest, rest)
        return max(seconds / self._workers, longest), is_known

    def _pace(self, kind: _Kind) -> tuple[float, bool]:
        """Seconds a megapixel, and whether they were measured here.

        Codecs are alike until measured, metrics never are.
        """
        step = kind[0]
        like = [kind] if kind in self._pixels or step == SCORE else [*self._pixels]
        like = [one for one in like if one[0] == step]
        if pixels := sum(self._pixels[one] for one in like):
            return sum(self._seconds[one] for one in like) / pixels, True
        # What was measured so far tells how busy or slow this machine is; before that, its load.
        paces = {one: self._seconds[one] / n for one, n in self._pixels.items() if n}
        slow = [pace / self._usual(one) for one, pace in paces.items()]
        return self._usual(kind) * median(slow or [self._busy]), False

    def _usual(self, kind: _Kind) -> float:
        """Seconds a megapixel on two cores that do nothing else."""
        step, name = kind
        usual = usual_pace(step, name)
        return usual / (self._stride if step == SCORE and name != "cvvdp" else 1)

    def slowest(self) -> str:
        """What a worker has been at for longest: "gsvc: encode, 95 s, bikes 288 gsvc level=3"."""
        if not self._now:
            return ""
        step, began = min(self._now.values(), key=lambda one: one[1])
        more = f" and {len(step.cells) - 1} more" if len(step.cells) > 1 else ""
        label = self._labels[step.cells[0]]
        return f"{step.kind} {step.name} {monotonic() - began:.0f} s: {label}{more}"

    def text(self) -> str:
        """ "cell 12/40 (35 %), about 12:05 left": in brackets the share of all cells' steps."""
        ahead = sum((+many).total() / self._steps[key] for key, many in self._ahead.items())
        share = 100 * (1 - ahead / self.cells)
        return f"cell {self.done}/{self.cells} ({share:.0f} %), {time_text(*self.left())} left"


def _megapixels(cell: CellRecord) -> float:
    """Of all frames."""
    return cell.frames * cell.width * cell.height / 1e6


_USUAL = {ENCODE: 0.5, DECODE: 0.2, SCORE: 0.8, "encode libaom": 4.4, "encode vvenc": 1.2}
_USUAL |= dict.fromkeys(("decode svtav1+rife", "decode x265+rife", "decode svtav1+sr"), 3.2)
_USUAL |= {"score st_lpips_vgg": 11.0, "score st_lpips_alex": 3.0, "score cvvdp": 0.2}
"""Seconds a megapixel, of metrics of frames a scored one, on two cores."""
_LATE = 0.25  # of a late step's time


def usual_pace(step: str, name: str) -> float:
    """Seconds a megapixel of the frames that the step takes."""
    return _USUAL.get(f"{step} {name}", _USUAL[step])


def time_text(seconds: float, is_known: bool) -> str:
    """ "about 12:05 min"; where a step was not measured yet, "very roughly 12:05 min"."""
    unit = "h" if seconds >= 3600 else "min"
    return f"{'about' if is_known else 'very roughly'} {shown_time(round(seconds))} {unit}"


def steps_of(job: CellJob) -> Iterable[_Kind]:
    """The steps that a job needs."""
    cell = job.cell
    if job.stream is None:
        yield ENCODE, cell.codec_name
    for _, metrics in cell.lacking_ways(job.record or cell.empty_record()):
        yield DECODE, cell.codec_name
        yield from ((SCORE, metric) for metric in metrics)


_WIDEST = 160  # characters of a line on a terminal
_QUIET_SECONDS = 10.0  # between lines of progress where there is no terminal


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

    def reading(self) -> None:
        print("reading clips and versions", file=self._file, flush=True)

    def plan(self, pace: RunProgress, jobs: Sequence[CellJob]) -> None:
        self._pace, cells = pace, pace.cells
        coded = sum(job.record is not None for job in jobs)
        text = f"{cells} cell{'s' * (cells != 1)}: {self._pace.resumed} done, "
        text += f"{coded} to complete (streams and scores are kept), " if coded else ""
        text += f"{len(jobs) - coded} to code" + (f", {time_text(*pace.left())}" if jobs else "")
        print(text, file=self._file, flush=True)

    def step(self, worker: int, step: CellStep) -> None:
        self._pace.step(worker, step)
        self.tick()

    def tick(self) -> None:
        if not self._pace.cells:
            return
        if self._line:
            write_over(self._file, self._text()[:_WIDEST])
        elif monotonic() - self._shown < _QUIET_SECONDS:
            return
        else:
            print(self._text(), file=self._file, flush=True)
        self._shown = monotonic()

    def cell(self, label: str, record: CellRecord) -> None:
        self._pace.end(record.key)
        if record.error:
            self.note("failed", f"{label}: {record.error}")
        if self._pace.done == self._pace.cells and not self._line:
            print(self._pace.text(), file=self._file, flush=True)
        self.tick()

    def close(self) -> None:
        if self._line:
            write_over(self._file)

    def _text(self) -> str:
        return ", ".join(part for part in (self._pace.text(), self._pace.slowest()) if part)


class JsonReporter:
    """One JSON object a line on standard output; "type" tells what it is."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self._pace = RunProgress()

    def note(self, kind: str, text: str, **values: object) -> None:
        self._lines.put(kind, message=text, **values)

    def reading(self) -> None:
        pass

    tick = close = reading

    def plan(self, pace: RunProgress, jobs: Sequence[CellJob]) -> None:
        self._pace, decodes = pace, sum(job.decodes for job in jobs)
        values = {"resumed": pace.resumed, "decodes": decodes, "left": pace.left()[0]}
        self._lines.put("plan", cells=pace.cells, **values)

    def step(self, worker: int, step: CellStep) -> None:
        self._pace.step(worker, step)
        if step.seconds is not None:
            values = {"step": step.kind, "name": step.name, "cells": len(step.cells)}
            self._lines.put("step", **values, seconds=step.seconds, left=self._pace.left()[0])

    def cell(self, label: str, record: CellRecord) -> None:
        self._pace.end(record.key)
        names = ("key", "clip", "size", "codec", "settings", "bits", "bpp", "encode_seconds")
        values = {name: getattr(record, name) for name in names}
        values["error"] = record.error or None
        values["decodes"] = [
            {"way": d.way, "seconds": d.seconds, "scores": {n: s.mean for n, s in d.scores.items()}}
            for d in record.decodes
        ]
        far = {"done": self._pace.done, "cells": self._pace.cells, "left": self._pace.left()[0]}
        self._lines.put("cell", **values, **far)


Reporter = TextReporter | JsonReporter
"""Is told what happens.

`note`: what a person must know: a "gap", a "damaged" cell, a "failed" one,
little "overlap".
`reading`: the names asked for are known; clips and versions are read.
`plan`: what is to do; `jobs` are those cells that are not complete.
`step`: a worker, told by a number, begins a step or has done it.
`tick`: time goes on.
`cell`: a cell was worked on.
`close`: nothing more is said.
"""
