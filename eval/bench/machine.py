"""With what a run was made: versions, commit."""

import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import gsvc

_PACKAGES = ("av", "numpy", "opencv-python-headless", "torch", "diffusers", "stlpips-pytorch")


def versions() -> dict[str, str]:
    """Of gsvc, Python and the packages that the numbers depend on; a missing one is left out."""
    found = {"gsvc": gsvc.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def commit() -> str | None:
    """Of the checkout that gsvc runs from, with "+" when files differ from it; None elsewhere."""
    file = Path(gsvc.__file__).resolve()
    if _git(file, "ls-files", "--error-unmatch", file.name) is None:
        return None
    changed = _git(file, "status", "--porcelain", "--untracked-files=no")
    found = _git(file, "rev-parse", "HEAD")
    return f"{found}{'+' if changed else ''}" if found else None


def _git(file: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=file.parent, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
