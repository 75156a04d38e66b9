"""`gsvc bench cache`: what a latent cache saves on a list of streams, over its capacity."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.command.arguments import add_device, add_json
from gsvc.codec.weights.extras import need

DESCRIPTION = """Decode streams, one after another, with latent caches of several capacities: hit
rate, steps saved, and how far frames are from those without a cache; two families of hit rates
fitted."""
_CAPACITIES = "0,2,5,10,20,50,100"


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench cache`."""
    add = parser.add_argument
    add("streams", nargs="+", type=Path, metavar="STREAM", help="in the order they are watched")
    megabytes = "of the cache, in megabytes (%(default)s)"
    add("--capacity", default=_CAPACITIES, metavar="MB,MB", help=megabytes)
    keeps = "one that keeps latents (%(default)s)"
    add("--backend", default="compact:nano", metavar="NAME", help=keeps)
    add("--steps", type=int, default=8, metavar="N", help="of each loop (%(default)s)")
    add_device(parser, "cpu")
    add("--plot", type=Path, metavar="IMAGE", help="draw it too, .svg or .png")
    add_json(parser, "rows and fits as ")


def run(options: Namespace) -> int:
    """Replay, then show table and fits."""
    need("eval", "gsvc bench cache")
    from gsvc.eval.bench.cache_replay import fits, plot, replay, table

    missing = [path for path in options.streams if not path.is_file()]
    if missing:
        raise InputError(f"{missing[0]}: no such stream")
    if options.plot and options.plot.suffix not in (".png", ".svg"):
        raise ConfigError(f"--plot {options.plot}: draws .svg or .png")
    dials = options.backend, options.steps, options.device
    rows = list(replay(options.streams, _capacities(options.capacity), *dials))
    found = fits(rows)
    if options.json:
        lines = JsonLines(sys.stdout)
        for row in rows:
            lines.put("replay", **asdict(row))
        for fit in found:
            lines.put("fit", **asdict(fit))
    else:
        print(table(rows))
        print(*("", *found), sep="\n")
    if options.plot:
        plot(rows, options.plot)
    return 0


def _capacities(text: str) -> list[int]:
    try:
        return [round(1e6 * float(part)) for part in text.split(",")]
    except (ValueError, OverflowError):
        raise ConfigError(f"capacity {text!r}: write megabytes as {_CAPACITIES}") from None
