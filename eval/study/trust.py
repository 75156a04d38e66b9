"""Catch trials: whose votes count, and whether voters lean to a side where nothing differs."""

from collections.abc import Sequence
from dataclasses import dataclass

from gsvc.eval.study.key import DAMAGED, EQUAL, SOURCE
from gsvc.eval.study.votes import LEFT, RIGHT, Vote

_TRUSTED = 0.6
"""Share of the damaged videos that a voter must tell from their source: two of three."""


@dataclass(frozen=True)
class Screening:
    """What the catch trials tell of the voters."""

    voters: int
    """Whose votes count."""
    votes: int
    """That count, without those on catch trials."""
    left_out: list[str]
    """Voters who missed too many damaged videos."""
    equal: int
    """Votes on equal videos, of those who count."""
    equal_left: int
    """Of these: votes for the left side."""
    equal_right: int

    def lines(self) -> list[str]:
        """For people."""
        found = [f"{self.votes} votes of {self.voters} voters."]
        if self.left_out:
            names = ", ".join(self.left_out)
            found.append(f"Left out, as they chose badly damaged videos: {names}.")
        if self.equal:
            found.append(
                f"Equal videos, {self.equal} votes: left {self.equal_left}, "
                f"right {self.equal_right}, no difference "
                f"{self.equal - self.equal_left - self.equal_right}."
            )
        return found


def screened(votes: Sequence[Vote]) -> tuple[Screening, list[Vote]]:
    """The votes that count. A voter who missed too many damaged videos is left out."""
    left_out = sorted(voter for voter in {vote.voter for vote in votes} if _missed(votes, voter))
    kept = [vote for vote in votes if vote.voter not in left_out]
    real = [vote for vote in kept if not vote.trial.catch]
    equal = [vote.choice for vote in kept if vote.trial.catch == EQUAL]
    screening = Screening(
        voters=len({vote.voter for vote in real}),
        votes=len(real),
        left_out=left_out,
        equal=len(equal),
        equal_left=equal.count(LEFT),
        equal_right=equal.count(RIGHT),
    )
    return screening, real


def _missed(votes: Sequence[Vote], voter: str) -> bool:
    """Whether the voter, who saw any, told too few damaged videos from their source."""
    answers = [
        bool(vote.chosen) and vote.trial.version(vote.chosen).name == SOURCE
        for vote in votes
        if vote.voter == voter and vote.trial.catch == DAMAGED
    ]
    return bool(answers) and sum(answers) < _TRUSTED * len(answers)
