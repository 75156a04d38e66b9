"""The compact refiner as a diffusers pipeline: a window of renderings in, frames out."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from diffusers import DiffusionPipeline, FlowMatchEulerDiscreteScheduler
from torch import Tensor
from torch.nn import functional

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture
from gsvc.decoders.compact import MULTIPLE, CompactRefiner
from gsvc.decoders.rendering import Rendering
from gsvc.decoders.samplers import euler, noise_field, noise_levels, start_state

_WHOLE_PIXELS = 1_000_000
_TILE = 640
_MARGIN = 80
"""Pixels around a tile that the network sees and that are thrown away: more than its receptive field's 66."""

Conditions = tuple[Tensor, Tensor, Tensor]
"""Pictures, guides and scalars, as `CompactRefiner.forward` wants them."""


class RefinerPipeline(DiffusionPipeline):  # type: ignore[misc]
    """Refines windows of consecutive frames; `save_pretrained` and `from_pretrained` as of any pipeline."""

    def __init__(self, refiner: CompactRefiner, scheduler: FlowMatchEulerDiscreteScheduler) -> None:
        super().__init__()
        self.register_modules(refiner=refiner, scheduler=scheduler)

    @torch.no_grad()
    def __call__(
        self, renderings: Sequence[Rendering], *, num_inference_steps: int = 1, seed: int = 0
    ) -> list[Picture]:
        """Refine one window of frames of equal size, in order; the first and last lack a neighbour.

        The noise is one field drawn from `seed`, the same for all frames: it is fixed to the screen, so
        equal renderings give equal frames and nothing boils. Raises ConfigError for less than one step.
        """
        if num_inference_steps < 1:
            raise ConfigError(f"num_inference_steps is {num_inference_steps}; take 1 or more")
        height, width = renderings[0].picture.shape[:2]
        device = self.refiner.device
        pictures, guides, scalars = (x.to(device) for x in conditions(renderings))

        def denoise(state: Tensor, sigma: Tensor) -> Tensor:
            return _denoise_tiles(self.refiner, state, sigma, (pictures, guides, scalars))

        noise = noise_field(
            *pictures.shape[-2:], seed=seed, deviation=self.refiner.config.noise, device=device
        )
        state = start_state(pictures[:, :, :3], noise)
        frames = euler(denoise, state, noise_levels(num_inference_steps), self.scheduler)
        levels = frames[0, :, :, :height, :width].add(1).mul(127.5).round().clamp(0, 255)
        return list(np.ascontiguousarray(levels.byte().permute(0, 2, 3, 1).cpu().numpy()))


def conditions(renderings: Sequence[Rendering]) -> Conditions:
    """Renderings as the network's inputs, one window, sides padded to a multiple of 16 by repetition."""
    colours = np.stack([np.dstack([r.picture, r.left, r.right]) for r in renderings])
    trust = np.stack([r.trust for r in renderings])
    labels = np.stack([r.labels for r in renderings])
    guides = np.stack([labels == 1, labels > 1, [r.pose for r in renderings]], axis=1)
    pictures = torch.cat(
        [torch.from_numpy(colours).float() / 127.5 - 1, torch.from_numpy(trust).float()], dim=3
    )
    scalars = torch.tensor([(r.distance, r.quantizer) for r in renderings], dtype=torch.float32)
    small = functional.avg_pool2d(_padded(torch.from_numpy(guides).float()), 2)
    return _padded(pictures.permute(0, 3, 1, 2))[None], small[None], scalars[None]


def _padded(x: Tensor) -> Tensor:
    height, width = x.shape[-2:]
    return functional.pad(x, (0, -width % MULTIPLE, 0, -height % MULTIPLE), mode="replicate")


def _denoise_tiles(
    model: CompactRefiner, state: Tensor, sigma: Tensor, given: Conditions
) -> Tensor:
    """The model's estimate, in tiles when the picture is large. Tiling changes nothing: see `_MARGIN`."""
    height, width = state.shape[-2:]
    pictures, guides, scalars = given
    if height * width <= _WHOLE_PIXELS:
        return _run(model, state, sigma, pictures, guides, scalars)
    result = torch.empty_like(state)
    for top, left in product(range(0, height, _TILE), range(0, width, _TILE)):
        bottom, right = min(top + _TILE, height), min(left + _TILE, width)
        above, before = max(top - _MARGIN, 0), max(left - _MARGIN, 0)
        below, after = min(bottom + _MARGIN, height), min(right + _MARGIN, width)
        estimate = _run(
            model,
            state[..., above:below, before:after],
            sigma,
            pictures[..., above:below, before:after],
            guides[..., above // 2 : below // 2, before // 2 : after // 2],
            scalars,
        )
        part = estimate[..., top - above : bottom - above, left - before : right - before]
        result[..., top:bottom, left:right] = part
    return result


def _run(model: CompactRefiner, *inputs: Tensor) -> Tensor:
    device = model.device.type
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        estimate: Tensor = model(*inputs)
    return estimate.float()
