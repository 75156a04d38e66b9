"""Tables in Markdown, aligned to be read in a terminal as well."""

from collections.abc import Sequence


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = [("-" * width) + ("" if index == 0 else ":") for index, width in enumerate(widths)]
    lines = [_line(header, widths), "| " + " | ".join(rule) + " |"]
    return "\n".join([*lines, *(_line(row, widths) for row in rows)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        cell.ljust(width) if index == 0 else f"{cell:>{width + 1}}"
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "| " + " | ".join([first, *others]) + " |"
