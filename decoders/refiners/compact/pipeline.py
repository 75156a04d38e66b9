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
from gsvc.decoders.caches.embedding import embedding
from gsvc.decoders.caches.latents import LatentCache
from gsvc.decoders.devices import precision_on
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.refiners.compact.levels import Denoiser, noise_levels
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

    @torch.no_grad()
    def __call__(
        self,
        key: KeyPicture,
        *,
        num_inference_steps: int = 1,
        seed: int = 0,
        cache: LatentCache | None = None,
        model: str = "",
    ) -> Picture:
        """Refine one key picture; see `together`.

        `cache`: takes and keeps intermediate latents, under the name of the `model`.
        """
        state, denoise = self._begin([key], num_inference_steps, seed)
        loop = None
        if cache is not None:
            size = "x".join(map(str, key.picture.shape))
            kind = f"{model}, {size}, seed {seed}"
            loop = cache.begin(kind, embedding(key.picture[None]), state, num_inference_steps)
        levels = noise_levels(num_inference_steps)
        estimate = euler(denoise, state, levels, self.scheduler, loop)
        if cache is not None and loop is not None:
            cache.keep(loop)
        height, width = key.picture.shape[:2]
        return pictures_of(estimate[..., :height, :width])

    @torch.no_grad()
    def together(
        self, keys: Sequence[KeyPicture], *, num_inference_steps: int = 1, seed: int = 0
    ) -> list[Picture]:
        """Refine key pictures of one size at once, each as it would be alone.

        The noise is one field drawn from `seed`, the same for all pictures: it is fixed to the
        screen, so equal pictures stay equal and nothing boils. Raises ConfigError for less than one
        step.
        """
        state, denoise = self._begin(keys, num_inference_steps, seed)
        estimate = euler(denoise, state, noise_levels(num_inference_steps), self.scheduler)
        height, width = keys[0].picture.shape[:2]
        shown = estimate[..., :height, :width]
        return [pictures_of(shown[index : index + 1]) for index in range(len(keys))]

    def _begin(self, keys: Sequence[KeyPicture], steps: int, seed: int) -> tuple[Tensor, Denoiser]:
        """The state with which the walk begins, and what estimates its end."""
        if steps < 1:
            raise ConfigError(f"num_inference_steps is {steps}; take 1 or more")
        device = self.refiner.device
        parts = zip(*(conditions(key, device) for key in keys), strict=True)
        given, scalars = map(torch.cat, parts)
        if self.prior is not None:  # once, however many steps follow
            given = torch.cat([given, drawings(self.prior, given[:, :3])], dim=1)

        noise = noise_field(
            *given.shape[-2:], seed=seed, deviation=self.refiner.config.noise, device=device
        )
        return given[:, :3] + noise, partial(_denoise, self.refiner, given, scalars)


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
