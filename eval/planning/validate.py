"""Is the planner right? Random budgets on packaged clips, of which nothing is in its numbers.

Each budget is planned with the numbers that gsvc ships (corrected by logs of the other clips'
jobs), carried out by real processes, measured, and written to a log of predictions.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from gsvc.codec.errors import ConfigError
from gsvc.codec.inspection import stream_info
from gsvc.codec.planning.budgets import Budgets, Time
from gsvc.codec.planning.commands import encoder_settings
from gsvc.codec.planning.learning import learned
from gsvc.codec.planning.ledger import Truth, note, ratios
from gsvc.codec.planning.model import Model, Settings, shipped
from gsvc.codec.planning.profile import Profile
from gsvc.codec.planning.quality import Range
from gsvc.codec.planning.search import Plan, Planner
from gsvc.codec.planning.timing import timed
from gsvc.codec.planning.trial import try_video
from gsvc.datasets.clip_reader import load_clip
from gsvc.datasets.clips import TestClip
from gsvc.datasets.packaged import packaged_clip
from gsvc.eval.metrics import find_metric
from gsvc.eval.planning.judge import jod
from gsvc.eval.planning.sources import written

_JUDGES = {"jod": "cvvdp", "texture": "st_lpips_vgg"}
_STRIDE = {"cvvdp": 1, "st_lpips_vgg": 7}
"""Frames from one that is scored to the next, as in the benchmark."""


def random_budgets(rng: np.random.Generator, planner: Planner) -> Budgets:
    """Budgets of all kinds, some tight; decoding is always bounded, or it would take hours."""
    low, high = planner.rates
    bandwidth = float(np.exp(rng.uniform(np.log(1.3 * low), np.log(high))))
    some = rng.random(2) < 0.6
    return Budgets(
        bandwidth=bandwidth,
        decoder_time=Time(float(np.exp(rng.uniform(0, np.log(15)))), True),
        encoder_time=Time(float(np.exp(rng.uniform(0.7, np.log(20)))), True) if some[0] else None,
        memory=float(np.exp(rng.uniform(np.log(4e8), np.log(3e9)))) if some[1] else None,
    )


class Validation:
    """Plans and carries out budgets, one clip after the other."""

    def __init__(
        self, profile: Profile, logs: Sequence[Path], frames: int, *, cpu: bool = False
    ) -> None:
        """`frames`: of each clip; `cpu`: seconds are the processor's, those of `profile` too."""
        self._profile, self._logs, self._frames, self._cpu = profile, logs, frames, cpu

    def run(self, clip: str, seeds: Sequence[int], log: Path) -> Iterator[dict[str, Any]]:
        """A budget for each seed; what came of it, as JSON values. Each adds to the log."""
        numbers = learned(shipped(), ratios(self._logs, without=clip))
        with tempfile.TemporaryDirectory() as name:
            shown, rate = load_clip(packaged_clip(clip), self._frames)
            source, pictures = written(TestClip(clip, shown, rate), Path(name))
            clock = process_time if self._cpu else perf_counter
            trial = try_video(str(source), judge=jod, clock=clock)
            model = Model(trial, self._profile, fitted=numbers)
            plain = model.uncorrected
            for seed in seeds:
                rng = np.random.default_rng(seed)
                judge = "texture" if rng.random() < 0.5 else "jod"
                budgets = random_budgets(rng, planner := Planner(model))
                try:
                    plan = planner.plan(budgets, judge)
                except ConfigError as error:
                    yield {"clip": clip, "seed": seed, "refused": str(error)}
                    continue
                truth = self._truth(plan, plain, source, TestClip(clip, pictures, rate))
                note(f"{clip} {seed}", truth, log)
                yield {"clip": clip, "seed": seed, **_told(plan, planner, budgets, truth)}

    def _truth(self, plan: Plan, plain: Model, source: Path, clip: TestClip) -> dict[str, Truth]:
        settings, folder = plan.best.settings, source.parent
        asked = asdict(encoder_settings(settings)) | {"tools": None}
        asked = {k: v for k, v in asked.items() if not isinstance(v, bytes)}
        encoded = timed(asked, folder, [str(source)], cpu=self._cpu)
        stream = folder / "out.gsv"
        decoded = timed(asdict(settings.way.settings), folder, [str(stream)], cpu=self._cpu)
        measured = {
            "rate": stream_info(stream).bitrate,
            "encode_seconds": encoded.total,
            "decode_seconds": decoded.total,
            "encode_memory": encoded.files[0]["memory"],
            "decode_memory": decoded.files[0]["memory"],
            **_scores(settings, stream, clip),
        }
        return _beside(plan, plain, measured)


def _beside(plan: Plan, plain: Model, measured: Mapping[str, float]) -> dict[str, Truth]:
    """What was measured, beside what was foretold."""
    settings = plan.best.settings
    seen, before = plan.best.prediction, plain.predict(settings)

    def one(name: str, field: str) -> Truth:
        predicted: Range = getattr(seen, field)
        return Truth(predicted, getattr(before, field).mean, measured[name])

    names = {name: "bitrate" if name == "rate" else name for name in measured}
    found = {name: one(name, field) for name, field in names.items()}
    preset = f"encode_seconds {settings.preset}"
    return found | {preset: found["encode_seconds"]}


def _told(
    plan: Plan, planner: Planner, budgets: Budgets, truth: Mapping[str, Truth]
) -> dict[str, Any]:
    settings = plan.best.settings
    return {
        "judge": plan.judge,
        "budgets": {n: str(getattr(budgets, n)) for n in budgets.given},
        "bitrate": settings.bitrate,
        "preset": settings.preset,
        "way": settings.way.name,
        "kept": planner.kept(budgets, {name: one.measured for name, one in truth.items()}),
        "numbers": {name: asdict(one) for name, one in truth.items()},
    }


def _scores(settings: Settings, stream: Path, clip: TestClip) -> dict[str, float]:
    from gsvc.eval.codecs.ours import decoded

    shown = decoded(stream.read_bytes(), settings.way.settings)
    found = {}
    for name, metric in _JUDGES.items():
        indices = list(range(0, len(shown), _STRIDE[metric]))
        found[name] = float(np.nanmean(find_metric(metric).measure(clip, [shown], indices)))
    return found
