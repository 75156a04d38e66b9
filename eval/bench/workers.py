"""Worker processes, on this machine or on a Ray cluster.

A local worker has cores of its own, and its crash does not end the run. Every node of a cluster
needs gsvc of the same version, and the clips.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import cv2

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.encoders.frame_buffer import keep_freed_memory
from gsvc.eval.late_loading import optional

ENCODE, DECODE, SCORE = "encode", "decode", "score"


@dataclass(frozen=True)
class CellStep:
    """A part of the work on cells."""

    kind: str
    """`ENCODE`, `DECODE` or `SCORE`."""
    name: str
    """Of the codec or the metric."""
    cells: tuple[str, ...]
    """Keys of the cells; one may be there more than once."""
    seconds: float | None = None
    """What it took; None: it begins."""


Tell = Callable[[CellStep], None]


@contextmanager
def told(tell: Tell, kind: str, name: str, cells: Sequence[str]) -> Iterator[None]:
    """Tell that a step begins, and when it has ended; a step that fails does not end."""
    step = CellStep(kind, name, tuple(cells))
    tell(step)
    start = time.perf_counter()
    yield
    tell(replace(step, seconds=time.perf_counter() - start))


THREAD_VARIABLES = tuple(f"{one}_NUM_THREADS" for one in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"))

_TICK_SECONDS = 1.0
_REACH_SECONDS = 5.0

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class WorkerTask(Protocol[R_co]):
    """Work that can be sent to another process, and so can its results."""

    def run(self, tell: Tell) -> Iterator[R_co]:
        """Do it: give each result as soon as it is there, and tell of the steps."""


class Listener(Protocol):
    """Hears of tasks while they are carried out."""

    def step(self, worker: int, step: CellStep) -> None:
        """The worker with this task, by the task's index, begins a step or has done it."""

    def tick(self) -> None:
        """Time goes on."""


class Crash(NamedTuple):
    """The worker ended, or failed, before it had all results: the last one of its task."""

    reason: str


class Pool:
    """Processes that carry out one task at a time, started when they are first needed."""

    def __init__(self, workers: int) -> None:
        """`workers`: how many, 0 for one a core."""
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, int]] = {}
        self._free = _shares(workers or len(usable_cores()))
        self.count = len(self._free)

    def run(
        self, tasks: Sequence[WorkerTask[R]], listener: Listener
    ) -> Iterator[tuple[int, R | Crash]]:
        """Each task's index with each of its results, as they come."""
        self._drop_busy()
        waiting = deque(enumerate(tasks))
        while waiting or self._busy:
            while waiting and (self._idle or self._free):
                index, task = waiting.popleft()
                worker = self._idle.pop() if self._idle else _Worker(self._free.pop())
                self._busy[worker.connection] = worker, index
                worker.send(task)
            for connection in wait(list(self._busy), timeout=_TICK_SECONDS):
                worker, index = self._busy[cast(Connection, connection)]
                result = worker.receive()
                if result is None or not worker.alive:
                    del self._busy[cast(Connection, connection)]
                if result is None:
                    self._idle.append(worker)
                elif not worker.alive:
                    self._free.append(worker.cores)
                if isinstance(result, CellStep):
                    listener.step(index, result)
                elif result is not None:
                    yield index, result
            listener.tick()

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        self._drop_busy()
        for worker in self._idle:
            worker.kill()
        self._idle.clear()

    def _drop_busy(self) -> None:
        """End what an earlier run left when it was broken off: nobody wants its results."""
        for worker, _ in self._busy.values():
            worker.kill()
            self._free.append(worker.cores)
        self._busy.clear()


class _Worker:
    def __init__(self, cores: list[int]) -> None:
        self.cores, self.alive = cores, True
        self.connection, theirs = get_context("spawn").Pipe()
        with _few_threads(len(cores)):
            self._process: SpawnProcess = get_context("spawn").Process(
                target=_serve, args=(theirs, cores), daemon=True
            )
            self._process.start()
        theirs.close()

    def send(self, task: WorkerTask[Any]) -> None:
        # A worker that has died meanwhile shows when its answer is read.
        with suppress(BrokenPipeError):
            self.connection.send(task)

    def receive(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            self.kill()
            return Crash(f"its process ended: {_ending(self._process.exitcode)}")

    def kill(self) -> None:
        """End it with whatever it started."""
        self.alive = False
        if self._process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(connection: Connection, cores: list[int]) -> None:
    # A group of its own: the parent alone gets the terminal's interrupt, and FFmpeg ends with it.
    os.setpgid(0, 0)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(sys.stderr.fileno(), 1)  # libraries print; standard output is the results'
    if sys.platform == "linux":
        os.sched_setaffinity(0, cores)
    settle(len(cores))
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        except Exception as error:  # noqa: BLE001 - a task that cannot be read here
            connection.send(Crash(f"{type(error).__name__}: {error}"))
        else:
            for result in carry_out(task, connection.send):
                connection.send(result)
        connection.send(None)  # the task has ended


def carry_out(task: WorkerTask[R], tell: Tell) -> Iterator[R | Crash]:
    """The task's results; after them why it could not go on, if it could not."""
    try:
        yield from task.run(tell)
    except Exception as error:  # noqa: BLE001 - told to the parent
        yield Crash(f"{type(error).__name__}: {' '.join(str(error).split())}")


def settle(threads: int) -> None:
    """Make this process a worker: so many threads, and memory kept from one network to the next."""
    cv2.setNumThreads(threads)
    keep_freed_memory()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)


@contextmanager
def _few_threads(count: int) -> Iterator[None]:
    """Set the number of threads for a child, whose libraries read it when they are loaded."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def usable_cores() -> list[int]:
    """Those that this process may use, by their numbers."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _shares(workers: int) -> list[list[int]]:
    """Cores for each worker: apart from each other's when there are enough."""
    cores = usable_cores()
    each = max(1, len(cores) // workers)
    return [[cores[(i * each + j) % len(cores)] for j in range(each)] for i in range(workers)]


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name} (a crash, or out of memory)"
    return f"exit code {code}"


LOCAL = "local"


@contextmanager
def ray_cluster(address: str, jobs: int = 0, store_bytes: int | None = None) -> Iterator[Any]:
    """Connect to the cluster at `address` ("auto", "ray://host:port", "host:port"); gives `ray`.

    "local" starts one on this machine with `jobs` cores, 0 for all, and an object store of
    `store_bytes`, None for what Ray takes. Raises MissingDependencyError without Ray, ConfigError
    when nothing answers at the address.
    """
    with optional("--ray needs Ray: pip install 'gsvc[ray]'"):
        import ray
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    variables = dict.fromkeys(THREAD_VARIABLES, "1")
    if address == LOCAL:
        variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        options |= {"address": "local", "num_cpus": jobs or None, "include_dashboard": False}
        options["object_store_memory"] = store_bytes
    else:
        options["address"] = address
    try:
        _reach(address)
        ray.init(runtime_env={"env_vars": variables}, **options)
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        raise ConfigError(f"no Ray cluster at {address}: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Fail where nothing listens: Ray would try for a minute, whatever is pressed."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()


class RayWorkers:
    """One task a core of the cluster that is connected; their steps are not told."""

    def __init__(self, ray: Any) -> None:
        self._ray, self.count = ray, max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._remote = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_on_a_node)

    def run(
        self, tasks: Sequence[WorkerTask[R]], listener: Listener
    ) -> Iterator[tuple[int, R | Crash]]:
        """Each task's index with each of its results, as they come."""
        pending = {self._remote.remote(task): index for index, task in enumerate(tasks)}
        try:
            while pending:
                ready, _ = self._ray.wait(list(pending), timeout=_TICK_SECONDS)
                listener.tick()
                for results in ready:
                    reference = next(results, None)
                    if reference is None:
                        del pending[results]
                    else:
                        yield pending[results], self._result(reference)
        finally:
            for results in pending:
                self._ray.cancel(results, force=True)

    def _result(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return Crash(str(error).strip().splitlines()[0])


def _on_a_node(task: WorkerTask[R]) -> Iterator[R | Crash]:
    settle(1)
    yield from carry_out(task, lambda _: None)


Workers = Pool | RayWorkers
"""What carries tasks out."""
