"""Scores of a blind test: votes to tables, by clip and pooled.

Catch trials decide whose votes count. Scores are Bradley and Terry's, with Davidson's ties.
"""

import csv
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import InputError
from gsvc.eval.layout import csv_text, markdown, write_text
from gsvc.eval.report.study import DAMAGED, EQUAL, SOURCE, Key, StudyTrial, read_key

COLUMNS = ("study", "voter", "trial", "left", "right", "choice", "seconds", "time", "catch")
LEFT, RIGHT, TIE = "left", "right", "tie"

_log = logging.getLogger(__name__)


class Vote(NamedTuple):
    """What one voter chose in one trial."""

    voter: str
    trial: StudyTrial
    left: str
    """"a" or "b": which version of the trial was on the left."""
    choice: str
    """`LEFT`, `RIGHT` or `TIE`."""
    seconds: float
    """From the trial's beginning to the vote."""
    time: str
    """Of the vote, ISO 8601 in UTC, so that the order of text is that of time."""

    @property
    def chosen(self) -> str:
        """ "a", "b", or "" for a tie."""
        if self.choice == TIE:
            return ""
        return self.left if self.choice == LEFT else {"a": "b", "b": "a"}[self.left]


def read_votes(files: Sequence[Path], key: Key) -> list[Vote]:
    """The votes of all files, one a voter and trial.

    A voter who saved twice is in several files: equal votes count once, of different ones the last
    counts, with a warning. Raises InputError for no votes file, a torn one, or another study's.
    """
    found: dict[tuple[str, str], Vote] = {}
    again = changed = 0
    for vote in (vote for file in files for vote in _read(file, key)):
        place = vote.voter, vote.trial.id
        before = found.setdefault(place, vote)
        if before is not vote:
            again += before == vote
            changed += before != vote
            found[place] = max(before, vote, key=lambda one: one.time)
    if again:
        _log.warning("%d votes are there twice: each counts once", again)
    if changed:
        _log.warning("%d votes were changed by their voters later: the last ones count", changed)
    return list(found.values())


def _read(file: Path, key: Key) -> Iterator[Vote]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}): give votes files") from error
    except UnicodeDecodeError:
        text = ""
    lines = list(csv.reader(text.splitlines()))
    if not lines or tuple(lines[0]) != COLUMNS:
        raise InputError(f"{file} is no votes file: give what voters saved from the page")
    if not text.endswith("\n"):
        raise _torn(file, len(lines), "the file ends within it")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(COLUMNS):
            raise _torn(file, number, f"{len(line)} of {len(COLUMNS)} fields")
        yield _vote(file, number, dict(zip(COLUMNS, line, strict=True)), key)


def _vote(file: Path, number: int, line: dict[str, str], key: Key) -> Vote:
    if line["study"] != key.study:
        why = f"{file} is of study {line['study']}, this is {key.study}: score it with its own key"
        raise InputError(why)
    trial = key.trial(line["trial"])
    if trial is None:
        raise _torn(file, number, f"there is no trial {line['trial']}")
    if sorted((line["left"], line["right"])) != ["a", "b"]:
        raise _torn(file, number, f"sides {line['left']} and {line['right']}")
    if line["choice"] not in (LEFT, RIGHT, TIE) or not line["voter"]:
        raise _torn(file, number, f"choice {line['choice']!r} of voter {line['voter']!r}")
    try:
        seconds = float(line["seconds"])
    except ValueError:
        raise _torn(file, number, f"{line['seconds']!r} seconds") from None
    return Vote(line["voter"], trial, line["left"], line["choice"], seconds, line["time"])


def _torn(file: Path, number: int, what: str) -> InputError:
    why = f"{file}, line {number}: torn or changed ({what}): ask the voter to save it again"
    return InputError(why)


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


Counts = NDArray[np.float64]
"""Shape (..., pairs, 3): how often the first was chosen, the second, neither."""

PRIOR_DEVIATION = 3.0
"""Of a normal prior on log p and log v. A version that always wins stays finite by it, and others
hardly move: a score of 3 is to be chosen twenty times as often."""
_ROUNDS, _LONGEST_STEP = 60, 1.0
_DRAWS = 1000
_SEED = 1970


class StrengthFit(NamedTuple):
    """Scores of versions relative to the first one, which has 0."""

    scores: NDArray[np.float64]
    """Shape (versions,): log p."""
    low: NDArray[np.float64] | None
    """Ends of the 95 % interval, shape (versions,); None for fewer than two voters."""
    high: NDArray[np.float64] | None


def fit(pairs: Sequence[tuple[int, int]], counts: Counts, versions: int) -> StrengthFit:
    """Scores from the votes of all voters, and intervals by drawing voters with replacement.

    `pairs`: the two of so many `versions` in each, by index; `counts`: shape (voters, pairs, 3).
    """
    scores = _solve(pairs, counts.sum(axis=0)[None], versions)[0]
    voters = len(counts)
    if voters < 2:
        return StrengthFit(scores, None, None)
    random = np.random.default_rng(_SEED)
    weights = random.multinomial(voters, np.full(voters, 1 / voters), size=_DRAWS)
    drawn = np.einsum("dv,vpc->dpc", weights.astype(np.float64), counts)
    low, high = np.percentile(_solve(pairs, drawn, versions), (2.5, 97.5), axis=0)
    return StrengthFit(scores, low, high)


def _solve(pairs: Sequence[tuple[int, int]], counts: Counts, versions: int) -> Counts:
    """Scores of shape (draws, versions) from counts of shape (draws, pairs, 3)."""
    # Logits of the three answers to a pair, linear in log p and log v.
    design = np.zeros((len(pairs), 3, versions + 1))
    for row, (first, second) in zip(design, pairs, strict=True):
        row[0, first] = row[1, second] = 0.5
        row[0, second] = row[1, first] = -0.5
        row[2, -1] = 1.0
    values = np.zeros((len(counts), versions + 1))
    prior = np.eye(versions + 1) / PRIOR_DEVIATION**2
    totals = counts.sum(axis=-1)
    for _ in range(_ROUNDS):
        logits = np.einsum("pcx,dx->dpc", design, values)
        share = np.exp(logits - logits.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        slope = np.einsum("pcx,dpc->dx", design, counts - totals[..., None] * share)
        slope -= values @ prior
        mean = np.einsum("pcx,dpc->dpx", design, share)
        spread = np.einsum("pcx,pcy,dpc,dp->dxy", design, design, share, totals)
        spread -= np.einsum("dpx,dpy,dp->dxy", mean, mean, totals)
        step = np.linalg.solve(spread + prior, slope[..., None])[..., 0]
        step = np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        values += step
        if np.abs(step).max() < 1e-9:
            break
    return values[:, :versions] - values[:, :1]


@dataclass(frozen=True)
class ScoreRow:
    """A version's score in a group of votes."""

    clip: str
    """Or all of them."""
    level: str
    """Of gsvc; "" for all levels."""
    version: str
    score: float
    """Log strength; the version at zero has 0."""
    low: float | None
    """Ends of the 95 % interval over voters; None for fewer than two."""
    high: float | None
    chosen: float
    """0 to 1: share of decided answers against the version at zero, by the score."""
    wins: int
    """Votes, against all other versions."""
    ties: int
    losses: int
    voters: int

    @property
    def label(self) -> str:
        """Of its group, for people."""
        return f"{self.clip}, level {self.level}" if self.level else self.clip


SCHEMA = 1
POOLED = "all clips"
_NOTE = (
    "Score: log strength in Bradley and Terry's model with Davidson's ties, {zero} at 0, kept "
    "finite by a weak prior. In brackets the 95 % interval over voters, drawn with replacement. "
    "Chosen: the share of decided answers that the score stands for, against {zero}."
)


def score_study(folder: Path, files: Sequence[Path]) -> str:
    """Score votes files, write `scores.md`, `.csv` and `.json` into the study's folder.

    Returns the text of `scores.md`. Raises InputError for a folder without a study, a votes file
    that is torn, none, or of another study, and when no vote counts; OutputError.
    """
    key = read_key(folder)
    screening, votes = screened(read_votes(files, key))
    if not votes:
        raise InputError("no vote on a pair counts: give files of voters who saw the catch trials")
    scores = list(_rows(key, votes))
    text = _text(key, screening, scores)
    rows = [asdict(row) for row in scores]
    about = {"schema": SCHEMA, "study": key.study, "zero": key.zero}
    scored = {**about, "screening": asdict(screening), "rows": rows}
    write_text(folder / "scores.json", json.dumps(scored) + "\n")
    write_text(folder / "scores.csv", csv_text([list(rows[0]), *(row.values() for row in rows)]))
    write_text(folder / "scores.md", text)
    return text


def _rows(key: Key, votes: Sequence[Vote]) -> Iterator[ScoreRow]:
    yield from _group(POOLED, "", votes, key.zero)
    for field in ("level", "clip"):
        groups = sorted({getattr(vote.trial, field) for vote in votes})
        for group in groups if len(groups) > 1 else ():
            mine = [vote for vote in votes if getattr(vote.trial, field) == group]
            clip, level = (POOLED, group) if field == "level" else (group, "")
            yield from _group(clip, level, mine, key.zero)


def _group(clip: str, level: str, votes: Sequence[Vote], zero: str) -> Iterator[ScoreRow]:
    """The score of every version but the one at zero, from these votes."""
    names = sorted({n for vote in votes for n in (vote.trial.a.name, vote.trial.b.name)})
    names.sort(key=lambda name: (name != zero, name))
    pairs = [(second, first) for second in range(len(names)) for first in range(second)]
    counts = _counts(votes, names, pairs)
    result = fit(pairs, counts, len(names))
    total = counts.sum(axis=0)
    for index in range(1, len(names)):
        # Answers for this version, against it, and ties: rows in which it is the first or second.
        mine = [total[row] for row, pair in enumerate(pairs) if pair[0] == index]
        mine += [total[row][[1, 0, 2]] for row, pair in enumerate(pairs) if pair[1] == index]
        wins, losses, ties = np.sum(mine, axis=0)
        yield ScoreRow(
            clip=clip,
            level=level,
            version=names[index],
            score=float(result.scores[index]),
            low=None if result.low is None else float(result.low[index]),
            high=None if result.high is None else float(result.high[index]),
            chosen=float(1 / (1 + np.exp(-result.scores[index]))),
            wins=int(wins),
            ties=int(ties),
            losses=int(losses),
            voters=len(counts),
        )


def _counts(
    votes: Sequence[Vote], names: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> Counts:
    """By voter and pair: how often the first version was chosen, the second, neither."""
    voters = sorted({vote.voter for vote in votes})
    counts = np.zeros((len(voters), len(pairs), 3))
    for vote in votes:
        both = names.index(vote.trial.a.name), names.index(vote.trial.b.name)
        pair = max(both), min(both)
        chosen = names.index(vote.trial.version(vote.chosen).name) if vote.chosen else None
        answer = 2 if chosen is None else pair.index(chosen)
        counts[voters.index(vote.voter), pairs.index(pair), answer] += 1
    return counts


def _text(key: Key, screening: Screening, scores: Sequence[ScoreRow]) -> str:
    header = ["", "version", "score", "95 %", "chosen", "won", "ties", "lost", "voters"]
    lines = [
        [
            row.label,
            row.version,
            f"{row.score:+.2f}",
            "-" if row.low is None or row.high is None else f"[{row.low:+.2f}, {row.high:+.2f}]",
            f"{100 * row.chosen:.0f} %",
            *map(str, (row.wins, row.ties, row.losses, row.voters)),
        ]
        for row in scores
    ]
    note = _NOTE.format(zero=key.zero)
    parts = [f"# Study {key.study}", note, *screening.lines(), markdown(header, lines)]
    return "\n\n".join(parts) + "\n"
