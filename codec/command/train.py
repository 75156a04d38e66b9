"""`gsvc train`: weights of refiners, from video to what ships."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.bitstream.errors import OutputError
from gsvc.codec.command.main import Verb, add_verbs, find_verb
from gsvc.codec.weights.extras import need

DESCRIPTION = """Train refiners on footage. Needs gsvc[eval]."""

ACTIONS = {
    "pack": ("make a pack of training samples", "train_pack"),
    "run": ("train on a pack", "train:RUN"),
    "shards": ("train on shards, in any number of processes", "train_shards"),
    "plan": ("predict the memory of a run, and choose a layout", "train_plan"),
    "adopt": ("check, score and ship the weights of a run", "train_adopt"),
    "export": ("write the trainer as one file", "train:EXPORT"),
}


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc train`."""
    add_verbs(parser, "action", ACTIONS)


def run(options: Namespace) -> int:
    """Carry out the action."""
    need("eval", "gsvc train")
    return find_verb(ACTIONS[options.action][1]).run(options)


_RUN = """Train a network by a recipe on a pack of gsvc train pack. RUN gets averaged weights,
tables of losses and scores and a sheet of pictures. gsvc train adopt makes weights for gsvc decode
--backend of them. gsvc train export writes this trainer as one file for other machines."""


def _add_run(parser: ArgumentParser) -> None:
    from gsvc.decoders.training.recipe import add_train_arguments

    add_train_arguments(parser)


def _run(options: Namespace) -> int:
    """Train; under torchrun, together with the other processes."""
    from gsvc.decoders.training.main import train
    from gsvc.decoders.training.parallel import ended

    return ended(train(options))


RUN = Verb(_RUN, _add_run, _run)
_TARGET = "train_standalone.pyz"
_MAIN = "gsvc.decoders.training.main"
_RECIPES = "gsvc/decoders/training/recipes"
_EXPORT = f"""Write the trainer and its recipes as one file, for a machine that has Python, torch,
numpy and Pillow: python3 {_TARGET} PACK RUN --recipe nano --minutes 9"""


def _add_export(parser: ArgumentParser) -> None:
    help = f"the file to write ({_TARGET})"
    parser.add_argument("target", nargs="?", default=_TARGET, metavar="FILE", help=help)


def _export(options: Namespace) -> int:
    from gsvc.decoders.training.app import write_app
    from gsvc.decoders.training.recipe import recipe_texts

    recipes = {f"{_RECIPES}/{name}.toml": text for name, text in recipe_texts().items()}
    try:
        write_app(Path(options.target), _MAIN, recipes)
    except OSError as error:
        raise OutputError(f"{options.target} cannot be written ({error})") from error
    print(options.target)
    return 0


EXPORT = Verb(_EXPORT, _add_export, _export)
