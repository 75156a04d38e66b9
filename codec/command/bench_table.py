"""`gsvc bench table`: the tables of a run for a paper or a spreadsheet."""

import sys
from argparse import ArgumentParser, Namespace

DESCRIPTION = """Print tables of a run: Markdown, CSV, or LaTeX (booktabs). Without --title, those
of BD-rates, or of points where there are none; CSV then has a row for each pair and metric, and a
number a column. RUN/summary.csv has every point, with a column for each setting."""

_FORMATS = ("markdown", "csv", "latex")
_USUAL = "BD-rate pooled over clips", "Points"


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench table`."""
    add = parser.add_argument
    add("run", metavar="RUN", help="the folder of the run")
    add("--format", choices=_FORMATS, default="markdown", metavar="|".join(_FORMATS))
    add("--title", metavar="TEXT", help="tables whose title begins so, as in summary.md")
    anchor = "codec that the others are measured against, repeat for several"
    add("--anchor", action="append", metavar="CODEC", help=anchor)


def run(options: Namespace) -> int:
    """Print the tables."""
    from gsvc.codec.bitstream.errors import ConfigError
    from gsvc.eval.bench.store import load_run
    from gsvc.eval.layout import FORMATS
    from gsvc.eval.summary.rate_tables import has_random_weights
    from gsvc.eval.summary.summarise import reasons_without_rate, summarise
    from gsvc.eval.summary.write import pooled_csv, tables

    made = load_run(options.run)
    if options.anchor:
        known = list(dict.fromkeys(cell.codec for cell in made.cells))
        if unknown := set(options.anchor) - set(known):
            raise ConfigError(f"no anchor {min(unknown)!r}: the run has {', '.join(known)}")
        made.settings["anchors"] = options.anchor
    summary = summarise(made.settings, made.cells)
    if has_random_weights(summary):
        raise ConfigError(f"{options.run} is of random weights: they belong in no table")
    if options.format == "csv" and not options.title and summary.pooled:
        print(pooled_csv(summary), end="")
        return 0
    every = tables(summary)
    begin = (options.title,) if options.title else _USUAL
    found = [table for table in every if table.title.startswith(begin)]
    if not found:
        titles = "; ".join(table.title for table in every)
        raise ConfigError(f"no table of {options.run} is called so, there are: {titles}")
    write = FORMATS[options.format]
    print("\n\n".join(write(table.title, table.header, table.rows) for table in found))
    if not options.title:
        for line in reasons_without_rate(summary):
            print(line, file=sys.stderr)
    return 0
