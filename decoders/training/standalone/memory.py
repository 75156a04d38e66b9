"""What AdamW remembers, as tensors by name."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

_MOMENTS = ("exp_avg", "exp_avg_sq")
_LONG_AGO = 1000.0
"""Steps after which moments need no correction for having begun at zero."""


def moments(
    optimizer: torch.optim.Optimizer, names: Sequence[str], parameters: Sequence[nn.Parameter]
) -> dict[str, Tensor]:
    """Both moments of all parameters that have learned, as bfloat16, by `name.moment`."""
    found = {}
    for name, each in zip(names, parameters, strict=True):
        state = optimizer.state.get(each, {})
        for moment in _MOMENTS:
            if moment in state:
                found[f"{name}.{moment}"] = state[moment].to(torch.bfloat16)
    return found


def remember(
    optimizer: torch.optim.Optimizer, names: Sequence[str], memory: Mapping[str, Tensor]
) -> None:
    """Give the optimiser the moments of `moments`; `names`: of its parameters, in order."""
    states = {}
    for number, name in enumerate(names):
        if all(f"{name}.{moment}" in memory for moment in _MOMENTS):
            values = {moment: memory[f"{name}.{moment}"].float() for moment in _MOMENTS}
            states[number] = {"step": torch.tensor(_LONG_AGO), **values}
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": states, "param_groups": groups})
