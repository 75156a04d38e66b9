"""The log of predictions: after each planned job, the truth beside what was foretold."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from gsvc.codec.errors import ConfigError
from gsvc.codec.output import explain_failure
from gsvc.codec.planning.model import Range
from gsvc.datasets.package_files import cache_dir

Truth = Mapping[str, tuple[Range, float]]
"""Name of a number → what was foretold and what came."""


def log_path() -> Path:
    """Where the cache keeps the log: a JSON object a line."""
    return cache_dir() / "predictions.jsonl"


def note(job: str, truth: Truth, path: Path | None = None) -> None:
    """Add a job to the log. Raises OutputError."""
    path = path or log_path()
    numbers = {
        name: {"predicted": list(r), "measured": value} for name, (r, value) in truth.items()
    }
    with explain_failure(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps({"job": job, "numbers": numbers}) + "\n")


def ratios(paths: Sequence[Path]) -> dict[str, list[float]]:
    """By name, what was measured over what was foretold, of all jobs in these logs.

    Raises ConfigError for a file that is no such log.
    """
    found: dict[str, list[float]] = {}
    for path in paths:
        try:
            for line in path.read_text().splitlines():
                for name, one in json.loads(line)["numbers"].items():
                    found.setdefault(name, []).append(one["measured"] / one["predicted"][1])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is no log of predictions: {error}") from error
    return found
