"""`gsvc doctor`: is everything here that gsvc needs, and what of the rest?"""

import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version

from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.codec.command.arguments import add_json, json_lines
from gsvc.codec.weights.extras import EXTRAS, Extra

DESCRIPTION = "Check this machine for everything gsvc needs; exits with 1 if something is missing."

_CODECS = (
    ("libsvtav1", "w", "codes coded pictures"),
    ("libdav1d", "r", "decodes coded pictures"),
    ("libx264", "w", "writes .mp4, .mkv and .mov"),
    ("libopus", "w", "codes sound"),
)
_PACKAGES = ("numpy", "constriction", "google-crc32c", "ai-edge-litert")


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


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc doctor`."""
    add_json(parser)


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
    yield _guarded("opencv", _opencv, "pip install opencv-python-headless")
    for package in _PACKAGES:
        yield _guarded(package, partial(version, package), f"pip install {package}")
    for name, extra in EXTRAS.items():
        yield _extra(name, extra)
    if not EXTRAS["refine"].missing:
        yield _guarded("torch", _torch, "pip install torch")
        yield _gpu()
        yield _guarded("refiner weights", _weights, "reinstall gsvc")
    yield _energy()
    yield _cache()
    yield from _models()


def _extra(name: str, extra: Extra) -> Check:
    missing = ", ".join(extra.missing)
    detail = f"without {missing}" if missing else extra.use
    advice = f"for {extra.use}, pip install 'gsvc[{name}]'"
    return Check(f"gsvc[{name}]", not missing, detail, needed=False, advice=advice)


def _guarded(name: str, look: Callable[[], str], advice: str) -> Check:
    try:
        return Check(name, True, look())
    except GsvcError as error:
        return Check(name, False, str(error))
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


def _opencv() -> str:
    import cv2

    return f"{cv2.__version__}, {cv2.getNumThreads()} threads"


def _torch() -> str:
    import torch

    return f"{torch.__version__}, {torch.get_num_threads()} threads"


def _gpu() -> Check:
    with suppress(ImportError, RuntimeError):
        import torch

        if torch.cuda.is_available():
            name = torch.cuda.get_device_name()
            return Check("CUDA", True, f"{torch.version.cuda}, {name}", needed=False)
    return Check("CUDA", False, "no GPU: decoding runs on the CPU", needed=False)


def _energy() -> Check:
    from gsvc.codec.planning.energy import EnergyMeter

    try:
        return Check("energy counters", True, EnergyMeter().sources, needed=False)
    except ConfigError as error:
        return Check("energy counters", False, str(error), needed=False)


def _weights() -> str:
    from gsvc.decoders.keyframes.backends import BACKENDS, load_refiner, model_id

    for backend in BACKENDS:
        load_refiner(backend)
    return f"restorer, id {model_id().hex()}"


def _cache() -> Check:
    from gsvc.codec.weights.model_files import cache_dir

    folder = cache_dir()
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    detail = str(folder) + ("" if folder.exists() else " (not made yet)")
    advice = "make it writable, or set GSVC_CACHE to another folder"
    return Check("cache folder", writable, detail, advice=advice)


def _models() -> Iterator[Check]:
    from gsvc.codec.weights.model_files import EXTRACTORS, MODELS, pull_command, state_of

    for name, model in MODELS.items():
        state, task = state_of(model), model.description
        detail = task if state == "ok" else f"{state}; {task}"
        advice = f"run {pull_command(name)}"
        yield Check(f"model {name}", state == "ok", detail, name in EXTRACTORS, advice)
