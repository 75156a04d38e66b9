"""What `--task` takes beside HEVC at equal accuracy: python tools/task_rates.py CLIP

The same eyes look at both: what `gsvc analyse --detector moving` does, on the source before the
objects are coded, and on each HEVC stream decoded. Without truth, what these eyes find in the
source stands for it, and the table says so.
"""

import io
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

from gsvc.codec.api.encoder import Encoder
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream.container import StreamReader, StreamWriter
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS
from gsvc.codec.bitstream.frames import Picture, VideoFormat
from gsvc.datasets.annotated.truth import Boxes, joined, make_boxes
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.decoders.detection.findings import Box
from gsvc.decoders.detection.sent_objects import SentObjects
from gsvc.encoders.scaffold.object_coder import SourceFollowing
from gsvc.eval.baselines import find_codec
from gsvc.eval.bench.analysis.accuracy import accuracies, judged
from gsvc.eval.bench.analysis.analysis_run import find_sources
from gsvc.eval.bench.analysis.box_detectors import followed

_HEVC: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("1", (50, 44, 38, 32)),
    ("1/2", (50, 44, 38)),
    ("1/4", (50, 42)),
)
"""Scales of x265 and their crf."""
_SHOWN = "map50", "map", "mota", "idf1"


@dataclass(frozen=True)
class _RateRow:
    name: str
    bits_per_second: float
    scores: Mapping[str, float | None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the clips of a command line; print a table of each."""
    options = _parser().parse_args(arguments)
    for source in find_sources(options.clips):
        clip, truth = source.load(options.size, options.frames)
        print(f"{clip.name}: {'exact truth' if truth is not None else 'pseudo-truth'}", flush=True)
        rows = list(_rows(clip, truth))
        for row in rows:
            scores = (row.scores[name] for name in _SHOWN)
            told = "  ".join("    -" if one is None else f"{one:5.3f}" for one in scores)
            print(f"  {row.name:<22} {row.bits_per_second:>9.0f} bit/s  {told}")
        for name in _SHOWN:
            print(f"  at equal {name}: {_compared(rows, name)}", flush=True)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(description="What --task takes, beside HEVC at equal accuracy.")
    parser.add_argument("clips", nargs="+", metavar="CLIP", help="as of gsvc bench analyse")
    parser.add_argument("--frames", type=int, default=150, metavar="N", help="(%(default)s)")
    parser.add_argument("--size", default="native", metavar="288|480|native")
    return parser


def _rows(clip: TestClip, truth: Boxes | None) -> Iterator[_RateRow]:
    """The source, the task, and HEVC from low to high rates."""
    rate = float(clip.format.frame_rate)
    seen = _followed(clip.frames, rate)
    known = judged(seen if truth is None else truth, None)

    def row(name: str, size: int, found: Boxes) -> _RateRow:
        bits_per_second = 8 * size * rate / len(clip.frames)
        return _RateRow(name, bits_per_second, accuracies(known, judged(found, None)))

    yield row("source", 0, seen)
    size, sent = _task(clip)
    yield row("gsvc --task motion", size, sent)
    for scale, qualities in _HEVC:
        codec = find_codec("x265", crf=qualities, scale=scale)
        for settings in codec.rate_points():
            data = codec.encode(clip, settings).data
            frames = codec.decode(data, clip.format, settings, {}).frames
            yield row(
                f"x265 {scale}, crf {settings['crf']}",
                len(data),
                _followed(frames, float(clip.format.frame_rate)),
            )


def _task(clip: TestClip) -> tuple[int, Boxes]:
    """Size of the stream, and what is read from it."""
    file = io.BytesIO()
    with Encoder(_video(clip), EncoderSettings(task="motion")) as encoder:
        writer = StreamWriter(file, encoder.header)
        for picture in clip.frames:
            for packet in encoder.encode(picture):
                writer.write(packet)
        for packet in encoder.flush():
            writer.write(packet)
    file.seek(0)
    reader = StreamReader(file)
    objects = SentObjects(reader.header, DEFAULT_LIMITS)
    sent = (frame for packet in reader for frame in objects.frames(packet))
    boxes = [
        _boxes(frame.frame, [(one.track, one.box, one.score) for one in frame.objects])
        for frame, _, _ in sent
    ]
    return len(file.getvalue()), joined(boxes)


def _video(clip: TestClip) -> VideoFormat:
    form = clip.format
    return VideoFormat(form.width, form.height, 1 / form.frame_rate, form.frame_rate)


def _followed(frames: Sequence[Picture], rate: float) -> Boxes:
    """What moves in frames, followed as the encoder does."""
    size = frames[0].shape[1], frames[0].shape[0]
    return followed(frames, SourceFollowing(size, rate, None, moving=True))


def _boxes(frame: int, found: Sequence[tuple[int, Box, float]]) -> Boxes:
    numbers, boxes, scores = zip(*found, strict=True) if found else ((), (), ())
    return make_boxes([frame] * len(found), boxes, label="moving", id=numbers, score=scores)


def _compared(rows: Sequence[_RateRow], name: str) -> str:
    """The rate of HEVC that comes to the task's accuracy, on its lower hull."""
    _, task, *others = rows
    goal = task.scores[name]
    points = sorted((one.bits_per_second, one.scores[name] or 0.0) for one in others)
    hull = [one for n, one in enumerate(points) if one[1] > max([0.0, *(p[1] for p in points[:n])])]
    if goal is None or not hull:
        return "not known"
    below = [one for one in hull if one[1] <= goal]
    above = [one for one in hull if one[1] > goal]
    if not below:
        rate, told = hull[0][0], "its lowest rate here, already better,"
    elif not above:
        rate, told = hull[-1][0], "its highest rate here, still worse,"
    else:
        (low, at), (high, to) = below[-1], above[0]
        share = (goal - at) / (to - at)
        rate, told = exp(log(low) + share * (log(high) - log(low))), "interpolated,"
    ratio = task.bits_per_second / rate
    return f"HEVC, {told} {rate:.0f} bit/s; the task takes {ratio:.4f} of that"


if __name__ == "__main__":
    sys.exit(main())
