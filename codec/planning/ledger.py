"""The log of predictions: after each planned job, the truth beside what was foretold."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gsvc.codec.errors import ConfigError
from gsvc.codec.output import explain_failure
from gsvc.codec.planning.quality import Range
from gsvc.datasets.package_files import cache_dir


@dataclass(frozen=True)
class Truth:
    """One number of a job that is done."""

    predicted: Range
    """What was foretold."""
    raw: float
    """The same before it was corrected by earlier jobs: what a correction is fitted to."""
    measured: float
    """What came."""


def log_path() -> Path:
    """Where the cache keeps the log: a JSON object a line."""
    return cache_dir() / "predictions.jsonl"


def note(job: str, truth: Mapping[str, Truth], path: Path | None = None) -> None:
    """Add a job to the log. Raises OutputError."""
    path = path or log_path()
    line = json.dumps({"job": job, "numbers": {name: asdict(one) for name, one in truth.items()}})
    with explain_failure(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(line + "\n")


def ratios(paths: Sequence[Path], without: str = "") -> dict[str, list[float]]:
    """By name, what was measured over its raw prediction, of all jobs in these logs.

    Jobs whose name begins with `without` are left out.

    Raises ConfigError for a file that is no such log.
    """
    found: dict[str, list[float]] = {}
    for path in paths:
        try:
            for line in map(json.loads, path.read_text().splitlines()):
                if without and line["job"].startswith(without):
                    continue
                for name, one in line["numbers"].items():
                    found.setdefault(name, []).append(one["measured"] / one["raw"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is no log of predictions: {error}") from error
    return found
