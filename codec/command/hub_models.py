"""Models of the hub in `gsvc models`: their lines in the list, bringing one, and showing one."""

from argparse import Namespace

from gsvc.codec.command.progress import JsonLines
from gsvc.codec.errors import ConfigError, MissingModelError
from gsvc.codec.extras import EXTRAS
from gsvc.datasets.hub import HUB_MODELS, HubModel, check_hub_model, hub_folder, hub_model
from gsvc.datasets.package_files import Progress

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
    from gsvc.datasets.hub_pull import pull_hub_model

    if (options.repo or options.revision) and len(names) > 1:
        raise ConfigError("--repo and --revision go with one model")
    for name in names:
        model = hub_model(name)
        pull_hub_model(model, repo=options.repo, revision=options.revision, progress=tell)
        if model.pipeline:
            from gsvc.decoders.refiners.pretrained.loading import embed_empty_prompt

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
    from gsvc.decoders.refiners.pretrained.memory import need_of

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
