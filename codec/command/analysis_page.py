"""The HTML pages of `gsvc analyse`: of one stream a timeline, of several cameras the ground too.

The timeline draws activity, events, and each object's time in view, one row a class. The ground is
drawn from above, with everybody's way. No page has scripts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.api.reports import shown_time
from gsvc.codec.bitstream.header import Header
from gsvc.decoders.detection.findings import AnalysisCost, Event, FrameAnalysis, Totals

if TYPE_CHECKING:
    from gsvc.codec.api.analysis import GroundFrame, GroundReader
    from gsvc.decoders.detection.tracker import GroundObject

STYLE = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
"""How a page begins."""


_WIDTH, _LABELS, _RIGHT = 1000, 130, 12
_LANE, _CHART, _GAP = 11, 56, 14
_BINS = 400
COLOURS = 6
"""The style's, `c0` and so on."""
_TICKS = 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200


@dataclass
class TimelineBar:
    """A stretch of time, drawn as a bar."""

    start: float
    end: float
    title: str
    colour: int | None = None
    """None: the row's."""


@dataclass
class AnalysisTimeline:
    """All that is shown over time, gathered bit by bit."""

    activity: list[tuple[float, float]] = field(default_factory=list)
    """Seconds, and the share of the picture that moves."""
    cuts: list[float] = field(default_factory=list)
    tracks: dict[str, dict[int, TimelineBar]] = field(default_factory=dict)
    """By class and number."""
    rows: dict[str, list[TimelineBar]] = field(default_factory=dict)
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
            self.rows[event.name].append(TimelineBar(start, end, title))
        else:
            title = f"{who}: {event.direction}"
            span = TimelineBar(event.seconds, event.seconds, title)
            self.rows.setdefault(event.name, []).append(span)

    def drawn(self) -> Iterator[str]:
        """Its lines of HTML."""
        height, parts = _drawn(self)
        view = f'viewBox="0 0 {_WIDTH} {height}"'
        yield f'<div class="wide"><svg {view} role="img" aria-label="timeline">\n'
        yield from (f"{part}\n" for part in parts)
        yield "</svg></div>\n"


def _drawn(seen: AnalysisTimeline) -> tuple[float, list[str]]:
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


def _lanes(spans: Iterable[TimelineBar], apart: float) -> list[list[TimelineBar]]:
    """Spans one under another where they overlap in time."""
    lanes: list[list[TimelineBar]] = []
    for span in sorted(spans, key=lambda one: one.start):
        lane = next((lane for lane in lanes if lane[-1].end + apart < span.start), None)
        if lane is None:
            lanes.append([span])
        else:
            lane.append(span)
    return lanes


def _area(seen: AnalysisTimeline, top: float, scale: float, highest: float) -> str:
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


def _bar(span: TimelineBar, y: float, scale: float, colour: int) -> str:
    x, width = _LABELS + span.start * scale, max(2.5, (span.end - span.start) * scale)
    title = escape(f"{span.title}, {f'{shown_time(span.start)} to {shown_time(span.end)}'}")
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


class PageFormat:
    """One HTML file without scripts."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._seen = file, AnalysisTimeline()

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
                of_kind[one.track] = TimelineBar(frame.seconds, frame.seconds, title)
            of_kind[one.track].end = frame.seconds
        for event in frame.events:
            seen.event(event)

    def end(self, totals: Totals, cost: AnalysisCost) -> None:
        self._file.writelines(self._seen.drawn())
        self._file.writelines(told_sums({**sums(totals), "cuts": f"{totals.cuts}"}, cost))


def told_sums(told: Mapping[str, str], cost: AnalysisCost) -> Iterator[str]:
    """The end of a page: sums, and what it took."""
    yield "<h2>Sums</h2>\n<table>\n"
    for name, value in told.items():
        yield f"<tr><td>{escape(name)}<td>{escape(value)}\n"
    yield (
        f"</table>\n<p>Read {cost.bytes_read} bytes in {cost.milliseconds:.0f} ms: "
        f"{cost.pictures} coded pictures of {cost.frames} frames were decoded, the detector "
        f"ran {cost.detector_runs} times.</p>\n</html>\n"
    )


def sums(totals: Totals) -> dict[str, str]:
    """Tracks of each class, crossings of each line, visits to each zone."""
    told = {
        kind: "1 track" if count == 1 else f"{count} tracks"
        for kind, count in totals.objects.items()
    }
    for name, ways in totals.lines.items():
        told[name] = ", ".join(f"{count} {way}" for way, count in ways.items())
    for name, one in totals.zones.items():
        visits = f"{one['visits']:g} visits, {one['seconds']:.1f} s"
        told[name] = f"{visits} in all, {one['longest']:.1f} s the longest"
    return told


Floats = NDArray[np.float64]


def seen_ground(
    homography: Floats, size: tuple[int, int], low: Floats, high: Floats
) -> list[Floats]:
    """Corners of what of a rectangle is in a picture, in metres; empty where nothing is.

    `homography`: from (x, y, 1) in metres to pixels, float64 (3, 3); `size`: width and height of
    the picture; `low`, `high`: corners of the rectangle in metres, float64 (2,). Method: I.
    Sutherland, G. Hodgman, "Reentrant Polygon Clipping", 1974, at the picture's four sides.
    """
    across, down, depth = homography
    sides = depth, across, size[0] * depth - across, down, size[1] * depth - down
    corners = [np.array(one) for one in ((low[0], low[1]), (high[0], low[1]))]
    corners += [np.array(one) for one in ((high[0], high[1]), (low[0], high[1]))]
    for side in sides:
        corners = _clipped(corners, side)
    return corners


def _clipped(corners: list[Floats], side: Floats) -> list[Floats]:
    """What of a polygon lies where `side` @ (x, y, 1) is not below 0."""
    found: list[Floats] = []
    for last, corner in zip([*corners[-1:], *corners[:-1]], corners, strict=True):
        before, now = side @ (*last, 1.0), side @ (*corner, 1.0)
        if (before < 0) != (now < 0):
            found.append(last + (corner - last) * before / (before - now))
        if now >= 0:
            found.append(corner)
    return found


_GROUND_WIDTH, _HEIGHT = 1000.0, 600.0  # units of the drawing at most
_STEP = 0.1  # metres: a way gets another point after so many
_LEAST, _AROUND = 2.0, 0.12
"""Metres across the map at least, and share of it that is left free around the ways."""
_FAR = 2, 98
"""Percentiles of places that the map shows: feet near the horizon may seem to be far off."""
_GRIDS = 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500


class _Leg(NamedTuple):
    """A part of a way that one camera saw, or several did."""

    is_shared: bool
    places: list[Floats]


@dataclass
class _Way:
    """Where one track went."""

    kind: str
    start: float
    end: float
    legs: list[_Leg] = field(default_factory=list)

    def go(self, one: "GroundObject") -> None:
        is_shared = len(one.seen) > 1
        if not self.legs or self.legs[-1].is_shared != is_shared:
            joint = [self.legs[-1].places[-1]] if self.legs else []
            self.legs.append(_Leg(is_shared, joint))
        places = self.legs[-1].places
        if not places or np.linalg.norm(one.place - places[-1]) >= _STEP:
            places.append(one.place)


class _Map(NamedTuple):
    """The part of the ground that is drawn."""

    low: Floats
    high: Floats
    scale: float
    """Units a metre."""

    def at(self, place: Floats) -> str:
        """In the drawing: y goes up on the ground, and down there."""
        x, y = (place - self.low) * self.scale
        return f"{x:.1f},{(self.high[1] - self.low[1]) * self.scale - y:.1f}"


def write_page(reader: "GroundReader", frames: "Iterable[GroundFrame]", file: TextIO) -> None:
    """One HTML file without scripts."""
    ways: dict[int, _Way] = {}
    time = AnalysisTimeline()
    file.write(STYLE)
    for frame in frames:
        time.last = frame.seconds
        for one in frame.objects:
            way = ways.setdefault(one.track, _Way(one.kind, frame.seconds, frame.seconds))
            way.kind, way.end = one.kind, frame.seconds
            way.go(one)
        for event in frame.events:
            time.event(event)
    for number, way in ways.items():
        span = TimelineBar(way.start, way.end, f"{way.kind} {number}", number % COLOURS)
        time.tracks.setdefault(way.kind, {})[number] = span
    count = len(reader.views)
    file.write(f"<h1>What {count} streams show together</h1>\n")
    file.write(
        "<p>The ground from above, in metres. Each track has a colour, and its number where "
        "it ends; it is thick where several cameras see it.</p>\n"
    )
    file.writelines(_drawn_map(reader, ways))
    file.write("<h2>Over time</h2>\n")
    file.writelines(time.drawn())
    file.writelines(told_sums(sums(reader.totals), reader.cost))


def _drawn_map(reader: "GroundReader", ways: dict[int, _Way]) -> Iterator[str]:
    places = [place for way in ways.values() for leg in way.legs for place in leg.places]
    if not places:
        yield "<p>Nothing stands on the ground.</p>\n"
        return
    low, high = np.percentile(places, _FAR, axis=0)
    middle, size = (low + high) / 2, np.maximum(high - low, _LEAST) * (1 + 2 * _AROUND)
    scale = float(min(_GROUND_WIDTH / size[0], _HEIGHT / size[1]))
    ground, (width, height) = _Map(middle - size / 2, middle + size / 2, scale), size * scale
    view = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    wide = f'style="max-width: {width:.0f}px; min-width: 0"'
    yield f'<div class="wide"><svg {view} {wide} role="img" aria-label="the ground from above">\n'
    for number, (first, size) in enumerate(reader.views):
        # What the camera sees in its first frame.
        corners = seen_ground(first, size, ground.low, ground.high)
        if len(corners) > 2:
            yield _shape("polygon", "view", corners, ground, f"stream {number}")
    yield from _grid(ground)
    for zone in reader.zones:
        yield _shape("polygon", "zone", [np.array(one) for one in zone.corners], ground, zone.name)
    for line in reader.lines:
        ends = [np.array(line.start), np.array(line.end)]
        yield _shape("polyline", "zone", ends, ground, line.name)
    for number, way in ways.items():
        yield from _drawn_way(number, way, ground)
    yield "</svg></div>\n"


def _grid(ground: _Map) -> Iterator[str]:
    size = float((ground.high - ground.low).max())
    step = next((one for one in _GRIDS if size / one <= 16), size)
    for axis in (0, 1):
        first = np.ceil(ground.low[axis] / step)
        for number in np.arange(first, np.floor(ground.high[axis] / step) + 1):
            ends = np.array([ground.low, ground.high])
            ends[:, axis] = number * step
            yield _shape("polyline", "grid", list(ends), ground, "")
            x, y = map(float, ground.at(ends[0]).split(","))
            yield f'<text class="scale" x="{x + 3:.1f}" y="{y - 3:.1f}">{number * step:g}</text>\n'


def _drawn_way(number: int, way: _Way, ground: _Map) -> Iterator[str]:
    colour, title = number % COLOURS, f"{way.kind} {number}"
    for leg in way.legs:
        kind = f"way w{colour}{' shared' if leg.is_shared else ''}"
        yield _shape("polyline", kind, leg.places, ground, title)
    x, y = map(float, ground.at(way.legs[-1].places[-1]).split(","))
    told = f"<title>{escape(title)}</title>"
    yield f'<circle class="c{colour}" cx="{x}" cy="{y}" r="4">{told}</circle>\n'
    yield f'<text x="{x + 6:.1f}" y="{y + 4:.1f}">{number}</text>\n'


def _shape(shape: str, kind: str, places: Sequence[Floats], ground: _Map, title: str) -> str:
    points = " ".join(ground.at(place) for place in places)
    told = f"<title>{escape(title)}</title>" if title else ""
    return f'<{shape} class="{kind}" points="{points}">{told}</{shape}>\n'
