"""`gsvc score`: the benchmark's metrics of any two videos.

Frames that are shown at the same time are compared. Of a long stream, parts are measured.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import takewhile
from math import isfinite
from typing import NamedTuple

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError
from gsvc.codec.bitstream.frames import Frame, Picture, VideoFormat
from gsvc.codec.bitstream.stream_info import StreamIndex
from gsvc.codec.media.places import SUFFIX, PathOrFile, is_glob, open_stream, shown
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.weights.extras import machine
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.baselines.conventional import enlarge, shrink
from gsvc.eval.bench import cells, work
from gsvc.eval.bench.store import MetricScores
from gsvc.eval.late_loading import reason
from gsvc.eval.metrics.base import Metric
from gsvc.eval.report.exhibits import Figure, label, panels

_SAME_SHAPE = 1.02  # what the rounding of sizes to even numbers may come to
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VideoPair:
    """The frames that two videos share, in memory."""

    source: TestClip = field(repr=False)
    """What is measured against."""
    test: Sequence[Picture] = field(repr=False)
    """As many pictures of the same size."""
    times: Sequence[float]
    """Seconds after the source's first frame."""
    alone: tuple[int, int]
    """Frames of the source and of the test that have no partner."""
    later: float = 0.0
    """Seconds by which the test begins after the source by their time stamps, beyond `offset`."""


@dataclass(frozen=True)
class Video:
    """A video in memory."""

    name: str
    """What messages call it."""
    format: VideoFormat
    """Size and rate."""
    frames: list[Picture] = field(repr=False)
    """In order."""
    times: list[Fraction]
    """Seconds."""
    origin: Fraction | None = None
    """Its first frame's time stamp, seconds; None: not known."""


def read_pair(
    source: str, test: str, *, frames: int | None = None, scale: bool = False, offset: float = 0.0
) -> VideoPair:
    """Read two videos; each begins at time 0. Frames pair by time, each with the nearest.

    `source`: anything FFmpeg reads, or a glob of images; `test`: also a stream (.gsv), decoded as
    `gsvc decode` does by default; `frames`: the most of each, None for all; `scale`: bring the
    test's pictures to the source's size; `offset`: seconds after the source's begin at which the
    test's first frame is shown. Raises InputError where a video cannot be read, fills a quarter of
    memory or differs in size, or where no frames are shown together, ConfigError for `frames`
    below 1 and for another `offset` than a finite one.
    """
    if not isfinite(offset):
        raise ConfigError(f"offset {offset:g}: give seconds")
    a = _read(source, frames)  # first: decoding takes long, and a wrong name is soon told
    b = _decoded(test, frames) if test.lower().endswith(SUFFIX) else _read(test, frames)
    pair = pair_of(a, replace(b, times=[t + Fraction(offset) for t in b.times]), scale=scale)
    if a.origin is None or b.origin is None:
        return pair
    return replace(pair, later=float(b.origin - a.origin) - offset)


def pair_of(a: Video, b: Video, *, scale: bool = False) -> VideoPair:
    """The frames that two videos share. Raises InputError as `read_pair` does."""
    _check_sizes(a, b, scale)
    pairs = _nearest(a, b)
    if not pairs:
        raise InputError(f"no frame of {b.name} is shown when one of {a.name} is: check the times")
    size = a.format.width, a.format.height
    clip = TestClip(a.name, [a.frames[i] for i, _ in pairs], a.format.frame_rate)
    return VideoPair(
        clip,
        [_fitted(b.frames[j], size) for _, j in pairs],
        [float(a.times[i]) for i, _ in pairs],
        (len(a.frames) - len(pairs), len(b.frames) - len(pairs)),
    )


def _read(name: str, frames: int | None) -> Video:
    if name.lower().endswith(SUFFIX):
        raise InputError(f"{name} is a stream, and what is measured against is a video: swap them")
    with open_video(name, frames=frames) as video:
        found = list(_fitting_memory(name, video))
        times = [frame.pts * video.format.time_base for frame in found]
        return Video(name, video.format, [frame.pixels for frame in found], times, video.origin)


def _fitting_memory(name: str, frames: Iterable[Frame]) -> Iterator[Frame]:
    """The frames. Raises InputError where they fill a quarter of memory, as another video may."""
    left = int(machine()["memory"]) // 4
    for count, frame in enumerate(frames):
        left -= frame.pixels.nbytes
        if left < 0:
            raise InputError(f"{name} does not fit into memory: frames={count} measures its start")
        yield frame


def _decoded(name: str, frames: int | None) -> Video:
    with open_stream(name) as file:
        index = StreamIndex(file)
        return decoded_part(name, index, 0, index.frames if frames is None else frames)


def decoded_part(name: str, index: StreamIndex, first: int, count: int) -> Video:
    """Frames of a stream, decoded by one step of the default refiner, with their own times."""
    form = index.header.format
    with Decoder(index.header) as decoder:
        found = list(_fitting_memory(name, index.decode(decoder, first, count)))
    origin = index.times[0] if index.times else 0
    times = [(frame.pts - origin) * form.time_base for frame in found]
    return Video(name, form, [frame.pixels for frame in found], times)


def _check_sizes(a: Video, b: Video, scale: bool) -> None:
    wanted, got = (f"{v.format.width}x{v.format.height}" for v in (a, b))
    if wanted != got and not scale:
        raise InputError(
            f"{b.name} is {got}, but {a.name} is {wanted}: "
            f"scale=True measures the former at {wanted}"
        )
    shapes = [v.format.pixel_aspect * v.format.width / v.format.height for v in (a, b)]
    if max(shapes) > _SAME_SHAPE * min(shapes):
        _log.warning(
            "%s is shown %.3g times as wide as high, %s %.3g times: their pictures are compared as "
            "they are stored",
            a.name,
            shapes[0],
            b.name,
            shapes[1],
        )


def _nearest(a: Video, b: Video) -> list[tuple[int, int]]:
    """Indices of the frames that are each other's nearest, less than half a frame apart."""
    most = 1 / max(a.format.frame_rate, b.format.frame_rate) / 2
    pairs = []
    for i, time in enumerate(a.times):
        j = _place(b.times, time)
        if _place(a.times, b.times[j]) == i and abs(b.times[j] - time) < most:
            pairs.append((i, j))
    return pairs


def _place(times: Sequence[Fraction], time: Fraction) -> int:
    """The index of the nearest of the ascending `times`; the earlier one of two."""
    after = bisect_left(times, time)
    near = range(max(0, after - 1), min(after + 1, len(times)))
    return min(near, key=lambda index: abs(times[index] - time))


def _fitted(picture: Picture, size: tuple[int, int]) -> Picture:
    height, width = picture.shape[:2]
    if (width, height) == size:
        return picture
    return shrink(picture, size) if width * height > size[0] * size[1] else enlarge(picture, size)


class Measured(NamedTuple):
    """One metric of two videos."""

    name: str
    """The metric's own, also of a user's module:Class."""
    metric: Metric
    scores: MetricScores
    """One value for each index measured, or a gap with its reason."""

    @property
    def better(self) -> str:
        """Which values are better."""
        return "higher" if self.metric.higher_is_better else "lower"


def named_metrics(names: Sequence[str]) -> dict[str, Metric]:
    """The metrics by name. Raises ConfigError for an unknown one."""
    return {name: cells.make_metric(name) for name in names}


def measure(
    pair: VideoPair,
    metrics: Mapping[str, Metric],
    indices: Sequence[int],
    say: Callable[[str], None],
) -> list[Measured]:
    """Every metric at the frames `indices`; one that fails is a gap. `say` gets a line for each."""
    found = []
    for number, (name, metric) in enumerate(metrics.items(), 1):
        say(f"{name} of {len(indices)} frames, {number} of {len(metrics)}")
        try:
            scores = work.score(name, metric.version(), pair.source, [pair.test], indices)[0]
        except GsvcError as error:
            scores = MetricScores(None, gap=reason(error))
        found.append(Measured(metric.name, metric, scores))
    return found


_PARTS = 3
_MOST_FRAMES, _LEAST_FRAMES, _PIXELS = 97, 12, 60_000_000
"""Frames of a part: as many as have so many pixels together, within bounds."""


def part_frames(form: VideoFormat) -> int:
    """Frames of a part that memory holds with ease."""
    return min(_MOST_FRAMES, max(_LEAST_FRAMES, _PIXELS // (form.width * form.height)))


def stream_pairs(
    source: str,
    stream: PathOrFile,
    *,
    start: float = 0.0,
    fps: float | None = None,
    deinterlace: bool = False,
) -> Iterator[VideoPair]:
    """Up to three parts of a stream beside its source, at the source's own frame rate.

    `start`, `fps` and `deinterlace` are those that it was encoded with. Raises InputError and
    BitstreamError as reading and decoding do.
    """
    rate = fps if is_glob(source) else None
    with open_stream(stream) as file:
        index = StreamIndex(file)
        length = part_frames(index.header.format)
        with open_video(source, start=start, frames=1, fps=rate) as video:
            origin = video.origin
        for first in _firsts(index.frames, length):
            test = decoded_part(shown(stream), index, first, length)
            yield pair_of(_source_part(source, start, rate, origin, test, deinterlace), test)


def measured_parts(
    pairs: Iterable[VideoPair], metrics: Mapping[str, Metric], say: Callable[[str], None]
) -> list[Measured]:
    """Every metric over all frames of the parts: the mean of what each part gives, weighted."""
    found: list[list[Measured]] = []
    weights: list[int] = []
    for pair in pairs:
        found.append(measure(pair, metrics, range(len(pair.test)), say))
        weights.append(len(pair.test))
    return [_joined(parts, weights) for parts in zip(*found, strict=True)]


def pair_from(name: str, form: VideoFormat, frames: Sequence[tuple[Frame, Frame]]) -> VideoPair:
    """The pair of frames as they were and as they are decoded, at the same times."""
    times = [a.pts * form.time_base for a, _ in frames]
    source, test = (Video(name, form, [f[i].pixels for f in frames], times) for i in (0, 1))
    return pair_of(source, test)


def _firsts(frames: int, length: int) -> list[int]:
    """The first frame of each part: all of a short stream, else parts evenly spread."""
    if frames <= _PARTS * length:
        return list(range(0, frames, length))
    return [(2 * part + 1) * frames // (2 * _PARTS) - length // 2 for part in range(_PARTS)]


def _source_part(
    source: str, start: float, rate: float | None, origin: Fraction, test: Video, deinterlace: bool
) -> Video:
    """The frames of the source while those of `test` are shown, by the stream's clock."""
    begin, end = start + float(test.times[0]), test.times[-1]
    size = test.format.width, test.format.height
    with open_video(source, start=begin, fps=rate, deinterlace=deinterlace, size=size) as video:
        shift, base = video.origin - origin, video.format.time_base
        timed = ((frame.pixels, frame.pts * base + shift) for frame in video)
        found = list(takewhile(lambda one: one[1] <= end + 1 / video.format.frame_rate, timed))
        return Video(source, video.format, [p for p, _ in found], [t for _, t in found])


def _joined(parts: Sequence[Measured], weights: Sequence[int]) -> Measured:
    """One metric of all parts; a gap where a part has none."""
    total = 0.0
    for part, weight in zip(parts, weights, strict=True):
        if part.scores.mean is None:
            return part
        total += weight * part.scores.mean
    scores = MetricScores(total / sum(weights), version=parts[0].scores.version)
    return Measured(parts[0].name, parts[0].metric, scores)


Rows = list[list[str]]
"""The first one names the columns."""


def mean_rows(found: Sequence[Measured]) -> Rows:
    """A row for each metric: name, mean, unit, which values are better."""
    rows = [[m.name, _text(m.scores.mean), m.metric.unit, m.better] for m in found]
    return [["metric", "value", "unit", "better"], *rows]


def frame_rows(found: Sequence[Measured], pair: VideoPair, indices: Sequence[int]) -> Rows:
    """A row for each frame measured: its number, its time in seconds, every metric of frames."""
    by_frame = each_frame(found)
    rows = [["frame", "time", *(m.name for m in by_frame)]]
    for row, index in enumerate(indices):
        values = [_text(m.scores.values[row]) for m in by_frame]
        rows.append([str(index), f"{pair.times[index]:.6g}", *values])
    return rows


def each_frame(found: Sequence[Measured]) -> list[Measured]:
    """Those that have a value for each frame."""
    return [m for m in found if m.metric.per_frame and m.scores.values]


def plotted(
    found: Sequence[Measured], pair: VideoPair, indices: Sequence[int], title: str
) -> Figure:
    """A panel for each metric of frames, over time. Raises GsvcError without any, or matplotlib."""
    by_name = {m.name: m for m in each_frame(found)}
    if not by_name:
        raise GsvcError("nothing to plot: no metric of single frames has a value")
    times = [pair.times[index] for index in indices]
    figure, places = panels(by_name, title)
    for name, axis in places:
        measured = by_name[name]
        values = [float("nan") if v is None else v for v in measured.scores.values]
        axis.plot(times, values, ".-", color="#dd3c2a", markersize=3, linewidth=1)
        unit = f", {measured.metric.unit}" if measured.metric.unit else ""
        label(axis, f"{name}: {measured.better} is better", "seconds", name + unit)
    return figure


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
