"""One step of training, and all that it changes: networks, what AdamW remembers, an adversary.

The adversary tells patches of true pictures from patches of restored ones: a relativistic hinge
loss of pairs (A. Jolicoeur-Martineau, ICLR 2019) over overlapping patches (P. Isola et al., CVPR
2017), with spectral normalisation (T. Miyato et al., ICLR 2018): its gradient stays bounded without
a term that would cost a second pass.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.utils.parametrizations import spectral_norm

from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.decoders.training import draws, packs, parallel, tensors
from gsvc.decoders.training.losses import Losses, Seen
from gsvc.decoders.training.recipe import Recipe, Stage
from gsvc.decoders.training.tasks import Task


class PatchCritic(nn.Module):
    """Convolutions that see 38 pixels. Given what the picture was before, besides the picture."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise((6, 48, 96, 192)):
            layers += [_bounded(inputs, outputs, 2), nn.LeakyReLU(0.2)]
        self.layers = nn.Sequential(*layers, _bounded(192, 1, 1))

    def forward(self, shown: Tensor, picture: Tensor) -> Tensor:
        """How true each patch looks, (B, 1, H / 8, W / 8); `shown`, `picture`: (B, 3, H, W)."""
        verdict: Tensor = self.layers(torch.cat([shown, picture], 1))
        return verdict


def _loss(better: Tensor, worse: Tensor) -> Tensor:
    """Of verdicts that should be so: the critic minimises it with the truth as the better one, the
    restorer with the estimate of it."""
    return nn.functional.relu(1 - (better.float() - worse.float())).mean()


def _bounded(inputs: int, outputs: int, stride: int) -> nn.Module:
    return spectral_norm(nn.Conv2d(inputs, outputs, 2 + stride if stride > 1 else 3, stride, 1))


_CRITIC_RATE = 2e-4
_CRITIC_BETAS = (0.5, 0.99)
_RAMP = 300
"""Steps over which a new critic's word comes to count: at first it knows nothing."""


class Adversary:
    """A critic with its optimiser."""

    def __init__(self, device: torch.device) -> None:
        self.critic = tensors.on_device(PatchCritic(), device)
        self.optimizer = torch.optim.AdamW(
            self.critic.parameters(), _CRITIC_RATE, _CRITIC_BETAS, weight_decay=0.0
        )
        self.steps = 0

    def term(self, seen: Seen) -> Tensor:
        """What the networks shall minimise, to be weighted."""
        self.critic.requires_grad_(False)
        with torch.no_grad():
            true = self.critic(seen.truth, seen.picture)
        verdict = self.critic(seen.estimate, seen.picture)
        ramp = seen.boldness * min(1.0, self.steps / _RAMP)
        return _loss(verdict, true) * ramp

    def learn(self, seen: Seen) -> Tensor:
        """A step of the critic; returns its loss."""
        self.critic.requires_grad_(True)
        estimate, picture = seen.estimate.detach(), seen.picture.detach()
        true, restored = self.critic(seen.truth, picture), self.critic(estimate, picture)
        loss = _loss(true, restored)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        parallel.mean_gradients(self.critic.parameters())
        if torch.isfinite(loss):
            self.optimizer.step()
            self.steps += 1
        return loss.detach()


_BETAS = (0.9, 0.99)
_FIRST_AVERAGES = 10
_MOST_BAD = 10


class Learner:
    """A task's networks with their averages, optimiser, critic and losses."""

    def __init__(
        self, task: Task, losses: Losses, recipe: Recipe, rng: draws.Rng, *, low: bool | None = None
    ) -> None:
        """`low`: whether layers compute in bfloat16; None: on a GPU."""
        self.task, self.rng, self.step = task, rng, 0
        self.packs: Iterator[packs.Pack] | None = None
        """Of the samples of each step, to be taken whole; None: the task draws from its own."""
        self._losses, self._recipe = losses, recipe
        self.device = rng.device
        self._bad = self.steps_since_start = 0
        self.begun = set[str]()
        """Parameters that were not drawn at random."""
        self.names = [name for name, _ in task.networks.named_parameters()]
        self._parameters = list(task.networks.parameters())
        self.average = [each.detach().clone() for each in self._parameters]
        is_quick = rng.device.type == "cuda"
        self._low = is_quick if low is None else low
        groups = [{"params": kind} for kind in parallel.alike(self._parameters)]
        self.optimizer = torch.optim.AdamW(
            groups, recipe.rate, _BETAS, weight_decay=recipe.decay, fused=is_quick
        )
        has_critic = any(stage.weights.get("adversary") for stage in recipe.stages)
        self.adversary = Adversary(rng.device) if has_critic else None

    def share(self) -> None:
        """Begin with the first process's weights in all processes."""
        if parallel.processes() > 1:
            for each in (x for x in self._parameters if not parallel.is_sharded(x)):
                distributed.broadcast(each.detach(), 0)

    def begin_stage(self, stage: Stage) -> None:
        """Let those networks learn that do in this stage. FSDP2 asks once: there all may."""
        for name, network in self.task.networks.items():
            if not isinstance(network, FSDPModule):
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
        parallel.mean_gradients(learning)
        norm = parallel.clip_gradients(learning, self._recipe.largest_gradient)
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
        if self.packs is None:
            batch = self.task.draw(count, stage, self.rng)
        else:
            batch = self.task.whole(next(self.packs).to(self.device), stage, self.rng)
        with self.fast():
            seen = self.task.estimate(batch, stage, self.rng)
            terms = self._losses.terms(seen, stage.weights, self.rng)
            if self.adversary is not None and stage.weights.get("adversary"):
                terms["adversary"] = self.adversary.term(seen)
        loss = torch.stack([stage.weights[name] * term for name, term in terms.items()]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return seen, {name: term.detach() for name, term in {**terms, "loss": loss}.items()}

    def fast(self) -> AbstractContextManager[Any]:
        """In it, layers compute in bfloat16, if they should."""
        return torch.autocast(self.rng.device.type, torch.bfloat16, enabled=self._low)

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
            if each.requires_grad or name in self.begun or each in self.optimizer.state
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
        self.begun |= known.keys()
        self._put([known.get(n, v) for n, v in zip(self.names, self.average, strict=True)])
        self.average = [each.detach().clone() for each in self._parameters]

    def _put(self, values: Iterable[Tensor]) -> None:
        with torch.no_grad():
            for each, value in zip(self._parameters, values, strict=True):
                each.copy_(value)

    def _follow(self) -> None:
        steps = self.steps_since_start
        share = 1 - min(self._recipe.average, steps / (_FIRST_AVERAGES + steps))
        with torch.no_grad():
            own = list(map(parallel.own_part, self._parameters))
            torch._foreach_lerp_(list(map(parallel.own_part, self.average)), own, share)

    def _skip(self, terms: Mapping[str, Tensor]) -> None:
        self._bad += 1
        if self._bad == _MOST_BAD:
            last = ", ".join(f"{name} {float(term):.3g}" for name, term in terms.items())
            why = f"the loss was no number {_MOST_BAD} times in a row ({last}): take a lower rate"
            raise GsvcError(why)
