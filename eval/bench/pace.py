"""How far a run is, and how long the rest will take."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from statistics import fmean
from time import monotonic

from gsvc.eval.bench.cells import Job
from gsvc.eval.bench.steps import DECODE, ENCODE, SCORE, Step

_Kind = tuple[str, str]
"""`Step.kind` and `Step.name`: such steps take about as long as each other."""


class Pace:
    """Knows the steps that are ahead, and what steps of each kind have taken so far."""

    def __init__(self, cells: int = 0, jobs: Iterable[Job] = ()) -> None:
        """`cells`: of the run; `jobs`: those that are not done."""
        self._ahead = {job.cell.key: Counter(steps_of(job)) for job in jobs}
        self._labels = {job.cell.key: job.cell.label for job in jobs}
        self.cells = cells
        self.resumed = self.done = cells - len(self._ahead)
        self._taken: defaultdict[_Kind, list[float]] = defaultdict(list)
        self._now: dict[int, tuple[Step, float]] = {}
        self._began = monotonic()

    def step(self, worker: int, step: Step) -> None:
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


def steps_of(job: Job) -> Iterable[_Kind]:
    """The steps that a job needs."""
    cell = job.cell
    if job.stream is None:
        yield ENCODE, cell.codec_name
    for _, metrics in cell.lacking_ways(job.record or cell.empty_record()):
        yield DECODE, cell.codec_name
        yield from ((SCORE, metric) for metric in metrics)
