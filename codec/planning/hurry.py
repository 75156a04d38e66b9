"""Decoding in a hurry: which refiner a deadline leaves time for, and the pace that keeps it."""

from collections.abc import Mapping
from typing import Any

from gsvc.codec.errors import ConfigError
from gsvc.codec.planning.deadline import Costs, DeadlinePace, restored_worth
from gsvc.codec.planning.profile import Profile
from gsvc.codec.planning.spending import gain_of, groups_of, picture_costs
from gsvc.codec.planning.ways import WAYS, Way
from gsvc.codec.stream.info import StreamInfo


def hurried(
    info: StreamInfo,
    profile: Profile,
    fitted: Mapping[str, Any],
    seconds: float,
    passed: float = 0.0,
) -> tuple[Way, DeadlinePace]:
    """The way to decode, and its pace, within `seconds`, of which `passed` are over.

    The refiner is the one that gains most texture in the time that plain decoding leaves, by the
    machine's profile. Raises ConfigError where plain decoding alone takes longer.
    """
    plain, groups = profile.decode[Way().name], groups_of(info, fitted)
    frame, _ = picture_costs(info, plain)
    least = plain.start + info.frames * frame
    if least > seconds:
        raise ConfigError(
            f"a deadline of {seconds:.3g} s cannot be met: plain decoding alone takes about "
            f"{least:.3g} s here, so give {1.2 * least:.3g}s or more"
        )
    gains = {Way(): 0.0}
    for name, usage in profile.decode.items():
        way = WAYS.get(name, Way())
        if way.backend and way.motion == Way().motion:
            able = restored_worth(
                groups,
                picture_costs(info, usage)[1],
                _spare(seconds, least, usage.start - plain.start),
            )
            gains[way] = gain_of(way, fitted) * able
    best = max(gains, key=lambda way: gains[way])
    usage = profile.decode[best.name]
    costs = Costs(frame, picture_costs(info, usage)[1])
    left = seconds - max(passed, 0.0) - (usage.start - plain.start)
    return best, DeadlinePace(groups, costs, left)


def _spare(seconds: float, least: float, loading: float) -> float:
    return max(0.0, 0.9 * (seconds - least) - loading)
