"""`gsvc data prepare` on a Ray cluster of two nodes on this machine, one core each.

    python tools/scale_data.py FOLDER --work DIR -- --lines 192 --frames 17

Prepares FOLDER (a poison file is added) three times: in turn, by a plain pool of two processes, on
the cluster. Then on the cluster again, killed twice and resumed. Prints seconds by the clock and of
processors, clips a second of each, and whether all outputs are equal.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from gsvc.decoders.training.engine import Writes
from gsvc.decoders.training.pipeline import Item, Operator, carried_out

NODES = 2
KILLS = 2
_LOOK_EVERY = 0.2


def processes_in_turn(
    items: Iterable[Item], operators: Sequence[Operator], write: Writes, group: int
) -> Iterator[int]:
    """A plain script's way, an `Engine`: a pool of processes, a clip or a source each."""
    with ProcessPoolExecutor(NODES, get_context("spawn")) as pool:
        done = pool.map(partial(_through, operators=operators), items)
        while some := list(islice(done, group)):
            write(some)
            yield len(some)


def _through(item: Item, operators: Sequence[Operator]) -> Item:
    for operator in operators:
        carried_out(operator, item)
    return item


@contextmanager
def cluster() -> Iterator[str]:
    """The address of two nodes."""
    os.environ["RAY_worker_niceness"] = "0"  # Ray's 15 would compare it with others unevenly
    from ray.cluster_utils import Cluster

    nodes = Cluster()
    try:
        for _ in range(NODES):
            nodes.add_node(num_cpus=1, object_store_memory=150_000_000, include_dashboard=False)
        yield str(nodes.address)
    finally:
        nodes.shutdown()


class Watch:
    """Counts processor seconds of this process and all that it starts, also of those that lose
    their parent; on Linux."""

    def __init__(self) -> None:
        self._ticks: dict[tuple[int, int], int] = {}
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def seconds(self) -> float:
        """Up to now, of those that ended too."""
        return sum(self._ticks.copy().values()) / os.sysconf("SC_CLK_TCK")

    def _look(self) -> None:
        while True:
            rows = {}
            for path in Path("/proc").glob("[0-9]*/stat"):
                with suppress(OSError):
                    fields = path.read_text().rpartition(") ")[2].split()
                    key = int(path.parent.name), int(fields[19])  # when it began
                    rows[key] = int(fields[1]), int(fields[11]) + int(fields[12])
            own = {os.getpid(), *(key[0] for key in self._ticks if key in rows)}
            while more := {key[0] for key, row in rows.items() if row[0] in own} - own:
                own |= more
            self._ticks |= {key: ticks for key, (_, ticks) in rows.items() if key[0] in own}
            time.sleep(_LOOK_EVERY)


class Took(NamedTuple):
    """What a way took, or what it was when it began."""

    seconds: float
    cpu: float
    """Seconds of processors, of all processes, the cluster's among them."""

    @classmethod
    def since(cls, begun: "Took") -> "Took":
        """From then to now."""
        return cls(time.monotonic() - begun.seconds, watch().seconds() - begun.cpu)

    @classmethod
    def now(cls) -> "Took":
        """A moment."""
        return cls(time.monotonic(), watch().seconds())


@cache
def watch() -> Watch:
    """The one of this process."""
    return Watch()


def prepare(source: Path, out: Path, more: Sequence[str], kill_at: int = 0) -> Took:
    """What the command took; with `kill_at` it is killed once so many shards are there."""
    begun = Took.now()
    command = [sys.executable, "-m", "gsvc", "data", "prepare", str(source), str(out), *more]
    with subprocess.Popen(command, start_new_session=True) as process:
        while process.poll() is None:
            if kill_at and len(list(out.glob("tables/*.json"))) >= kill_at:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.2)
    assert kill_at or process.returncode == 0, process.returncode
    return Took.since(begun)


def in_pool(source: Path, out: Path, more: Sequence[str]) -> Took:
    """The same by the pool."""
    from gsvc.codec.command.data import _settings
    from gsvc.codec.command.main import command_parser
    from gsvc.decoders.training.pipeline import Folder
    from gsvc.decoders.training.prepare import Preparation
    from gsvc.decoders.training.sources import find_sources

    options = command_parser().parse_args(["data", "prepare", str(source), str(out), *more])
    begun = Took.now()
    sources, settings = find_sources([str(source)]), _settings(options)
    Preparation(sources, Folder(out), settings, processes_in_turn, lambda *a, **k: None).prepare()
    return Took.since(begun)


def told(name: str, out: Path, took: Took) -> None:
    """A line of the table."""
    manifest = json.loads((out / "manifest.json").read_text())
    rows = [json.loads(path.read_text()) for path in (out / "costs").glob("*.json")]
    cpu = sum(cost["cpu"] for row in rows for cost in row.values())
    clips, samples = manifest["clips"], manifest["samples"]
    print(
        f"{name}: {took.seconds:.1f} s, {took.cpu:.1f} CPU seconds, {cpu:.1f} of them in operators;"
        f" {clips} clips, {samples} samples, {clips / took.seconds:.3f} clips/s,"
        f" {clips / took.cpu:.3f} clips a CPU second; poison {len(manifest['poison'])};"
        f" load of the machine {os.getloadavg()[1]:.1f}",
        flush=True,
    )


def outputs(out: Path) -> dict[str, bytes]:
    """Shards and manifest."""
    return {path.name: path.read_bytes() for path in [*out.glob("*.tar"), out / "manifest.json"]}


def main() -> None:
    """Carry it all out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["turn", "pool", "ray", "killed"])
    parser.epilog = "What comes after -- are options of gsvc data prepare."
    own, _, rest = " ".join(sys.argv[1:]).partition(" -- ")
    options, more = parser.parse_args(own.split()), rest.split()
    source, work = options.work / "footage", options.work
    shutil.copytree(options.folder, source, dirs_exist_ok=True)
    first = min(path for path in source.iterdir() if path.suffix == ".mp4")
    (source / "poison.mp4").write_bytes(first.read_bytes()[: first.stat().st_size // 2])
    if "turn" in options.only:
        told("in turn", work / "turn", prepare(source, work / "turn", [*more, "--ray", "none"]))
    if "pool" in options.only:
        told("pool of two", work / "pool", in_pool(source, work / "pool", more))
    with cluster() as address:
        on_ray = [*more, "--ray", address]
        if "ray" in options.only:
            told("Ray, two nodes", work / "ray", prepare(source, work / "ray", on_ray))
        if "killed" in options.only:
            begun = Took.now()
            for kill in range(KILLS):
                prepare(source, work / "killed", on_ray, kill_at=2 * (kill + 1))
            prepare(source, work / "killed", on_ray)
            told("Ray, killed twice", work / "killed", Took.since(begun))
    found = [outputs(work / name) for name in options.only]
    print("outputs equal:", all(each == found[0] for each in found), len(found[0]), "files")


if __name__ == "__main__":
    main()
