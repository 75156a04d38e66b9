"""What a setting of the encoder saves: `python tools/compare_settings.py gop=4+16+0 CLIP...`.

Each clip, a packaged name or a file, is encoded whole (30 s at most) at 288 lines and each level,
with each value of the setting. Prints bytes, milliseconds of processor time a frame, CVVDP of all
frames and ST-LPIPS VGG of one in thirteen, steps 0; then the BD-rates of each value against the
first, by clip, and their means.
"""

import argparse
import time
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import gsvc
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.datasets.clips.packaged import CLIPS, packaged_clip
from gsvc.decoders.training.adoption import refined
from gsvc.eval.baselines.gsvc import coded
from gsvc.eval.metrics import find_metric
from gsvc.eval.summary.bd_rate import bd_rate, lower_hull
from gsvc.eval.summary.curves import distance

METRICS = {"cvvdp": 1, "st_lpips_vgg": 13}
"""One frame in so many is scored."""
_LONGEST = 30
"""Seconds."""
Points = dict[tuple[str, Hashable], list[tuple[float, float]]]
"""Bytes and distance, by metric and way."""


def scores(clip: TestClip, shown: Sequence[gsvc.Picture]) -> dict[str, float]:
    """The decoded clip's value by each metric."""
    found = {}
    for name, stride in METRICS.items():
        values = find_metric(name).measure(clip, [shown], range(0, len(shown), stride))
        found[name] = float(np.nanmean(values))
    return found


def add(points: Points, way: Hashable, size: int, found: Mapping[str, float]) -> None:
    """Keep what a stream came to."""
    for name, value in found.items():
        point = size, distance(value, find_metric(name).higher_is_better)
        points.setdefault((name, way), []).append(point)


def bd_rates(points: Points, anchor: Hashable, way: Hashable) -> dict[str, float]:
    """BD-rate of a way against another by each metric, in %; NaN where their curves do not meet."""
    found = {}
    for name in METRICS:
        rate = bd_rate(*(lower_hull(points[name, one]) for one in (anchor, way))).pchip
        found[name] = np.nan if rate is None else rate
    return found


def _clip(name: str) -> TestClip:
    pictures, rate = load_clip(packaged_clip(name) if name in CLIPS else Path(name), None)
    return TestClip(Path(name).stem, pictures[: round(_LONGEST * rate)], rate)


def _points(clip: TestClip, setting: str, values: Sequence[float], levels: Sequence[int]) -> Points:
    """The points of one clip, each of them printed."""
    points: Points = {}
    form = clip.format
    video = gsvc.VideoFormat(form.width, form.height, 1 / clip.frame_rate, clip.frame_rate)
    for level, value in product(levels, values):
        began = time.process_time()
        given: dict[str, Any] = {"level": level, setting: value}
        data = coded(clip.frames, video, gsvc.EncoderSettings(**given))
        each = (time.process_time() - began) * 1000 / form.frame_count
        found = scores(clip, refined(None, 0)(data))
        print(
            f"{clip.name} level {level} {setting}={value:g}: {len(data)} bytes, {each:.0f} ms",
            *(f"{name} {score:.4f}" for name, score in found.items()),
            flush=True,
        )
        add(points, value, len(data), found)
    return points


def main() -> None:
    """Encode all, print a line a stream, then what the values bring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("setting", metavar="NAME=VALUE+VALUE...")
    parser.add_argument("clips", metavar="CLIP", nargs="+")
    parser.add_argument("--levels", default="0,1,2")
    chosen = parser.parse_args()
    setting, _, texts = chosen.setting.partition("=")
    values = [float(text) for text in texts.split("+")]
    levels = [int(level) for level in chosen.levels.split(",")]
    rates: dict[tuple[float, str], list[float]] = {}
    for name in chosen.clips:
        clip = _clip(name)
        points = _points(clip, setting, values, levels)
        for value in values[1:]:
            found = bd_rates(points, values[0], value)
            print(clip.name, f"{setting}={value:g}", found, flush=True)
            for metric, rate in found.items():
                rates.setdefault((value, metric), []).append(rate)
    for (value, metric), each in rates.items():
        print(f"{setting}={value:g}, {metric}: mean {np.nanmean(each):.1f} %")


if __name__ == "__main__":
    main()
