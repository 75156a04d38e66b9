"""What ships under a name, and putting weights in its place."""

import shutil
from pathlib import Path
from types import ModuleType

from gsvc.codec.media.output import atomic_folder
from gsvc.codec.weights.package_files import sha256_of
from gsvc.codec.weights.safetensors_files import SUMS
from gsvc.decoders import interpolation
from gsvc.decoders.keyframes import compact, windowed

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
