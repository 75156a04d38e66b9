"""Classes of video: what trials of such videos came to, where there is none to try.

Means over development clips of 288 lines (`classes.json`, made by
`python -m gsvc.eval.planning.class_trials`). How far the clips of a class lie apart widens what is
foretold of quality.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gsvc.codec.planning.kinds import Kind
from gsvc.codec.planning.profile import Profile
from gsvc.codec.planning.trial import Point, Trial


def trial_of(kind: Kind, profile: Profile) -> Trial:
    """What a trial of such a video would come to, on the machine of `profile`.

    Bits per pixel are those of the class's clips, whatever the size.
    """
    told = _measured()[kind.name]
    unit = profile.encode["fast"].frame
    points = [Point(**{**one, "seconds": one["seconds"] * unit}) for one in told["points"]]
    return Trial(
        width=kind.width,
        height=kind.height,
        rate=kind.rate,
        frames=round(kind.rate * kind.seconds),
        points=tuple(points),
        motion=told["motion"],
        detail=told["detail"],
        cuts=0,
        jod_apart=told["jod_apart"],
        likeness_apart=told["likeness_apart"],
    )


def clips_of(kind: Kind) -> int:
    """How many clips its class was measured on."""
    return int(_measured()[kind.name]["clips"])


@cache
def _measured() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(
        files("gsvc.codec.planning").joinpath("classes.json").read_text()
    )
    return found
