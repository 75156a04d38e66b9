"""What a step takes: the state exactly, activations measured on small batches and extended."""

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gsvc.decoders.training.layouts.live import LiveBytes
from gsvc.decoders.training.layouts.splitting import NOT_SPLIT, Splitting, splitting_of
from gsvc.decoders.training.layouts.trial import Trial, bytes_of, largest_block
from gsvc.decoders.training.standalone.learner import Learner
from gsvc.decoders.training.standalone.usage import flops_of

_BATCHES = 1, 2
"""Activations grow by the sample: two sizes tell how fast, and from where."""


@dataclass(frozen=True)
class Needs:
    """Bytes, and operations."""

    parameters: int
    gradients: int
    optimizer: int
    average: int
    fixed: int
    """Frozen networks, and the critic with its optimiser: in every process."""
    gathered: int
    """The largest block of parameters, whole."""
    base: int
    """Of activations whatever the batch."""
    sample: int
    """Of activations, for each sample."""
    recomputed_base: int
    recomputed_sample: int
    """The same where blocks compute them again."""
    flops: int
    """Of a sample's step."""
    recomputed_flops: int
    splitting: Splitting
    """What tensor parallelism shares out."""

    @property
    def state(self) -> int:
        """What FSDP2 shares out."""
        return self.parameters + self.gradients + self.optimizer + self.average

    def activations(self, batch: int, recomputes: bool) -> int:
        """Of a step with so many samples."""
        if recomputes:
            return self.recomputed_base + batch * self.recomputed_sample
        return self.base + batch * self.sample


def needs_of(trial: Trial, layout: str = "") -> Needs:
    """Measured on the trial's device, with a few samples.

    `layout`: measure the memory of this one only, not what others or operations take.
    """
    plain = _activations(trial, recomputes=False)
    again = _activations(trial, recomputes=True) if not layout or "recomp" in layout else (0, 0)
    learner = trial.learner()
    trial.step(learner, 1)
    learned = [x for x in learner.task.networks.parameters() if x.grad is not None]
    state = list(_tensors(learner.optimizer.state))
    adversary = learner.adversary
    critic = list(adversary.critic.parameters()) if adversary is not None else []
    flops, more = _flops(trial) if not layout else (0, 0)
    frozen = [value.float() for net in trial.frozen.values() for value in net.values()]
    return Needs(
        parameters=bytes_of(learner.task.networks.parameters()),
        gradients=bytes_of(learned),
        optimizer=bytes_of(state),
        average=bytes_of(learner.average),
        fixed=bytes_of(frozen) + 4 * bytes_of(critic),
        gathered=largest_block(learner.task.networks),
        base=plain[0],
        sample=plain[1],
        recomputed_base=again[0],
        recomputed_sample=again[1],
        flops=flops,
        recomputed_flops=more,
        splitting=splitting_of(trial) if not layout or "tensor" in layout else NOT_SPLIT,
    )


def _flops(trial: Trial) -> tuple[int, int]:
    """Operations of a sample's step, and where blocks compute again."""
    plain, again = (trial.learner(recomputes=recomputes) for recomputes in (False, True))
    return flops_of(lambda: trial.step(plain, 1)), flops_of(lambda: trial.step(again, 1))


def _tensors(value: Any) -> Iterator[Tensor]:
    for each in value.values():
        yield from _tensors(each) if isinstance(each, dict) else [each]


def _activations(trial: Trial, recomputes: bool) -> tuple[int, int]:
    """Bytes whatever the batch, and for each sample, beyond state and gradients."""
    small, large = (_peak(trial, recomputes, batch) for batch in _BATCHES)
    sample = (large - small) // (_BATCHES[1] - _BATCHES[0])
    return max(0, small - _BATCHES[0] * sample), sample


def _peak(trial: Trial, recomputes: bool, batch: int) -> int:
    """The most that a step holds beside what was there when it began, and gradients."""
    learner = trial.learner(recomputes=recomputes)
    trial.step(learner, 1)  # after it the optimisers have their state
    learner.optimizer.zero_grad(set_to_none=True)
    gc.collect()
    with LiveBytes() as live:
        trial.step(learner, batch)
    return int(live.peak) - _own_gradients(learner)


def _own_gradients(learner: Learner) -> int:
    return bytes_of([x.grad for x in learner.task.networks.parameters() if x.grad is not None])
