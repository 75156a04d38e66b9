"""How the refiner walks from a decoded key picture to its source: functions without state.

A state at level sigma is (1 - sigma) * source + sigma * (picture + noise): flow matching (Liu et
al., ICLR 2023; Lipman et al., ICLR 2023) that starts at the picture, not at noise, as in inversion
by direct iteration (Delbracio & Milanfar, TMLR 2023). One step goes from sigma 1 straight to the
model's estimate of the source.
"""

from collections.abc import Callable, Sequence

import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from torch import Tensor

Denoiser = Callable[[Tensor, Tensor], Tensor]
"""(state (B, 3, H, W), sigma (B,)) -> estimate of the source, same shape as the state."""


def noise_levels(steps: int) -> list[float]:
    """Sigma at the start of each of `steps` steps: evenly spaced from 1 down to 1 / steps."""
    return [1 - step / steps for step in range(steps)]


def noise_field(
    height: int, width: int, *, seed: int, deviation: float, device: str | torch.device = "cpu"
) -> Tensor:
    """Normal noise (3, height, width), drawn on the CPU so that every device gets the same."""
    generator = torch.Generator("cpu").manual_seed(seed)
    return (deviation * torch.randn(3, height, width, generator=generator)).to(device)


def euler(
    denoise: Denoiser,
    state: Tensor,
    sigmas: Sequence[float],
    scheduler: FlowMatchEulerDiscreteScheduler | None = None,
) -> Tensor:
    """Integrate from the first of `sigmas` (descending, in (0, 1]) to 0 with Euler steps.

    The velocity is (state - estimate) / sigma, so the last step ends on the model's own estimate.
    """
    scheduler = scheduler or FlowMatchEulerDiscreteScheduler()
    scheduler.set_timesteps(sigmas=list(sigmas), device=state.device)
    for timestep, sigma in zip(scheduler.timesteps, scheduler.sigmas[:-1], strict=True):
        estimate = denoise(state, sigma.to(state).expand(state.shape[0]))
        velocity = (state - estimate) / sigma.to(state)
        state = scheduler.step(velocity, timestep, state, return_dict=False)[0]
    return state


def walk(denoise: Denoiser, state: Tensor, sigmas: Sequence[float], end: float) -> Tensor:
    """Like `euler`, up to level `end`: training visits the states that sampling visits."""
    for sigma, following in zip(sigmas, [*sigmas[1:], end], strict=True):
        estimate = denoise(state, state.new_full((state.shape[0],), sigma))
        state = state + (following - sigma) / sigma * (state - estimate)
    return state
