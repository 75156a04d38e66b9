"""The same tasks on a Ray cluster. Every node needs gsvc of the same version, and the clips."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gsvc.eval.bench.pool import (
    Crash,
    Listener,
    R,
    Task,
    carry_out,
    settle,
)
from gsvc.eval.cluster import ray_cluster

_TICK_SECONDS = 1.0


class RayWorkers:
    """One task a core of the cluster that is connected; their steps are not told."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remote = ray.remote(num_cpus=1, max_retries=0)(_on_a_node)

    def run(self, tasks: Sequence[Task[R]], listener: Listener) -> Iterator[tuple[int, R | Crash]]:
        """Each task's index and its result, in the order in which they end."""
        pending = {self._remote.remote(task): index for index, task in enumerate(tasks)}
        try:
            while pending:
                ended, _ = self._ray.wait(list(pending), timeout=_TICK_SECONDS)
                listener.tick()
                for reference in ended:
                    yield pending.pop(reference), self._result(reference)
        finally:
            for reference in pending:
                self._ray.cancel(reference, force=True)

    def _result(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return Crash(str(error).strip().splitlines()[0])


@contextmanager
def ray_workers(address: str, jobs: int = 0) -> Iterator[RayWorkers]:
    """Connect to the cluster at `address` ("auto", "ray://host:port", "host:port").

    "local" starts one on this machine with `jobs` cores, 0 for all. Raises MissingDependencyError
    without Ray, ConfigError when nothing answers at the address.
    """
    with ray_cluster(address, jobs) as ray:
        yield RayWorkers(ray)


def _on_a_node(task: Task[R]) -> R | Crash:
    settle(1)
    return carry_out(task, lambda _: None)
