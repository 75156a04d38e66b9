"""A scheduler that runs at the noise levels it is given, and at no others."""

from collections.abc import Sequence
from typing import Any

import torch
from diffusers import FlowMatchEulerDiscreteScheduler


class GivenLevels(FlowMatchEulerDiscreteScheduler):  # type: ignore[misc]
    """Euler steps from level to level. A model's own scheduler would shift them."""

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: str | torch.device | None = None,
        sigmas: Sequence[float] | None = None,
        mu: float | None = None,
        timesteps: Sequence[float] | None = None,
        **_: Any,
    ) -> None:
        """Run at `timesteps`, thousandths, or `sigmas`, 0 to 1, descending; the rest is unused."""
        levels = sigmas if timesteps is None else [time / 1000 for time in timesteps]
        assert levels is not None  # the pipelines here are always given some
        super().set_timesteps(sigmas=list(levels), device=device)
