"""Learning: what earlier jobs took, beside what was foretold, moves what is foretold next."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ENOUGH = 3
"""Jobs from which a median is taken."""
_SHIPPED = 6
"""How many jobs the shipped interval counts for."""


def learned(fitted: Mapping[str, Any], ratios: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The numbers with times and intervals corrected by `ratios`, as of `ledger.ratios`."""
    presets = {
        name: {**one, "time": preset_time(name, ratios, one["time"])}
        for name, one in fitted["presets"].items()
    }
    spread = {name: _spread(name, ends, ratios, presets) for name, ends in fitted["spread"].items()}
    return {**fitted, "presets": presets, "spread": spread}


def raw(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """The same numbers without what jobs taught: what they are compared with."""
    presets = {name: {**one, "time": 1.0} for name, one in fitted["presets"].items()}
    spread = dict.fromkeys(fitted["spread"], (1.0, 1.0, 1.0))
    return {**fitted, "presets": presets, "spread": spread}


def preset_time(preset: str, ratios: Mapping[str, Sequence[float]], usual: float) -> float:
    """Of encoding, as a multiple of the trial's own at that rate."""
    logged = ratios.get(f"encode_seconds {preset}", ())
    return float(np.median(logged)) if len(logged) >= ENOUGH else usual


def _spread(
    name: str,
    shipped: Sequence[float],
    ratios: Mapping[str, Sequence[float]],
    presets: Mapping[str, Any],
) -> list[float]:
    """Of the truth over what is foretold: the ends of 90 % of it, and its median between them.

    Few jobs say little of the ends: those that are shipped count too.
    """
    logged = np.log(list(ratios.get(name, ())))
    if name == "encode_seconds":  # the presets' own medians are in their times
        logged = np.log(
            [r / one["time"] for p, one in presets.items() for r in ratios.get(f"{name} {p}", ())]
        )
    if len(logged) < ENOUGH:
        return list(shipped)
    low, middle, high = (float(q) for q in np.quantile(logged, (0.05, 0.5, 0.95)))
    share = len(logged) / (len(logged) + _SHIPPED)
    below, above = np.log(shipped[1] / shipped[0]), np.log(shipped[2] / shipped[1])
    ends = (
        middle - (share * (middle - low) + (1 - share) * below),
        middle,
        middle + share * (high - middle) + (1 - share) * above,
    )
    return [float(np.exp(end)) for end in ends]
