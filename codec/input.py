"""How a source is named: a path, a pattern of paths, or "-" for standard input."""

import glob
import os
import re
from pathlib import Path
from typing import BinaryIO

STANDARD_INPUT = "-"
"""The source that stands for standard input."""


def display_name(source: str | Path | BinaryIO) -> str:
    """The source's name in a message."""
    if not isinstance(source, str | Path):
        name = getattr(source, "name", None)
        return name if isinstance(name, str) else "the open file"
    return "standard input" if str(source) == STANDARD_INPUT else str(source)


NUMBER = re.compile(r"%(?:0?(\d+))?d")
"""What stands for a number in the names of images, %05d or %d; its group is the least digits."""


def is_glob(source: str | Path) -> bool:
    """Whether `source` is a pattern (has *, ?, [ or %05d) rather than the name of a file."""
    name = str(source)
    is_pattern = glob.has_magic(name) or ("://" not in name and bool(NUMBER.search(name)))
    return is_pattern and not os.path.lexists(source)


def matches(pattern: str) -> list[str]:
    """The paths that a pattern stands for, in no order; folders are left out."""
    shape = re.compile("")
    if len(NUMBER.findall(pattern)) == 1 and not glob.has_magic(pattern):
        before, least, after = NUMBER.split(pattern)
        digits = f"[0-9]{{{least or 1},}}"
        shape = re.compile(f"{re.escape(before)}{digits}{re.escape(after)}$")
        pattern = f"{glob.escape(before)}[0-9]*{glob.escape(after)}"
    found = glob.glob(pattern, recursive=True)
    return [path for path in found if shape.match(path) and not os.path.isdir(path)]
