"""One step of training, and all that it changes."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.decoders.training.standalone.adversary import Adversary
from gsvc.decoders.training.standalone.dice import Dice
from gsvc.decoders.training.standalone.losses import Losses, Seen
from gsvc.decoders.training.standalone.memory import moments, remember
from gsvc.decoders.training.standalone.recipe import Recipe, Stage
from gsvc.decoders.training.standalone.tasks import Task
from gsvc.decoders.training.standalone.workers import (
    alike,
    clip_gradients,
    mean_gradients,
    own_part,
    same_weights,
)

_BETAS = (0.9, 0.99)
_FIRST_AVERAGES = 10
_MOST_BAD = 10


class Learner:
    """A task's networks with their averages, optimiser, critic and losses."""

    def __init__(self, task: Task, losses: Losses, recipe: Recipe, dice: Dice) -> None:
        self.task, self.step = task, 0
        self._losses, self._recipe, self._dice = losses, recipe, dice
        self.device = dice.device
        self._bad = self.steps_since_start = 0
        self._begun: set[str] = set()
        self.names = [name for name, _ in task.networks.named_parameters()]
        self._parameters = list(task.networks.parameters())
        self.average = [each.detach().clone() for each in self._parameters]
        self.low = is_quick = dice.device.type == "cuda"
        """Whether layers compute in bfloat16."""
        groups = [{"params": kind} for kind in alike(self._parameters)]
        self.optimizer = torch.optim.AdamW(
            groups, recipe.rate, _BETAS, weight_decay=recipe.decay, fused=is_quick
        )
        has_critic = any(stage.weights.get("adversary") for stage in recipe.stages)
        self.adversary = Adversary(dice.device) if has_critic else None

    def share(self) -> None:
        """Begin with the first process's weights in all processes."""
        same_weights(self._parameters)

    def begin_stage(self, stage: Stage) -> None:
        """Let those networks learn that learn in this stage."""
        for name, network in self.task.networks.items():
            network.requires_grad_(name in stage.learns)

    def learn(self, stage: Stage, count: int, rate: float) -> dict[str, Tensor]:
        """One step with `count` samples; returns terms of the loss, on the device.

        A step whose gradient is no number changes nothing. Raises GsvcError after ten in a row.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        seen, terms = self.gradients(stage, count)
        learning = [each for each in self._parameters if each.grad is not None]
        mean_gradients(learning)
        norm = clip_gradients(learning, self._recipe.largest_gradient)
        if bool(torch.isfinite(norm)):
            self._bad = 0
            self.optimizer.step()
            if self.adversary is not None and "adversary" in terms:
                with self.fast():
                    terms["critic"] = self.adversary.learn(seen)
        else:
            self._skip(terms)
        self.step += 1
        self.steps_since_start += 1
        self._follow()
        return {**terms, "norm": norm}

    def gradients(self, stage: Stage, count: int) -> tuple[Seen, dict[str, Tensor]]:
        """Draw samples and add their loss's gradient to that of the networks."""
        batch = self.task.draw(count, stage, self._dice)
        with self.fast():
            seen = self.task.estimate(batch, stage, self._dice)
            terms = self._losses.terms(seen, stage.weights, self._dice)
            if self.adversary is not None and stage.weights.get("adversary"):
                terms["adversary"] = self.adversary.term(seen)
        loss = torch.stack([stage.weights[name] * term for name, term in terms.items()]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return seen, {name: term.detach() for name, term in {**terms, "loss": loss}.items()}

    def fast(self) -> AbstractContextManager[Any]:
        """In it, layers compute in bfloat16 if `low`."""
        return torch.autocast(self._dice.device.type, torch.bfloat16, enabled=self.low)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """In it, the networks have the averaged weights."""
        own = [each.detach().clone() for each in self._parameters]
        self._put(self.average)
        yield
        self._put(own)

    def weights(self) -> dict[str, Tensor]:
        """The averaged weights by name: of the networks that have learned or are there to."""
        learned = self.learned()
        pairs = zip(self.names, self.average, strict=True)
        return {name: value for name, value in pairs if name.split(".")[0] in learned}

    def learned(self) -> list[str]:
        """Networks of `weights`."""
        moved = {
            name.split(".")[0]
            for name, each in zip(self.names, self._parameters, strict=True)
            if each.requires_grad or name in self._begun or each in self.optimizer.state
        }
        return [name for name in self.task.networks if name in moved]

    def begin_with(self, weights: Mapping[str, Tensor]) -> None:
        """Put weights in place, of `weights` or of a network alone: then of the task's first one.

        Raises ConfigError where they do not fit.
        """
        first = self.names[0].split(".")[0]
        found = {
            name: weights.get(name, weights.get(name.removeprefix(f"{first}.")))
            for name in self.names
        }
        known = {name: value for name, value in found.items() if value is not None}
        for name, each in zip(self.names, self._parameters, strict=True):
            fits = name in known and known[name].shape == each.shape
            if not fits and (name in known or name.startswith(f"{first}.")):
                raise ConfigError(f"the weights to begin with do not fit this network ({name})")
        if len(known) != len(weights):
            raise ConfigError("the weights to begin with are of another network")
        self._begun |= known.keys()
        self._put([known.get(n, v) for n, v in zip(self.names, self.average, strict=True)])
        self.average = [each.detach().clone() for each in self._parameters]

    def memory(self) -> dict[str, Tensor]:
        """What the optimiser remembers, and the critic with its own."""
        memory = moments(self.optimizer, self.names, self._parameters)
        return memory | (self.adversary.memory() if self.adversary is not None else {})

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Go on with what `memory` gave; nothing is empty."""
        remember(self.optimizer, self.names, memory)
        if self.adversary is not None:
            self.adversary.remember(memory)

    def largest_memory(self) -> dict[str, Tensor]:
        """Tensors of the sizes that `memory` can have at most."""
        memory = {
            f"{name}.{moment}": torch.empty(each.shape, dtype=torch.bfloat16, device="meta")
            for name, each in zip(self.names, self._parameters, strict=True)
            for moment in range(2)
        }
        return memory | (self.adversary.memory() if self.adversary is not None else {})

    def _put(self, values: Iterable[Tensor]) -> None:
        with torch.no_grad():
            for each, value in zip(self._parameters, values, strict=True):
                each.copy_(value)

    def _follow(self) -> None:
        steps = self.steps_since_start
        share = 1 - min(self._recipe.average, steps / (_FIRST_AVERAGES + steps))
        with torch.no_grad():
            own = list(map(own_part, self._parameters))
            torch._foreach_lerp_(list(map(own_part, self.average)), own, share)

    def _skip(self, terms: Mapping[str, Tensor]) -> None:
        self._bad += 1
        if self._bad == _MOST_BAD:
            last = ", ".join(f"{name} {float(term):.3g}" for name, term in terms.items())
            raise GsvcError(
                f"the loss was no number {_MOST_BAD} times in a row ({last}): take a lower rate"
            )
