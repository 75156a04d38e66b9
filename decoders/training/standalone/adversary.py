"""The critic in training: what it adds to the loss, and how it learns beside the networks."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gsvc.decoders.training.standalone.critic import PatchCritic, critic_loss, restorer_loss
from gsvc.decoders.training.standalone.losses import Seen
from gsvc.decoders.training.standalone.memory import moments, remember
from gsvc.decoders.training.standalone.placing import on_device
from gsvc.decoders.training.standalone.workers import mean_gradients

_CRITIC_RATE = 2e-4
_CRITIC_BETAS = (0.5, 0.99)
_RAMP = 300
"""Steps over which a new critic's word comes to count: at first it knows nothing."""


class Adversary:
    """A critic with its optimiser."""

    def __init__(self, device: torch.device) -> None:
        self.critic = on_device(PatchCritic(), device)
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
        return restorer_loss(true.float(), verdict.float()) * ramp

    def learn(self, seen: Seen) -> Tensor:
        """A step of the critic; returns its loss."""
        self.critic.requires_grad_(True)
        estimate, picture = seen.estimate.detach(), seen.picture.detach()
        true, restored = self.critic(seen.truth, picture), self.critic(estimate, picture)
        loss = critic_loss(true.float(), restored.float())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        mean_gradients(self.critic.parameters())
        if torch.isfinite(loss):
            self.optimizer.step()
            self.steps += 1
        return loss.detach()

    def memory(self) -> dict[str, Tensor]:
        """The critic's weights and its optimiser's moments."""
        weights = {f"critic.{n}": value.float() for n, value in self.critic.state_dict().items()}
        return weights | moments(self.optimizer, self._names(), list(self.critic.parameters()))

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Go on with what `memory` gave; begin anew without."""
        names = self.critic.state_dict().keys()
        if all(f"critic.{name}" in memory for name in names):
            self.critic.load_state_dict({name: memory[f"critic.{name}"] for name in names})
            remember(self.optimizer, self._names(), memory)
            self.steps = _RAMP

    def _names(self) -> list[str]:
        return [f"critic.{name}" for name, _ in self.critic.named_parameters()]
