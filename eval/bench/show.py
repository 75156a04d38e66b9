"""What a run says while it works: lines and an estimate on standard error, or JSON objects."""

import sys
from time import monotonic
from typing import TextIO

from gsvc.codec.command.progress import JsonLines, seconds_left
from gsvc.eval.bench.record import CellRecord

_QUIET_SECONDS = 10.0
"""Between lines of progress where there is no terminal."""


class TextReporter:
    """Lines on standard error; one that is written over where that is a terminal."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._line = self._file.isatty()
        self._pace = _Pace()
        self._shown = monotonic()

    def note(self, kind: str, text: str, **values: object) -> None:
        self.close()
        print(f"gsvc: {kind}: {text}", file=self._file, flush=True)

    def plan(self, cells: int, done: int, decodes: int) -> None:
        self._pace = _Pace(cells, done, decodes)
        print(f"{cells} cells, resumed {done}/{cells}", file=self._file, flush=True)

    def cell(self, label: str, record: CellRecord, decodes: int) -> None:
        self._pace.step(decodes)
        if record.error:
            self.note("failed", f"{label}: {record.error}")
        if self._line:
            self._file.write(f"\r\x1b[K{self._pace.text()}  {label}"[:200])
        elif monotonic() - self._shown < _QUIET_SECONDS and self._pace.done < self._pace.cells:
            return
        else:
            print(self._pace.text(), file=self._file)
        self._shown = monotonic()
        self._file.flush()

    def close(self) -> None:
        if self._line:
            self._file.write("\r\x1b[K")
            self._file.flush()


class JsonReporter:
    """One JSON object a line on standard output; "type" tells what it is."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self._pace = _Pace()

    def note(self, kind: str, text: str, **values: object) -> None:
        self._lines.put(kind, message=text, **values)

    def plan(self, cells: int, done: int, decodes: int) -> None:
        self._pace = _Pace(cells, done, decodes)
        self._lines.put("plan", cells=cells, resumed=done, decodes=decodes)

    def cell(self, label: str, record: CellRecord, decodes: int) -> None:
        self._pace.step(decodes)
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
`plan`: the run has `cells`, of which `done` are complete; `decodes` are ahead.
`cell`: a cell was worked on; `decodes` of those ahead are behind now.
`close`: nothing more is said.
"""


class _Pace:
    """How far a run is, and how long the rest will take at its pace."""

    def __init__(self, cells: int = 0, resumed: int = 0, decodes: int = 0) -> None:
        self.cells, self.resumed, self.done = cells, resumed, resumed
        self._decodes, self._decoded = decodes, 0
        self._began = monotonic()

    def step(self, decodes: int) -> None:
        self.done += 1
        self._decoded += decodes

    def left(self) -> float | None:
        return seconds_left(self._decoded, self._decodes, monotonic() - self._began)

    def text(self) -> str:
        text = f"cell {self.done}/{self.cells} (resumed {self.resumed}/{self.cells})"
        left = self.left()
        if left is None:
            return text
        minutes, seconds = divmod(round(left), 60)
        return f"{text}, {minutes // 60}:{minutes % 60:02d}:{seconds:02d} left"
