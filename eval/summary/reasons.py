"""Why pairs of curves have no BD-rate, in sentences for a terminal."""

from collections.abc import Iterator

from gsvc.eval.summary.bd_rate import NO_BITS, NO_OVERLAP, NO_POINTS, SINGLE_POINT
from gsvc.eval.summary.duels import PooledDuel
from gsvc.eval.summary.summarise import Summary

_SAID = {
    NO_OVERLAP: "the two reach no common quality, so add rates that bring them together",
    SINGLE_POINT: "one has a single rate, so add another",
    NO_POINTS: "one has no number",
    NO_BITS: "one has streams of no bits",
}


def reasons_without_rate(summary: Summary) -> Iterator[str]:
    """A sentence for each reason, with the pairs that have no BD-rate on any clip for it."""
    found: dict[str, dict[str, list[str]]] = {}
    for duel in summary.pooled:
        if duel.pchip is None:
            pairs = found.setdefault(_reason(duel), {})
            pairs.setdefault(f"{duel.test} against {duel.anchor}", []).append(duel.metric)
    for reason, pairs in found.items():
        listed = "; ".join(f"{pair} by {', '.join(names)}" for pair, names in pairs.items())
        yield f"No BD-rate, {reason}: {listed}."


def _reason(duel: PooledDuel) -> str:
    notes = dict.fromkeys(entry.rpartition(": ")[2] for entry in duel.left_out)
    return " or ".join(_SAID.get(note, note) for note in notes) or "no clip has one"
