"""Tables as Markdown, CSV and LaTeX, and files that are written whole or not at all."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from gsvc.codec.media.output import atomic_output, explain_failure, make_folder

_LATEX = str.maketrans({char: f"\\{char}" for char in "%_&#$"})


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


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """The rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")


def records(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[dict[str, str | float]]:
    """The rows by the names of their columns, for JSON; a number is one."""
    values = [[float(one) if _NUMBER.fullmatch(one) else one for one in row] for row in rows]
    return [dict(zip(header, row, strict=True)) for row in values]


def _latex(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head, *lines = (" & ".join(cell.translate(_LATEX) for cell in row) for row in (header, *rows))
    body = "".join(f"{line} \\\\\n" for line in lines)
    columns = "l" + "r" * (len(header) - 1)
    return (
        f"\\begin{{table}}\n\\caption{{{title.translate(_LATEX)}}}\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head} \\\\\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n\\end{table}"
    )


FORMATS: Mapping[str, Callable[[str, Sequence[str], Sequence[Sequence[str]]], str]] = {
    "markdown": lambda title, header, rows: f"{title}\n\n{markdown(header, rows)}",
    # The title is in no row, so that one table is one file.
    "csv": lambda _, header, rows: csv_text([header, *rows]).rstrip("\n"),
    "latex": _latex,
    "json": lambda title, header, rows: json.dumps({"title": title, "rows": records(header, rows)}),
}
"""By name: from title, header and rows to text."""


def write_text(target: Path, text: str) -> None:
    """Replace a file. Raises OutputError."""
    write_bytes(target, text.encode())


def write_bytes(target: Path, data: bytes) -> None:
    """Replace a file, in a folder that is made where it is missing. Raises OutputError."""
    make_folder(target.parent)
    with atomic_output(target, overwrite=True) as partial, explain_failure(target):
        partial.write_bytes(data)
