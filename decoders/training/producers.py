"""Work done by other processes and machines of a Ray cluster, for a process that trains.

A timeline shows who worked and who waited: the bubbles of the pipeline.
"""

import json
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from gsvc.codec.media.output import atomic_output

MAKES, TRAINS, WAITS = "makes", "trains", "waits"
"""What a process does; who waits has nothing to train on."""
TRAINER = "trainer"
"""Who trains, on the timeline."""
_TRIES = 3
"""After which an error counts: a machine that goes away may tell its end as one."""
_DEATHS = 20
"""Of processes over one piece that Ray makes up for; a process is busy when its machine goes."""
_LEAST_SPAN = 0.001
"""Seconds: shorter ones are many, and nothing to see."""
_SPANS_KEPT = 20_000
"""Of the timeline: the last ones."""

Ask = TypeVar("Ask")
Given = TypeVar("Given")


class Span(NamedTuple):
    """What a process did for a while."""

    who: str
    what: str
    number: int
    """Of the piece; pieces are made, waited for, taken and trained on."""
    begun: float
    """Seconds, by time.time()."""
    ended: float


class Made(NamedTuple):
    """A piece, who made it, and when by the clock of that machine."""

    given: Any
    machine: str
    process: int
    begun: float
    ended: float


class Producers(Generic[Ask, Given]):
    """Tasks of Ray that make pieces, a core each, on all machines that are there or come."""

    def __init__(self, ray: Any, make: Callable[[Ask], Given], ahead: int) -> None:
        """`ray`: connected. `ahead`: pieces, made or asked for, that wait at most."""
        self._ray, self._ahead = ray, ahead
        self._make = ray.put(make)
        self._task = ray.remote(num_cpus=1, max_retries=_DEATHS)(_timed)
        self.spans: deque[Span] = deque(maxlen=_SPANS_KEPT)
        """Of the timeline."""
        self.processes: dict[tuple[str, int], str] = {}
        """Names of those that have made something, by machine and process."""
        self._taken: tuple[int, float] | None = None

    def made(self, asked: Iterator[Ask]) -> Iterator[Given]:
        """What is made of each, in order. Raises what making raises."""
        jobs = ((one, self._task.remote(self._make, one)) for one in asked)
        waiting = deque(islice(jobs, self._ahead))
        number = 0
        while waiting:
            begun = time.time()
            done = self._done(*waiting.popleft())
            waiting.extend(islice(jobs, 1))
            self._taken = number, time.time()
            name = f"producer {len(self.processes)}"
            name = self.processes.setdefault((done.machine, done.process), name)
            self.spans.append(Span(name, MAKES, number, done.begun, done.ended))
            self.spans.append(Span(TRAINER, WAITS, number, begun, self._taken[1]))
            yield done.given
            self.note_training()
            number += 1

    def _done(self, one: Ask, reference: Any) -> Made:
        """What came of a piece; one that may be its machine's fault is asked for again."""
        for _ in range(_TRIES - 1):
            try:
                done: Made = self._ray.get(reference)
            except self._ray.exceptions.RayTaskError:
                pass
            else:
                if not getattr(done.given, "is_doubtful", False):
                    return done
            reference = self._task.remote(self._make, one)
        made: Made = self._ray.get(reference)
        return made

    def note_training(self) -> None:
        """That the trainer has been at what it took last."""
        if self._taken is not None:
            number, since = self._taken
            self.spans.append(Span(TRAINER, TRAINS, number, since, time.time()))
            self._taken = None

    def write_timeline(self, path: Path) -> None:
        """Write the last spans, for ui.perfetto.dev and chrome://tracing."""
        self.note_training()
        seen = [span for span in self.spans if span.ended - span.begun >= _LEAST_SPAN]
        events = [
            {
                "name": f"{span.what} {span.number}",
                "ph": "X",
                "pid": 0,
                "tid": span.who,
                "ts": round(span.begun * 1e6),  # in microseconds
                "dur": round((span.ended - span.begun) * 1e6),
            }
            for span in seen
        ]
        with atomic_output(path, overwrite=True) as part:
            part.write_text(json.dumps({"traceEvents": events}))


def _timed(make: Callable[[Any], Any], one: Any) -> Made:
    begun = time.time()
    return Made(make(one), socket.gethostname(), os.getpid(), begun, time.time())
