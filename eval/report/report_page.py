"""A run's report: one HTML file with a player for each clip, tables and plots; needs no network.

What a player needs takes long to make, so the run's folder keeps it: the clip's versions in step,
their differences over time, and a strip. `report.html` and `parts.html` are the page's templates.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from gsvc.eval import late_loading, layout
from gsvc.eval.bench.store import BenchRun, CellRecord
from gsvc.eval.report import exhibits, plots, sheets
from gsvc.eval.report.exhibits import Exhibit, VersionChoice
from gsvc.eval.report.sheets import data_uri, stacked_video
from gsvc.eval.summary import bd_rate, rate_tables, write
from gsvc.eval.summary.bd_comparisons import FLOORS, HeadlineRow
from gsvc.eval.summary.curves import OURS, PRIMARY
from gsvc.eval.summary.summarise import Summary, check_codecs, load_summary

_VERSION = 1  # raise it when a film of the same streams is to look otherwise
FOLDER = "exhibits"
_CHART = 1000, 120  # units of the chart, which is stretched over the player's width
_HEADROOM = 1.08


@dataclass(frozen=True)
class FilmVersion:
    """A decoded version beside its source."""

    name: str
    facts: str
    line: list[float]
    """Its difference from the source, by frame."""
    map: str
    """A PNG as data URI: a column a frame."""


@dataclass(frozen=True)
class Film:
    """A clip with its versions as the page embeds them."""

    clip: str
    frame_rate: float
    width: int
    height: int
    frames: int
    source_facts: str
    versions: list[FilmVersion]
    """The judged one last."""
    measure: str
    rows: list[str]
    order: str
    most: float
    """These four: as of `DifferenceTimeline`."""
    worst: tuple[int, int]
    """First frame, and the one after the last, of the judged version's worst second."""
    strip: list[int]
    pictures: list[str] = field(repr=False)
    """The strip as JPEG data URIs: a column for the source and for each version of `columns`."""
    columns: list[str]
    stills: list[str] = field(repr=False)
    """The worst second's middle frame as JPEGs, for the same columns."""
    video: str = field(repr=False)
    """An MP4 as data URI: the source and every version under each other."""
    troubles: list[str]

    @property
    def names(self) -> list[str]:
        """Of the source and the versions."""
        return [exhibits.SOURCE, *(one.name for one in self.versions)]

    @property
    def data(self) -> dict[str, object]:
        """What the page's script is told."""
        return {
            "video": self.video,
            "names": self.names,
            "facts": [self.source_facts, *(one.facts for one in self.versions)],
            "lines": [[], *(one.line for one in self.versions)],
            "width": self.width,
            "height": self.height,
            "pitch": sheets.pane_height(self.height),
            "rate": self.frame_rate,
            "frames": self.frames,
            "worst": self.worst,
        }

    @property
    def chart(self) -> dict[str, object]:
        """Size of the chart, its worst second (left, width), the points of each version's line."""
        width, height = _CHART
        most = _HEADROOM * max(max(one.line) for one in self.versions) or 1.0
        step, (first, end) = width / self.frames, self.worst
        lines = [
            " ".join(
                f"{(frame + 0.5) * step:.1f},{height * (1 - value / most):.1f}"
                for frame, value in enumerate(one.line)
            )
            for one in self.versions
        ]
        worst = f"{first * step:.1f}", f"{(end - first) * step:.1f}"
        return {"width": width, "height": height, "worst": worst, "lines": lines}


def films(
    folder: Path,
    summary: Summary,
    chosen: Mapping[str, Sequence[VersionChoice]],
    places: Sequence[str],
) -> tuple[list[Film], dict[str, list[str]]]:
    """The films of a run, the one with the worst second first, and troubles of clips without one.

    A film is read from the run's `exhibits` where these pictures were filmed before.
    """
    found: list[Film] = []
    without: dict[str, list[str]] = {}
    for clip, choices in chosen.items():
        file = folder / FOLDER / f"{_key(choices)}.json"
        film = _kept(file)
        if film is None:
            exhibit = exhibits.load_exhibit(folder, clip, choices, summary, places)
            if exhibit.source is None or len(exhibit.panes) < 2:
                without[clip] = exhibit.troubles
                continue
            film = _made(exhibit)
            if not film.troubles:
                layout.write_text(file, json.dumps(asdict(film)))
        # What the run says of the versions now: metrics may have come since it was filmed.
        facts = {one.curve: exhibits.facts_of(one, summary, choices[-1]) for one in choices}
        versions = [replace(one, facts=facts[one.name]) for one in film.versions]
        found.append(replace(film, clip=clip, versions=versions))
    # By the mean difference of the judged version in its worst second.
    found.sort(key=lambda film: -np.mean(film.versions[-1].line[slice(*film.worst)]))
    return found, without


def _key(choices: Sequence[VersionChoice]) -> str:
    parts = [(one.curve, one.cell.source_sha256, one.decode.frames_sha256) for one in choices]
    return hashlib.sha256(repr((_VERSION, parts)).encode()).hexdigest()[:32]


def _kept(file: Path) -> Film | None:
    try:
        values = json.loads(file.read_bytes())
        versions = [FilmVersion(**one) for one in values.pop("versions")]
        return Film(**{**values, "versions": versions, "worst": tuple(values["worst"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none yet, or one to make again


def _made(exhibit: Exhibit) -> Film:
    panes, source = exhibit.panes, exhibit.source
    assert source is not None, "what is filmed has its source"
    rate = source.frame_rate
    apart = sheets.differences(source, [pane.frames for pane in panes[1:]])
    worst = sheets.worst_second(apart.lines[-1], float(rate))
    shown = [panes[0], *panes[1:2], *panes[2:][-1:]]
    place = sheets.worst_place(panes[-1].frames, source.frames, *worst)
    strips = [place.cut(pane.frames) for pane in shown]
    return Film(
        clip=exhibit.clip,
        frame_rate=float(rate),
        width=source.format.width,
        height=source.format.height,
        frames=len(source.frames),
        source_facts=panes[0].facts,
        versions=[
            FilmVersion(
                pane.name,
                pane.facts,
                [round(value, 4) for value in line],
                data_uri("image/png", sheets.map_picture(values, apart.most)),
            )
            for pane, line, values in zip(panes[1:], apart.lines, apart.maps, strict=True)
        ],
        measure=apart.measure,
        rows=apart.rows,
        order=apart.order,
        most=apart.most,
        worst=worst,
        strip=[place.first + index for index in range(len(strips[0]))],
        pictures=[sheets.picture_uri(np.vstack(parts)) for parts in strips],
        columns=[pane.name for pane in shown],
        stills=[sheets.picture_uri(pane.frames[sum(worst) // 2]) for pane in shown],
        video=data_uri("video/mp4", stacked_video([pane.frames for pane in panes], rate)),
        troubles=exhibit.troubles,
    )


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


def write_report(folder: str | Path, codecs: Collection[str] = ()) -> Path:
    """Write report.html into the run's folder, from its records and streams; returns its path.

    `codecs`: shown beside ours and AV1. Raises ConfigError for one that the run lacks, InputError
    when the folder holds no run, OutputError, MissingDependencyError.
    """
    root = Path(folder)
    target, (run, summary) = root / "report.html", load_summary(root)
    check_codecs(codecs, run.cells)
    layout.write_text(target, page(root, run, summary, codecs))
    return target


def page(folder: Path, run: BenchRun, summary: Summary, codecs: Collection[str]) -> str:
    """The whole page. What cannot be decoded again is named on it."""
    context = {
        "summary": summary,
        "protocol": rate_tables.protocol(summary),
        "title": rate_tables.HEADLINE_TITLE,
        "warnings": [*rate_tables.headline_gaps(summary)],
        "judges": list(PRIMARY),
        "headline": list(map(_headline_row, summary.headline.rows)),
        "plots": _plots(summary, run.cells),
        "css": (_HERE / "page.css").read_text(),
        "script": (_HERE / "page.js").read_text(),
    }
    every = [table for table in write.tables(summary) if table.title != rate_tables.HEADLINE_TITLE]
    shown = [table for table in every if table.title.startswith(_OPEN_TABLES)]
    hidden = [table for table in every if table not in shown]
    hidden.append(provenance(run.settings, summary))
    text = _templates().get_template("report.html")
    clips = _clips(folder, run, summary, codecs)
    return str(text.render(context, shown=shown, hidden=hidden, **clips))


def _clips(
    folder: Path, run: BenchRun, summary: Summary, codecs: Collection[str]
) -> dict[str, object]:
    """Each film and whether it plays, colours of curves, and troubles of clips without a film."""
    near = exhibits.near_rate(summary, run.cells)
    chosen = {clip: exhibits.few(choices, summary, codecs) for clip, choices in near.items()}
    found, without = films(folder, summary, chosen, run.settings.get("places", ()))
    colours = exhibits.CurveStyle(summary.codecs).colours(
        v.name for film in found for v in film.versions
    )
    sizes = accumulate(len(film.video) for film in found)
    played = [(film, size <= VIDEO_BYTES) for film, size in zip(found, sizes, strict=True)]
    return {"films": played, "colours": colours, "without": without}


@cache
def _templates() -> Any:
    with late_loading.optional("the page needs Jinja2: pip install 'gsvc[eval]'"):
        from jinja2 import Environment, FileSystemLoader
    made = Environment(loader=FileSystemLoader(_HERE), autoescape=True, trim_blocks=True)
    made.globals["text_columns"] = lambda table: [
        any(map(_is_text, column)) for column in zip(*table.rows, strict=True)
    ]
    return made


def table_html(table: rate_tables.Table) -> str:
    """The table as HTML: words to the left and wrapped, numbers to the right."""
    return str(_templates().get_template("parts.html").module.table(table))


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


def _rate(pooled: bd_rate.Pooled | None) -> tuple[str, str]:
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
    told = {"commit": settings.get("commit") or "none: not run from a checkout"}
    for name in ("versions", "machine"):
        told[name] = ", ".join(f"{one} {value}" for one, value in settings.get(name, {}).items())
    names = {"specs": "codecs asked for", "anchors": "anchors asked for"}
    for name in ("specs", "anchors", "clips", "sizes"):
        told[names.get(name, name)] = ", ".join(settings.get(name, ()))
    told["seconds of running"] = f"{settings.get('seconds', 0):.0f}"
    rows = [[name, text] for name, text in told.items() if text]
    rows += [[f"codec {name}", version] for name, version in summary.versions.items()]
    rows += [[f"metric {one.name}", one.version] for one in summary.metrics]
    return rate_tables.Table(
        "Where the numbers come from", _PROVENANCE_NOTE, ["what", "which"], rows
    )


def _plots(summary: Summary, cells: Sequence[CellRecord]) -> Iterator[tuple[str, bool, str]]:
    """Names, whether each is open at once, and the SVG without prologue in the page's colours."""
    for name, figure in plots.figures(summary, cells):
        text = exhibits.image(figure, "svg").decode()
        text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
        text = text.replace(exhibits.INK, "currentColor").replace(exhibits.PAPER, "transparent")
        yield name, name == "layers" or name.endswith(PRIMARY), text
