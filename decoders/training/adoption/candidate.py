"""The averaged weights of a run: checked, written as the package loads them, and shipped."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import InputError, MissingModelError
from gsvc.codec.media.output import atomic_folder
from gsvc.codec.weights.package_files import sha256_of
from gsvc.codec.weights.safetensors_files import CLASS, OWN_PRIOR, PRIOR, SUMS, fit_weights
from gsvc.decoders import interpolation
from gsvc.decoders.interpolation.ifnet import IFNet
from gsvc.decoders.interpolation.rife import SHIPPED
from gsvc.decoders.keyframes import compact, windowed
from gsvc.decoders.keyframes.compact.network import CompactRefiner
from gsvc.decoders.keyframes.priors.prior_drawings import make_prior
from gsvc.decoders.keyframes.windowed.window_network import WindowRestorer
from gsvc.decoders.training.standalone.folder import AVERAGE, read_average
from gsvc.decoders.training.standalone.tensors import write_tensors

MOST_BYTES = 30_000_000
"""Of a file that ships with gsvc."""

_NETWORKS: Mapping[str, Callable[..., nn.Module]] = {
    "CompactRefiner": CompactRefiner,
    "WindowRestorer": WindowRestorer,
    "IFNet": IFNet,
}


@dataclass(frozen=True)
class Candidate:
    """Weights that may ship."""

    name: str
    """Of its files: of the recipe, or `rife`, under which learned motion is looked for."""
    network: str
    """Name of the network's class."""
    settings: dict[str, Any]
    """Its arguments."""
    state: dict[str, Tensor]
    """In half precision: that is how they ship, and how they are scored. With its prior's, where
    the run has changed that."""
    run: dict[str, Any]
    """What the run tells of itself."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Of the pack that it was trained on; empty where the run does not tell."""
        told = self.run.get("pack")
        return told if isinstance(told, dict) else {}

    @property
    def has_own_prior(self) -> bool:
        """Whether the state has its prior's weights."""
        return any(name.startswith(PRIOR) for name in self.state)

    @property
    def parameters(self) -> int:
        """How many numbers there are."""
        return sum(value.numel() for value in self.state.values())


def read_candidate(folder: Path) -> Candidate:
    """The average of a run, of its folder.

    Raises InputError where there is none, or it is damaged, MissingModelError where it is not
    finite or does not fit networks of this version.
    """
    path = folder / AVERAGE
    tensors, run = read_average(path)
    try:
        name = Path(run["recipe"]["name"]).stem
        (first, network), *others = run["networks"].items()
        kind, settings = network["class"], network.get("settings", {})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} does not say which networks it is for: {error}") from error
    if kind not in _NETWORKS or [part for part, _ in others] not in ([], ["prior"]):
        raise MissingModelError(f"{path} is for {', '.join(run['networks'])}: nothing runs these")
    state = {key.removeprefix(f"{first}."): value.half() for key, value in tensors.items()}
    if kind == "IFNet":
        name = SHIPPED.stem
    candidate = Candidate(name, kind, settings, state, run)
    _check(candidate, path)
    return candidate


def _check(candidate: Candidate, path: Path) -> None:
    state = candidate.state
    broken = [key for key, value in state.items() if not torch.isfinite(value).all()]
    if broken:
        raise MissingModelError(f"{path}: {broken[0]} is not finite: the training went astray")
    try:
        made = nn.ModuleDict({"own": _NETWORKS[candidate.network](**candidate.settings)})
        if candidate.has_own_prior:
            made["prior"] = make_prior(candidate.settings["prior"])
    except (KeyError, TypeError, ValueError) as error:
        raise MissingModelError(
            f"{path} has settings of another {candidate.network}: {error}"
        ) from error
    named = {k if k.startswith(PRIOR) else f"own.{k}": value for k, value in state.items()}
    fit_weights(made, named, path)


def write_candidate(candidate: Candidate, folder: Path) -> Path:
    """Write NAME.safetensors and NAME.json into a folder; returns the path of the former.

    Raises MissingModelError where it would be larger than `MOST_BYTES`, OutputError where the
    folder cannot be written.
    """
    settings: dict[str, Any] = {CLASS: candidate.network, **candidate.settings}
    if candidate.has_own_prior:
        settings[OWN_PRIOR] = True
    with atomic_folder(folder) as part:
        weights = part / f"{candidate.name}.safetensors"
        try:
            write_tensors(weights, candidate.state, {}, MOST_BYTES)
        except ValueError as error:
            raise MissingModelError(f"too large to ship: {error}") from error
        weights.with_suffix(".json").write_text(json.dumps(settings, indent=2) + "\n")
    return folder / weights.name


_PACKAGES: dict[str, ModuleType] = {
    "CompactRefiner": compact,
    "WindowRestorer": windowed,
    "IFNet": interpolation,
}


def shipping_folder(network: str) -> Path:
    """Where weights of a class of network ship from."""
    return Path(_PACKAGES[network].__path__[0]) / "weights"


def ship(weights: Path, folder: Path) -> None:
    """Copy weights and their `.json` into a folder of the package, and state their checksums there.

    Raises OutputError where it cannot be written.
    """
    files = weights, weights.with_suffix(".json")
    sums = folder / SUMS
    lines = sums.read_text().splitlines() if sums.exists() else []
    names = {file.name for file in files}
    kept = [line for line in lines if line.split()[-1] not in names]
    new = [f"{sha256_of(file)}  {file.name}" for file in files]
    with atomic_folder(folder) as part:
        for file in files:
            shutil.copyfile(file, part / file.name)
        text = "\n".join(sorted([*kept, *new], key=lambda line: line.split()[-1]))
        (part / SUMS).write_text(text + "\n")
