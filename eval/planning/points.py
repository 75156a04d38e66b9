"""What the planner's numbers are fitted to: encodings of development clips, measured.

`python -m gsvc.eval.planning.points CLIP ... --out FOLDER`: 97 frames of 288 lines of each clip are
tried as a plan tries them (trials.jsonl), then encoded to two rates within what the trial saw with
presets fast and medium, and to the lower one with slow; decoded plainly, or in every way with
--ways; and judged by CVVDP and ST-LPIPS VGG (points.csv). Seconds are the processor's. What is in
the folder is not done again.
"""

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.errors import ConfigError, GsvcError
from gsvc.codec.frames import VideoFormat
from gsvc.codec.planning.quality import seen_at
from gsvc.codec.planning.trial import Trial, try_pictures
from gsvc.codec.planning.ways import WAYS, Way
from gsvc.datasets.clips import TestClip
from gsvc.datasets.sets import find_clips
from gsvc.encoders.tuning import DEFAULT_PRESET
from gsvc.eval.codecs.conventional import BT709
from gsvc.eval.codecs.ours import coded, decoded
from gsvc.eval.metrics import find_metric
from gsvc.eval.planning.judge import jod

_SHARES = 0.25, 0.75
"""Of the way from the trial's least rate to its most, in the logarithm: between what it saw."""
_EVERY = 7
"""One frame in so many is judged by ST-LPIPS, as in the benchmark."""


@dataclass(frozen=True)
class Row:
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
    seconds: float
    """Of the processor, encoding, per pixel of a frame."""
    trial_jod: float
    """What the trial says at this rate: its CVVDP..."""
    trial_likeness: float
    """...the likeness (`trial.Point`)..."""
    trial_seconds: float
    """...and its seconds."""

    @property
    def is_plain(self) -> bool:
        """Whether it is decoded plainly."""
        return self.way == Way().name


def rows_of(
    clip: TestClip, done: set[tuple[str, str, str, float]], trials: Path, *, all_ways: bool
) -> Iterator[Row]:
    """Measure what of a clip is not done; `done`: clip, preset, way and share of rows."""
    ways = list(WAYS.values()) if all_ways else [Way()]
    jobs = [(DEFAULT_PRESET, share, way) for share in _SHARES for way in ways]
    if not all_ways:
        jobs += [("fast", share, Way()) for share in _SHARES] + [("slow", _SHARES[0], Way())]
    left = [job for job in jobs if (clip.name, job[0], job[2].name, job[1]) not in done]
    if not left:
        return
    trial = tried(clip)
    with trials.open("a") as file:
        file.write(json.dumps({"clip": clip.name, **asdict(trial)}) + "\n")
    video = _format(clip)
    logs = np.log([trial.points[0].bpp, trial.points[-1].bpp])
    for preset, share in dict.fromkeys(job[:2] for job in left):
        asked = float(np.exp((1 - share) * logs[0] + share * logs[1]))
        began = process_time()
        data = coded(clip.frames, video, EncoderSettings(bpp=asked, preset=preset))
        seconds = process_time() - began
        for way in (job[2] for job in left if job[:2] == (preset, share)):
            yield _row(clip, trial, (preset, way, share), data, seconds)


def tried(clip: TestClip) -> Trial:
    """The trial of a clip, judged; seconds are the processor's."""
    return try_pictures(clip.frames, _format(clip), judge=jod, clock=process_time)


def _format(clip: TestClip) -> VideoFormat:
    form, rate = clip.format, clip.frame_rate
    return VideoFormat(form.width, form.height, 1 / rate, rate, color=BT709)


def _row(
    clip: TestClip, trial: Trial, job: tuple[str, Way, float], data: bytes, seconds: float
) -> Row:
    preset, way, share = job
    pixels = trial.pixels * len(clip.frames)
    shown, bpp = decoded(data, way.settings), 8 * len(data) / pixels
    indices = range(0, len(shown), _EVERY)
    return Row(
        clip=clip.name,
        preset=preset,
        way=way.name,
        share=share,
        bpp=bpp,
        jod=jod(clip.frames, shown, clip.frame_rate) or math.nan,
        texture=float(np.mean(find_metric("st_lpips_vgg").measure(clip, [shown], indices))),
        seconds=seconds / pixels,
        trial_jod=seen_at(trial, "jod", bpp),
        trial_likeness=seen_at(trial, "likeness", bpp),
        trial_seconds=seen_at(trial, "seconds", bpp),
    )


def read_points(path: Path) -> list[Row]:
    """The rows of a file. Raises ConfigError for one that is no such file."""
    try:
        with path.open(newline="") as file:
            return [_read(line) for line in csv.DictReader(file)]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} has no points of gsvc.eval.planning.points: {error}") from error


def _read(line: dict[str, str]) -> Row:
    values: dict[str, Any] = {
        one.name: line[one.name] if one.type is str else float(line[one.name] or "nan")
        for one in fields(Row)
    }
    return Row(**values)


def measure(names: Sequence[str], folder: Path, *, all_ways: bool) -> None:
    """Add what is missing to the folder. Raises GsvcError as of the clips."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "points.csv"
    done = {(r.clip, r.preset, r.way, r.share) for r in read_points(out)} if out.exists() else set()
    columns = [one.name for one in fields(Row)]
    with out.open("a", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
        if not done:
            table.writeheader()
        for source in find_clips(names):
            for row in rows_of(source.load(), done, folder / "trials.jsonl", all_ways=all_ways):
                values = {n: f"{v:.5g}" if isinstance(v, float) else v
                          for n, v in asdict(row).items()}  # fmt: skip
                table.writerow(values)
                file.flush()


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clips", nargs="+", metavar="CLIP")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--ways", action="store_true", help="every way to decode, preset medium")
    options = parser.parse_args()
    try:
        measure(options.clips, options.out, all_ways=options.ways)
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
