"""A run's report: one HTML file with a player for each clip, tables and plots; needs no network."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsvc.eval.bench.store import BenchRun, CellRecord
from gsvc.eval.layout import write_text
from gsvc.eval.report.exhibits import INK, PAPER, CurveStyle, few, image, near_rate
from gsvc.eval.report.player import films, player, stills
from gsvc.eval.report.plots import figures
from gsvc.eval.summary import rate_tables
from gsvc.eval.summary.bd_comparisons import FLOORS, HeadlineRow
from gsvc.eval.summary.bd_rate import Pooled
from gsvc.eval.summary.curves import OURS, PRIMARY
from gsvc.eval.summary.summarise import Summary, load_summary
from gsvc.eval.summary.write import tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTE = (
    "Bits at equal quality against SVT-AV1's lower hull, pooled over clips: below 0 saves bits. "
    "Under each number its 95 % interval over clips, and how many of the {clips} clips have one. "
    "The headline is the worse of the two. A floor is what a codec must beat."
)


def headline(summary: Summary) -> Iterator[str]:
    """The first section of the page."""
    yield f'<section id="headline"><h2>{escape(rate_tables.HEADLINE_TITLE)}</h2>'
    for line in (*rate_tables.headline_gaps(summary), *rate_tables.warnings(summary)):
        yield f'<p class="trouble">{escape(line)}</p>'
    if summary.headline.rows:
        heads = "".join(f"<th>{escape(name)}</th>" for name in ("", "headline", *PRIMARY))
        rows = "".join(map(_row, summary.headline.rows))
        yield f'<table class="first"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
        yield f'<p class="note">{_NOTE.format(clips=len(summary.frames))}</p>'
    yield "</section>"


def _row(row: HeadlineRow) -> str:
    codec = row.curve.split(",")[0]
    kind, what = ("ours", "") if codec == OURS else ("", "floor" if codec in FLOORS else "")
    worse = (
        _cell(rate_tables.percent(row.worse) + " %", row.judge)
        if row.worse is not None
        else _cell(rate_tables.NONE)
    )
    rates = "".join(_rate(row.rates.get(judge)) for judge in PRIMARY)
    return f'<tr class="{kind}">{_cell(row.curve, what)}{worse}{rates}</tr>'


def _rate(pooled: Pooled | None) -> str:
    if pooled is None:
        return _cell(rate_tables.NONE, "no clip")
    clips = f"{pooled.clips} clip{'s' * (pooled.clips != 1)}"
    span = (
        f"{rate_tables.percent(pooled.low)} to {rate_tables.percent(pooled.high)}, "
        if pooled.low is not None
        else ""
    )
    return _cell(f"{rate_tables.percent(pooled.mean)} %", span + clips)


def _cell(text: str, under: str = "") -> str:
    return f"<td>{escape(text)}<small>{escape(under)}</small></td>"


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
_NAVIGATION = (
    '<nav><a href="#headline">Headline</a><a href="#clips">Clips</a><a href="#tables">Numbers</a>'
    '<a href="#plots">Plots</a><a href="#details">All tables</a></nav>'
)
_PLAYER_NOTE = (
    "Each version at the rate that is nearest to ours. Videos are coded again for this page "
    "(H.264, near transparent); every number was measured on the pictures as decoded."
)
_KEYS_NOTE = (
    "Keys: space plays, arrows step, S side by side, W wipe (comma and full stop move the line), "
    "F flicker, L loops the worst second, X swaps the sides, 1 to 3 set the speed."
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
    body = [
        f"<h1>gsvc benchmark: {escape(', '.join(summary.frames))}</h1>",
        f'<p class="note">{escape(rate_tables.protocol(summary))}</p>',
        _NAVIGATION,
        *headline(summary),
        *_clips(folder, run, summary),
        '<h2 id="tables">Numbers</h2>',
        *_tables(summary, shown=True),
        '<h2 id="plots">Plots</h2>',
        *_plots(summary, run.cells),
        '<h2 id="details">All tables</h2>',
        *_tables(summary, shown=False),
        *_details(provenance(run.settings, summary)),
    ]
    return _document("gsvc benchmark", "\n".join(body))


def _document(title: str, body: str) -> str:
    css, script = ((_HERE / name).read_text() for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n{body}\n"
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _tables(summary: Summary, shown: bool) -> Iterator[str]:
    for table in tables(summary):
        if (
            table.title == rate_tables.HEADLINE_TITLE
            or table.title.startswith(_OPEN_TABLES) != shown
        ):
            continue
        if shown:
            yield f"<section><h3>{escape(table.title)}</h3>{_inside(table)}</section>"
        else:
            yield from _details(table)


def _details(table: rate_tables.Table) -> Iterator[str]:
    yield f"<details><summary>{escape(table.title)}</summary>{_inside(table)}</details>"


def _inside(table: rate_tables.Table) -> str:
    return f'<p class="note">{escape(table.note)}</p>{table_html(table)}'


def table_html(table: rate_tables.Table) -> str:
    """The table as HTML: words to the left and wrapped, numbers to the right."""
    words = [any(map(_is_text, column)) for column in zip(*table.rows, strict=True)]
    head, *rows = (
        "".join(
            f"<{tag}{' class=text' if text else ''}>{escape(cell)}</{tag}>"
            for cell, text in zip(row, words, strict=True)
        )
        for tag, row in [("th", table.header), *(("td", row) for row in table.rows)]
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    inside = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table>{inside}</table></div>'


def _is_text(cell: str) -> bool:
    return cell[:1].isalpha() and cell not in _WORDS_FOR_NUMBERS and " [" not in cell


def _plots(summary: Summary, cells: Sequence[CellRecord]) -> Iterator[str]:
    for name, figure in figures(summary, cells):
        drawn = f'<div class="plot wide">{_inline(figure)}</div>'
        if name == "layers" or name.endswith(PRIMARY):
            yield f'<figure style="margin:0 0 1.5rem" id="{name}">{drawn}</figure>'
        else:
            yield f"<details><summary>{escape(name)}</summary>{drawn}</details>"


def _inline(figure: "Figure") -> str:
    """The figure's SVG without prologue, in the page's own colours."""
    text = image(figure, "svg").decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    return text.replace(INK, "currentColor").replace(PAPER, "transparent")


def _clips(folder: Path, run: BenchRun, summary: Summary) -> Iterator[str]:
    """A player a clip."""
    near = near_rate(summary, run.cells)
    chosen = {clip: few(choices, summary) for clip, choices in near.items()}
    found, without = films(folder, summary, chosen, run.settings.get("places", ()))
    yield '<h2 id="clips">Clips, the one with the worst second first</h2>'
    yield f'<p class="note">{_PLAYER_NOTE}</p><p class="note keys">{_KEYS_NOTE}</p>'
    colours = CurveStyle(summary.codecs).colours(v.name for film in found for v in film.versions)
    left = VIDEO_BYTES
    for number, film in enumerate(found):
        yield f"<section><h3>{escape(film.clip)}</h3>{_troubles(film.troubles)}"
        left -= len(film.video)
        if left >= 0:
            yield player(f"film{number}", film, colours)
        else:
            yield '<p class="note">Stills only: the page is large enough.</p>'
        yield f"{stills(film)}</section>"
    for clip, troubles in without.items():
        yield f"<section><h3>{escape(clip)}</h3>{_troubles(troubles)}</section>"


def _troubles(lines: Sequence[str]) -> str:
    return "".join(f'<p class="trouble">{escape(line)}</p>' for line in lines)
