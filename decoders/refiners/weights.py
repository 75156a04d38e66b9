"""Weights of networks of our own as files: `.safetensors`, the settings in a `.json` beside it.

Those that ship lie in a folder with SHA256SUMS. Nothing here imports torch before it loads some.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gsvc.codec.errors import MissingModelError
from gsvc.codec.hashes import sha256_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    Network = TypeVar("Network", bound=nn.Module)

CLASS = "_class_name"
"""The setting that names the network's class, as diffusers has it."""
SUMS = "SHA256SUMS"
_REMEDY = "train it anew with gsvc train"


def shipped(folder: Path, family: str) -> dict[str, Path]:
    """The weights in a folder of the package, as `family:name`."""
    return {f"{family}:{path.stem}": path for path in sorted(folder.glob("*.safetensors"))}


def class_of(weights: Path) -> str:
    """The network's class; CompactRefiner where settings name none or cannot be read."""
    with suppress(MissingModelError):
        return str(_read(weights).get(CLASS, "CompactRefiner"))
    return "CompactRefiner"


def settings_of(weights: Path) -> dict[str, Any]:
    """The network's settings, without its class. Raises MissingModelError where there are none."""
    return {name: value for name, value in _read(weights).items() if name != CLASS}


def check_there(weights: Path) -> None:
    """Raises MissingModelError unless a user's weights and their settings are there."""
    if not (weights.exists() and weights.with_suffix(".json").exists()):
        raise MissingModelError(f"{weights} or its .json is missing: gsvc train adopt writes both")


def check_shipped(weights: Path) -> None:
    """Raises MissingModelError unless weights and settings are as SHA256SUMS beside them states."""
    try:
        stated = (weights.parent / SUMS).read_text().split("\n")
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


def load_network(make: "Callable[..., Network]", weights: Path) -> "Network":
    """The network that `make` builds of the settings, with its weights, for evaluation.

    Raises MissingModelError where they are damaged or another network's.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        network, state = make(**settings_of(weights)), load_file(weights)
    except (OSError, TypeError, ValueError, SafetensorError) as error:
        raise MissingModelError(f"{weights} or its .json is damaged: {_REMEDY}") from error
    fit_weights(network, state, weights)
    return network.eval()


def fit_weights(network: "nn.Module", state: "dict[str, Tensor]", weights: Path) -> None:
    """Give the network the `state` that the file `weights` held.

    Raises MissingModelError where it is another network's.
    """
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise MissingModelError(
            f"{weights} does not fit the network of this version: {_REMEDY}"
        ) from error


def _read(weights: Path) -> dict[str, Any]:
    path = weights.with_suffix(".json")
    with suppress(OSError, ValueError):
        settings = json.loads(path.read_text())
        if isinstance(settings, dict):
            return settings
    raise MissingModelError(f"{path} does not hold the settings of a refiner: {_REMEDY}")
