"""Is the planner right? Random budgets on packaged clips, of which nothing is in its numbers.

Each plan is carried out and compared with what was foretold. Points of benchmark runs tell the
regret: how much better the best measured point within the same budgets was.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from math import exp, log
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from gsvc.codec.api.inspection import info
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Frame, Picture, VideoFormat
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.media.video_writer import open_writer
from gsvc.codec.planning import prediction, process
from gsvc.codec.planning.budgets import Budgets, Time
from gsvc.codec.planning.machine_profile import WAYS, Profile
from gsvc.codec.planning.plan_search import BudgetPlan, BudgetPlanner, encoder_settings
from gsvc.codec.planning.video_trial import VideoTrial, try_pictures, try_video
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.datasets.clips.packaged import packaged_clip
from gsvc.eval import layout, metrics
from gsvc.eval.baselines.conventional import BT709
from gsvc.eval.metrics.cvvdp import jod
from gsvc.eval.planning.surface import COLUMNS, MeasuredPoint, measured_points, way_told


def written(clip: TestClip, folder: Path) -> tuple[Path, list[Picture]]:
    """The clip as y4m in a folder; and what reads back from there, RGB uint8 (H, W, 3)."""
    path, form, rate = folder / "source.y4m", clip.format, clip.frame_rate
    with open_writer(path, VideoFormat(form.width, form.height, 1 / rate, rate)) as writer:
        for index, picture in enumerate(clip.frames):
            writer.write(Frame(picture, index))
    with open_video(path) as video:
        return path, [frame.pixels for frame in video]


def read_rows(paths: Sequence[Path]) -> list[MeasuredPoint]:
    """gsvc's points of several `summary.csv`, each once, by names of ways. As `measured_points`."""
    found: dict[tuple[str, float, str, str], MeasuredPoint] = {}
    for point in (point for path in paths for point in measured_points(path)):
        if way := way_told(point.way):
            found[point.clip, point.bpp, point.preset, way] = replace(point, way=way)
    return list(found.values())


def trial_of(name: str) -> VideoTrial:
    """The trial of a packaged clip as runs code it: 97 frames of 288 lines."""
    pictures, rate = load_clip(packaged_clip(name))
    height, width = pictures[0].shape[:2]
    video = VideoFormat(width, height, 1 / rate, rate, color=BT709)
    return try_pictures(pictures, video, judge=jod)


_STRIDE = {"cvvdp": 1, "st_lpips_vgg": 7}
"""Frames from one that is scored to the next, as in the benchmark."""


def random_budgets(rng: np.random.Generator, planner: BudgetPlanner) -> Budgets:
    """Budgets of all kinds, some tight; decoding is always bounded, or it would take hours."""
    low, high = planner.model.rates
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
        numbers = prediction.learned(
            prediction.shipped(), prediction.ratios(self._logs, without=clip)
        )
        with tempfile.TemporaryDirectory() as name:
            shown, rate = load_clip(packaged_clip(clip), self._frames)
            source, pictures = written(TestClip(clip, shown, rate), Path(name))
            clock = process_time if self._cpu else perf_counter
            trial = try_video(str(source), judge=jod, clock=clock)
            model = prediction.Predictor(trial, self._profile, fitted=numbers)
            plain = model.uncorrected
            for seed in seeds:
                rng = np.random.default_rng(seed)
                judge = "texture" if rng.random() < 0.5 else "jod"
                budgets = random_budgets(rng, planner := BudgetPlanner(model))
                try:
                    plan = planner.plan(budgets, judge)
                except ConfigError as error:
                    yield {"clip": clip, "seed": seed, "refused": str(error)}
                    continue
                truth = self._truth(plan, plain, source, TestClip(clip, pictures, rate))
                prediction.note(f"{clip} {seed}", truth, log)
                yield {"clip": clip, "seed": seed, **_told(plan, planner, budgets, truth)}

    def _truth(
        self, plan: BudgetPlan, plain: prediction.Predictor, source: Path, clip: TestClip
    ) -> dict[str, prediction.Truth]:
        settings, folder = plan.best.settings, source.parent
        asked = asdict(encoder_settings(settings)) | {"tools": None}
        del asked["model_id"]  # bytes, which are no JSON
        encoded = process.timed(asked, folder, [str(source)], cpu=self._cpu)
        stream = folder / "out.gsv"
        decoded = process.timed(asdict(settings.way.settings), folder, [str(stream)], cpu=self._cpu)
        measured = {
            "rate": info(stream).bitrate,
            "encode_seconds": encoded.total,
            "decode_seconds": decoded.total,
            "encode_memory": encoded.files[0]["memory"],
            "decode_memory": decoded.files[0]["memory"],
            **_scores(settings, stream, clip),
        }
        seen, before = plan.best.prediction, plain.predict(settings)
        found = {}
        for name, value in measured.items():
            field = "bitrate" if name == "rate" else name
            foretold = getattr(seen, field), getattr(before, field).mean
            found[name] = prediction.Truth(*foretold, value)
        return found | {f"encode_seconds {settings.preset}": found["encode_seconds"]}


def _told(
    plan: BudgetPlan,
    planner: BudgetPlanner,
    budgets: Budgets,
    truth: Mapping[str, prediction.Truth],
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


def _scores(settings: prediction.PlanSettings, stream: Path, clip: TestClip) -> dict[str, float]:
    from gsvc.eval.baselines.gsvc import decoded

    shown = decoded(stream.read_bytes(), settings.way.settings)
    found = {}
    for name, metric in COLUMNS.items():
        indices = list(range(0, len(shown), _STRIDE[metric]))
        found[name] = float(np.nanmean(metrics.find_metric(metric).measure(clip, [shown], indices)))
    return found


GOALS = {
    "rate": ("%", 8.0),
    "jod": ("JOD", 0.25),
    "texture": ("%", None),
    "encode_seconds": ("%", 15.0),
    "decode_seconds": ("%", 15.0),
    "encode_memory": ("%", 10.0),
    "decode_memory": ("%", 10.0),
}
"""Unit and goal of each median error."""
_BUDGETS_A_CLIP = 8


def error_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Median errors of what was carried out, and how often the interval held."""
    done = [one for one in results if "numbers" in one]
    rows = []
    for name, (unit, goal) in GOALS.items():
        pairs = [
            (one["numbers"][name]["predicted"], one["numbers"][name]["measured"]) for one in done
        ]
        errors = [abs(m - p[1]) if unit == "JOD" else 100 * abs(p[1] / m - 1) for p, m in pairs]
        held = np.mean([p[0] <= m <= p[2] for p, m in pairs])
        shown = f"{np.median(errors):.2f} {unit}", "–" if goal is None else f"{goal:g} {unit}"
        rows.append([name.replace("_", " "), *shown, f"{np.quantile(errors, 0.9):.2f} {unit}",
                     f"{100 * held:.0f} %"])  # fmt: skip
    header = ["", "median error", "goal", "nine in ten within", "interval held"]
    return layout.markdown(header, rows)


def kept_line(results: Sequence[Mapping[str, Any]]) -> str:
    """How many budgets there were, and how many were kept."""
    done = [one for one in results if "numbers" in one]
    each = [(name, kept) for one in done for name, kept in one["kept"].items()]
    broken = [name for name, kept in each if not kept]
    counts = ", ".join(f"{name} {broken.count(name)}" for name in dict.fromkeys(broken))
    return (
        f"{len(results)} budgets: {len(results) - len(done)} refused as not to be met, {len(done)} "
        f"carried out; {len(each) - len(broken)} of {len(each)} constraints kept "
        f"({100 * (1 - len(broken) / max(1, len(each))):.0f} %; goal 95 %)"
        + (f"; broken: {counts}" if broken else "")
    )


def regrets(
    rows: Sequence[MeasuredPoint], trials: Mapping[str, VideoTrial], quality: str
) -> list[float]:
    """Over measured points: the best within budgets of rate and operations, less the planned.

    Eight random budgets a clip, planned with gsvc's numbers. In JOD, or as a share of ST-LPIPS.
    """
    found = []
    numbers = prediction.shipped()
    flops = numbers["flops"]
    for number, clip in enumerate(dict.fromkeys(row.clip for row in rows)):
        points = [row for row in rows if row.clip == clip and row.way in numbers["ways"]]
        rng = np.random.default_rng(number)
        for _ in range(_BUDGETS_A_CLIP):
            bits = rng.uniform(log(min(p.bpp for p in points)), log(max(p.bpp for p in points)))
            most = rng.choice([0.0, 3e4, 1e5, 2e6])
            able = [p for p in points if p.bpp <= exp(bits) and _flops(p, trials, flops) <= most]
            if not able:
                continue
            foretold = [_foretold(p, trials[clip], quality) for p in able]
            sign = 1 if quality == "jod" else -1
            chosen = able[int(np.argmax(sign * np.array(foretold)))]
            best = max(sign * _value(p, quality) for p in able)
            found.append(best - sign * _value(chosen, quality))
    return found


def _value(point: MeasuredPoint, quality: str) -> float:
    """JOD, or texture as a logarithm."""
    return point.jod if quality == "jod" else log(point.texture)


def _flops(
    row: MeasuredPoint, trials: Mapping[str, VideoTrial], counts: Mapping[str, float]
) -> float:
    way, keys = WAYS[row.way], prediction.seen_at(trials[row.clip], "keys", row.bpp)
    drawn = (1 - keys) * counts["rife"] if way.motion == "rife" else 0.0
    return drawn + (keys * counts[way.backend] if way.backend else 0.0)


def _foretold(row: MeasuredPoint, trial: VideoTrial, quality: str) -> float:
    seen = prediction.QualityModel(trial, prediction.shipped())
    if quality == "jod":
        return seen.jod(row.bpp, row.preset, WAYS[row.way]).mean
    return log(seen.texture(row.bpp, row.preset, WAYS[row.way]).mean)
