"""What a run keeps in its folder: checkpoints to go on from, and scores with a sheet of pictures.

Checkpoints are distributed: each process writes its part, and any number of processes reads them.
"""

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, distributed, nn
from torch.distributed.checkpoint import state_dict
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.training.learner import Learner
from gsvc.decoders.training.losses import AlexDistance, luma_of
from gsvc.decoders.training.parallel import processes, rank
from gsvc.decoders.training.tasks import Task
from gsvc.decoders.training.tensors import on_device

_KEPT = 2
_RUN = "run"


class Checkpoints:
    """Those of a run, `step-NNNNNNN` each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def latest(self) -> Path | None:
        """The newest one that is whole."""
        found = sorted(self._folder.glob("step-*/.metadata"))
        return found[-1].parent if found else None

    def save(self, learner: Learner, about: Mapping[str, Any]) -> None:
        """Write one, and remove old ones. All processes must ask.

        `about`: of the first one, which alone knows where its producers are.
        """
        path = self._folder / f"step-{learner.step:07d}"
        said = [json.dumps(about)]
        if processes() > 1:
            distributed.broadcast_object_list(said, 0)
        with _alone():
            save({**_state(learner), _RUN: said[0]}, checkpoint_id=path)
        if rank() == 0:
            for old in sorted(self._folder.glob("step-*"))[:-_KEPT]:
                shutil.rmtree(old, ignore_errors=True)
        if processes() > 1:
            distributed.barrier()

    def load(self, path: Path, learner: Learner, about: Mapping[str, Any]) -> dict[str, Any]:
        """Put the state of `path` into a learner; `about` is what it must be of.

        Returns all that was said of it when it was saved. Raises ConfigError where it is of
        something else.
        """
        text = {_RUN: ""}
        with _alone():
            load(text, checkpoint_id=path)
        told: dict[str, Any] = json.loads(text[_RUN])
        own = json.loads(json.dumps(about))
        if other := [name for name in own if told.get(name) != own[name]]:
            raise ConfigError(f"{path} is of another {', '.join(other)}: take another folder")
        networks = learner.task.networks
        with _alone(), _only_learned(networks, path):
            state = _state(learner)
            load(state, checkpoint_id=path)
            state_dict.set_optimizer_state_dict(
                networks, learner.optimizer, optim_state_dict=state["optimizer"]
            )
        learner.step = learner.steps_since_start = int(state["step"])
        if learner.adversary is not None:
            critic, optimizer = learner.adversary.critic, learner.adversary.optimizer
            state_dict.set_optimizer_state_dict(
                critic, optimizer, optim_state_dict=state["critic optimizer"]
            )
            learner.adversary.steps = int(state["critic steps"])
        return told


@contextmanager
def _alone() -> Iterator[None]:
    """Without the warning that there is one process only."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        yield


@contextmanager
def _only_learned(networks: nn.ModuleDict, path: Path) -> Iterator[None]:
    """In it, only those parameters seem to learn of which the checkpoint's optimiser knows.

    A prior that learns in the last stage has no moments before it.
    """
    known = FileSystemReader(path).read_metadata().state_dict_metadata
    before = {each: each.requires_grad for each in networks.parameters()}
    for name, each in networks.named_parameters():
        each.requires_grad_(f"optimizer.state.{name}.step" in known)
    try:
        yield
    finally:
        for each, learns in before.items():
            each.requires_grad_(learns)


def _state(learner: Learner) -> dict[str, Any]:
    """All that training goes on from; tensors are those of the learner."""
    networks, adversary = learner.task.networks, learner.adversary
    state = {
        "networks": dict(networks.named_parameters()),
        "average": dict(zip(learner.names, learner.average, strict=True)),
        "optimizer": state_dict.get_optimizer_state_dict(networks, learner.optimizer),
        "step": torch.tensor(learner.step),
    }
    if adversary is not None:
        state["critic"] = dict(adversary.critic.named_parameters())
        state["critic optimizer"] = state_dict.get_optimizer_state_dict(
            adversary.critic, adversary.optimizer
        )
        state["critic steps"] = torch.tensor(adversary.steps)
    return state


_ROWS = 8


class Scorer:
    """Scores a task's networks as they are, always on the same samples."""

    def __init__(
        self, task: Task, count: int, alex: dict[str, Tensor], device: torch.device
    ) -> None:
        """Raises ConfigError where nothing was held out."""
        self._task, self._batches = task, task.held(count)
        if not self._batches:
            raise ConfigError("the pack holds nothing out to score on: make it with --held-out")
        self._alex = on_device(AlexDistance(alex), device)

    def score(self) -> dict[str, dict[str, float]]:
        """Mean ST-LPIPS AlexNet and PSNR of luma in dB, by result; `given`: before."""
        sums: dict[str, Tensor] = {}
        count = 0
        for batch in self._batches:
            shown = dict(self._task.shown(batch))
            truth = shown.pop("truth")
            count += len(truth)
            for name, picture in shown.items():
                picture = picture.float().clamp(-1, 1)
                error = luma_of(picture - truth).div(2).square().mean((1, 2, 3)).clamp(min=1e-10)
                pair = torch.stack([self._alex(picture, truth), -10 * error.log10()]).double()
                sums[name] = sums.get(name, 0) + pair.sum(1)
        means = {name: (total / count).tolist() for name, total in sums.items()}
        return {name: {"alex": mean[0], "psnr": mean[1]} for name, mean in means.items()}

    def sheet(self, path: Path) -> None:
        """A PNG with a row for each of a few samples: truth, given, results."""
        joined = {name: torch.cat([b[name] for b in self._batches]) for name in self._batches[0]}
        step = max(1, len(joined["truth"]) // _ROWS)  # samples that lie far apart
        shown = self._task.shown({name: x[::step][:_ROWS] for name, x in joined.items()}).values()
        rows = [torch.cat([x.float() for x in row], 2) for row in zip(*shown, strict=True)][:_ROWS]
        levels = torch.cat(rows, 1).add(1).mul(127.5).round().clamp(0, 255).byte()
        part = path.with_name(path.name + ".part")
        Image.fromarray(np.ascontiguousarray(levels.permute(1, 2, 0).cpu())).save(part, "PNG")
        part.replace(path)
