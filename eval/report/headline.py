"""The headline as HTML: both judges of every curve, the floors among them, and the worse one."""

from collections.abc import Iterator
from html import escape

from gsvc.eval.summary.bootstrap import Pooled
from gsvc.eval.summary.curves import OURS
from gsvc.eval.summary.headline import FLOORS, HeadlineRow
from gsvc.eval.summary.headline_tables import HEADLINE_TITLE, headline_gaps, warnings
from gsvc.eval.summary.recorded import PRIMARY
from gsvc.eval.summary.summarise import Summary
from gsvc.eval.summary.table import NONE, percent

_NOTE = (
    "Bits at equal quality against SVT-AV1's lower hull, pooled over clips: below 0 saves bits. "
    "Under each number its 95 % interval over clips, and how many of the {clips} clips have one. "
    "The headline is the worse of the two. A floor is what a codec must beat."
)


def headline(summary: Summary) -> Iterator[str]:
    """The first section of the page."""
    yield f'<section id="headline"><h2>{escape(HEADLINE_TITLE)}</h2>'
    for line in (*headline_gaps(summary), *warnings(summary)):
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
    worse = _cell(percent(row.worse) + " %", row.judge) if row.worse is not None else _cell(NONE)
    rates = "".join(_rate(row.rates.get(judge)) for judge in PRIMARY)
    return f'<tr class="{kind}">{_cell(row.curve, what)}{worse}{rates}</tr>'


def _rate(pooled: Pooled | None) -> str:
    if pooled is None:
        return _cell(NONE, "no clip")
    clips = f"{pooled.clips} clip{'s' * (pooled.clips != 1)}"
    span = f"{percent(pooled.low)} to {percent(pooled.high)}, " if pooled.low is not None else ""
    return _cell(f"{percent(pooled.mean)} %", span + clips)


def _cell(text: str, under: str = "") -> str:
    return f"<td>{escape(text)}<small>{escape(under)}</small></td>"
