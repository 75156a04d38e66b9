"""Noise of the search: `python tools/search_starts.py [CLIP...]`, packaged names or files.

The first 97 frames of each, at 288 lines, are encoded at levels 0 to 3 from several first plans:
what the search proposes, and plans drawn from the tenth that it expects to cost least. Prints
bytes, CVVDP, and ST-LPIPS VGG of one frame in thirteen, steps 0; then the BD-rates of each start
against the first, by clip, and their means and deviations.
"""

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np

import gsvc
from compare_settings import Points, add, bd_rates, scores
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.datasets.clips.packaged import packaged_clip
from gsvc.decoders.training.adoption import refined
from gsvc.encoders.plans import GroupPlan, Probe
from gsvc.encoders.search.group_search import GroupSearch
from gsvc.eval.baselines.gsvc import coded

CLIPS = "carphone", "bikes", "bigbuckbunny", "city", "vtest"
_LEVELS, _STARTS, _SHARE = (0, 1, 2, 3), 3, 0.1


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


def encoded(clip: TestClip, level: int, start: int) -> bytes:
    """The stream of a search that began there."""
    form = clip.format
    video = gsvc.VideoFormat(form.width, form.height, 1 / clip.frame_rate, clip.frame_rate)
    with patch("gsvc.encoders.coding.lookahead.GroupSearch", begun_at(start)):
        return coded(clip.frames, video, gsvc.EncoderSettings(level=level))


def main(names: Sequence[str]) -> None:
    """Print a line a stream, then what the starts differ by."""
    rates: dict[str, list[float]] = {}
    for name in names or CLIPS:
        pictures, rate = load_clip(packaged_clip(name) if name in CLIPS else Path(name))
        clip = TestClip(Path(name).stem, pictures, rate)
        points: Points = {}
        for level, start in product(_LEVELS, range(_STARTS)):
            data = encoded(clip, level, start)
            found = scores(clip, refined(None, 0)(data))
            print(clip.name, level, start, len(data), found, flush=True)
            add(points, start, len(data), found)
        for start in range(1, _STARTS):
            for metric, each in bd_rates(points, 0, start).items():
                print(clip.name, metric, start, each, flush=True)
                rates.setdefault(metric, []).append(each)
    for metric, all_of in rates.items():
        print(f"{metric}: mean {np.nanmean(all_of):.1f} %, deviation {np.nanstd(all_of):.1f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
