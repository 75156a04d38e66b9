"""The compact refiner as a diffusers pipeline: a decoded key picture in, a refined one out."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import torch
from diffusers import DiffusionPipeline, FlowMatchEulerDiscreteScheduler
from torch import Tensor
from torch.nn import functional

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture
from gsvc.decoders.devices import precision_on
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.refiners.compact.levels import noise_levels
from gsvc.decoders.refiners.compact.network import MULTIPLE, CompactRefiner
from gsvc.decoders.refiners.compact.samplers import euler, noise_field
from gsvc.decoders.refiners.priors.drawing import PriorNetwork, drawings
from gsvc.decoders.refiners.tensors import pictures_of, tensor_of
from gsvc.decoders.refiners.tiles import in_tiles

WHOLE_PIXELS = 1_000_000
"""Larger pictures are refined in tiles."""
_TILE = 640


class RefinerPipeline(DiffusionPipeline):  # type: ignore[misc]
    """Refines key pictures; `save_pretrained` and `from_pretrained` as of any pipeline.

    `prior`: of a refiner that is given drawings of one.
    """

    _optional_components: ClassVar = ["prior"]

    def __init__(
        self,
        refiner: CompactRefiner,
        scheduler: FlowMatchEulerDiscreteScheduler,
        prior: PriorNetwork | None = None,
    ) -> None:
        super().__init__()
        self.register_modules(refiner=refiner, scheduler=scheduler, prior=prior)

    def __call__(self, key: KeyPicture, *, num_inference_steps: int = 1, seed: int = 0) -> Picture:
        """Refine one key picture; see `together`."""
        return self.together([key], num_inference_steps=num_inference_steps, seed=seed)[0]

    @torch.no_grad()
    def together(
        self, keys: Sequence[KeyPicture], *, num_inference_steps: int = 1, seed: int = 0
    ) -> list[Picture]:
        """Refine key pictures of one size at once, each as it would be alone.

        The noise is one field drawn from `seed`, the same for all pictures: it is fixed to the
        screen, so equal pictures stay equal and nothing boils. Raises ConfigError for less than one
        step.
        """
        if num_inference_steps < 1:
            raise ConfigError(f"num_inference_steps is {num_inference_steps}; take 1 or more")
        height, width = keys[0].picture.shape[:2]
        device = self.refiner.device
        parts = zip(*(conditions(key, device) for key in keys), strict=True)
        given, scalars = map(torch.cat, parts)
        if self.prior is not None:  # once, however many steps follow
            given = torch.cat([given, drawings(self.prior, given[:, :3])], dim=1)

        noise = noise_field(
            *given.shape[-2:], seed=seed, deviation=self.refiner.config.noise, device=device
        )
        state = given[:, :3] + noise
        denoise = partial(_denoise, self.refiner, given, scalars)
        estimate = euler(denoise, state, noise_levels(num_inference_steps), self.scheduler)
        shown = estimate[..., :height, :width]
        return [pictures_of(shown[index : index + 1]) for index in range(len(keys))]


def conditions(key: KeyPicture, device: str | torch.device = "cpu") -> tuple[Tensor, Tensor]:
    """The network's inputs `given` and `scalars`, sides padded to a multiple of 8."""
    gain = torch.from_numpy(key.gain).to(device)
    given = torch.cat([tensor_of(key.picture, device), gain[None, None]], dim=1)
    height, width = given.shape[2:]
    padding = 0, -width % MULTIPLE, 0, -height % MULTIPLE
    padded = functional.pad(given, padding, mode="replicate")
    return padded, torch.tensor([[key.quantizer, key.size]], dtype=torch.float32, device=device)


def _denoise(
    model: CompactRefiner, given: Tensor, scalars: Tensor, state: Tensor, sigma: Tensor
) -> Tensor:
    """The model's estimate, of a large picture in tiles.

    Each tile sees all that its pixels depend on, so that tiling changes nothing."""

    def run(state: Tensor, given: Tensor) -> Tensor:
        with precision_on(model.device):
            estimate: Tensor = model(state, sigma, given, scalars)
        return estimate.float()

    height, width = state.shape[-2:]
    if height * width <= WHOLE_PIXELS:
        return run(state, given)
    return in_tiles(run, [state, given], tile=_TILE, margin=model.reach)
