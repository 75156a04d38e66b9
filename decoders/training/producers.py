"""Work done by other processes and machines of a Ray cluster, for a process that trains.

A timeline shows who worked and who waited: the bubbles of the pipeline.
"""

import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from gsvc.codec.media.output import atomic_output

STARTS, MAKES, TRAINS, WAITS, ENDED = "starts", "makes", "trains", "waits", "ended"
"""What a process does; who waits has nothing to train on, and one that ended is lost."""


class Span(NamedTuple):
    """What a process did for a while."""

    who: str
    what: str
    number: int
    """Of the piece; pieces are made, waited for, taken and trained on."""
    begun: float
    """Seconds, by time.time()."""
    ended: float


def trace_events(spans: Sequence[Span]) -> list[dict[str, Any]]:
    """The spans as chrome://tracing and Perfetto have them, in microseconds."""
    return [
        {
            "name": f"{span.what} {span.number}",
            "ph": "X",
            "pid": 0,
            "tid": span.who,
            "ts": round(span.begun * 1e6),
            "dur": round((span.ended - span.begun) * 1e6),
        }
        for span in spans
    ]


TRAINER = "trainer"
"""Who trains, on the timeline."""
_TICK = 0.5
_LOOK_EVERY = 2.0
"""Seconds between looks for free cores."""
_AT_ONCE = 4
"""Pieces that a producer has been asked for, so that it never waits for the next."""
_LEAST_SPAN = 0.001
"""Seconds: shorter ones are many, and nothing to see."""
_TRIES = 3
_SPANS_KEPT = 20_000
"""Of the timeline: the last ones."""

Ask_contra = TypeVar("Ask_contra", contravariant=True)
Given_co = TypeVar("Given_co", covariant=True)
Ask = TypeVar("Ask")
Given = TypeVar("Given")


class Make(Protocol[Ask_contra, Given_co]):
    """Makes a piece, a batch perhaps; sent to producers."""

    def __call__(self, asked: Ask_contra, /) -> Given_co:
        """What was asked for."""


class Made(NamedTuple):
    """A piece, and when its making began and ended, by the clock of its machine."""

    given: Any
    begun: float
    ended: float


class _Job(NamedTuple):
    number: int
    asked: Any
    tries: int = 0
    """Before this one, that came to an error."""
    producer: int = -1


def _is_doubtful(given: object) -> bool:
    """Whether what came says of itself that its producer may have been dying: asked for again."""
    return bool(getattr(given, "is_doubtful", False))


class Producers(Generic[Ask, Given]):
    """The producers of one process that trains."""

    def __init__(self, ray: Any, make: Make[Ask, Given], ahead: int, most: int = 0) -> None:
        """`ray`: connected. `ahead`: pieces, made or asked for, that wait at most. `most`:
        producers, 0 for as many as there are cores."""
        self._ray, self._make, self._ahead, self._most = ray, make, ahead, most
        self.actors: dict[int, Any] = {}
        """Those that live, by number."""
        self.spans: deque[Span] = deque(maxlen=_SPANS_KEPT)
        """Of the timeline."""
        self._starting: dict[int, float] = {}
        """Since when producers that have made nothing yet are there."""
        self._taken: tuple[int, float] | None = None
        self._started = 0
        self._looked = -_LOOK_EVERY
        self._asked: dict[Any, _Job] = {}
        self._waiting: Iterator[_Job] = iter(())
        self._again: deque[_Job] = deque()
        self._made: dict[int, Given] = {}
        self._is_over = False
        """Whether nothing is left of what waited."""

    def made(self, asked: Iterator[Ask]) -> Iterator[Given]:
        """What is made of each, in order. Raises what making raises."""
        self._waiting = (_Job(number, one) for number, one in enumerate(asked))
        self._again.clear()
        self._made.clear()
        self._is_over = False
        wanted = 0
        while True:
            begun = time.time()
            while wanted not in self._made:
                if self._is_over and not self._asked and not self._again:
                    return
                self._tend(_TICK)
            self._taken = wanted, time.time()
            self.spans.append(Span(TRAINER, WAITS, wanted, begun, self._taken[1]))
            yield self._made.pop(wanted)
            self.note_training()
            wanted += 1

    def tend(self) -> None:
        """Ask for more, without waiting. Who takes many steps with what it took does so between
        them: else producers soon have nothing to do."""
        self._tend(0.0)

    def _tend(self, patience: float) -> None:
        self._grow()
        while self.actors and len(self._asked) + len(self._made) < self._ahead:
            job = self._again.popleft() if self._again else next(self._waiting, None)
            if job is None or not self._ask(job):
                self._is_over = job is None
                self._again.extendleft([job] if job is not None else [])
                break
        self._again.extend(self._collect(patience))

    def note_training(self) -> None:
        """That the trainer has been at what it took last."""
        if self._taken is not None:
            number, since = self._taken
            self.spans.append(Span(TRAINER, TRAINS, number, since, time.time()))
            self._taken = None

    def _grow(self) -> None:
        """Start a producer where a core is free."""
        now = time.monotonic()
        if now - self._looked < _LOOK_EVERY and self.actors:
            return
        self._looked = now
        free = int(self._ray.available_resources().get("CPU", 0))
        room = self._most - len(self.actors) if self._most else free
        for _ in range(min(free, room)):
            options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0}
            actor = self._ray.remote(**options)(_Producer).remote(self._make)
            self.actors[self._started] = actor
            self._starting[self._started] = time.time()
            self._started += 1

    def _ask(self, wanted: _Job) -> bool:
        """Ask the producer that has least to do; False where all have enough."""
        loads = dict.fromkeys(self.actors, 0)
        for job in self._asked.values():
            loads[job.producer] = loads.get(job.producer, 0) + 1
        producer = min(self.actors, key=lambda each: loads[each])
        if loads[producer] >= _AT_ONCE:
            return False
        reference = self.actors[producer].make.remote(wanted.asked)
        self._asked[reference] = wanted._replace(producer=producer)
        return True

    def _collect(self, patience: float) -> list[_Job]:
        """Take what is there within so many seconds; returns what was lost, to be asked for again.

        A producer that is being ended loses its own processes first, and may tell that as an error
        of what it makes: so an error counts if it comes three times.
        """
        lost = []
        errors = self._ray.exceptions
        wait = {"num_returns": len(self._asked), "timeout": 0.0}
        if patience:
            wait = {"num_returns": 1, "timeout": patience}
        ready, _ = self._ray.wait(list(self._asked), **wait) if self._asked else ([], [])
        for reference in ready:
            job = self._asked.pop(reference)
            try:
                done: Made = self._ray.get(reference)
            except (errors.RayActorError, errors.ObjectLostError):
                if self.actors.pop(job.producer, None) is not None:
                    now = time.time()
                    self._note(job, ENDED, now, now)
                lost.append(job)
                continue
            except errors.RayTaskError:
                if job.tries + 1 == _TRIES:
                    raise
                lost.append(job._replace(tries=job.tries + 1))
                continue
            if _is_doubtful(done.given) and job.tries + 1 < _TRIES:
                lost.append(job._replace(tries=job.tries + 1))
                continue
            self._made[job.number] = done.given
            if since := self._starting.pop(job.producer, 0.0):
                self._note(job, STARTS, since, max(since, done.begun))
            self._note(job, MAKES, done.begun, done.ended)
        return lost

    def _note(self, job: _Job, what: str, begun: float, ended: float) -> None:
        self.spans.append(Span(f"producer {job.producer}", what, job.number, begun, ended))

    def write_timeline(self, path: Path) -> None:
        """Write the last spans, for ui.perfetto.dev and chrome://tracing."""
        self.note_training()
        seen = [x for x in self.spans if x.ended - x.begun >= _LEAST_SPAN or x.what == ENDED]
        with atomic_output(path, overwrite=True) as part:
            part.write_text(json.dumps({"traceEvents": trace_events(seen)}))


class _Producer:
    """Runs in a process of its own."""

    def __init__(self, make: Make[Any, Any]) -> None:
        self._make = make

    def make(self, asked: Any) -> Made:
        begun = time.time()
        return Made(self._make(asked), begun, time.time())
