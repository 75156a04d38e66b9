"""`gsvc bench list`: the names that `gsvc bench run` takes."""

import sys
from argparse import ArgumentParser, Namespace

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.command.arguments import add_json

DESCRIPTION = """What --codec (with its options and their usual values: NAME:KEY=VALUE+VALUE,...),
--metric and --clips take. Your own classes are taken too, as module:Class."""

_KINDS = ("codecs", "metrics", "clips")
_WIDEST = 60
"""Columns that a cell is padded to; the few longer ones push the rest of their line aside."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench list`."""
    parser.add_argument("kind", choices=_KINDS, metavar="|".join(_KINDS))
    add_json(parser)


def run(options: Namespace) -> int:
    """List one kind."""
    from gsvc.eval.bench.named import listed_clips, listed_codecs, listed_metrics

    listed = {"codecs": listed_codecs, "metrics": listed_metrics, "clips": listed_clips}
    header, rows = listed[options.kind]()
    if options.json:
        lines = JsonLines(sys.stdout)
        for row in rows:
            lines.put(header[0], **dict(zip(("name", *header[1:]), row, strict=True)))
        return 0
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)][:-1]
    for row in rows:
        print("  ".join([*map(str.ljust, row, widths), row[-1]]))
    return 0
