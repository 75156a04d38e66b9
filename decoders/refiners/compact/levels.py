"""The states between a decoded key picture and its source: functions without state.

A state at level sigma is (1 - sigma) * source + sigma * (picture + noise): flow matching (Liu et
al., ICLR 2023; Lipman et al., ICLR 2023) that starts at the picture, not at noise, as in inversion
by direct iteration (Delbracio & Milanfar, TMLR 2023). One step goes from sigma 1 straight to the
model's estimate of the source.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

Denoiser = Callable[[Tensor, Tensor], Tensor]
"""(state (B, 3, H, W), sigma (B,)) -> estimate of the source, same shape as the state."""


def noise_levels(steps: int) -> list[float]:
    """Sigma at the start of each of `steps` steps: evenly spaced from 1 down to 1 / steps."""
    return [1 - step / steps for step in range(steps)]


def walk(denoise: Denoiser, state: Tensor, sigmas: Sequence[float], end: float) -> Tensor:
    """Like `samplers.euler`, up to level `end`: training visits the states that sampling visits."""
    for sigma, following in zip(sigmas, [*sigmas[1:], end], strict=True):
        estimate = denoise(state, state.new_full((state.shape[0],), sigma))
        state = state + (following - sigma) / sigma * (state - estimate)
    return state
