"""The ways to decode that a candidate is compared by."""

from pathlib import Path
from typing import NamedTuple

from gsvc.decoders.interpolation.rife import load_rife
from gsvc.decoders.keyframes.backends import BACKENDS, load_refiner
from gsvc.decoders.training.adoption.candidate import Candidate
from gsvc.decoders.training.adoption.scores import Score, Scores, Way, is_better, moved, refined

_STEPS = {"CompactRefiner": (1, 2, 4), "WindowRestorer": (1,)}
_FAMILIES = {"CompactRefiner": "compact", "WindowRestorer": "windowed"}


class Comparison(NamedTuple):
    """What is compared with what."""

    ways: dict[str, Way]
    candidate: str
    """The way that must be better: the candidate's, with one step."""
    rivals: tuple[str, ...]
    """The ways that it must be better than: of what ships under its name; of the default and of no
    refiner where nothing does."""


def comparison(candidate: Candidate, weights: Path) -> Comparison:
    """Of a candidate whose file is `weights`. Errors as of `load_refiner` and `load_rife`."""
    if candidate.network == "IFNet":
        ways = {
            "motion of the decoder": refined(None, 0),
            "RIFE as it is now": moved(load_rife()),
            "RIFE of this run": moved(load_rife(weights=weights)),
        }
        _, shipped, own = ways
        return Comparison(ways, own, (shipped,))
    name = f"{_FAMILIES[candidate.network]}:{candidate.name}"
    now = name if name in BACKENDS else "compact"
    ways = {"0 steps": refined(None, 0), f"{now}, 1 step": refined(load_refiner(now), 1)}
    refiner = load_refiner(str(weights))
    for steps in _STEPS[candidate.network]:
        ways[_own(steps)] = refined(refiner, steps)
    rivals = (f"{now}, 1 step",) if now == name else (f"{now}, 1 step", "0 steps")
    return Comparison(ways, _own(1), rivals)


def _own(steps: int) -> str:
    return f"this run, {steps} step{'s' * (steps > 1)}"


def verdict(scores: Scores, compared: Comparison) -> tuple[bool, str]:
    """Whether the candidate is better than its rivals by both judges, and sentences that say so.

    The means over levels decide.
    """
    own = scores.mean(compared.candidate)
    others = {rival: scores.mean(rival) for rival in compared.rivals}
    told = [_told(rival, own, other) for rival, other in others.items()]
    return all(is_better(own, other) for other in others.values()), " ".join(told)


def _told(rival: str, own: Score, other: Score) -> str:
    differences = (
        f"CVVDP {own.cvvdp - other.cvvdp:+.4f}, "
        f"ST-LPIPS VGG {own.st_lpips_vgg - other.st_lpips_vgg:+.5f}"
    )
    word = "Better than" if is_better(own, other) else "Not better by both judges than"
    return f"{word} {rival}: {differences}."
