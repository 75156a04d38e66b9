"""The operator with a network of PyTorch: on a share of a GPU where there is one, else on the CPU.

It sees crops only. The network is loaded once a process.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from gsvc.decoders.keyframes.priors.prior_drawings import drawings, load_prior
from gsvc.decoders.training import draws, pipeline
from gsvc.decoders.training.sources import Settings

_PRIOR = "animevideov3"
_DRAWN = {"pictures": "given", "windows": "keys"}
"""The stack that the prior is shown: as decoded."""
_AT_ONCE = 16  # pictures that a network is given: bounds its memory
_USUAL = pipeline.OnCard()


@torch.no_grad()
def draw(settings: Settings, item: pipeline.ClipItem, place: pipeline.OnCard = _USUAL) -> None:
    """Add the stack `drawn`: what the small prior draws of each decoded picture, at both sizes."""
    device, network = _ready(place), _prior(place)
    for crop in item.crops:
        stack = crop.sample.stacks[_DRAWN[settings.kind]]
        shown = draws.colours_of(torch.from_numpy(stack).permute(0, 3, 1, 2))
        drawn = [drawings(network, each.to(device)) for each in torch.split(shown, _AT_ONCE)]
        pictures = torch.cat(drawn).float().add(1).mul(127.5).round().clamp(0, 255).byte().cpu()
        both = pictures.reshape(-1, 3, *pictures.shape[2:]).permute(0, 2, 3, 1)
        drawn_stack = {"drawn": np.ascontiguousarray(both.numpy())}
        crop.sample = replace(crop.sample, stacks={**crop.sample.stacks, **drawn_stack})


@cache
def _ready(place: pipeline.OnCard) -> torch.device:
    torch.set_num_threads(1)
    device = torch.device(place.device if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(place.fraction)
    return device


@cache
def _prior(place: pipeline.OnCard) -> Any:
    return load_prior(_PRIOR, _ready(place).type)
