"""`gsvc bench flops`: what back ends compute, before anything is spent."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.command.arguments import add_json, integers
from gsvc.codec.weights.extras import need

DESCRIPTION = """Count the operations of back ends for a window of frames, or a coded picture, from
their published settings: no weights are needed. Of 16:9; a multiply-add is two operations."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench flops`."""
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="back ends (all)")
    size = "shorter sides of pictures (288,480,720)"
    add("--size", type=integers, metavar="N,N", help=size)
    add("--window", type=int, default=33, metavar="8k+1", help="frames at once (%(default)s)")
    add("--steps", type=int, metavar="N", help="as many as are usual, if not given")
    saved = "share of the steps that a cache saves (%(default)s)"
    add("--saved", type=float, default=0.0, metavar="0..1", help=saved)
    add_json(parser, "rows as ")


def run(options: Namespace) -> int:
    """Count, then show a table."""
    need("refine", "gsvc bench flops")
    from gsvc.eval.bench.flops import NAMES, SIZES, computes, table

    names, sizes = options.names or NAMES, options.size or SIZES
    dials = {"window": options.window, "steps": options.steps, "saved": options.saved}
    rows = list(computes(list(dict.fromkeys(names)), sizes, **dials))
    if options.json:
        lines = JsonLines(sys.stdout)
        for row in rows:
            lines.put("compute", **asdict(row), total=row.total, per_pixel=row.per_pixel)
    else:
        print(table(rows))
    return 0
