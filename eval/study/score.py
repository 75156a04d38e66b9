"""Scores a study: its votes to tables and a plot, by clip and pooled."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gsvc.codec.errors import InputError
from gsvc.eval.files import write_bytes, write_text
from gsvc.eval.layout import markdown
from gsvc.eval.report.plots import image
from gsvc.eval.study.bradley_terry import Counts, chosen_over, fit
from gsvc.eval.study.key import Key, read_key
from gsvc.eval.study.plot import ScoreRow, forest
from gsvc.eval.study.trust import Screening, screened
from gsvc.eval.study.votes import Vote, read_votes

SCHEMA = 1
POOLED = "all clips"
_NOTE = (
    "Score: log strength in Bradley and Terry's model with Davidson's ties, {zero} at 0, kept "
    "finite by a weak prior. In brackets the 95 % interval over voters, drawn with replacement. "
    "Chosen: the share of decided answers that the score stands for, against {zero}."
)


@dataclass(frozen=True)
class Scores:
    """What came of a study."""

    study: str
    zero: str
    screening: Screening
    rows: list[ScoreRow]


def score_study(folder: Path, files: Sequence[Path]) -> str:
    """Score votes files, write `scores.md`, `.csv`, `.json` and `.svg` into the study's folder.

    Returns the text of `scores.md`. Raises InputError for a folder without a study, a votes file
    that is torn, none, or of another study, and when no vote counts; OutputError.
    """
    key = read_key(folder)
    screening, votes = screened(read_votes(files, key))
    if not votes:
        raise InputError("no vote on a pair counts: give files of voters who saw the catch trials")
    scores = Scores(key.study, key.zero, screening, list(_rows(key, votes)))
    text = _text(scores)
    write_text(folder / "scores.json", json.dumps({"schema": SCHEMA, **asdict(scores)}) + "\n")
    write_text(folder / "scores.csv", _csv(scores.rows))
    write_bytes(folder / "scores.svg", image(forest(scores.rows, key.zero), "svg"))
    write_text(folder / "scores.md", text)
    return text


def _rows(key: Key, votes: Sequence[Vote]) -> Iterator[ScoreRow]:
    yield from _group(POOLED, "", votes, key.zero)
    levels = _different(vote.trial.level for vote in votes)
    clips = _different(vote.trial.clip for vote in votes)
    for level in levels if len(levels) > 1 else ():
        mine = [vote for vote in votes if vote.trial.level == level]
        yield from _group(POOLED, level, mine, key.zero)
    for clip in clips if len(clips) > 1 else ():
        mine = [vote for vote in votes if vote.trial.clip == clip]
        yield from _group(clip, "", mine, key.zero)


def _group(clip: str, level: str, votes: Sequence[Vote], zero: str) -> Iterator[ScoreRow]:
    """The score of every version but the one at zero, from these votes."""
    names = _different(n for vote in votes for n in (vote.trial.a.name, vote.trial.b.name))
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
            chosen=chosen_over(float(result.scores[index])),
            wins=int(wins),
            ties=int(ties),
            losses=int(losses),
            voters=len(counts),
        )


def _counts(
    votes: Sequence[Vote], names: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> Counts:
    """By voter and pair: how often the first version was chosen, the second, neither."""
    voters = _different(vote.voter for vote in votes)
    counts = np.zeros((len(voters), len(pairs), 3))
    for vote in votes:
        both = names.index(vote.trial.a.name), names.index(vote.trial.b.name)
        pair = max(both), min(both)
        chosen = names.index(vote.trial.version(vote.chosen).name) if vote.chosen else None
        answer = 2 if chosen is None else pair.index(chosen)
        counts[voters.index(vote.voter), pairs.index(pair), answer] += 1
    return counts


def _different(values: Iterator[str]) -> list[str]:
    return sorted(set(values))


def _text(scores: Scores) -> str:
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
        for row in scores.rows
    ]
    note = _NOTE.format(zero=scores.zero)
    parts = [f"# Study {scores.study}", note, *scores.screening.lines(), markdown(header, lines)]
    return "\n\n".join(parts) + "\n"


def _csv(rows: Sequence[ScoreRow]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(asdict(rows[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()
