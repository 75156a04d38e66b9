"""What the planner's numbers are fitted to: encodings of development clips, measured.

`python tools/planning_points.py CLIP ... --out FOLDER`: 49 frames of 288 lines of each clip are
tried as a plan tries them (trials.jsonl), then encoded to two rates within what the trial saw with
each preset, and decoded plainly, or with preset medium in every way with --ways, in processes of
their own; and judged by ST-LPIPS VGG and, unless --no-cvvdp, CVVDP (points.csv). With --lean they
are encoded with and without it, and both memories and the ratio of both times are kept: streams
are the same. Seconds are the processor's. What is in the folder is not done again.
"""

import argparse
import csv
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import gsvc
from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.planning.machine_profile import WAYS, Way
from gsvc.codec.planning.prediction import seen_at
from gsvc.codec.planning.process import Timed, timed
from gsvc.codec.planning.video_trial import Judge, VideoTrial, try_video
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.datasets.clips.sets import find_clips
from gsvc.encoders.tuning import DEFAULT_PRESET, PRESETS
from gsvc.eval.baselines.gsvc import decoded
from gsvc.eval.metrics import find_metric
from gsvc.eval.metrics.cvvdp import jod
from gsvc.eval.planning.validation import written

_SHARES = 0.25, 0.75
"""Of the way from the trial's least rate to its most, in the logarithm: between what it saw."""
_EVERY = 7
"""One frame in so many is judged by ST-LPIPS, as in the benchmark."""

LEAN = " lean"
"""Behind the preset of an encoding that holds less memory."""
Job = tuple[str, float, Way]
"""A preset, a share of `_SHARES` and a way to decode."""


@dataclass(frozen=True)
class EncodingRow:
    """One stream, decoded in one way. NaN: not measured."""

    clip: str
    """Its name."""
    preset: str
    """Of the encoder."""
    way: str
    """Name of a way to decode."""
    share: float
    """One of two rates, which the encoder was asked for."""
    bpp: float
    """Bits per pixel of a frame that came."""
    jod: float
    """ColorVideoVDP."""
    texture: float
    """ST-LPIPS VGG."""
    trial_jod: float
    """What the trial says at this rate: its CVVDP..."""
    trial_likeness: float
    """...the likeness (`trial.Point`)..."""
    trial_keys: float = math.nan
    """...coded pictures in a frame..."""
    trial_seconds: float = math.nan
    """...and seconds per pixel of a frame, the mean of all of its rates."""
    pixels: float = math.nan
    """Of a frame."""
    frames: float = math.nan
    """Of the clip."""
    rate: float = math.nan
    """Frames per second."""
    keys: float = math.nan
    """Coded pictures in a frame that came."""
    encode_seconds: float = math.nan
    """Of the encoder's process."""
    encode_memory: float = math.nan
    """Bytes of it at the peak."""
    decode_seconds: float = math.nan
    """Of the decoder's process."""
    decode_memory: float = math.nan
    """Bytes of it at the peak."""
    lean_times: float = math.nan
    """Of a lean encoding: its seconds over those of the usual one, measured beside it."""

    @property
    def is_plain(self) -> bool:
        """Whether it is decoded plainly."""
        return self.way == Way().name


def rows_of(
    clip: TestClip, jobs: Sequence[Job], trials: Path, judge: Judge | None, low_delay: bool
) -> Iterator[EncodingRow]:
    """Measure jobs of a clip; its trial is added to `trials`. `judge`: CVVDP, if any;
    `low_delay`: whether the trial is without look-ahead."""
    with tempfile.TemporaryDirectory() as name:
        source, pictures = written(clip, Path(name))
        trial = try_video(str(source), low_delay=low_delay, judge=judge, clock=process_time)
        with trials.open("a") as file:
            file.write(json.dumps({"clip": clip.name, **asdict(trial)}) + "\n")
        clip = TestClip(clip.name, pictures, clip.frame_rate)
        logs = np.log([trial.points[0].bpp, trial.points[-1].bpp])
        for preset, share in dict.fromkeys(job[:2] for job in jobs):
            asked = float(np.exp((1 - share) * logs[0] + share * logs[1]))
            usual = {
                "preset": preset.removesuffix(LEAN),
                "bitrate": asked * trial.pixels * trial.rate,
            }
            encoded = timed(usual, source.parent, [str(source)], cpu=True)
            if preset.endswith(LEAN):
                lean = timed(usual | {"low_memory": True}, source.parent, [str(source)], cpu=True)
                row = _row(clip, trial, (preset, share, Way()), source.with_name("out.gsv"), lean)
                ratio = lean.files[0]["seconds"] / encoded.files[0]["seconds"]
                row = replace(row, encode_seconds=math.nan, lean_times=ratio)
                yield row
                memory = encoded.files[0]["memory"]
                yield replace(
                    row, preset=preset.removesuffix(LEAN), encode_memory=memory, lean_times=math.nan
                )
                continue
            for way in (job[2] for job in jobs if job[:2] == (preset, share)):
                stream = source.with_name("out.gsv")
                row = _row(clip, trial, (preset, share, way), stream, encoded)
                yield _decoded(row, clip, trial, way, stream)


def _row(clip: TestClip, trial: VideoTrial, job: Job, stream: Path, encoded: Timed) -> EncodingRow:
    """Of an encoding, not decoded yet."""
    preset, share, way = job
    info = gsvc.info(stream)
    bpp = 8 * stream.stat().st_size / (trial.pixels * info.frames)
    return EncodingRow(
        clip=clip.name,
        preset=preset,
        way=way.name,
        share=share,
        bpp=bpp,
        jod=math.nan,
        texture=math.nan,
        trial_jod=seen_at(trial, "jod", bpp) if _is_judged(trial) else math.nan,
        trial_likeness=seen_at(trial, "likeness", bpp),
        trial_keys=seen_at(trial, "keys", bpp),
        trial_seconds=float(np.mean([point.seconds for point in trial.points])),
        pixels=trial.pixels,
        frames=info.frames,
        rate=trial.rate,
        keys=sum(len(packet.key_frames) for packet in info.packets) / info.frames,
        encode_seconds=encoded.total,
        encode_memory=encoded.files[0]["memory"],
    )


def _decoded(
    row: EncodingRow, clip: TestClip, trial: VideoTrial, way: Way, stream: Path
) -> EncodingRow:
    took = timed(asdict(way.settings), stream.parent, [str(stream)], cpu=True)
    shown = decoded(stream.read_bytes(), way.settings)
    indices = range(0, len(shown), _EVERY)
    return replace(
        row,
        jod=_jod(clip, shown, trial),
        texture=float(np.mean(find_metric("st_lpips_vgg").measure(clip, [shown], indices))),
        decode_seconds=took.total,
        decode_memory=took.files[0]["memory"],
    )


def _jod(clip: TestClip, shown: Sequence[Picture], trial: VideoTrial) -> float:
    """CVVDP of a clip whose trial it judged."""
    found = jod(clip.frames, shown, clip.frame_rate) if _is_judged(trial) else None
    return math.nan if found is None else found


def _is_judged(trial: VideoTrial) -> bool:
    return trial.points[0].jod is not None


def read_points(path: Path) -> list[EncodingRow]:
    """The rows of a file. Raises ConfigError for one that is no such file."""
    try:
        with path.open(newline="") as file:
            return [_read(line) for line in csv.DictReader(file)]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} has no points of planning_points: {error}") from error


def _read(line: dict[str, str]) -> EncodingRow:
    values: dict[str, Any] = {
        one.name: line[one.name] if one.type is str else float(line.get(one.name) or "nan")
        for one in fields(EncodingRow)
    }
    return EncodingRow(**values)


def measure(
    names: Sequence[str],
    folder: Path,
    frames: int,
    judge: Judge | None,
    jobs: Sequence[Job],
    size: str = "288",
    *,
    low_delay: bool = False,
) -> None:
    """Add what is missing to the folder; `low_delay`: as of `rows_of`. Raises GsvcError as of the
    clips."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "points.csv"
    done = {_key(row) for row in read_points(out)} if out.exists() else set()
    columns = [one.name for one in fields(EncodingRow)]
    with out.open("a", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
        if not file.tell():
            table.writeheader()
        for source in find_clips(names):
            clip = source.load(size, frames)
            count = len(clip.frames)
            left = [(p, s, w) for p, s, w in jobs if (clip.name, p, w.name, s, count) not in done]
            if jobs and not left:
                continue
            for row in rows_of(clip, left, folder / "trials.jsonl", judge, low_delay):
                values = {
                    n: f"{v:.5g}" if isinstance(v, float) else v for n, v in asdict(row).items()
                }
                table.writerow(values)
                file.flush()


def _jobs(presets: Sequence[str], *, trials: bool, all_ways: bool, lean: bool) -> list[Job]:
    if trials:
        return []
    if lean:
        return [(preset + LEAN, _SHARES[0], Way()) for preset in presets]
    if all_ways:
        return [(DEFAULT_PRESET, _SHARES[0], way) for way in WAYS.values()]
    return [(preset, share, Way()) for preset in presets for share in _SHARES]


def _key(row: EncodingRow) -> tuple[str, str, str, float, float]:
    return row.clip, row.preset, row.way, row.share, row.frames


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clips", nargs="+", metavar="CLIP")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--frames", type=int, default=49, metavar="N", help="of each clip")
    size = "288 or 480 lines, or native (%(default)s)"
    parser.add_argument("--size", default="288", metavar="SIZE", help=size)
    parser.add_argument("--ways", action="store_true", help="every way to decode, preset medium")
    parser.add_argument("--lean", action="store_true", help="encodings that hold less memory")
    parser.add_argument("--trials", action="store_true", help="trials alone")
    parser.add_argument("--live", action="store_true", help="trials alone, without look-ahead")
    several = "repeat for several (all)"
    parser.add_argument("--preset", action="append", choices=tuple(PRESETS), help=several)
    parser.add_argument("--no-cvvdp", dest="cvvdp", action="store_false", help="ST-LPIPS alone")
    options = parser.parse_args()
    judge = jod if options.cvvdp else None
    presets = options.preset or tuple(PRESETS)
    is_trial, out = options.trials or options.live, options.out
    jobs = _jobs(presets, trials=is_trial, all_ways=options.ways, lean=options.lean)
    try:
        low_delay = options.live
        measure(options.clips, out, options.frames, judge, jobs, options.size, low_delay=low_delay)
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
