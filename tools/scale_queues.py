"""Which queue carries finished batches best: Ray's object store, ZeroMQ or Redis?

    pip install pyzmq redis; python tools/scale_queues.py --samples 128 --batches 40

Two processes give batches of pictures that lie ready, one takes them and reads every byte, on this
machine. All queues carry the same arrays, bounded to the same number of batches under way, after a
warm-up; every batch is accounted for. `redis-server` is started for the measurement and keeps
nothing on disk. Prints batches and megabytes a second; what is not installed is left out and told.
"""

import argparse
import multiprocessing
import pickle
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIDE = 160
AHEAD = 8
"""Batches under way."""
WARM_UP = 6
PRODUCERS = 2
Batch = dict[str, NDArray[np.uint8]]


def batch_of(samples: int, seed: int) -> Batch:
    """As producers of pictures make it: what is decoded, its source, the gains; and an id."""
    rng = np.random.default_rng(seed)
    channels = {"given": 3, "truth": 3, "gain": 1}
    made = {
        name: rng.integers(0, 255, (samples, count, SIDE, SIDE), dtype=np.uint8)
        for name, count in channels.items()
    }
    return {**made, "id": np.zeros(2, np.uint8)}


def stamped(batch: Batch, producer: int, number: int) -> Batch:
    """The same with its id."""
    batch["id"] = np.array([producer, number], np.uint8)
    return batch


def on_ray(samples: int, count: int) -> Iterator[Batch]:
    """By actors; references wait in the object store."""
    import ray

    class Producer:
        def __init__(self, producer: int) -> None:
            self._producer, self._batch = producer, batch_of(samples, producer)

        def make(self, number: int) -> Batch:
            return stamped(self._batch, self._producer, number)

    store = 2 * AHEAD * sum(array.nbytes for array in batch_of(samples, 0).values())
    ray.init(
        num_cpus=PRODUCERS,
        object_store_memory=max(store, 100_000_000),
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    try:
        actors = [ray.remote(num_cpus=1)(Producer).remote(n) for n in range(PRODUCERS)]
        asked = (actors[n % PRODUCERS].make.remote(n // PRODUCERS) for n in range(count))
        under_way = [next(asked) for _ in range(AHEAD)]
        while under_way:
            ready, under_way = ray.wait(under_way, num_returns=1)
            under_way += [one for one in [next(asked, None)] if one is not None]
            yield ray.get(ready[0])
    finally:
        ray.shutdown()


def _give_zmq(address: str, samples: int, producer: int, count: int) -> None:
    """Push, as many under way as marks of high water allow; buffers are not copied."""
    import zmq

    batch, context = batch_of(samples, producer), zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.setsockopt(zmq.SNDHWM, AHEAD // PRODUCERS // 2)
    socket.connect(address)
    for number in range(count):
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(
            stamped(batch, producer, number), protocol=5, buffer_callback=buffers.append
        )
        socket.send_multipart([head, *buffers], copy=False)
    socket.close()
    context.term()


def on_zmq(samples: int, count: int) -> Iterator[Batch]:
    """By PUSH and PULL over TCP."""
    import zmq

    context = zmq.Context()
    socket = context.socket(zmq.PULL)
    socket.setsockopt(zmq.RCVHWM, AHEAD // PRODUCERS // 2)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    with _givers(_give_zmq, f"tcp://127.0.0.1:{port}", samples, count):
        for _ in range(count):
            head, *buffers = socket.recv_multipart(copy=False)
            yield pickle.loads(head.buffer, buffers=[part.buffer for part in buffers])
        socket.close()
    context.term()


def _give_redis(address: str, samples: int, producer: int, count: int) -> None:
    """Push to a list; a token is taken first, so that no more wait than allowed."""
    import redis

    batch, server = batch_of(samples, producer), redis.Redis(unix_socket_path=address)
    for number in range(count):
        server.blpop(["tokens"])
        server.rpush("batches", pickle.dumps(stamped(batch, producer, number), protocol=5))


def on_redis(samples: int, count: int) -> Iterator[Batch]:
    """By a list of a server on this machine, over a socket of files."""
    import redis

    folder = Path(tempfile.mkdtemp())
    address = str(folder / "redis.sock")
    command = ["redis-server", "--port", "0", "--unixsocket", address, "--save", ""]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "cwd": folder}
    with subprocess.Popen([*command, "--appendonly", "no"], **quiet) as process:
        while not Path(address).exists():
            time.sleep(0.05)
        server = redis.Redis(unix_socket_path=address)
        server.rpush("tokens", *range(AHEAD))
        with _givers(_give_redis, address, samples, count):
            for _ in range(count):
                popped: Any = server.blpop(["batches"])
                server.rpush("tokens", 0)
                yield pickle.loads(popped[1])
        server.shutdown(nosave=True)
        process.wait()
    shutil.rmtree(folder)


@contextmanager
def _givers(give: Callable[..., None], address: str, samples: int, count: int) -> Iterator[None]:
    """Two processes that give half of the batches each."""
    spawned = multiprocessing.get_context("spawn")
    givers = [
        spawned.Process(target=give, args=(address, samples, n, count // PRODUCERS))
        for n in range(PRODUCERS)
    ]
    for giver in givers:
        giver.start()
    yield
    for giver in givers:
        giver.join()


QUEUES: dict[str, tuple[Callable[[int, int], Iterator[Batch]], str]] = {
    "Ray's object store": (on_ray, "ray"),
    "ZeroMQ": (on_zmq, "zmq"),
    "Redis": (on_redis, "redis"),
}


def measure(name: str, samples: int, batches: int) -> None:
    """Take all, read every byte, account for each, and print a line."""
    queue, _ = QUEUES[name]
    taken, total, begun = Counter[tuple[int, ...]](), 0, 0.0
    for number, batch in enumerate(queue(samples, batches + WARM_UP)):
        if number == WARM_UP:
            begun = time.monotonic()
        total = sum(array.nbytes for array in batch.values())
        assert all(int(array.max()) >= 0 for array in batch.values())  # reads it
        taken[tuple(batch["id"].tolist())] += 1
        if number == batches + WARM_UP - 1:
            seconds = time.monotonic() - begun
    assert len(taken) == batches + WARM_UP and set(taken.values()) == {1}
    print(
        f"{name}: {batches / seconds:.1f} batches/s, {batches * total / seconds / 1e6:.0f} MB/s "
        f"of {total / 1e6:.1f} MB each, {len(taken)} had once each",
        flush=True,
    )


def main() -> None:
    """Each in its turn, as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for _ in range(options.rounds):
        for name, (_queue, package) in QUEUES.items():
            if find_spec(package) is None or (name == "Redis" and not shutil.which("redis-server")):
                print(f"{name}: left out, not installed")
                continue
            measure(name, options.samples, options.batches)


if __name__ == "__main__":
    main()
