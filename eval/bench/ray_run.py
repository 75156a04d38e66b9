"""The same tasks on a Ray cluster. Every node needs gsvc of the same version, and the clips."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gsvc.codec.errors import ConfigError
from gsvc.eval.bench.pool import (
    THREAD_VARIABLES,
    Crash,
    Listener,
    R,
    Task,
    carry_out,
    settle,
)
from gsvc.eval.optional import optional

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
    with optional("--ray needs Ray: pip install 'gsvc[ray]'"):
        import ray
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    variables = dict.fromkeys(THREAD_VARIABLES, "1")
    if address == "local":
        variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        options |= {"address": "local", "num_cpus": jobs or None, "include_dashboard": False}
    else:
        options["address"] = address
    try:
        ray.init(runtime_env={"env_vars": variables}, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(f"no Ray cluster at {address}: {error}") from error
    try:
        yield RayWorkers(ray)
    finally:
        ray.shutdown()


def _on_a_node(task: Task[R]) -> R | Crash:
    settle(1)
    return carry_out(task, lambda _: None)
