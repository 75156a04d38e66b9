"""The page of an analysis: one timeline with activity, events and every object's time in view."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import TextIO

from gsvc.codec.command.analysis_page_style import STYLE
from gsvc.codec.command.analysis_timeline import Span, Timeline
from gsvc.codec.stream.header import Header
from gsvc.decoders.analysis.types import Cost, FrameAnalysis, Totals


class PageFormat:
    """One HTML file without scripts."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._seen = file, Timeline()

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
                of_kind[one.track] = Span(frame.seconds, frame.seconds, title)
            of_kind[one.track].end = frame.seconds
        for event in frame.events:
            seen.event(event)

    def end(self, totals: Totals, cost: Cost) -> None:
        self._file.writelines(self._seen.drawn())
        cuts = {"cuts": f"{totals.cuts}"}
        self._file.writelines(told_sums({**sums(totals), **cuts}, cost))


def told_sums(told: Mapping[str, str], cost: Cost) -> Iterator[str]:
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
