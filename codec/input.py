"""How a source is named: a path, a pattern of paths, or "-" for standard input."""

import glob
import os
from pathlib import Path

STANDARD_INPUT = "-"
"""The source that stands for standard input."""


def display_name(source: str | Path) -> str:
    """The source's name in a message."""
    return "standard input" if str(source) == STANDARD_INPUT else str(source)


def is_glob(source: str | Path) -> bool:
    """Whether `source` is a pattern (has *, ? or [) rather than the name of a file."""
    return glob.has_magic(str(source)) and not os.path.lexists(source)
