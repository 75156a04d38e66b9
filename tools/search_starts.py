"""Noise of the search: `python tools/search_starts.py [CLIP...]`, packaged names or files.

The first 97 frames of each, at 288 lines, are encoded at levels 0 to 3 from several first plans:
what the search proposes, and plans drawn from the tenth that it expects to cost least. Prints
bytes, CVVDP and ST-LPIPS VGG of one frame in thirteen, steps 0; then the BD-rates of each start
against the first, by clip, and their means and deviations.
"""

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np

import gsvc
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.datasets.clips.packaged import packaged_clip
from gsvc.decoders.training.adoption import refined
from gsvc.encoders.plans import GroupPlan, Probe
from gsvc.encoders.search.group_search import GroupSearch
from gsvc.eval.baselines.gsvc import coded
from gsvc.eval.metrics import find_metric
from gsvc.eval.summary.bd_rate import bd_rate, lower_hull
from gsvc.eval.summary.curves import distance

CLIPS = "carphone", "bikes", "bigbuckbunny", "city", "vtest"
_LEVELS, _STARTS, _SHARE, _STRIDE = (0, 1, 2, 3), 3, 0.1, 13
_METRICS = "cvvdp", "st_lpips_vgg"


def begun_at(number: int) -> type[GroupSearch]:
    """A search whose first probe in a scene is of another plan; number 0: the usual one."""
    rng = np.random.default_rng(number)

    class Begun(GroupSearch):
        def search_at_lambda(self, lmbda: float, start: GroupPlan | None, probes: int) -> Probe:
            if start is None and number:
                bits, distortion = self._predict(self._grid)
                order = np.argsort(distortion + lmbda * bits)
                start = self._grid[order[rng.integers(1, max(2, int(_SHARE * len(order))))]]
            return super().search_at_lambda(lmbda, start, probes)

    return Begun


def scored(clip: TestClip, level: int, start: int) -> tuple[int, list[float]]:
    """Bytes of the stream, and its distance by each metric."""
    form = clip.format
    video = gsvc.VideoFormat(form.width, form.height, 1 / clip.frame_rate, clip.frame_rate)
    with patch("gsvc.encoders.coding.lookahead.GroupSearch", begun_at(start)):
        data = coded(clip.frames, video, gsvc.EncoderSettings(level=level))
    frames, found = refined(None, 0)(data), []
    for metric in map(find_metric, _METRICS):
        seen = range(0, len(frames), _STRIDE)
        value = float(np.nanmean(metric.measure(clip, [frames], seen)))
        found.append(distance(value, metric.higher_is_better))
    return len(data), found


def main(names: Sequence[str]) -> None:
    """Print a line a stream, then what the starts differ by."""
    rates: list[list[float]] = [[] for _ in _METRICS]
    for name in names or CLIPS:
        pictures, rate = load_clip(packaged_clip(name) if name in CLIPS else Path(name))
        clip = TestClip(Path(name).stem, pictures, rate)
        points: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for level, start in product(_LEVELS, range(_STARTS)):
            size, distances = scored(clip, level, start)
            print(clip.name, level, start, size, *(f"{one:.4f}" for one in distances), flush=True)
            for number, one in enumerate(distances):
                points.setdefault((number, start), []).append((size, one))
        for (number, metric), start in product(enumerate(_METRICS), range(1, _STARTS)):
            hulls = (lower_hull(points[number, one]) for one in (0, start))
            found = bd_rate(*hulls).pchip
            print(clip.name, metric, start, found, flush=True)
            rates[number].append(np.nan if found is None else found)
    for metric, each in zip(_METRICS, rates, strict=True):
        print(f"{metric}: mean {np.nanmean(each):.1f} %, deviation {np.nanstd(each):.1f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
