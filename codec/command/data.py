"""`gsvc data`: video made ready for training, and what that takes."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.command.arguments import add_json, tell_event
from gsvc.codec.command.main import Verb, add_verbs, find_verb
from gsvc.codec.weights.extras import need

DESCRIPTION = """Prepare video for training, on one machine or many. Needs gsvc[data]."""

ACTIONS = {
    "plan": ("predict the cost of preparing many clips", "data:PLAN"),
    "prepare": ("make shards of samples from any amount of video", "data_prepare"),
}


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc data`."""
    add_verbs(parser, "action", ACTIONS)


def run(options: Namespace) -> int:
    """Carry out the action."""
    need("data", "gsvc data")
    return find_verb(ACTIONS[options.action][1]).run(options)


_PLAN = """Predict, from what gsvc data prepare measured for OUT, the cost of any number of clips on
any number of machines: core hours of each stage, hours, samples, bytes, shards and memory."""


def _add_plan(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("out", metavar="OUT", help="the folder of a few prepared clips")
    add("--clips", type=int, default=1_000_000, metavar="N", help="clips to prepare (%(default)s)")
    add("--nodes", type=int, default=8, metavar="N", help="machines (%(default)s)")
    add("--cores", type=int, default=32, metavar="N", help="cores of each machine (%(default)s)")
    add_json(parser)


def _plan(options: Namespace) -> int:
    """Tell the stages, then the whole."""
    from gsvc.decoders.training.prepare import forecast

    for name in ("clips", "nodes", "cores"):
        if getattr(options, name) < 1:
            raise ConfigError(f"--{name} is {getattr(options, name)}: take 1 or more")
    stages, whole = forecast(Path(options.out), options.clips, options.nodes, options.cores)
    for stage in stages:
        tell_event(options, "stage", **stage)
    tell_event(options, "plan", **whole)
    return 0


PLAN = Verb(_PLAN, _add_plan, _plan)
