"""`gsvc train shards` on one process and on two: is it the same run, killed or not?

    python tests/scale_train.py SHARDS --work DIR --steps 24

Trains a small network five times: on one process; as replicas on two; by tensor parallelism on two;
by FSDP2 on two, of which one is killed with torchrun to start both again; by FSDP2 on two up to
half of the steps and then on one. Prints the largest relative difference of the loss from the first
run, of any step.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

RECIPE = """
base = "medium"
network = { size = "nano" }
planned = 1.0
rate = 2e-3
side = 64
[[stages]]
until = 0.5
learns = ["refiner"]
weights = { coarse = 1.0, texture = 0.3 }
[[stages]]
until = 1.0
learns = ["refiner"]
steps = { 1 = 0.5, 2 = 0.5 }
weights = { coarse = 1.0, texture = 0.3, adversary = 0.03 }
"""


def train(
    shards: Path, out: Path, more: Sequence[str], processes: int = 1, kill_after: int = -1
) -> dict[int, float]:
    """Loss by step. `kill_after`: after this step a process of torchrun's is killed."""
    recipe = out.parent / "small.toml"
    recipe.write_text(RECIPE)
    start = [sys.executable, "-m", "gsvc"]
    if processes > 1:
        launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        start = [sys.executable, "-m", *launcher, "--max-restarts", "1", "-m", "gsvc"]
    command = [*start, "train", "shards", str(shards), str(out), "--recipe", str(recipe)]
    command += ["--workers", "0", "--device", "cpu", "--json", *more]
    losses: dict[int, float] = {}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None and process.stderr is not None
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()), daemon=True)
    reader.start()
    for line in process.stdout:
        if not line.startswith("{"):
            continue
        told = json.loads(line)
        if told["type"] == "step":
            losses[told["step"]] = told["loss"]
            if told["step"] == kill_after:
                os.kill(_worker(process.pid), signal.SIGKILL)
                kill_after = -1
        elif told["type"] == "begun":
            print(f"  {told['processes']} processes from step {told['from_step']}", flush=True)
    assert process.wait() == 0, "".join(errors)
    return losses


def _worker(launcher: int) -> int:
    """The last process that torchrun started."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return int(children[-1])


def difference(losses: dict[int, float], truth: dict[int, float]) -> float:
    """The largest relative one. Every step must be there."""
    assert losses.keys() == truth.keys(), (losses.keys(), truth.keys())
    return max(abs(losses[step] / loss - 1) for step, loss in truth.items())


def main() -> None:
    """Carry it all out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--short", action="store_true", help="without replicas")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    shards, work, half = options.shards, options.work, options.steps // 2
    every = ["--batch", str(options.batch), "--save-every", str(max(1, options.steps // 6))]
    whole = [*every, "--steps", str(options.steps)]
    truth = train(shards, work / "one", whole)
    print(f"one process: loss {truth[0]:.6f} to {truth[options.steps - 1]:.6f}")
    replicas = {} if options.short else train(shards, work / "replicas", whole, processes=2)
    if replicas:
        print(f"replicas on two: {difference(replicas, truth):.1e}", flush=True)
    tensors = train(shards, work / "tensor", [*whole, "--layout", "tensor"], processes=2)
    print(f"tensor parallel on two: {difference(tensors, truth):.1e}", flush=True)
    sharded = ["--layout", "fsdp"]
    killed = train(shards, work / "killed", [*whole, *sharded], processes=2, kill_after=half)
    print(f"FSDP2 on two, one killed: {difference(killed, truth):.1e}", flush=True)
    changed = train(shards, work / "changed", [*whole, *sharded, "--stop", str(half)], processes=2)
    changed |= train(shards, work / "changed", whole)
    print(f"FSDP2 on two, then one process: {difference(changed, truth):.1e}", flush=True)


if __name__ == "__main__":
    main()
