"""Metrics of a stream beside its source; of a long one, of parts of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import takewhile

from gsvc.codec.frames import Frame, VideoFormat
from gsvc.codec.input import is_glob
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.open_files import Place, shown
from gsvc.codec.stream.file import open_stream
from gsvc.codec.stream.index import StreamIndex
from gsvc.eval.bench.record import Scores
from gsvc.eval.metrics.base import Metric
from gsvc.eval.score.measure import Measured, measure
from gsvc.eval.score.pair import Pair, Video, decoded_part, pair_of

_PARTS = 3
_MOST_FRAMES, _LEAST_FRAMES, _PIXELS = 97, 12, 60_000_000
"""Frames of a part: as many as have so many pixels together, within bounds."""


def part_frames(form: VideoFormat) -> int:
    """Frames of a part that memory holds with ease."""
    return min(_MOST_FRAMES, max(_LEAST_FRAMES, _PIXELS // (form.width * form.height)))


def stream_pairs(
    source: str, stream: Place, *, start: float = 0.0, fps: float | None = None
) -> Iterator[Pair]:
    """Up to three parts of a stream beside its source, at the source's own frame rate.

    `start` and `fps` are those that it was encoded with. Raises InputError and BitstreamError as
    reading and decoding do.
    """
    rate = fps if is_glob(source) else None
    with open_stream(stream) as file:
        index = StreamIndex(file)
        length = part_frames(index.header.format)
        with open_video(source, start=start, frames=1, fps=rate) as video:
            origin = video.origin
        for first in _firsts(index.frames, length):
            test = decoded_part(shown(stream), index, first, length)
            yield pair_of(_source_part(source, start, rate, origin, test), test)


def measured_parts(
    pairs: Iterable[Pair], metrics: Mapping[str, Metric], say: Callable[[str], None]
) -> list[Measured]:
    """Every metric over all frames of the parts: the mean of what each part gives, weighted."""
    found: list[list[Measured]] = []
    weights: list[int] = []
    for pair in pairs:
        found.append(measure(pair, metrics, range(len(pair.test)), say))
        weights.append(len(pair.test))
    return [_joined(parts, weights) for parts in zip(*found, strict=True)]


def pair_from(name: str, form: VideoFormat, frames: Sequence[tuple[Frame, Frame]]) -> Pair:
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
    source: str, start: float, rate: float | None, origin: Fraction, test: Video
) -> Video:
    """The frames of the source while those of `test` are shown, by the stream's clock."""
    begin, end = start + float(test.times[0]), test.times[-1]
    with open_video(source, start=begin, fps=rate) as video:
        shift, base = video.origin - origin, video.format.time_base
        timed = ((frame.pixels, frame.pts * base + shift) for frame in video)
        found = list(takewhile(lambda one: one[1] <= end + 1 / video.format.frame_rate, timed))
        return Video(source, video.format, [p for p, _ in found], [t for _, t in found])


def _joined(parts: Sequence[Measured], weights: Sequence[int]) -> Measured:
    """One metric of all parts; a gap where a part has none."""
    means = [part.scores.mean for part in parts]
    missing = next((part for part in parts if part.scores.mean is None), None)
    if missing is not None:
        return missing
    total = sum(m * w for m, w in zip(means, weights, strict=True) if m is not None)
    scores = Scores(total / sum(weights), version=parts[0].scores.version)
    return Measured(parts[0].name, parts[0].metric, scores)
