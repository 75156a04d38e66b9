"""`gsvc train export`: the trainer as one file."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.bitstream.errors import OutputError

DESCRIPTION = """Write the trainer and its recipes as one file, for a machine that has Python, torch
and numpy and nothing else: python3 train_standalone.py PACK RUN --recipe nano --minutes 9"""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc train export`."""
    parser.add_argument(
        "target",
        nargs="?",
        default="train_standalone.py",
        metavar="FILE",
        help="(train_standalone.py)",
    )


def run(options: Namespace) -> int:
    """Write the file."""
    from gsvc.decoders.training.bundle import read_recipes, standalone_script

    target = Path(options.target)
    part = target.with_name(target.name + ".part")
    try:
        part.write_text(standalone_script(read_recipes()))
        part.replace(target)
    except OSError as error:
        raise OutputError(f"{target} cannot be written ({error})") from error
    print(target)
    return 0
