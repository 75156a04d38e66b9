"""An adversary that tells patches of true pictures from patches of restored ones.

A relativistic hinge loss of pairs (A. Jolicoeur-Martineau, ICLR 2019) over overlapping patches (P.
Isola et al., CVPR 2017), with spectral normalisation (T. Miyato et al., ICLR 2018): its gradient
stays bounded without a term that would cost a second pass.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from gsvc.decoders.training.standalone.losses import Seen
from gsvc.decoders.training.standalone.memory import moments, remember
from gsvc.decoders.training.standalone.placing import on_device
from gsvc.decoders.training.standalone.workers import mean_gradients


class PatchCritic(nn.Module):
    """Convolutions that see 38 pixels. Given what the picture was before, besides the picture."""

    def __init__(self, channels: int = 48) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 6
        for outputs, stride in ((channels, 2), (2 * channels, 2), (4 * channels, 2)):
            layers += [_bounded(inputs, outputs, stride), nn.LeakyReLU(0.2)]
            inputs = outputs
        self.layers = nn.Sequential(*layers, _bounded(inputs, 1, 1))

    def forward(self, shown: Tensor, picture: Tensor) -> Tensor:
        """How true each patch looks, (B, 1, H / 8, W / 8); `shown`, `picture`: (B, 3, H, W)."""
        verdict: Tensor = self.layers(torch.cat([shown, picture], 1))
        return verdict


def critic_loss(true: Tensor, restored: Tensor) -> Tensor:
    """What the critic minimises, given its verdicts on the truth and on the estimate of it."""
    return functional.relu(1 - (true - restored)).mean()


def restorer_loss(true: Tensor, restored: Tensor) -> Tensor:
    """What the restorer minimises."""
    return functional.relu(1 - (restored - true)).mean()


def _bounded(inputs: int, outputs: int, stride: int) -> nn.Module:
    return spectral_norm(nn.Conv2d(inputs, outputs, 2 + stride if stride > 1 else 3, stride, 1))


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
