"""The compact refiner as a back end: its sizes, with their weights, settings and priors."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights import safetensors_files as weight_files
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.priors.prior_files import prior_path
from gsvc.decoders.keyframes.refiner import KeyRefiner, RefinerCost, enough_memory

if TYPE_CHECKING:
    from gsvc.decoders.keyframes.compact.pipeline import RefinerPipeline

_WEIGHTS = Path(__file__).parent / "weights"
WEIGHTS = {"compact": _WEIGHTS / "nano.safetensors", **weight_files.shipped(_WEIGHTS, "compact")}
"""Name -> weights, see `gsvc.codec.weights.model_files`."""


class CompactBackend(KeyRefiner):
    """The compact refiner, of a name in `WEIGHTS` or of a `.safetensors` file of `gsvc train`."""

    extra = "refine"
    keeps_latents = True

    def __init__(self, name: str, device: str = "cpu") -> None:
        super().__init__(name, device)
        self._weights = WEIGHTS.get(name, Path(name))

    @property
    def files(self) -> Sequence[Path]:
        """Its weights, and those of its prior where they are not in them."""
        if self.name in WEIGHTS:
            weight_files.check_shipped(self._weights)
        else:
            weight_files.check_there(self._weights)
        prior = weight_files.settings_of(self._weights).get("prior")
        if prior is None or weight_files.has_own_prior(self._weights):
            return [self._weights]
        return [self._weights, prior_path(prior)]

    @cached_property
    def pipeline(self) -> "RefinerPipeline":
        """Its network at work, loaded when first asked for."""
        return load_pipeline(self._weights, self.device)

    def load(self) -> None:
        _ = self.pipeline

    def refine(self, key: Keyframe, *, steps: int, seed: int) -> Picture:
        with enough_memory(self.device):
            refined: Picture = self.pipeline(
                key, num_inference_steps=steps, seed=seed, cache=self.latents, model=self.id.hex()
            )
        return refined

    def cost(self, height: int, width: int) -> RefinerCost:
        from gsvc.decoders.keyframes.compact.pipeline import picture_cost

        return picture_cost(weight_files.settings_of(self._weights), height, width)


def load_pipeline(weights: Path, device: str = "cpu") -> "RefinerPipeline":
    """The pipeline with the network of a `.safetensors` file and the `.json` beside it.

    Raises MissingModelError where they are damaged or another network's.
    """
    from gsvc.decoders.keyframes.compact.network import CompactRefiner
    from gsvc.decoders.keyframes.compact.pipeline import RefinerPipeline
    from gsvc.decoders.keyframes.devices import placed
    from gsvc.decoders.keyframes.priors.prior_drawings import load_prior
    from gsvc.decoders.keyframes.priors.prior_networks import PRIORS

    network = weight_files.load_network(CompactRefiner, weights)
    name, prior = network.settings["prior"], None
    with enough_memory(device):
        if name and weight_files.has_own_prior(weights):
            prior = placed(weight_files.load_own_prior(PRIORS[name](), weights), device)
        elif name:
            prior = load_prior(name, device)
        network = placed(network, device)
    return RefinerPipeline(network, prior)
