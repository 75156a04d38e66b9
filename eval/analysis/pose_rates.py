"""Key points over rate: python -m gsvc.eval.analysis.pose_rates CLIP

What the pose networks find in each source frame is the pseudo-truth. The same networks look at
x265's streams, decoded, and `gsvc encode --task people` sends what they find.
"""

import io
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence

import numpy as np

from gsvc.codec.analysis import AnalysisReader
from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.frames import Picture, VideoFormat
from gsvc.codec.limits import DEFAULT_LIMITS
from gsvc.datasets.clips import TestClip
from gsvc.decoders.people.body_pose import COCO17, DetectedPose, PoseEstimator
from gsvc.encoders.objects.tasks import KEY_POINTS
from gsvc.eval.analysis.key_points import Pose, oks_ap
from gsvc.eval.analysis.sources import find_sources
from gsvc.eval.codecs import find_codec
from gsvc.eval.codecs.ours import coded

_HEVC: tuple[tuple[str, tuple[int, ...]], ...] = (("1", (46, 38, 30)), ("1/2", (46, 38)))
"""Scales of x265 and their crf."""
_SHOWS = 0.5
"""Probability from which on a point counts as visible."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the clips of a command line; print a table of each."""
    parser = ArgumentParser(description="OKS-AP of key points over rate, against pseudo-truth.")
    parser.add_argument("clips", nargs="+", metavar="CLIP", help="as of gsvc bench analyse")
    parser.add_argument("--frames", type=int, default=100, metavar="N", help="(%(default)s)")
    parser.add_argument("--size", default="288", metavar="288|480|native", help="(%(default)s)")
    options = parser.parse_args(arguments)
    for source in find_sources(options.clips):
        clip, _ = source.load(options.size, options.frames)
        print(f"{clip.name}: OKS-AP against pseudo-truth", flush=True)
        truth = _looked(clip.frames)
        for name, size, found in _streams(clip):
            rate = 8 * size * float(clip.frame_rate) / len(clip.frames)
            scores = oks_ap(truth, found)
            told = (
                "no people" if scores is None else f"{scores.mean:.3f}  at .5 {scores.at_half:.3f}"
            )
            print(f"  {name:<22} {rate:>9.0f} bit/s  {told}", flush=True)
    return 0


def _streams(clip: TestClip) -> Iterator[tuple[str, int, list[Pose]]]:
    """Name, bytes and what is found, of the task and of HEVC."""
    form = clip.format
    video = VideoFormat(form.width, form.height, 1 / form.frame_rate, form.frame_rate)
    data = coded(clip.frames, video, EncoderSettings(task=KEY_POINTS))
    yield "gsvc --task people", len(data), _read(data)
    for scale, qualities in _HEVC:
        codec = find_codec("x265", crf=qualities, scale=scale)
        for settings in codec.rate_points():
            data = codec.encode(clip, settings).data
            frames = codec.decode(data, clip.format, settings, {}).frames
            yield f"x265 {scale}, crf {settings['crf']}", len(data), _looked(frames)


def _read(stream: bytes) -> list[Pose]:
    reader = AnalysisReader(io.BytesIO(stream), None, DEFAULT_LIMITS)
    return [
        Pose(frame.frame, person.points, person.visible)
        for frame in reader.frames()
        for person in frame.people
    ]


def _looked(frames: Sequence[Picture]) -> list[Pose]:
    estimate = PoseEstimator(16)
    return [
        _chosen(number, pose) for number, picture in enumerate(frames) for pose in estimate(picture)
    ]


def _chosen(frame: int, pose: DetectedPose) -> Pose:
    """COCO's points of it."""
    chosen = list(COCO17)
    points, visibility = pose.points[chosen].astype(np.float64), pose.visibility[chosen]
    return Pose(frame, points, visibility > _SHOWS, float(visibility.mean()))


if __name__ == "__main__":
    sys.exit(main())
