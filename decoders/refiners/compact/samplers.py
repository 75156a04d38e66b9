"""How the refiner walks from a decoded key picture to its source (see `levels`)."""

from collections.abc import Sequence

import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from torch import Tensor

from gsvc.decoders.caches.latents import CachedLoop
from gsvc.decoders.refiners.compact.levels import Denoiser


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
    loop: CachedLoop | None = None,
) -> Tensor:
    """Integrate from the first of `sigmas` (descending, in (0, 1]) to 0 with Euler steps.

    The velocity is (state - estimate) / sigma, so the last step ends on the model's own estimate.
    `loop`, of a cache, began with `state`: its steps are told, and those it has done are left out.
    """
    scheduler = scheduler or FlowMatchEulerDiscreteScheduler()
    scheduler.set_timesteps(sigmas=list(sigmas), device=state.device)
    state, done = (loop.state, loop.done) if loop else (state, 0)
    scheduler.set_begin_index(done)  # else it looks the index up, and the device must be waited for
    levels = zip(scheduler.timesteps[done:], scheduler.sigmas[done:-1], strict=True)
    for number, (timestep, sigma) in enumerate(levels, done + 1):
        estimate = denoise(state, sigma.to(state).expand(state.shape[0]))
        velocity = (state - estimate) / sigma.to(state)
        state = scheduler.step(velocity, timestep, state, return_dict=False)[0]
        if loop:
            loop.passed(number, state)
    return state
