"""The job's checkpoint: one file with all that it needs to go on.

Weights and their average are float16, what optimisers remember is bfloat16. The file before the
newest is kept, and whichever of several has the most steps and is whole is gone on with. What is
committed has averaged weights alone: the job goes on from those.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gsvc.decoders.training.tensors import read_tensors, write_tensors

CHECKPOINT_FORMAT = 1
CHECKPOINT, BEFORE = "checkpoint.safetensors", "checkpoint.before.safetensors"
MOST_BYTES = 16_000_000
_AVERAGE = "average"
_JOB = "job"
_KINDS = {
    "weights": torch.float16,
    "average": torch.float16,
    "first": torch.bfloat16,
    "second": torch.bfloat16,
}

State = dict[str, dict[str, Tensor]]
"""`weights`, `average` and the optimiser's `first` and `second` moments: tensors by name."""


class NewerCheckpoint(ValueError):
    """A checkpoint of a newer gsvc."""


def write_checkpoint(folder: Path, state: Mapping[str, Mapping[str, Tensor]], job: Any) -> None:
    """Write the newest one, whole or not at all; the one that was the newest is kept.

    `job`: what JSON can hold. Raises OSError where the disk is full.
    """
    newest, before = folder / CHECKPOINT, folder / BEFORE
    fresh = folder / f"fresh.{CHECKPOINT}"
    tensors = {
        f"{part}.{name}": value.to(_KINDS[part])
        for part, values in state.items()
        for name, value in values.items()
    }
    about = json.dumps({"format": CHECKPOINT_FORMAT, **job})
    try:
        write_tensors(fresh, tensors, {_JOB: about}, MOST_BYTES)
    except OSError:
        fresh.with_name(fresh.name + ".part").unlink(missing_ok=True)
        raise
    if newest.exists():
        newest.replace(before)
    fresh.replace(newest)


def write_averages(path: Path, averages: Mapping[str, Tensor], job: Any) -> None:
    """Write averaged weights alone, whole or not at all. Errors as of `write_checkpoint`."""
    tensors = {f"{_AVERAGE}.{name}": value.half() for name, value in averages.items()}
    write_tensors(
        path, tensors, {_JOB: json.dumps({"format": CHECKPOINT_FORMAT, **job})}, MOST_BYTES
    )


def read_checkpoint(path: Path) -> tuple[State, dict[str, Any]]:
    """All in float32, and `job`. Raises ValueError where damaged, NewerCheckpoint where newer."""
    tensors, metadata = read_tensors(path)
    try:
        job: dict[str, Any] = json.loads(metadata[_JOB])
        version = int(job["format"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no checkpoint of the job") from error
    if version > CHECKPOINT_FORMAT:
        raise NewerCheckpoint(f"{path} was written by a newer gsvc: go on with that one")
    if "widths" not in job.get("network", {}):
        raise ValueError(f"{path} is of an earlier network")
    state: State = {part: {} for part in _KINDS}
    for name, value in tensors.items():
        part, _, own = name.partition(".")
        state[part][own] = value.float()
    return state, job


def newest_checkpoint(paths: Iterable[Path]) -> tuple[Path, State, dict[str, Any]] | None:
    """Of those that are there and whole the one with the most steps. Raises NewerCheckpoint."""
    found = []
    for path in paths:
        if path.exists():
            try:
                found.append((path, *read_checkpoint(path)))
            except NewerCheckpoint:
                raise
            except (OSError, ValueError, KeyError) as error:
                print(f"{path} is left out: {error}", flush=True)
    return max(found, key=lambda one: int(one[2]["step"]), default=None)
