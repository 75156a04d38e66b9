"""Planners for videos on this machine: its profile, what its earlier jobs taught, and a trial."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gsvc.codec.errors import ConfigError
from gsvc.codec.planning.budgets import Budgets
from gsvc.codec.planning.classes import trial_of
from gsvc.codec.planning.kinds import Kind
from gsvc.codec.planning.learning import learned
from gsvc.codec.planning.ledger import log_path, ratios
from gsvc.codec.planning.model import LONG_LATENCY, Model, Settings, shipped
from gsvc.codec.planning.profile import Profile, load_profile
from gsvc.codec.planning.search import Planner
from gsvc.codec.planning.trial import Judge, try_video
from gsvc.codec.planning.ways import Way
from gsvc.encoders.tuning import DEFAULT_PRESET, PRESETS


def own_numbers() -> Mapping[str, Any]:
    """The numbers that gsvc ships, corrected by this machine's log of predictions.

    Raises ConfigError for a damaged log.
    """
    path = log_path()
    return learned(shipped(), ratios([path])) if path.exists() else shipped()


def planner_for(
    source: str | Kind,
    budgets: Budgets,
    *,
    receiver: Profile | None = None,
    watts: float | None = None,
    joules_per_bit: float = 0.0,
    judge: Judge | None = None,
) -> Planner:
    """The planner of a video file, which is tried: some seconds; or of a class of video.

    Where memory is too short for any preset's look-ahead, the encoder does without.

    `receiver`, `watts`: as of `Model`; `joules_per_bit`: as of `Planner`; `judge`: as of
    `try_pictures`. Raises MissingModelError without a profile of this machine, ConfigError for a
    class within a short latency, and as of `try_video`.
    """
    profile, fitted = load_profile(), own_numbers()
    short = budgets.latency is not None and budgets.latency < LONG_LATENCY
    if isinstance(source, Kind):
        if short:
            raise ConfigError("classes were measured with look-ahead: for --latency give a video")
        trial = trial_of(source, profile)
    else:
        trial = try_video(source, low_delay=short, judge=judge)
    model = Model(trial, profile, receiver, watts=watts, fitted=fitted)
    if isinstance(source, str) and not short and _is_beyond(model, budgets.memory):
        trial = try_video(source, low_delay=True, judge=judge)
        model = Model(trial, profile, receiver, watts=watts, fitted=fitted)
    return Planner(model, joules_per_bit)


def _is_beyond(model: Model, memory: float | None) -> bool:
    """Whether no preset's look-ahead fits into the memory."""
    if memory is None:
        return False
    plain = Settings(model.rates[0], DEFAULT_PRESET, False, Way(), lean=True)
    needs = (model.predict(replace(plain, preset=name)).encode_memory.high for name in PRESETS)
    return min(needs) > memory
