"""What validations came to: errors, budgets kept, and the regret over measured points."""

from collections.abc import Mapping, Sequence
from math import exp, log
from typing import Any

import numpy as np

from gsvc.codec.planning.model import shipped
from gsvc.codec.planning.quality import Quality, seen_at
from gsvc.codec.planning.trial import Trial
from gsvc.codec.planning.ways import WAYS
from gsvc.eval.layout import markdown
from gsvc.eval.planning.rows import Row

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
    return markdown(header, rows)


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


def regrets(rows: Sequence[Row], trials: Mapping[str, Trial], quality: str) -> list[float]:
    """Over measured points: the best within budgets of rate and operations, less the planned.

    Eight random budgets a clip, planned with the numbers that gsvc ships. In JOD, or as a share of
    ST-LPIPS.
    """
    found = []
    numbers = shipped()
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
            best = max(sign * p.value(quality) for p in able)
            found.append(best - sign * chosen.value(quality))
    return found


def _flops(row: Row, trials: Mapping[str, Trial], counts: Mapping[str, float]) -> float:
    """Operations per pixel of a frame."""
    way, keys = WAYS[row.way], seen_at(trials[row.clip], "keys", row.bpp)
    drawn = (1 - keys) * counts["rife"] if way.motion == "rife" else 0.0
    return drawn + (keys * counts[way.backend] if way.backend else 0.0)


def _foretold(row: Row, trial: Trial, quality: str) -> float:
    seen = Quality(trial, shipped())
    if quality == "jod":
        return seen.jod(row.bpp, row.preset, WAYS[row.way]).mean
    return log(seen.texture(row.bpp, row.preset, WAYS[row.way]).mean)
