"""Whether weights are those that gsvc came with: `SHA256SUMS` beside them holds their hashes."""

from pathlib import Path

from gsvc.codec.errors import MissingModelError
from gsvc.codec.hashes import sha256_of

_SUMS = "SHA256SUMS"


def check_shipped(weights: Path) -> None:
    """Raises MissingModelError unless a `.safetensors` file and its `.json` are as stated."""
    try:
        stated = (weights.parent / _SUMS).read_text().split("\n")
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
