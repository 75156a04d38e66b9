"""Weights of networks of our own as files: `.safetensors`, the settings in a `.json` beside it.

Those that ship lie in a folder with SHA256SUMS. Nothing here imports torch before it loads some.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gsvc.codec.bitstream.errors import MissingModelError
from gsvc.codec.weights.model_files import sha256_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    Network = TypeVar("Network", bound=nn.Module)

CLASS = "_class_name"
"""What in the `.json` names the network's class, as diffusers has it."""
OWN_PRIOR = "_own_prior"
"""What there says that the file also holds the prior's weights, as `prior.NAME`."""
PRIOR = "prior."
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
    """The network's settings, its arguments. Raises MissingModelError where there are none."""
    return {name: value for name, value in _read(weights).items() if not name.startswith("_")}


def has_own_prior(weights: Path) -> bool:
    """Whether the file also holds the prior's weights. Errors as of `settings_of`."""
    return bool(_read(weights).get(OWN_PRIOR, False))


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
        why = f"{error.filename} is missing or cannot be read: reinstall gsvc"
        raise MissingModelError(why) from error
    if not found <= set(stated):
        why = f"{weights} is damaged or not what this gsvc came with: reinstall gsvc"
        raise MissingModelError(why)


def load_network(make: "Callable[..., Network]", weights: Path) -> "Network":
    """The network that `make` builds of the settings, with its weights, for evaluation. Raises
    MissingModelError where they are damaged or another network's."""
    try:
        network = make(**settings_of(weights))
    except (TypeError, ValueError) as error:
        raise MissingModelError(f"{weights} or its .json is damaged: {_REMEDY}") from error
    state = _state_of(weights)
    own = {name: value for name, value in state.items() if not name.startswith(PRIOR)}
    fit_weights(network, own, weights)
    return network.eval()


def load_own_prior(network: "Network", weights: Path) -> "Network":
    """Give a prior's `network` the weights that the file holds for it. Errors as `load_network`."""
    state = _state_of(weights)
    own = {name[len(PRIOR) :]: value for name, value in state.items() if name.startswith(PRIOR)}
    fit_weights(network, own, weights)
    return network.eval()


def _state_of(weights: Path) -> "dict[str, Tensor]":
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state: dict[str, Tensor] = load_file(weights)
    except (OSError, SafetensorError) as error:
        raise MissingModelError(f"{weights} is damaged: {_REMEDY}") from error
    return state


def fit_weights(network: "nn.Module", state: "dict[str, Tensor]", weights: Path) -> None:
    """Give the network the `state` of `weights`. Raises MissingModelError where it does not fit."""
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        why = f"{weights} does not fit the network of this version: {_REMEDY}"
        raise MissingModelError(why) from error


def _read(weights: Path) -> dict[str, Any]:
    path = weights.with_suffix(".json")
    with suppress(OSError, ValueError):
        settings = json.loads(path.read_text())
        if isinstance(settings, dict):
            return settings
    raise MissingModelError(f"{path} does not hold the settings of a network: {_REMEDY}")
