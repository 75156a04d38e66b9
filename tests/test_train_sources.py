"""Training on sources that producers decode and encode: every sample accounted for."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from gsvc import InputError
from gsvc.codec.command.main import main
from gsvc.decoders.training.draws import Rng
from gsvc.decoders.training.feeds import Finished, Job, Jobs, Position, Stream
from gsvc.decoders.training.frozen import frozen_networks
from gsvc.decoders.training.packs import Pack
from gsvc.decoders.training.recipe import read_recipe
from gsvc.decoders.training.samples import Sample
from gsvc.decoders.training.tasks import Restore
from gsvc.decoders.training.tensors import AVERAGE, read_average
from needs import need_package
from panning import write_clip

need_package("fsspec")
need_package("stlpips_pytorch")

SURVEY = ["--survey-only", "--lines", "160", "--frames", "9", "--lambdas", "90", "30"]
SURVEY += ["--ray", "none", "--limits", "sharpness=1:"]
PRIOR = "animevideov3"
RECIPE = """
base = "prior"
side = 32
[[stages]]
until = 1.0
learns = ["refiner"]
weights = { coarse = 1.0 }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Surveyed: six clips of two videos; one more is no video."""
    footage, out = tmp_path_factory.mktemp("footage"), tmp_path_factory.mktemp("surveyed") / "out"
    write_clip(footage / "a.mp4", [1, 2], lines=160)
    write_clip(footage / "b.mp4", [3], lines=160)
    (footage / "poison.mp4").write_bytes((footage / "a.mp4").read_bytes()[:3000])
    assert main(["data", "prepare", str(footage), str(out), *SURVEY]) == 0
    return out


@pytest.fixture
def drawn(folder: Path, tmp_path: Path) -> Path:
    """The same, of which the prior draws as well."""
    shutil.copytree(folder, tmp_path / "drawn")
    job = json.loads((folder / "job.json").read_text())
    job["settings"]["extract"] = ["drawings"]
    (tmp_path / "drawn" / "job.json").write_text(json.dumps(job))
    return tmp_path / "drawn"


def made_up(faults: set[str] | None = None) -> Callable[[Iterator[Job]], Iterator[Finished]]:
    """Samples by the clip's number; a clip in `faults` gives none."""

    def carry_out(jobs: Iterator[Job]) -> Iterator[Finished]:
        for job in jobs:
            if job.clip.key in (faults or ()):
                yield Finished([], [], "is damaged\nbadly")
                continue
            count = 1 + (job.clip.number // 9 + job.lmbda) % 3
            keys = [f"{job.clip.key}-{job.lmbda}-{row}" for row in range(count)]
            yield Finished(keys, [Sample({"truth": np.zeros(0, np.uint8)}, {})] * count, "")

    return carry_out


def keys_of(stream: Stream, count: int, faults: set[str] | None = None) -> list[list[str]]:
    batches = stream.batches(made_up(faults))
    return [list(stream.keys) for _ in islice(batches, count)]


def flat(batches: list[list[str]]) -> list[str]:
    return [key for batch in batches for key in batch]


def test_a_stream_has_each_sample_once_an_epoch_and_goes_on(folder: Path, tmp_path: Path) -> None:
    jobs = Jobs(folder)
    assert jobs.count == 6 * 2 and len(jobs.sources) == 3
    an_epoch = sum(
        len(x.keys) for number in range(jobs.windows) for x in made_up()(jobs.window(0, number))
    )
    whole = keys_of(Stream(jobs, 1, tmp_path / "whole.tsv", Position()), 2 * an_epoch)
    assert set(Counter(flat(whole)).values()) == {2}
    assert whole[:an_epoch] != whole[an_epoch:]
    # Stopped anywhere, on with the same, and the ledger has every job once an epoch.
    ledger = tmp_path / "samples.tsv"
    first = Stream(jobs, 3, ledger, Position())
    there = keys_of(first, 5)
    position = first.position
    ledger.write_text(ledger.read_text() + "1\t0\ttorn")
    there += keys_of(Stream(jobs, 3, ledger, position), 2 * an_epoch // 3 - 5)
    assert flat(there) == flat(whole)[: 3 * len(there)]
    rows = [line.split("\t") for line in ledger.read_text().splitlines()[1:]]
    done = Counter((row[0], row[2], row[3]) for row in rows)
    assert set(done.values()) == {1} and len(done) == 2 * jobs.count


def test_what_cannot_be_made_is_told(folder: Path, tmp_path: Path) -> None:
    jobs, ledger = Jobs(folder), tmp_path / "samples.tsv"
    clips = {job.clip.key for job in jobs.window(0, 0)}
    one = min(clips)
    keys = flat(keys_of(Stream(jobs, 2, ledger, Position()), 6, {one}))
    assert not any(key.startswith(one) for key in keys)
    assert f"{one}\t0\t0\tis damaged badly\n" in ledger.read_text()
    with pytest.raises(InputError, match="no sample comes of 12 clips in a row: is damaged"):
        keys_of(Stream(jobs, 2, ledger, Position()), 1, clips)


class Drawn(Exception):
    """The prior was asked to draw."""


class NoPrior:
    """A prior that nobody may ask."""

    shrunk = (1, 2)

    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        raise Drawn


def test_who_trains_does_not_draw_again_until_the_prior_learns() -> None:
    recipe = replace(read_recipe("prior"), side=32)
    side = np.zeros((1, 40, 40, 3), np.uint8)
    stacks = {"truth": side, "given": side, "gain": side[..., :1], "drawn": side.repeat(2, 0)}
    stacks["drawn"][1] += 255
    scalars = {"scalars": np.zeros((1, 2), np.float16)}
    pack = Pack.of([Sample(stacks, {**scalars})], networks=frozen_networks([PRIOR]))
    task = Restore(pack, recipe, torch.device("cpu"), None)
    task.quick["prior"] = NoPrior()
    rng = Rng(torch.device("cpu"), 0)
    batch = task.whole(pack, recipe.stages[0], rng)
    assert batch["drawn"].shape == (1, 6, 32, 32)
    assert float(batch["drawn"][:, 3:].mean()) > float(batch["drawn"][:, :3].mean())
    assert task.estimate(batch, recipe.stages[0], rng).estimate.shape[:2] == (1, 3)
    with pytest.raises(Drawn):
        task.estimate(batch, recipe.stages[1], rng)


def test_sources_want_producers_and_a_survey(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(tmp_path / "run"), "--recipe", "medium", "--device", "cpu"]
    assert main(["train", "shards", str(folder), *arguments]) == 1
    assert "--anew" in capsys.readouterr().err
    assert main(["train", "shards", str(folder), *arguments, "--anew"]) == 2
    assert "--anew is for --producers" in capsys.readouterr().err
    more = ["--producers", "local:1", "--anew"]
    assert main(["train", "shards", str(tmp_path), *arguments, *more]) == 1
    assert "nothing was prepared" in capsys.readouterr().err


@pytest.mark.slow
def test_weak_processes_make_what_a_strong_one_trains_on(drawn: Path, tmp_path: Path) -> None:
    need_package("ray")
    recipe, run = tmp_path / "small.toml", tmp_path / "run"
    recipe.write_text(RECIPE)
    command = [sys.executable, "-m", "gsvc", "train", "shards", str(drawn), str(run)]
    command += ["--recipe", str(recipe), "--device", "cpu", "--batch", "2", "--steps", "3"]
    command += ["--producers", "local:2", "--anew", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["step"] for row in told if row["type"] == "step"] == [1, 2, 3]
    assert read_average(run / AVERAGE)[1]["step"] == 3
    rows = ledger_of(run)
    assert sum(int(row[4]) for row in rows) >= 6 and not any(row[5] for row in rows)
    spans = json.loads((run / "timeline-0.json").read_text())["traceEvents"]
    assert {"trainer", "producer 0"} <= {span["tid"] for span in spans}


def ledger_of(run: Path) -> list[list[str]]:
    """The rows of the account of a run; no job twice."""
    rows = [line.split("\t") for line in (run / "samples.tsv").read_text().splitlines()[1:]]
    assert set(Counter((row[0], row[2], row[3]) for row in rows).values()) == {1}
    return rows


@pytest.mark.slow
def test_two_who_train_share_what_producers_make(folder: Path, tmp_path: Path) -> None:
    need_package("ray")
    script = Path(__file__).parents[1] / "tools/scale_train.py"
    command = [sys.executable, str(script), str(folder), "--work", str(tmp_path)]
    command += ["--steps", "4", "--batch", "2", "--producers", "local:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # Every step's loss is that of one process: each sample came once, to one of the two.
    found = dict(line.split(": ") for line in done.splitlines() if line.startswith("two"))
    assert [float(value) < 1e-4 for value in found.values()] == [True], done
    one, two = ((tmp_path / run / "samples.tsv").read_text() for run in ("one", "two"))
    assert ledger_of(tmp_path / "two")
    shorter, longer = sorted((one, two), key=len)
    assert longer.startswith(shorter)


@pytest.mark.slow
def test_producers_of_samples_may_die_and_join(folder: Path) -> None:
    need_package("ray")
    script = Path(__file__).parents[1] / "tools/scale_producers.py"
    command = [sys.executable, str(script), "faults", str(folder), "--anew", "--faults", "3"]
    done = subprocess.run([*command, "--batch", "2"], capture_output=True, text=True, check=True)
    assert "each [2] times in 2 epochs, 0 batches wrong" in done.stdout
    assert "24 jobs, each [1] times an epoch" in done.stdout
    assert "'killed': 1, 'late': 1, 'slow': 1" in done.stdout
