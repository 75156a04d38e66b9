"""`gsvc doctor`: is everything here that gsvc needs, and what of the rest?"""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

from gsvc.codec.errors import GsvcError

_CODECS = (
    ("libsvtav1", "w", "codes key pictures"),
    ("libdav1d", "r", "decodes key pictures"),
    ("libx264", "w", "writes .mp4, .mkv and .mov"),
    ("libopus", "w", "codes sound"),
)
_PACKAGES = ("numpy", "constriction", "google-crc32c", "ai-edge-litert", "safetensors", "diffusers")


@dataclass(frozen=True)
class Check:
    """One line of the report. `needed`: without it, `gsvc doctor` fails; `advice`: what to do when not `ok`."""

    name: str
    ok: bool
    detail: str
    needed: bool = True
    advice: str = ""


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
    yield _guarded("torch", _torch, "pip install torch")
    yield _gpu()
    yield _guarded("refiner weights", _weights, "reinstall gsvc")
    yield _cache()
    yield from _models()


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
    try:
        import torch

        if torch.cuda.is_available():
            name = torch.cuda.get_device_name()
            return Check("CUDA", True, f"{torch.version.cuda}, {name}", needed=False)
    except (ImportError, RuntimeError):
        pass
    return Check("CUDA", False, "no GPU: decoding runs on the CPU", needed=False)


def _weights() -> str:
    from gsvc.decoders.refiners.registry import BACKENDS, load_refiner, model_id

    for backend in BACKENDS:
        load_refiner(backend)
    return f"compact, id {model_id('compact').hex()}"


def _cache() -> Check:
    from gsvc.datasets.package_files import cache_dir

    folder = cache_dir()
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    detail = str(folder) + ("" if folder.exists() else " (not made yet)")
    advice = "make it writable, or set GSVC_CACHE to another folder"
    return Check("cache folder", writable, detail, advice=advice)


def _models() -> Iterator[Check]:
    from gsvc.datasets.models import PULL_COMMAND, status

    for model in status():
        state = "damaged" if model.present else "missing"
        detail = model.task if model.intact else f"{state}; {model.task}"
        advice = f"run {PULL_COMMAND}"
        yield Check(f"model {model.name}", model.intact, detail, advice=advice)
