"""`gsvc train shards` on one process and on several: is it the same run, killed or not?

    python tests/scale_train.py SHARDS --work DIR --steps 24
    python tests/scale_train.py FOLDER --work DIR --steps 24 --producers local:2

Trains a small network on one process; as replicas on two; by FSDP2 on two, of which one is killed
with torchrun's agent to start both again; by tensor parallelism on two; on a mesh of two by two,
FSDP2 by tensor parallelism, of which one is killed, up to half of the steps, then by FSDP2 on two
that compute activations again, then on one. Prints the largest relative difference of the loss from
the first run, of any step. With `--producers`, which make the samples of the sources in FOLDER: on
one process; on two, stopped at half of the steps and gone on with.
"""

import argparse
from functools import partial
from pathlib import Path

from launched import forget_threads, train

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


class Runs:
    """Of one recipe, each in a folder of its own; the first one is the truth."""

    def __init__(self, source: Path, work: Path, more: list[str]) -> None:
        work.mkdir(parents=True, exist_ok=True)
        recipe = work / "small.toml"
        recipe.write_text(RECIPE)
        self._source, self._work = source, work
        self._more = ["--recipe", str(recipe), *more]
        self.truth = self.losses("one")
        print(f"one process: loss {self.truth[0]:.6f} to {list(self.truth.values())[-1]:.6f}")

    def losses(
        self, name: str, *more: str, processes: int = 1, kill_after: int = -1
    ) -> dict[int, float]:
        """By step, of a run that begins or goes on."""
        arguments = [str(self._source), str(self._work / name), *self._more, *more]
        return train(arguments, self._work / f"{name}.log", processes, kill_after)

    def tell(self, what: str, losses: dict[int, float]) -> None:
        """The largest relative difference. Every step must be there."""
        assert losses.keys() == self.truth.keys(), (losses.keys(), self.truth.keys())
        most = max(abs(losses[step] / loss - 1) for step, loss in self.truth.items())
        print(f"{what}: {most:.1e}", flush=True)


def on_shards(runs: Runs, steps: int, short: bool) -> None:
    """All layouts."""
    half, later = str(steps // 2), str(3 * steps // 4)
    fsdp = partial(runs.losses, processes=2)
    if not short:
        runs.tell("replicas on two", runs.losses("replicas", processes=2))
        killed = fsdp("killed", "--layout", "fsdp", kill_after=steps // 2)
        runs.tell("FSDP2 on two, one killed", killed)
    runs.tell("tensor parallel on two", runs.losses("tensor", "--layout", "tensor", processes=2))
    mesh = ["--layout", "fsdp", "--tensor", "2", "--stop", half]
    found = runs.losses("mesh", *mesh, processes=4, kill_after=steps // 2 - 2)
    found |= fsdp("mesh", "--layout", "fsdp", "--recompute", "--stop", later)
    runs.tell("mesh of four, one killed, then FSDP2 on two, then one", found | runs.losses("mesh"))


def on_producers(runs: Runs, half: int) -> None:
    """Samples of sources."""
    shared = runs.losses("two", "--stop", str(half), processes=2)
    runs.tell("two who train, gone on with", shared | runs.losses("two", processes=2))


def main() -> None:
    """Carry it all out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--producers", metavar="ADDRESS")
    parser.add_argument("--short", action="store_true", help="without replicas, FSDP2")
    options = parser.parse_args()
    forget_threads()
    more = ["--batch", str(options.batch), "--steps", str(options.steps)]
    if options.producers:
        more += ["--producers", options.producers, "--anew"]
        on_producers(Runs(options.source, options.work, more), options.steps // 2)
    else:
        more += ["--save-every", str(max(1, options.steps // 6))]
        on_shards(Runs(options.source, options.work, more), options.steps, options.short)


if __name__ == "__main__":
    main()
