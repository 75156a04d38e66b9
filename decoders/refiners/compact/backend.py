"""The compact refiner as a back end: its sizes, with their weights, settings and priors."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsvc.codec.errors import MissingModelError
from gsvc.codec.frames import Picture
from gsvc.codec.hashes import sha256_of
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.refiners.base import Cost, KeyRefiner
from gsvc.decoders.refiners.priors.files import prior_path

if TYPE_CHECKING:
    from torch import Tensor

    from gsvc.decoders.refiners.compact.network import CompactRefiner
    from gsvc.decoders.refiners.compact.pipeline import RefinerPipeline

_WEIGHTS = Path(__file__).parent / "weights"
WEIGHTS = {
    "compact": _WEIGHTS / "nano.safetensors",
    "compact:nano": _WEIGHTS / "nano.safetensors",
    "compact:small": _WEIGHTS / "small.safetensors",
    "compact:base": _WEIGHTS / "base.safetensors",
}
"""Name -> weights; the network's settings lie beside them as `.json`."""
_REMEDY = "train it anew with gsvc train"


class CompactBackend(KeyRefiner):
    """The compact refiner, of a name in `WEIGHTS` or of a `.safetensors` file of `gsvc train`."""

    extra = "refine"

    def __init__(self, name: str, device: str = "cpu") -> None:
        super().__init__(name, device)
        self._weights = WEIGHTS.get(name, Path(name))
        self._pipeline: RefinerPipeline | None = None

    @property
    def files(self) -> Sequence[Path]:
        """Its weights, and those of its prior if it has one. Errors as of `Backend.files`."""
        if self.name in WEIGHTS:
            _check_shipped(self._weights)
        elif not (self._weights.exists() and self._weights.with_suffix(".json").exists()):
            raise MissingModelError(
                f"{self._weights} or its .json is missing: gsvc train writes both"
            )
        prior = _settings_of(self._weights).get("prior")
        return [self._weights, *([prior_path(prior)] if prior else ())]

    def load(self) -> None:
        """See `Backend.load`."""
        self._pipeline = self._pipeline or load_pipeline(self._weights, self.device)

    def refine(self, key: KeyPicture, *, steps: int, seed: int) -> Picture:
        """See `KeyRefiner.refine`."""
        self.load()
        assert self._pipeline is not None
        refined: Picture = self._pipeline(key, num_inference_steps=steps, seed=seed)
        return refined

    def cost(self, height: int, width: int) -> Cost:
        """See `Backend.cost`."""
        from gsvc.decoders.refiners.compact.cost import picture_cost

        return picture_cost(_settings_of(self._weights), height, width)


def _check_shipped(weights: Path) -> None:
    """Raises MissingModelError unless weights and settings are as SHA256SUMS beside them states."""
    try:
        stated = (weights.parent / "SHA256SUMS").read_text().split("\n")
        files = weights, weights.with_suffix(".json")
        found = {f"{sha256_of(file)}  {file.name}" for file in files}
    except OSError as error:
        raise MissingModelError(
            f"{error.filename} is missing or cannot be read: reinstall gsvc"
        ) from error
    if not found <= set(stated):
        raise MissingModelError(
            f"{weights} is damaged or not what this gsvc came with: reinstall gsvc"
        )


def load_pipeline(weights: Path, device: str = "cpu") -> "RefinerPipeline":
    """The pipeline with the network of a `.safetensors` file and the `.json` beside it.

    Raises MissingModelError where they are damaged or another network's.
    """
    import torch
    from diffusers import FlowMatchEulerDiscreteScheduler
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from gsvc.decoders.refiners.compact.network import CompactRefiner
    from gsvc.decoders.refiners.compact.pipeline import RefinerPipeline
    from gsvc.decoders.refiners.priors.drawing import load_prior

    try:
        network, state = CompactRefiner(**_settings_of(weights)), load_file(weights)
    except (TypeError, ValueError, SafetensorError) as error:
        raise MissingModelError(f"{weights} or its .json is damaged: {_REMEDY}") from error
    fit_weights(network, state, weights)
    network = network.eval().to(device, memory_format=torch.channels_last)
    name = network.config.prior
    prior = load_prior(name, device) if name else None
    return RefinerPipeline(network, FlowMatchEulerDiscreteScheduler(), prior)


def fit_weights(network: "CompactRefiner", state: "dict[str, Tensor]", weights: Path) -> None:
    """Give the network the `state` that the file `weights` held.

    Raises MissingModelError where it is another network's.
    """
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise MissingModelError(
            f"{weights} does not fit the network of this version: {_REMEDY}"
        ) from error


def _settings_of(weights: Path) -> dict[str, Any]:
    """The network's settings, from the `.json` beside its weights.

    Raises MissingModelError where it holds none.
    """
    path = weights.with_suffix(".json")
    with suppress(ValueError):
        settings = json.loads(path.read_text())
        if isinstance(settings, dict):
            return settings
    raise MissingModelError(f"{path} does not hold the settings of a refiner: {_REMEDY}")
