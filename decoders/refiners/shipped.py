"""Whether weights are those that gsvc came with: `weights/SHA256SUMS` states their hashes, as `sha256sum` writes them."""

from hashlib import sha256
from pathlib import Path

from gsvc.codec.errors import MissingModelError

_SUMS = "SHA256SUMS"


def check_shipped(weights: Path) -> None:
    """Raises MissingModelError unless a `.safetensors` file and the `.json` beside it are as SHA256SUMS there says."""
    try:
        stated = (weights.parent / _SUMS).read_text().split("\n")
        found = [_line(file) for file in (weights, weights.with_suffix(".json"))]
    except OSError as error:
        raise MissingModelError(
            f"{error.filename} is missing or cannot be read: reinstall gsvc"
        ) from error
    if not set(found) <= set(stated):
        raise MissingModelError(
            f"{weights} is damaged or not what this gsvc came with: reinstall gsvc"
        )


def _line(file: Path) -> str:
    return f"{sha256(file.read_bytes()).hexdigest()}  {file.name}"
