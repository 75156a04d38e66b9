"""Fits the planner's numbers: `python -m gsvc.eval.planning.fit SUMMARY.csv ... [--log FILE]`.

Quality is a line in what the trial sees; ways to decode and presets add a constant each. An
interval holds 90 % of the errors on clips that were left out of the fit. Spreads of rate, time and
memory are those of logs of predictions (`gsvc bench plan`), relative to what was foretold without
them.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import GsvcError
from gsvc.codec.planning import model as planning_model
from gsvc.codec.planning.learning import learned
from gsvc.codec.planning.ledger import ratios
from gsvc.codec.planning.trial import Trial
from gsvc.codec.planning.ways import WAYS, Way
from gsvc.decoders.refiners.registry import find_backend
from gsvc.encoders.tuning import DEFAULT_PRESET, PRESETS
from gsvc.eval.compute import count_flops
from gsvc.eval.planning.rows import Row, as_text, read_rows, trial_of

TARGET = Path(planning_model.__file__).with_name("fitted.json")
QUALITIES = {"jod": ("offset", "slope"), "texture": ("offset", "slope", "rate")}
_SIZE = 288, 512
"""Pictures for which operations are counted: sides are padded a little."""
_SPREAD = {
    "rate": (0.95, 1.0, 1.05),
    "encode_seconds": (0.5, 1.0, 2.0),
    "decode_seconds": (0.5, 1.0, 2.0),
    "encode_memory": (0.78, 0.88, 1.06),  # of the same six clips
    "decode_memory": (0.8, 1.0, 1.25),
}
"""Where no log tells: as wide as a guess must be."""
_TIMES = {"fast": 1.4, "medium": 3.5, "slow": 10.5}
"""Of encoding to a rate, as multiples of the trial's own: medians of six development clips
(`gsvc.eval.planning.jobs --cpu`); slow was not measured, but is three times medium as it was."""


def fit(
    rows: Sequence[Row],
    trials: Mapping[str, Trial],
    logs: Mapping[str, Sequence[float]],
    flops: Mapping[str, float],
) -> dict[str, Any]:
    """The numbers of `fitted.json`; `logs`: as of `ledger.ratios`, `flops`: of `counted`."""
    lines = {quality: fit_line(rows, trials, quality) for quality in QUALITIES}
    errors = {quality: left_out_errors(rows, trials, quality) for quality in QUALITIES}
    numbers = {
        **{
            quality: {**line, "error": float(np.quantile(np.abs(errors[quality]), 0.9))}
            for quality, line in lines.items()
        },
        "ways": {
            name: {quality: _of_way(rows, name, quality) for quality in QUALITIES}
            for name in WAYS
            if any(row.way == name for row in rows)
        },
        "presets": {
            name: {
                **{quality: _of_preset(rows, name, quality) for quality in QUALITIES},
                "time": _TIMES[name],
            }
            for name in PRESETS
        },
        "gain": _gain_of_rate(rows),
        "flops": dict(flops),
        "spread": _SPREAD,
    }
    return learned(numbers, logs)


def fit_line(rows: Sequence[Row], trials: Mapping[str, Trial], quality: str) -> dict[str, float]:
    """Least squares over the plain rows."""
    plain = [row for row in rows if row.is_plain]
    seen = np.array([features(trials[row.clip], row.bpp, quality) for row in plain])
    found = np.linalg.lstsq(seen, np.array([row.value(quality) for row in plain]))[0]
    return dict(zip(QUALITIES[quality], map(float, found), strict=True))


def left_out_errors(
    rows: Sequence[Row], trials: Mapping[str, Trial], quality: str
) -> NDArray[np.float64]:
    """Of all plain rows, each foretold from the other clips: predicted less measured."""
    errors = []
    for clip in dict.fromkeys(row.clip for row in rows):
        line = fit_line([row for row in rows if row.clip != clip], trials, quality)
        for row in rows:
            if row.clip == clip and row.is_plain:
                seen = features(trials[clip], row.bpp, quality)
                errors.append(float(np.dot(seen, list(line.values()))) - row.value(quality))
    return np.array(errors)


def features(trial: Trial, bpp: float, quality: str) -> list[float]:
    """What a quality is linear in: 1, likeness at a rate; for texture the logarithm of the rate."""
    logs = np.log([point.bpp for point in trial.points])
    likeness = np.maximum.accumulate([point.likeness for point in trial.points])
    seen = [1.0, float(np.interp(np.log(bpp), logs, likeness)), float(np.log(bpp))]
    return seen[: len(QUALITIES[quality])]


def _of_way(rows: Sequence[Row], way: str, quality: str) -> float:
    """What a way adds to plain decoding of the same streams, on average."""
    plain = {(r.clip, r.bpp, r.preset): r for r in rows if r.way == Way().name}
    pairs = [(row, plain.get((row.clip, row.bpp, row.preset))) for row in rows if row.way == way]
    return fmean([a.value(quality) - b.value(quality) for a, b in pairs if b] or [0.0])


def _of_preset(rows: Sequence[Row], preset: str, quality: str) -> float:
    """What a preset adds at the same rate, on average over clips and rates."""
    changes = []
    for row in rows:
        if row.preset != preset or row.way != Way().name or preset == DEFAULT_PRESET:
            continue
        usual = sorted((r.bpp, r.value(quality)) for r in rows if r.is_plain and r.clip == row.clip)
        at = np.interp(np.log(row.bpp), np.log([bpp for bpp, _ in usual]), [v for _, v in usual])
        changes.append(row.value(quality) - float(at))
    return fmean(changes or [0.0])


def counted() -> dict[str, float]:
    """Operations per pixel of a key picture by refiner, and of a frame drawn by RIFE."""
    from gsvc.eval.codecs.rife_cost import drawing_cost

    found = {}
    for name in dict.fromkeys(way.backend for way in WAYS.values() if way.backend):
        cost = find_backend(name).cost(*_SIZE)
        assert cost is not None
        once = count_flops(cost.once).count if cost.once else 0
        found[name] = (count_flops(cost.step).count + once) / (_SIZE[0] * _SIZE[1])
    return {**found, "rife": drawing_cost(*_SIZE, 1, 1).flops_per_pixel or 0.0}


def _gain_of_rate(rows: Sequence[Row]) -> dict[str, float]:
    """What restoring gains at a rate, in proportion to its mean: a line in the rate's logarithm."""
    plain = {(r.clip, r.bpp, r.preset): r for r in rows if r.way == Way().name}
    pairs = [(row, plain.get((row.clip, row.bpp, row.preset))) for row in rows]
    seen = [
        (np.log(row.bpp), other.value("texture") - row.value("texture"))
        for row, other in pairs
        if other and WAYS[row.way].backend and WAYS[row.way].motion == Way().motion
    ]
    if not seen:
        return {"at": 0.0, "slope": 0.0}
    logs, gains = np.array(seen).T
    slope = float(np.polyfit(logs - logs.mean(), gains / gains.mean(), 1)[0])
    return {"at": float(logs.mean()), "slope": slope}


def main() -> int:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("summaries", nargs="+", type=Path, metavar="SUMMARY.csv")
    parser.add_argument("--log", action="append", type=Path, default=[], metavar="FILE")
    options = parser.parse_args()
    try:
        rows, logs = read_rows(options.summaries), ratios(options.log)
        trials = {clip: trial_of(clip) for clip in dict.fromkeys(row.clip for row in rows)}
        TARGET.write_text(as_text(fit(rows, trials, logs, counted())) + "\n")
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
