"""Planners for videos on this machine: its profile, what its earlier jobs taught, and a trial."""

from collections.abc import Mapping
from typing import Any

from gsvc.codec.planning.budgets import Budgets
from gsvc.codec.planning.learning import learned
from gsvc.codec.planning.ledger import log_path, ratios
from gsvc.codec.planning.model import LONG_LATENCY, Model, shipped
from gsvc.codec.planning.profile import Profile, load_profile
from gsvc.codec.planning.search import Planner
from gsvc.codec.planning.trial import Judge, try_video


def own_numbers() -> Mapping[str, Any]:
    """The numbers that gsvc ships, corrected by this machine's log of predictions.

    Raises ConfigError for a damaged log.
    """
    path = log_path()
    return learned(shipped(), ratios([path])) if path.exists() else shipped()


def planner_for(
    source: str,
    budgets: Budgets,
    *,
    receiver: Profile | None = None,
    watts: float | None = None,
    joules_per_bit: float = 0.0,
    judge: Judge | None = None,
) -> Planner:
    """The planner of a video file, which is tried: some seconds.

    `receiver`, `watts`: as of `Model`; `joules_per_bit`: as of `Planner`; `judge`: as of
    `try_pictures`. Raises MissingModelError without a profile of this machine, and as of
    `try_video`.
    """
    profile, fitted = load_profile(), own_numbers()
    short = budgets.latency is not None and budgets.latency < LONG_LATENCY
    trial = try_video(source, low_delay=short, judge=judge)
    return Planner(Model(trial, profile, receiver, watts=watts, fitted=fitted), joules_per_bit)
