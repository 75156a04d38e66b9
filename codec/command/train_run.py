"""`gsvc train run`: weights of a network from a pack."""

from argparse import ArgumentParser, Namespace

DESCRIPTION = """Train a network on a pack of gsvc train pack, as a recipe says. RUN gets averaged
weights, tables of losses and scores and a sheet of pictures; gsvc train adopt makes them what gsvc
decode --backend takes. gsvc train export writes the same as one file for other machines."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc train run`."""
    from gsvc.decoders.training.main import add_train_arguments

    add_train_arguments(parser)


def run(options: Namespace) -> int:
    """Train; under torchrun, together with the other processes."""
    from gsvc.decoders.training.main import train
    from gsvc.decoders.training.processes import ended

    return ended(train(options))
