"""`gsvc train`: weights of refiners, from video to what ships. Each action is a module."""

from argparse import ArgumentParser, Namespace
from importlib import import_module

from gsvc.codec.command.main import add_modules
from gsvc.codec.weights.extras import need

DESCRIPTION = """Train refiners: a pack of footage, a run, its weights. Needs gsvc[eval]."""

ACTIONS = {
    "pack": "make a pack to train on",
    "run": "train on a pack",
    "shards": "train on shards, on any number of processes",
    "plan": "memory of a run, and the layout that fits",
    "adopt": "check and score the weights of a run, and ship what is better",
    "export": "write the trainer as one file",
}
"""Action → its line in `gsvc train --help`. The module `train_NAME` has the rest."""
_MODULES = f"{__package__}.train_"


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc train`."""
    add_modules(parser, "action", ACTIONS, _MODULES)


def run(options: Namespace) -> int:
    """Carry out the action."""
    need("eval", "gsvc train")
    code: int = import_module(_MODULES + options.action).run(options)
    return code
