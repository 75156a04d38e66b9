"""Reading annotation files, so that every failure names file, place and remedy."""

import json
from pathlib import Path
from typing import Any

from gsvc.codec.errors import InputError


def read_text(path: Path) -> str:
    """A file of UTF-8. Raises InputError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no text in UTF-8: give the annotations' file") from error


def read_json(path: Path) -> Any:
    """What a JSON file holds. Raises InputError with line and column of a fault."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}:{error.lineno}:{error.colno}: no JSON ({error.msg}): download the file again"
        ) from error
