"""BD-rate of one curve against another, and what to say where there is none.

G. Bjontegaard, VCEG-M33 (2001); PCHIP as in the JCT-VC common test conditions (JCTVC-L1100), Akima
after Herglotz et al., "Beyond Bjontegaard" (ICIP 2022), both by the package `bjontegaard`. Nothing
is ever extrapolated: the integral runs over the quality that both curves reach.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from math import isfinite

from gsvc.eval.optional import optional
from gsvc.eval.summary.hull import RatePoint, rate_at

NO_OVERLAP = "no overlap"
SINGLE_POINT = "single point"
NO_POINTS = "no points"
NO_BITS = "streams of no bits"


@dataclass(frozen=True)
class RateRatio:
    """Rates of two curves at the nearest qualities that they have."""

    ratio: float
    """Test over anchor."""
    test_distance: float
    anchor_distance: float


@dataclass(frozen=True)
class BdRate:
    """Mean difference in rate at equal quality, in per cent; negative: the test needs less."""

    pchip: float | None = None
    akima: float | None = None
    shared: tuple[float, float] | None = None
    """Least and greatest distance that both reach."""
    share: float = 0.0
    """Of the shared range in the range that either reaches."""
    note: str = ""
    """Why there is no BD-rate."""
    ratio: RateRatio | None = None
    """In place of a BD-rate."""


def bd_rate(anchor: Sequence[RatePoint], test: Sequence[RatePoint]) -> BdRate:
    """Compare two lower hulls (bpp, distance), each by rising rate and strictly falling distance.

    Raises MissingDependencyError without the package `bjontegaard`.
    """
    if not anchor or not test:
        return BdRate(note=NO_POINTS)
    if min(anchor[0][0], test[0][0]) <= 0:
        return BdRate(note=NO_BITS)
    least, greatest = max(anchor[-1][1], test[-1][1]), min(anchor[0][1], test[0][1])
    single = min(len(anchor), len(test)) == 1
    if single or least >= greatest:
        note = SINGLE_POINT if single and least <= greatest else NO_OVERLAP
        return BdRate(note=note, ratio=_nearest(anchor, test, least, greatest))
    whole = max(anchor[0][1], test[0][1]) - min(anchor[-1][1], test[-1][1])
    return BdRate(
        pchip=_integrate(anchor, test, "pchip"),
        akima=_integrate(anchor, test, "akima"),
        shared=(least, greatest),
        share=(greatest - least) / whole,
    )


def _nearest(
    anchor: Sequence[RatePoint], test: Sequence[RatePoint], least: float, greatest: float
) -> RateRatio:
    """At a quality both reach, else between the nearest ends: one's worst and the other's best."""
    if least <= greatest:
        here, there = rate_at(test, least), rate_at(anchor, least)
        assert here is not None and there is not None, "both hulls reach a shared distance"
        return RateRatio(here / there, least, least)
    best_test = test[-1][1] > anchor[0][1]
    one, other = (test[-1], anchor[0]) if best_test else (test[0], anchor[-1])
    return RateRatio(one[0] / other[0], one[1], other[1])


def _integrate(anchor: Sequence[RatePoint], test: Sequence[RatePoint], method: str) -> float | None:
    rates = [
        [[bpp for bpp, _ in hull], [-distance for _, distance in hull]] for hull in (anchor, test)
    ]
    with optional("BD-rates need the package bjontegaard: pip install 'gsvc[eval]'"):
        package = import_module("bjontegaard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of little overlap: `share` says how much there is
        found = float(
            package.bd_rate(
                *rates[0], *rates[1], method, require_matching_points=False, min_overlap=0
            )
        )
    return found if isfinite(found) else None
