"""A run's report: one HTML file with tables, plots and a before/after viewer; needs no network."""

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.eval.bench.record import CellRecord
from gsvc.eval.bench.store import Run, load_run
from gsvc.eval.files import write_text
from gsvc.eval.report.choice import near_rate
from gsvc.eval.report.exhibits import SOURCE, Exhibit, exhibits
from gsvc.eval.report.media import pane_height, picture_uri, stacked_video, video_uri
from gsvc.eval.report.plots import figures, image
from gsvc.eval.report.style import INK, PAPER
from gsvc.eval.summary.recorded import PRIMARY
from gsvc.eval.summary.summarise import Summary, summarise
from gsvc.eval.summary.table import Table, protocol
from gsvc.eval.summary.tables import tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VIDEO_BYTES = 12_000_000
"""Of videos in one page; clips after that are shown as stills only."""
DECODE_SECONDS = 60.0
"""What took longer to decode in the run is not decoded again for the page."""
_OPEN_TABLES = (
    "What is missing",
    "BD-rate pooled over clips",
    "What compute buys",
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
    write_text(target, page(root, load_run(root)))
    return target


def page(folder: Path, run: Run) -> str:
    """The whole page. What cannot be decoded again is named on it."""
    summary = summarise(run.settings, run.cells)
    asked = run.settings.get("asked", ())
    shown = exhibits(folder, summary, near_rate(summary, run.cells), asked, DECODE_SECONDS)
    body = [
        f"<h1>gsvc benchmark: {escape(', '.join(summary.frames))}</h1>",
        f"<p>{escape(protocol(summary))}</p>",
        (
            '<nav><a href="#tables">Numbers</a><a href="#plots">Plots</a><a href="#clips">Clips</a>'
            '<a href="#details">All tables</a></nav>'
        ),
        *_tables(summary, first=True),
        '<h2 id="plots">Plots</h2>',
        *_plots(summary, run.cells),
        '<h2 id="clips">Clips, the one with the worst frame first</h2>',
        (
            '<p class="note">Drag the line or use the slider; choose what is on each side. Videos '
            "are coded again for this page (H.264, near transparent); every number was measured on "
            "the pictures as decoded.</p>"
        ),
        *_clips(shown),
        '<h2 id="details">All tables</h2>',
        *_tables(summary, first=False),
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


def _tables(summary: Summary, first: bool) -> Iterator[str]:
    if first:
        yield '<h2 id="tables">Numbers</h2>'
    for table in tables(summary):
        if table.title.startswith(_OPEN_TABLES) == first:
            inside = f'<p class="note">{escape(table.note)}</p>{table_html(table)}'
            if first:
                yield f"<section><h3>{escape(table.title)}</h3>{inside}</section>"
            else:
                yield f"<details><summary>{escape(table.title)}</summary>{inside}</details>"


def table_html(table: Table) -> str:
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


def _clips(shown: Iterator[Exhibit]) -> Iterator[str]:
    left = VIDEO_BYTES
    for number, exhibit in enumerate(shown):
        yield f"<section><h3>{escape(exhibit.clip)}</h3>"
        for trouble in exhibit.troubles:
            yield f'<p class="trouble">{escape(trouble)}</p>'
        if len(exhibit.panes) > 1:
            frames = [pane.frames for pane in exhibit.panes]
            video = video_uri(stacked_video(frames, exhibit.frame_rate))
            left -= len(video)
            if left >= 0:
                yield _viewer(f"viewer{number}", exhibit, video)
            else:
                yield '<p class="note">Stills only: the page is large enough.</p>'
            yield from _stills(f"viewer{number}", exhibit)
        yield "</section>"


def _viewer(name: str, exhibit: Exhibit, video: str) -> str:
    frames = exhibit.panes[0].frames
    height, width = frames[0].shape[:2]
    right = next(i for i, pane in enumerate(exhibit.panes) if pane.name == exhibit.judged)
    data = {
        "video": video,
        "facts": [pane.facts for pane in exhibit.panes],
        "pitch": pane_height(height),
        "height": height,
        "rate": float(exhibit.frame_rate),
        "frames": len(frames),
        "start": exhibit.worst[0][0] if exhibit.worst else 0,
    }
    return f"""<div class="viewer" id="{name}" style="max-width:calc(75vh * {width / height:.3f})">
<script type="application/json">{json.dumps(data)}</script> <div class="stage"><canvas
width="{width}" height="{height}"></canvas> <video muted playsinline loop
preload="auto"></video><div class="bar" style="left:50%"></div></div> <div class="controls"><button
class="play" type="button">Play</button> <input class="seek" type="range" min="0" max="{
        len(frames) - 1
    }" value="0" aria-label="frame"> <span class="counter"></span></div> <input class="split"
type="range" min="0" max="1000" value="500" aria-label="where the two sides meet"> <div
class="sides"><label>{_choice(exhibit, 0)}<span class="facts"></span></label> <label
class="right">{_choice(exhibit, right)}<span class="facts"></span></label></div> </div>"""


def _choice(exhibit: Exhibit, chosen: int) -> str:
    selected = ["", " selected"]
    options = "".join(
        f'<option value="{index}"{selected[index == chosen]}>{escape(pane.name)}</option>'
        for index, pane in enumerate(exhibit.panes)
    )
    side = "right" if chosen else "left"
    return f'<select class="side" aria-label="{side} side">{options}</select>'


def _stills(viewer: str, exhibit: Exhibit) -> Iterator[str]:
    """The worst frames of the judged version, each beside its source."""
    judged = next((pane for pane in exhibit.panes if pane.name == exhibit.judged), None)
    for frame, value in exhibit.worst if judged else ():
        assert judged is not None
        pictures = []
        for pane in (exhibit.panes[0], judged):
            what = SOURCE if pane is exhibit.panes[0] else f"{pane.name}: {value:.4f}; {pane.facts}"
            place = f'href="#{viewer}" data-viewer="{viewer}" data-frame="{frame}"'
            jump = f"<a {place}>frame {frame + 1}</a>"
            caption = f"<figcaption>{jump}, {escape(what)}</figcaption>"
            alt = escape(f"{exhibit.clip}, frame {frame + 1}, {pane.name}")
            uri = picture_uri(pane.frames[frame])
            pictures.append(f'<figure><img src="{uri}" alt="{alt}">{caption}</figure>')
        yield f'<div class="pair">{"".join(pictures)}</div>'
