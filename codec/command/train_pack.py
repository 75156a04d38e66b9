"""`gsvc train pack`: what a training run needs, in one file."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from gsvc.codec.bitstream.errors import ConfigError, InputError, OutputError
from gsvc.codec.command.arguments import add_json, tell_event

if TYPE_CHECKING:
    from gsvc.decoders.training.packing import PartFolder

DESCRIPTION = """Code a folder of videos and photographs as streams of any rate, and pack crops of
the decoded pictures with those of the source. PACK.parts keeps finished parts: the same command
continues."""

_KINDS = "pictures", "windows"
_LINE_SECONDS = 10.0
_MEGABYTE = 1_000_000
_SURPLUS = 1.05
"""Parts that are made for the room of 1: they leave no large rest."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc train pack`."""
    add = parser.add_argument
    add("data", metavar="DATA", help="the folder of videos, photographs and cut-outs")
    add("pack", metavar="PACK", help="the file to write")
    add("--kind", choices=_KINDS, default="pictures", help="kind of samples (%(default)s)")
    size = "largest size of the file, in units of 1000000 bytes (%(default)g)"
    add("--megabytes", type=float, default=55.0, metavar="MB", help=size)
    time = "longest time to make parts (%(default)g)"
    add("--minutes", type=float, default=60.0, metavar="M", help=time)
    add("--held-out", nargs="+", default=[], metavar="NAME", help="files to hold out for scoring")
    add("--seed", type=int, default=0, metavar="N", help="seed of all random choices (%(default)s)")
    add("--jobs", "-j", type=int, default=1, metavar="N", help="processes (%(default)s)")
    add_json(parser)


def run(options: Namespace) -> int:
    """Make the parts that are missing, then the pack of as many as fit."""
    from gsvc.decoders.training.crops import KINDS
    from gsvc.decoders.training.footage import find_footage
    from gsvc.decoders.training.frozen import frozen_networks
    from gsvc.decoders.training.packing import PartFolder, PartMaker, assemble, room_for_samples

    data, path = Path(options.data), Path(options.pack)
    if options.jobs < 1:
        raise ConfigError(f"jobs {options.jobs}: take 1 or more")
    if path.is_dir():
        raise OutputError(f"{path} is a folder: give the name of a file in it")
    files, held = find_footage(data, options.held_out)
    maker = PartMaker(options.kind, options.seed, data, files, held)
    networks = frozen_networks(KINDS[options.kind].networks)
    most = int(options.megabytes * _MEGABYTE)
    room = room_for_samples(most, networks)
    folder = PartFolder(path.with_name(path.name + ".parts"), maker)
    _fill(options, folder, room)
    manifest = assemble(path, folder, networks, most)
    told = {name: manifest[name] for name in ("samples", "held", "loss")}
    tell_event(options, "done", pack=str(path), bytes=path.stat().st_size, **told)
    return 0


def _fill(options: Namespace, folder: "PartFolder", room: int) -> None:
    """Make parts until they are more than fit, or time is up."""
    begun = told = monotonic()
    there = folder.sizes()
    size, samples = sum(part.bytes for part in there), sum(part.samples for part in there)
    enough, seconds = _SURPLUS * room, 60 * options.minutes
    for part in folder.make(options.jobs) if size < enough and seconds > 0 else ():
        size, samples, now = size + part.bytes, samples + part.samples, monotonic()
        is_over = size > enough or now - begun > seconds
        if is_over or now - told > _LINE_SECONDS:
            told, spent = now, round(now - begun, 1)
            tell_event(options, "made", samples=samples, bytes=size, room=room, seconds=spent)
        if is_over:
            break
    if not samples:
        raise InputError(f"nothing was made in {options.minutes:g} minutes: give more --minutes")
