"""The compact refiner at work: a decoded keyframe in, a refined one out."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.keyframes.compact import network
from gsvc.decoders.keyframes.compact.network import CompactRefiner, noise_levels, walk
from gsvc.decoders.keyframes.devices import in_tiles, precision_on
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.latent_cache import CachedLoop, LatentCache, embedding
from gsvc.decoders.keyframes.priors.prior_drawings import drawings
from gsvc.decoders.keyframes.priors.prior_networks import PRIORS, PriorNetwork
from gsvc.decoders.keyframes.refiner import RefinerCost


def tensor_of(picture: Picture, device: str | torch.device = "cpu") -> Tensor:
    """RGB uint8 (H, W, 3) as float32 (1, 3, H, W) in [-1, 1]; it travels to a device as uint8."""
    return torch.tensor(picture, device=device).permute(2, 0, 1)[None].float() / 127.5 - 1


def pictures_of(tensor: Tensor) -> Picture:
    """Float (1, 3 n, H, W) in [-1, 1], what is beyond cut off, as uint8 (H, W, 3 n)."""
    levels = tensor[0].add(1).mul(127.5).round().clamp(0, 255).byte()
    picture: Picture = levels.permute(1, 2, 0).contiguous().cpu().numpy()
    return picture


def noise_field(
    height: int, width: int, *, seed: int, deviation: float, device: str | torch.device = "cpu"
) -> Tensor:
    """Normal noise (3, height, width), drawn on the CPU so that every device gets the same."""
    generator = torch.Generator("cpu").manual_seed(seed)
    return (deviation * torch.randn(3, height, width, generator=generator)).to(device)


WHOLE_PIXELS = 1_000_000
"""Larger pictures are refined in tiles."""
_TILE = 640


class RefinerPipeline:
    """Refines keyframes."""

    def __init__(self, refiner: CompactRefiner, prior: PriorNetwork | None = None) -> None:
        """`prior`: of a refiner that is given drawings of one."""
        self.refiner, self.prior = refiner, prior

    def __call__(self, key: Keyframe, **options: Any) -> Picture:
        """Refine one keyframe; options as of `together`."""
        (shown,) = self.together([key], **options)
        return shown

    @torch.no_grad()
    def together(
        self,
        keys: Sequence[Keyframe],
        *,
        num_inference_steps: int = 1,
        seed: int = 0,
        cache: LatentCache | None = None,
        model: str = "",
    ) -> list[Picture]:
        """Refine keyframes of one size at once, each as it would be alone.

        The noise is one field drawn from `seed`, the same for all pictures: it is fixed to the
        screen, so equal pictures stay equal and nothing boils. `cache`: takes and keeps
        intermediate latents of the first one, under the name of the `model`. Raises ConfigError
        for less than one step.
        """
        if num_inference_steps < 1:
            raise ConfigError(f"num_inference_steps is {num_inference_steps}; take 1 or more")
        device, (height, width, _) = self.refiner.leave.weight.device, keys[0].picture.shape
        parts = zip(*(conditions(key, device) for key in keys), strict=True)
        given, scalars = map(torch.cat, parts)
        if self.prior is not None:  # once, however many steps follow
            given = torch.cat([given, drawings(self.prior, given[:, :3])], dim=1)
        deviation = self.refiner.settings["noise"]
        noise = noise_field(*given.shape[-2:], seed=seed, deviation=deviation, device=device)
        state = given[:, :3] + noise
        loop = CachedLoop(state, num_inference_steps)
        if cache is not None:
            kind = f"{model}, {height}x{width}x3, seed {seed}"
            loop = cache.begin(kind, embedding(keys[0].picture[None]), state, num_inference_steps)
        denoise = partial(_denoise, self.refiner, given, scalars)
        estimate = walk(denoise, state, noise_levels(num_inference_steps), loop)
        loop.keep()
        shown = estimate[..., :height, :width]
        return [pictures_of(shown[index : index + 1]) for index in range(len(keys))]


def conditions(key: Keyframe, device: str | torch.device = "cpu") -> tuple[Tensor, Tensor]:
    """The network's inputs `given` and `scalars`, sides padded to a multiple of 8."""
    gain = torch.from_numpy(key.gain).to(device)
    given = torch.cat([tensor_of(key.picture, device), gain[None, None]], dim=1)
    height, width = given.shape[2:]
    padding = 0, -width % network.MULTIPLE, 0, -height % network.MULTIPLE
    padded = functional.pad(given, padding, mode="replicate")
    return padded, torch.tensor([[key.quantizer, key.size]], dtype=torch.float32, device=device)


def _denoise(
    model: CompactRefiner, given: Tensor, scalars: Tensor, state: Tensor, sigma: Tensor
) -> Tensor:
    """The model's estimate, of a large picture in tiles, which changes nothing."""

    def run(state: Tensor, given: Tensor) -> Tensor:
        with precision_on(state.device):
            estimate: Tensor = model(state, sigma, given, scalars)
        return estimate.float()

    height, width = state.shape[-2:]
    if height * width <= WHOLE_PIXELS:
        return run(state, given)
    return in_tiles(run, [state, given], tile=_TILE, margin=model.reach)


def picture_cost(settings: Mapping[str, Any], height: int, width: int) -> RefinerCost:
    """Of the network with these settings and its prior, padded as when it runs; no tile margins."""
    height, width = height + -height % network.MULTIPLE, width + -width % network.MULTIPLE
    with torch.device("meta"):
        refiner = CompactRefiner(**settings)
        name = refiner.settings["prior"]
        picture = torch.empty(1, 3, height, width)
        given = torch.empty(
            1, network.GIVEN_CHANNELS + (3 * network.DRAWINGS if name else 0), height, width
        )
        sigma, scalars = torch.empty(1), torch.empty(1, network.SCALARS)
        prior = PRIORS[name]() if name else None
    return RefinerCost(
        step=lambda: refiner(picture, sigma, given, scalars),
        once=None if prior is None else lambda: drawings(prior, picture),
    )
