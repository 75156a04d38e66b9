"""A timeline, drawn: activity, events, and each object's time in view, one row a class."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape

from gsvc.codec.times import shown_time
from gsvc.decoders.analysis.types import Event

_WIDTH, _LABELS, _RIGHT = 1000, 130, 12
_LANE, _CHART, _GAP = 11, 56, 14
_BINS = 400
COLOURS = 6
"""The style's, `c0` and so on."""
_TICKS = 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200


@dataclass
class Span:
    """A stretch of time, drawn as a bar."""

    start: float
    end: float
    title: str
    colour: int | None = None
    """None: the row's."""


@dataclass
class Timeline:
    """All that is shown over time, gathered bit by bit."""

    activity: list[tuple[float, float]] = field(default_factory=list)
    """Seconds, and the share of the picture that moves."""
    cuts: list[float] = field(default_factory=list)
    tracks: dict[str, dict[int, Span]] = field(default_factory=dict)
    """By class and number."""
    rows: dict[str, list[Span]] = field(default_factory=dict)
    """Spans of each line, zone and rule."""
    last: float = 0.0
    """Seconds at which it ends."""
    _open: dict[tuple[str, int], float] = field(default_factory=dict)
    """Since when what began and has not ended lasts."""

    def event(self, event: Event) -> None:
        """Note what happened."""
        who = f"{event.object} {event.track}" if event.track else event.name
        if event.kind == "cut":
            self.cuts.append(event.seconds)
        elif event.kind in ("enter", "begin"):
            self.rows.setdefault(event.name, [])
            self._open[event.name, event.track] = event.seconds
        elif event.kind in ("leave", "end"):
            start = self._open.pop((event.name, event.track), event.seconds)
            end = start + (event.dwell or 0.0)
            title = f"{who}: {end - start:.1f} s"
            self.rows[event.name].append(Span(start, end, title))
        else:
            title = f"{who}: {event.direction}"
            span = Span(event.seconds, event.seconds, title)
            self.rows.setdefault(event.name, []).append(span)

    def drawn(self) -> Iterator[str]:
        """Its lines of HTML."""
        height, parts = _drawn(self)
        view = f'viewBox="0 0 {_WIDTH} {height}"'
        yield f'<div class="wide"><svg {view} role="img" aria-label="timeline">\n'
        yield from (f"{part}\n" for part in parts)
        yield "</svg></div>\n"


def _drawn(seen: Timeline) -> tuple[float, list[str]]:
    """Height and elements of the drawing."""
    scale = (_WIDTH - _LABELS - _RIGHT) / max(seen.last, 1e-9)
    parts: list[str] = []
    y = 20.0
    if seen.activity:
        highest = max(value for _, value in seen.activity)
        parts += [_label(f"activity, to {highest:.1%}", y + _CHART), _area(seen, y, scale, highest)]
        y += _CHART + _GAP
    rows = {**seen.rows, **{kind: [*spans.values()] for kind, spans in seen.tracks.items()}}
    for row, (name, spans) in enumerate(rows.items()):
        lanes = _lanes(spans, 3 / scale)
        parts.append(_label(name, y + _LANE - 2))
        for lane, lane_spans in enumerate(lanes):
            parts += [_bar(span, y + lane * _LANE, scale, row % COLOURS) for span in lane_spans]
        y += max(1, len(lanes)) * _LANE + _GAP
    cuts = (
        _rule(_LABELS + time * scale, y, "cut", f"cut at {shown_time(time)}") for time in seen.cuts
    )
    return y + 4, [*_axis(seen.last, scale, y), *cuts, *parts]


def _lanes(spans: Iterable[Span], apart: float) -> list[list[Span]]:
    """Spans one under another where they overlap in time."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda one: one.start):
        free = (lane for lane in lanes if lane[-1].end + apart < span.start)
        lane = next(free, None)
        if lane is None:
            lanes.append([span])
        else:
            lane.append(span)
    return lanes


def _area(seen: Timeline, top: float, scale: float, highest: float) -> str:
    """The greatest activity in each of some hundred stretches of time; the last goes on."""
    bins: dict[int, float] = {}
    for time, value in seen.activity:
        place = int(_BINS * time / max(seen.last, 1e-9))
        bins[place] = max(bins.get(place, 0.0), value)
    low, step = top + _CHART, seen.last * scale / _BINS
    tops = {x: low - _CHART * value / (highest or 1.0) for x, value in bins.items()}
    points = [f"{_LABELS + x * step:.1f},{y:.1f}" for x, y in tops.items()]
    right = _LABELS + seen.last * scale
    ends = f"{right:.1f},{[*tops.values()][-1]:.1f} {right:.1f},{low:.1f} {_LABELS},{low:.1f}"
    title = f"share of the picture that moves by itself, at most {highest:.1%}"
    line = " ".join(points)
    return f'<polygon class="area" points="{line} {ends}"><title>{title}</title></polygon>'


def _axis(last: float, scale: float, bottom: float) -> Iterator[str]:
    step = next((tick for tick in _TICKS if last / tick <= 12), _TICKS[-1])
    for number in range(int(last / step) + 1):
        x = _LABELS + number * step * scale
        yield _rule(x, bottom, "grid", "")
        yield f'<text x="{x:.1f}" y="12" class="tick">{shown_time(number * step)}</text>'


def _bar(span: Span, y: float, scale: float, colour: int) -> str:
    x, width = _LABELS + span.start * scale, max(2.5, (span.end - span.start) * scale)
    times = f"{shown_time(span.start)} to {shown_time(span.end)}"
    title = escape(f"{span.title}, {times}")
    colour = colour if span.colour is None else span.colour
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_LANE - 3}" rx="2"'
    return f'<rect class="c{colour}" {place}><title>{title}</title></rect>'


def _rule(x: float, bottom: float, kind: str, title: str) -> str:
    shown = f"<title>{title}</title>" if title else ""
    return (
        f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="16" y2="{bottom:.1f}">{shown}</line>'
    )


def _label(text: str, y: float) -> str:
    shown = text if len(text) <= 20 else f"{text[:19]}…"
    name = f"{escape(shown)}<title>{escape(text)}</title>"
    return f'<text class="label" x="{_LABELS - 10}" y="{y:.1f}">{name}</text>'
