"""Reads the files that voters saved. Every file must be whole and of this study."""

import csv
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gsvc.codec.errors import InputError
from gsvc.eval.study.key import Key, Trial

COLUMNS = ("study", "voter", "trial", "left", "right", "choice", "seconds", "time", "catch")
LEFT, RIGHT, TIE = "left", "right", "tie"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vote:
    """What one voter chose in one trial."""

    voter: str
    trial: Trial
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
    counts, with a warning. Raises InputError for a file that is no votes file, is torn, or is of
    another study.
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
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file} is no votes file: give what voters saved from the page"
        ) from error
    lines = list(csv.reader(text.splitlines()))
    if not lines or tuple(lines[0]) != COLUMNS:
        raise _no_votes(file)
    if not text.endswith("\n"):
        raise _torn(file, len(lines), "the file ends within it")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(COLUMNS):
            raise _torn(file, number, f"{len(line)} of {len(COLUMNS)} fields")
        yield _vote(file, number, dict(zip(COLUMNS, line, strict=True)), key)


def _vote(file: Path, number: int, line: dict[str, str], key: Key) -> Vote:
    if line["study"] != key.study:
        raise InputError(
            f"{file} is of study {line['study']}, this is {key.study}: score it with its own key"
        )
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


def _no_votes(file: Path) -> InputError:
    return InputError(f"{file} is no votes file: give what voters saved from the page")


def _torn(file: Path, number: int, what: str) -> InputError:
    return InputError(
        f"{file}, line {number}: torn or changed ({what}): ask the voter to save it again"
    )
