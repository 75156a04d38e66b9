"""The page of an analysis: one timeline with activity, events and every object's time in view."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TextIO

from gsvc.codec.command.analysis_page_style import STYLE
from gsvc.codec.stream.header import Header
from gsvc.codec.times import shown_time
from gsvc.decoders.analysis.types import Cost, Event, FrameAnalysis, Totals

_WIDTH, _LABELS, _RIGHT = 1000, 130, 12
_LANE, _CHART, _GAP = 11, 56, 14
_BINS = 400
_COLOURS = 6
_TICKS = 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200


@dataclass
class _Span:
    """A stretch of time, drawn as a bar."""

    start: float
    end: float
    title: str


@dataclass
class _Seen:
    """All that the page shows, gathered frame by frame."""

    activity: list[tuple[float, float]] = field(default_factory=list)
    cuts: list[float] = field(default_factory=list)
    tracks: dict[str, dict[int, _Span]] = field(default_factory=dict)
    rows: dict[str, list[_Span]] = field(default_factory=dict)
    """Spans of each line, zone and rule."""
    open: dict[tuple[str, int], float] = field(default_factory=dict)
    """Since when what began and has not ended lasts."""
    last: float = 0.0


class PageFormat:
    """One HTML file without scripts."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._seen = file, _Seen()

    def begin(self, header: Header) -> None:
        form = header.format
        about = f"{form.width}x{form.height}, {float(form.frame_rate):g} frames/s"
        self._file.write(f"{STYLE}<h1>What the stream shows</h1>\n<p>{about}</p>\n")

    def frame(self, frame: FrameAnalysis) -> None:
        seen = self._seen
        seen.last = frame.seconds
        if frame.activity is not None:
            seen.activity.append((frame.seconds, frame.activity))
        for one in frame.objects:
            of_kind = seen.tracks.setdefault(one.kind, {})
            if one.track not in of_kind:
                title = f"{one.kind} {one.track}"
                of_kind[one.track] = _Span(frame.seconds, frame.seconds, title)
            of_kind[one.track].end = frame.seconds
        for event in frame.events:
            self._event(event)

    def end(self, totals: Totals, cost: Cost) -> None:
        height, parts = _drawn(self._seen)
        view = f'viewBox="0 0 {_WIDTH} {height}"'
        self._file.write(f'<div class="wide"><svg {view} role="img" aria-label="timeline">\n')
        self._file.writelines(f"{part}\n" for part in parts)
        self._file.write("</svg></div>\n<h2>Sums</h2>\n<table>\n")
        for name, value in _sums(totals):
            self._file.write(f"<tr><td>{escape(name)}<td>{escape(value)}\n")
        self._file.write(
            f"</table>\n<p>Read {cost.bytes_read} bytes in {cost.milliseconds:.0f} ms: "
            f"{cost.pictures} coded pictures of {cost.frames} frames were decoded, the detector "
            f"ran {cost.detector_runs} times.</p>\n</html>\n"
        )

    def _event(self, event: Event) -> None:
        seen = self._seen
        who = f"{event.object} {event.track}" if event.track else event.name
        if event.kind == "cut":
            seen.cuts.append(event.seconds)
        elif event.kind in ("enter", "begin"):
            seen.rows.setdefault(event.name, [])
            seen.open[event.name, event.track] = event.seconds
        elif event.kind in ("leave", "end"):
            start = seen.open.pop((event.name, event.track), event.seconds)
            end = start + (event.dwell or 0.0)
            title = f"{who}: {end - start:.1f} s"
            seen.rows[event.name].append(_Span(start, end, title))
        else:
            title = f"{who}: {event.direction}"
            span = _Span(event.seconds, event.seconds, title)
            seen.rows.setdefault(event.name, []).append(span)


def _drawn(seen: _Seen) -> tuple[float, list[str]]:
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
            parts += [_bar(span, y + lane * _LANE, scale, row % _COLOURS) for span in lane_spans]
        y += max(1, len(lanes)) * _LANE + _GAP
    cuts = (
        _rule(_LABELS + time * scale, y, "cut", f"cut at {shown_time(time)}") for time in seen.cuts
    )
    return y + 4, [*_axis(seen.last, scale, y), *cuts, *parts]


def _lanes(spans: Iterable[_Span], apart: float) -> list[list[_Span]]:
    """Spans one under another where they overlap in time."""
    lanes: list[list[_Span]] = []
    for span in sorted(spans, key=lambda one: one.start):
        free = (lane for lane in lanes if lane[-1].end + apart < span.start)
        lane = next(free, None)
        if lane is None:
            lanes.append([span])
        else:
            lane.append(span)
    return lanes


def _area(seen: _Seen, top: float, scale: float, highest: float) -> str:
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


def _bar(span: _Span, y: float, scale: float, colour: int) -> str:
    x, width = _LABELS + span.start * scale, max(2.5, (span.end - span.start) * scale)
    times = f"{shown_time(span.start)} to {shown_time(span.end)}"
    title = escape(f"{span.title}, {times}")
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


def _sums(totals: Totals) -> Iterator[tuple[str, str]]:
    for kind, count in totals.objects.items():
        yield kind, "1 track" if count == 1 else f"{count} tracks"
    for name, ways in totals.lines.items():
        yield name, ", ".join(f"{count} {way}" for way, count in ways.items())
    for name, sums in totals.zones.items():
        visits = f"{sums['visits']:g} visits, {sums['seconds']:.1f} s"
        yield name, f"{visits} in all, {sums['longest']:.1f} s the longest"
    yield "cuts", f"{totals.cuts}"
