"""Refiners by name: decoded key pictures in, refined ones out.

What a refiner does to a key picture is carried to every frame between by the motion. Importing this module and
loading a refiner for the CPU do not import torch.
"""

import hashlib
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gsvc.codec.errors import ConfigError, DeviceError, MissingModelError
from gsvc.codec.extras import need
from gsvc.codec.frames import Picture
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.refiners.priors.files import prior_path
from gsvc.decoders.refiners.shipped import check_shipped

if TYPE_CHECKING:
    from torch import Tensor

    from gsvc.decoders.refiners.compact.network import CompactRefiner
    from gsvc.decoders.refiners.compact.pipeline import RefinerPipeline

_WEIGHTS = Path(__file__).parent / "compact" / "weights"
BACKENDS = {
    "compact": _WEIGHTS / "nano.safetensors",
    "compact:nano": _WEIGHTS / "nano.safetensors",
    "compact:small": _WEIGHTS / "small.safetensors",
    "compact:base": _WEIGHTS / "base.safetensors",
}
"""Back end -> its weights; the network's settings lie beside them as `.json`."""
_REMEDY = "train it anew with gsvc train"


class Refiner(Protocol):
    """Turns decoded key pictures into what they were before coding, as near as it can."""

    def refine(self, key: KeyPicture, *, steps: int, seed: int) -> Picture:
        """Refine one key picture.

        `steps`: evaluations of the network, at least 1. The same picture, steps and seed give the same on the same
        machine, on others within a tolerance.
        """
        ...

    def load(self) -> None:
        """Load the network now: the first picture then does not wait for it (several seconds)."""
        ...


def load_refiner(backend: str = "compact", device: str = "cpu") -> Refiner:
    """The refiner `backend`, or that of a `.safetensors` file of `gsvc train`, to run on `device` ("cpu", "cuda" or
    "cuda:N").

    Raises ConfigError for an unknown back end or device, DeviceError when the device is not there,
    MissingModelError when the weights or those of the prior are not, or are not those that gsvc came with,
    MissingDependencyError without the extra `refine`.
    """
    need("refine", "a refiner", ", or decode with steps 0")
    weights, *_ = files_of(backend)
    check_device(device)
    return CompactBackend(weights, device)


@cache
def model_id(backend: str = "compact") -> bytes:
    """First 4 bytes of the SHA-256 of the back end's weights file. Errors as in `load_refiner`."""
    return hashlib.sha256(weights_of(backend).read_bytes()).digest()[:4]


def weights_of(backend: str) -> Path:
    """The weights of a back end. Errors as in `load_refiner`."""
    path = BACKENDS.get(backend, Path(backend))
    if path.suffix != ".safetensors":
        names = ", ".join(BACKENDS)
        raise ConfigError(f"unknown refiner {backend!r}; take {names} or a .safetensors file")
    if backend in BACKENDS:
        check_shipped(path)
    elif not (path.exists() and path.with_suffix(".json").exists()):
        raise MissingModelError(f"{path} or its .json is missing: gsvc train writes both")
    return path


def files_of(backend: str) -> list[Path]:
    """The weights of a back end, and those of its prior if it has one. Errors as in `load_refiner`."""
    weights = weights_of(backend)
    prior = _settings_of(weights).get("prior")
    return [weights, *([prior_path(prior)] if prior else ())]


class CompactBackend:
    """The compact refiner; the network is loaded when the first picture needs it."""

    def __init__(self, weights: Path, device: str) -> None:
        self._weights, self._device = weights, device
        self._pipeline: RefinerPipeline | None = None

    def refine(self, key: KeyPicture, *, steps: int, seed: int) -> Picture:
        """See `Refiner.refine`."""
        self.load()
        assert self._pipeline is not None
        refined: Picture = self._pipeline(key, num_inference_steps=steps, seed=seed)
        return refined

    def load(self) -> None:
        """See `Refiner.load`."""
        self._pipeline = self._pipeline or load_pipeline(self._weights, self._device)


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


def _settings_of(weights: Path) -> dict[str, Any]:
    """The network's settings, from the `.json` beside its weights. Raises MissingModelError where it holds none."""
    path = weights.with_suffix(".json")
    with suppress(ValueError):
        settings = json.loads(path.read_text())
        if isinstance(settings, dict):
            return settings
    raise MissingModelError(f"{path} does not hold the settings of a refiner: {_REMEDY}")


def fit_weights(network: "CompactRefiner", state: "dict[str, Tensor]", weights: Path) -> None:
    """Give the network the `state` that the file `weights` held. Raises MissingModelError where it is another network's."""
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise MissingModelError(
            f"{weights} does not fit the network of this version: {_REMEDY}"
        ) from error


def check_device(device: str) -> None:
    """Raises ConfigError for what is no device, DeviceError for one that is not there."""
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not (kind == "cuda" and number.isdigit())):
        raise ConfigError(f"unknown device {device!r}; permitted are cpu, cuda and cuda:N")
    if kind == "cuda":
        need("refine", f"device {device}", ", or take cpu")
        import torch

        if not torch.cuda.is_available() or int(number or 0) >= torch.cuda.device_count():
            raise DeviceError(f"device {device} is not there; take cpu")
