"""How a source is named: a path, or "-" for standard input."""

from pathlib import Path

STANDARD_INPUT = "-"
"""The source that stands for standard input."""


def display_name(source: str | Path) -> str:
    """The source's name in a message."""
    return "standard input" if str(source) == STANDARD_INPUT else str(source)
