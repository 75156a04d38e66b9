"""`gsvc profile`: what coding and decoding take on this machine."""

import sys
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from gsvc.codec.command.arguments import add_json, add_quiet, json_lines
from gsvc.codec.media.output import atomic_output, refuse_foreign
from gsvc.codec.planning.machine_profile import (
    BEGINNING,
    Profile,
    ResourceUsage,
    load_profile,
    profile_path,
)

DESCRIPTION = """Measure what encoding and decoding take on this machine, for gsvc plan: a minute or
two, on a machine that does nothing else. It is kept in the cache for this processor and this
version of gsvc."""

_HEADER = (
    f"{'':<26}{'start s':>7}{'ns a pixel: frame':>19}{'drawn':>8}{'key':>8}{'MB':>7}"
    f"{'bytes a pixel':>15}"
)


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc profile`."""
    add = parser.add_argument
    add("--show", action="store_true", help="what was measured before, instead of measuring")
    add("-o", dest="output", metavar="FILE", help="a copy, for who sends to this machine")
    add_quiet(parser)
    add_json(parser)


def run(options: Namespace) -> int:
    """Measure, keep and show."""
    with ExitStack() as opened:
        copy: Path | None = None
        if options.output is not None:  # a target that is none is told of before a minute's work
            refuse_foreign(options.output, BEGINNING)
            copy = opened.enter_context(atomic_output(options.output, overwrite=True))
        profile = load_profile() if options.show else _measured(options)
        if copy is not None:
            profile.save(copy)
    if options.json:
        json_lines(options).put("profile", path=str(profile_path()), **asdict(profile))
    elif not options.quiet:
        print("\n".join(_lines(profile)))
    return 0


def _measured(options: Namespace) -> Profile:
    from gsvc.codec.planning.measuring import measure

    silent = options.quiet or options.json
    profile = measure(lambda line: None if silent else print(line, file=sys.stderr))
    profile.save(profile_path())
    return profile


def _lines(profile: Profile) -> list[str]:
    told = profile.machine
    lines = [
        f"{told['cpu']}, {told['cores']} cores, gsvc {profile.gsvc}: {profile_path()}",
        _HEADER,
    ]
    lines += [_line(f"encode, {name}", usage) for name, usage in profile.encode.items()]
    return lines + [_line(f"decode, {name}", usage) for name, usage in profile.decode.items()]


def _line(name: str, usage: ResourceUsage) -> str:
    times = 1e9 * usage.frame, 1e9 * usage.drawn, 1e9 * usage.key
    return (
        f"{name:<26}{usage.start:>7.2f}{times[0]:>19.1f}{times[1]:>8.1f}{times[2]:>9.0f}"
        f"{usage.memory / 1e6:>7.0f}{usage.memory_per_pixel:>15.1f}"
    )
