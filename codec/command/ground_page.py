"""The page of several cameras: the ground from above with everybody's way, and a timeline."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.command.analysis_page import sums, told_sums
from gsvc.codec.command.analysis_page_style import STYLE
from gsvc.codec.command.analysis_timeline import COLOURS, Span, Timeline
from gsvc.codec.command.ground_view import seen_ground

if TYPE_CHECKING:
    from gsvc.codec.analysis_ground import GroundFrame, GroundReader
    from gsvc.decoders.analysis.ground import GroundObject

Floats = NDArray[np.float64]

_WIDTH, _HEIGHT = 1000.0, 600.0
"""Units of the drawing at most."""
_STEP = 0.1
"""Metres: a way gets another point after so many."""
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
    time = Timeline()
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
        span = Span(way.start, way.end, f"{way.kind} {number}", number % COLOURS)
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
    ground = _map_of(np.array(places))
    width, height = (ground.high - ground.low) * ground.scale
    view = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    wide = f'style="max-width: {width:.0f}px; min-width: 0"'
    yield f'<div class="wide"><svg {view} {wide} role="img" aria-label="the ground from above">\n'
    yield from _views(reader, ground)
    yield from _grid(ground)
    for zone in reader.zones:
        yield _shape("polygon", "zone", [np.array(one) for one in zone.corners], ground, zone.name)
    for line in reader.lines:
        ends = [np.array(line.start), np.array(line.end)]
        yield _shape("polyline", "zone", ends, ground, line.name)
    for number, way in ways.items():
        yield from _drawn_way(number, way, ground)
    yield "</svg></div>\n"


def _map_of(places: Floats) -> _Map:
    low, high = np.percentile(places, _FAR, axis=0)
    middle, size = (low + high) / 2, np.maximum(high - low, _LEAST) * (1 + 2 * _AROUND)
    scale = float(min(_WIDTH / size[0], _HEIGHT / size[1]))
    return _Map(middle - size / 2, middle + size / 2, scale)


def _views(reader: "GroundReader", ground: _Map) -> Iterator[str]:
    """What each camera sees of it in its first frame."""
    for number, (first, size) in enumerate(reader.views):
        corners = seen_ground(first, size, ground.low, ground.high)
        if len(corners) > 2:
            yield _shape("polygon", "view", corners, ground, f"stream {number}")


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
