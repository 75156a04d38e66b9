"""Starts the job that trains the restorer beside all else, and says where it is.

    python tools/train_beside.py start --footage FOLDER     samples first, if there are none
    python tools/train_beside.py status
    python tools/train_beside.py keep                       the newest checkpoint, to be committed
    python tools/train_beside.py settle --steps 3000        train a copy while the rate falls to 0
    python tools/train_beside.py gpu                        write the file that trains on a GPU

The job is one file in the working folder, written once: no later change of the repository touches
it. `start` goes on from the newest checkpoint, in a fresh clone from the committed one; `stop` has
it save and end.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from beside.checkpoint import CHECKPOINT, read_checkpoint, write_averages
from beside.job import LOG, PROCESS, SCORES, lowest_priority, say
from gsvc.codec.bitstream.errors import GsvcError
from gsvc.decoders.training.app import write_app

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tools" / "training"
GPU_SCRIPT = "train_gpu.py"
JOB = "beside.job"
SCRIPT, FROZEN_FILE = "train_beside.py", "frozen.safetensors"
VERBS = "start", "status", "stop", "keep", "make", "settle", "gpu"
FIRST_SHARDS, ALL_SHARDS = 24, 560
"""A shard has about 27 samples: enough to begin with, and 15,000."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the verbs. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "verb", choices=("start", "status", "stop", "keep", "make", "settle", "gpu")
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "train")
    parser.add_argument("--footage", type=Path, default=ROOT / ".." / "shared" / "assets")
    parser.add_argument("--shards", type=int, default=ALL_SHARDS, help="to be made in all")
    parser.add_argument("--steps", type=int, default=3000, help="over which the rate falls")
    options, more = parser.parse_known_args(arguments)
    try:
        if options.verb == "start":
            return start(options.work, options.footage, options.shards, more)
        if more:
            parser.error(f"unknown: {' '.join(more)}")
        if options.verb == "make":
            lowest_priority()
            make(options.work, options.footage, options.shards)
        elif options.verb == "stop":
            stop(options.work)
        elif options.verb == "keep":
            keep(options.work)
        elif options.verb == "gpu":
            prepare(options.work, options.footage)
            write_app(options.work / GPU_SCRIPT, "beside.gpu")
            print(options.work / GPU_SCRIPT)
        elif options.verb == "settle":
            return settle(options.work, options.steps)
        else:
            print(status(options.work))
    except (GsvcError, OSError, ValueError) as error:
        say(str(error))
        return 1
    return 0


def start(work: Path, footage: Path, shards: int, more: Sequence[str] = ()) -> int:
    """Start the job or go on with it, and make samples up to so many shards beside it.

    `more`: arguments of the job itself.
    """
    if pid := running(work):
        print(f"it runs already, as process {pid}\n{status(work)}")
        return 0
    prepare(work, footage)
    for name in (LOG, SCORES):  # a fresh clone goes on with the committed log
        if (KEPT / name).exists() and not (work / name).exists():
            shutil.copy(KEPT / name, work / name)
    job = [str(work / SCRIPT), str(work), "--committed", str(KEPT / CHECKPOINT), *more]
    _detached(job, work / "job.out")
    if len(_shards(work)) < shards:
        maker = [__file__, "make", "--work", str(work), "--footage", str(footage)]
        _detached([*maker, "--shards", str(shards)], work / "make.out")
    print(f"started; {work / 'job.out'} has what it says")
    return 0


def prepare(work: Path, footage: Path) -> None:
    """Make what the job needs and what is not there: its file, frozen weights, first samples."""
    from beside.distances import FROZEN
    from gsvc.decoders.training.frozen import alex_state
    from gsvc.decoders.training.tensors import write_tensors

    work.mkdir(parents=True, exist_ok=True)
    if not (work / SCRIPT).exists():
        write_app(work / SCRIPT, JOB)
    if not (work / FROZEN_FILE).exists():
        state = alex_state()
        weights = {name: state[name].detach().float() for name in FROZEN}
        write_tensors(work / FROZEN_FILE, weights, {}, most_bytes=10_000_000)
    if not _shards(work):
        say(f"making the first {FIRST_SHARDS} shards of samples")
        make(work, footage, FIRST_SHARDS)


def make(work: Path, footage: Path, shards: int) -> None:
    """Make the shards that are not there yet."""
    from beside.making import make_samples

    for number, count in make_samples(footage, work / "samples", range(shards)):
        say(f"shard {number}: {count} samples")


def running(work: Path) -> int:
    """The job's process; 0 where none runs."""
    try:
        pid = int(json.loads((work / PROCESS).read_text())["pid"])
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (OSError, ValueError, KeyError):
        return 0
    return pid if SCRIPT in (Path(part).name for part in command) else 0


def stop(work: Path) -> None:
    """Have the job save and end."""
    if pid := running(work):
        os.kill(pid, signal.SIGTERM)
        print(f"process {pid} saves and ends")
    else:
        print("it does not run")


def keep(work: Path) -> None:
    """Copy the newest checkpoint, its log and its scores to where they are committed."""
    KEPT.mkdir(parents=True, exist_ok=True)
    state, job = read_checkpoint(work / CHECKPOINT)
    write_averages(KEPT / CHECKPOINT, state["average"], job)
    print(KEPT / CHECKPOINT)
    for name in (LOG, SCORES):
        if (work / name).exists():
            part = KEPT / f"{name}.part"
            shutil.copyfile(work / name, part)
            part.replace(KEPT / name)
            print(KEPT / name)


def settle(work: Path, steps: int) -> int:
    """Train a copy of the newest checkpoint with a rate that falls to 0. Returns its exit code."""
    folder = work / "settled"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("samples", FROZEN_FILE):
        (folder / name).symlink_to((work / name).resolve())
    write_app(folder / SCRIPT, JOB)
    shutil.copy(work / CHECKPOINT, folder)
    last = read_checkpoint(folder / CHECKPOINT)[1]["step"] + steps
    command = [
        str(folder / SCRIPT),
        str(folder),
        "--urgent",
        "--steps",
        str(last),
        "--settle",
        str(steps),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *command], env=environment, check=False).returncode


def status(work: Path) -> str:
    """Where the job is, in a few lines."""
    pid = running(work)
    lines = [f"runs as process {pid}" if pid else "does not run: make train-beside goes on with it"]
    lines.append(f"{len(_shards(work))} shards of samples in {work / 'samples'}")
    log, scores = _rows(work / LOG), _rows(work / SCORES)
    if log:
        last = log[-1]
        lines.append(
            f"step {last['step']}, {last['core_hours']} hours of a core in {last['hours']} hours, "
            f"{last['samples_a_second']} samples a second, loss {last['loss']} ({last['time']})"
        )
    newest = [row for row in scores if row["step"] == scores[-1]["step"]]
    lines += [", ".join(f"{name} {value}" for name, value in row.items()) for row in newest]
    return "\n".join(lines)


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _shards(work: Path) -> list[Path]:
    return list((work / "samples").glob("*.tar"))


def _detached(command: Sequence[str], output: Path) -> None:
    """Start Python in a session of its own, so that it outlives this one and has its own weight."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with output.open("a") as file:
        subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


if __name__ == "__main__":
    raise SystemExit(main())
