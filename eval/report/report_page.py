"""A run's report: one HTML file with a player for each clip, tables and plots; needs no network."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsvc.eval.bench.store import BenchRun, CellRecord
from gsvc.eval.late_loading import optional
from gsvc.eval.layout import write_text
from gsvc.eval.report.exhibits import INK, PAPER, CurveStyle, few, image, near_rate
from gsvc.eval.report.player import films
from gsvc.eval.report.plots import figures
from gsvc.eval.summary import rate_tables
from gsvc.eval.summary.bd_comparisons import FLOORS, HeadlineRow
from gsvc.eval.summary.bd_rate import Pooled
from gsvc.eval.summary.curves import OURS, PRIMARY
from gsvc.eval.summary.summarise import Summary, load_summary
from gsvc.eval.summary.write import tables

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

VIDEO_BYTES = 40_000_000
"""Of videos in one page; clips after that are shown as stills only."""
_OPEN_TABLES = (
    "Slideshow test",
    "What is missing",
    "BD-rate pooled over clips",
    "What compute buys",
    "Points",
    "What it costs",
)
_WORDS_FOR_NUMBERS = ("none (0)", "not reached")
_HERE = Path(__file__).parent


def write_report(folder: str | Path) -> Path:
    """Write report.html into the run's folder, from its records and streams; returns its path.

    Raises InputError when the folder holds no run, OutputError, MissingDependencyError.
    """
    root = Path(folder)
    target = root / "report.html"
    write_text(target, page(root, *load_summary(root)))
    return target


def page(folder: Path, run: BenchRun, summary: Summary) -> str:
    """The whole page. What cannot be decoded again is named on it."""
    context = {
        "summary": summary,
        "protocol": rate_tables.protocol(summary),
        "title": rate_tables.HEADLINE_TITLE,
        "warnings": [*rate_tables.headline_gaps(summary), *rate_tables.warnings(summary)],
        "judges": list(PRIMARY),
        "headline": list(map(_headline_row, summary.headline.rows)),
        "plots": _plots(summary, run.cells),
        "css": (_HERE / "page.css").read_text(),
        "script": (_HERE / "page.js").read_text(),
    }
    every = [table for table in tables(summary) if table.title != rate_tables.HEADLINE_TITLE]
    shown = [table for table in every if table.title.startswith(_OPEN_TABLES)]
    hidden = [table for table in every if table not in shown]
    hidden.append(provenance(run.settings, summary))
    text = _templates().get_template("report.html")
    return text.render(context, shown=shown, hidden=hidden, **_clips(folder, run, summary))


def _clips(folder: Path, run: BenchRun, summary: Summary) -> dict[str, object]:
    """Each film and whether it plays, colours of curves, and troubles of clips without a film."""
    near = near_rate(summary, run.cells)
    chosen = {clip: few(choices, summary) for clip, choices in near.items()}
    found, without = films(folder, summary, chosen, run.settings.get("places", ()))
    colours = CurveStyle(summary.codecs).colours(v.name for film in found for v in film.versions)
    sizes = accumulate(len(film.video) for film in found)
    played = [(film, size <= VIDEO_BYTES) for film, size in zip(found, sizes, strict=True)]
    return {"films": played, "colours": colours, "without": without}


@cache
def _templates() -> "Environment":
    with optional("the page needs Jinja2: pip install 'gsvc[eval]'"):
        from jinja2 import Environment, FileSystemLoader
    made = Environment(loader=FileSystemLoader(_HERE), autoescape=True, trim_blocks=True)
    made.globals["text_columns"] = _text_columns
    return made


def table_html(table: rate_tables.Table) -> str:
    """The table as HTML: words to the left and wrapped, numbers to the right."""
    parts: Any = _templates().get_template("parts.html").module
    return str(parts.table(table))


def _text_columns(table: rate_tables.Table) -> list[bool]:
    """Whether each column has words."""
    return [any(map(_is_text, column)) for column in zip(*table.rows, strict=True)]


def _is_text(cell: str) -> bool:
    return cell[:1].isalpha() and cell not in _WORDS_FOR_NUMBERS and " [" not in cell


def _headline_row(row: HeadlineRow) -> dict[str, Any]:
    """The kind of a curve's row, and each cell with what stands under it."""
    codec = row.curve.split(",")[0]
    kind, what = ("ours", "") if codec == OURS else ("", "floor" if codec in FLOORS else "")
    worse = rate_tables.NONE, ""
    if row.worse is not None:
        worse = f"{rate_tables.percent(row.worse)} %", row.judge
    return {
        "kind": kind,
        "cells": [(row.curve, what), worse, *(_rate(row.rates.get(judge)) for judge in PRIMARY)],
    }


def _rate(pooled: Pooled | None) -> tuple[str, str]:
    if pooled is None:
        return rate_tables.NONE, "no clip"
    percent = rate_tables.percent
    span = f"{percent(pooled.low)} to {percent(pooled.high)}, " if pooled.low is not None else ""
    return f"{percent(pooled.mean)} %", f"{span}{pooled.clips} clip{'s' * (pooled.clips != 1)}"


_PROVENANCE_NOTE = (
    "The versions and the machine are those of the last command that wrote into the run; a codec's "
    "and a metric's are in each cell's record, with hashes of source, stream and pictures."
)


def provenance(settings: Mapping[str, Any], summary: Summary) -> rate_tables.Table:
    """Commit, versions, machine, and what was asked for. `settings` are the values of run.json."""
    rows = [[name, text] for name, text in _rows(settings) if text]
    rows += [[f"codec {name}", version] for name, version in summary.versions.items()]
    rows += [[f"metric {one.name}", one.version] for one in summary.metrics]
    return rate_tables.Table(
        "Where the numbers come from", _PROVENANCE_NOTE, ["what", "which"], rows
    )


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


def _plots(summary: Summary, cells: Sequence[CellRecord]) -> Iterator[tuple[str, bool, str]]:
    """Names, whether each is open at once, and the SVG in the page's own colours."""
    for name, figure in figures(summary, cells):
        yield name, name == "layers" or name.endswith(PRIMARY), _inline(figure)


def _inline(figure: "Figure") -> str:
    """The figure's SVG without prologue."""
    text = image(figure, "svg").decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    return text.replace(INK, "currentColor").replace(PAPER, "transparent")
