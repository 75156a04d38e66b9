"""`gsvc data`: video made ready for training. Each action is a module."""

from argparse import ArgumentParser, Namespace
from importlib import import_module

from gsvc.codec.command.main import add_modules
from gsvc.codec.weights.extras import need

DESCRIPTION = """Make video ready for training, on one machine or many. Needs gsvc[data]."""

ACTIONS = {
    "plan": "what preparing many clips takes, from what a few took",
    "prepare": "shards of samples out of any amount of video",
}
"""Action → its line in `gsvc data --help`. The module `data_NAME` beside this one has the rest."""
_MODULES = f"{__package__}.data_"


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc data`."""
    add_modules(parser, "action", ACTIONS, _MODULES)


def run(options: Namespace) -> int:
    """Carry out the action."""
    need("data", "gsvc data")
    code: int = import_module(_MODULES + options.action).run(options)
    return code
