"""`gsvc train export`: the trainer as one file."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.bitstream.errors import OutputError

DESCRIPTION = """Write the trainer and its recipes as one file, for a machine that has Python,
torch, numpy and Pillow: python3 train_standalone.pyz PACK RUN --recipe nano --minutes 9"""

_TARGET = "train_standalone.pyz"
_MAIN = "gsvc.decoders.training.main"
_RECIPES = "gsvc/decoders/training/recipes"


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc train export`."""
    parser.add_argument("target", nargs="?", default=_TARGET, metavar="FILE", help=f"({_TARGET})")


def run(options: Namespace) -> int:
    """Write the file."""
    from gsvc.decoders.training.app import write_app
    from gsvc.decoders.training.recipe import recipe_texts

    recipes = {f"{_RECIPES}/{name}.toml": text for name, text in recipe_texts().items()}
    try:
        write_app(Path(options.target), _MAIN, recipes)
    except OSError as error:
        raise OutputError(f"{options.target} cannot be written ({error})") from error
    print(options.target)
    return 0
