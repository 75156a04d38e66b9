"""Where a run's numbers come from: for the end of its page."""

from collections.abc import Iterator, Mapping
from typing import Any

from gsvc.eval.summary.summarise import Summary
from gsvc.eval.summary.table import Table

_NOTE = (
    "The versions and the machine are those of the last command that wrote into the run; a codec's "
    "and a metric's are in each cell's record, with hashes of source, stream and pictures."
)


def provenance(settings: Mapping[str, Any], summary: Summary) -> Table:
    """Commit, versions, machine, and what was asked for. `settings` are the values of run.json."""
    rows = [[name, text] for name, text in _rows(settings) if text]
    rows += [[f"codec {name}", version] for name, version in summary.versions.items()]
    rows += [[f"metric {one.name}", one.version] for one in summary.metrics]
    return Table("Where the numbers come from", _NOTE, ["what", "which"], rows)


def _rows(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "commit", settings.get("commit") or "none: not run from a checkout"
    yield "versions", _listed(settings.get("versions", {}))
    yield "machine", _listed(settings.get("machine", {}))
    yield "codecs asked for", ", ".join(settings.get("specs", ()))
    yield "anchors asked for", ", ".join(settings.get("anchors", ()))
    yield "clips", ", ".join(settings.get("clips", ()))
    yield "sizes", ", ".join(settings.get("sizes", ()))
    yield "seconds of running", f"{settings.get('seconds', 0):.0f}"


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
