"""A study's key: which clip and which two versions stand behind each trial. Voters never get it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gsvc.codec.errors import InputError
from gsvc.eval.files import write_text

SCHEMA = 1
FILE = "key.json"
PAGE = "page"
"""The folder that voters get, beside the key."""

DAMAGED, EQUAL = "damaged", "equal"
"""Kinds of catch trials: the source against a badly damaged one; a video against itself."""
SOURCE, DAMAGED_SOURCE = "source", "damaged source"


@dataclass(frozen=True)
class Version:
    """One of the two videos of a trial."""

    name: str
    """Of its curve, "gsvc, steps 1", or of what a catch trial shows."""
    settings: str = ""
    """It was coded with."""
    bits: int = 0
    """Of the clip; 0 in a catch trial."""


@dataclass(frozen=True)
class Trial:
    """Two versions of a clip. "a" is the upper picture of its video, "b" the lower one."""

    id: str
    """What the page and the votes call it: it tells nothing."""
    clip: str
    level: str
    """Of our stream; "" in a catch trial."""
    a: Version
    b: Version
    catch: str = ""
    """`DAMAGED` or `EQUAL`, "" where the answer is not known."""

    def version(self, place: str) -> Version:
        """The version at "a" or "b"."""
        return {"a": self.a, "b": self.b}[place]


@dataclass(frozen=True)
class Key:
    """A study."""

    study: str
    """Its id, which every vote carries."""
    run: str
    """The folder of the run that it was made from."""
    zero: str
    """The version whose score is 0."""
    trials: list[Trial]

    def write(self, folder: Path) -> None:
        """Replace the key in a study's folder. Raises OutputError."""
        values = {"schema": SCHEMA, **asdict(self)}
        write_text(folder / FILE, json.dumps(values, indent=1) + "\n")

    def trial(self, name: str) -> Trial | None:
        """The trial of that id."""
        return next((trial for trial in self.trials if trial.id == name), None)


def read_key(folder: Path) -> Key:
    """The key in a study's folder. Raises InputError when there is none, or a damaged one."""
    file = folder / FILE
    try:
        values = json.loads(file.read_text())
        if values.pop("schema") != SCHEMA:
            raise InputError(f"{file} is of another gsvc: score with the one that made it")
        return Key(**{**values, "trials": [_trial(one) for one in values["trials"]]})
    except OSError as error:
        raise InputError(
            f"{folder} holds no study: make one with gsvc bench study make RUN {folder}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} is damaged ({error}): the votes need the key as made") from error


def _trial(values: dict[str, Any]) -> Trial:
    return Trial(**{**values, "a": Version(**values["a"]), "b": Version(**values["b"])})
