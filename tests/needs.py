"""What a test needs that may be missing here: packages, models, clips.

Such a test is skipped. With GSVC_REQUIRE=all it fails; "all -city -ray" lets these two be missing,
"gpu" asks for a GPU alone.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

from gsvc import InputError, MissingDependencyError, MissingModelError
from gsvc.codec.weights.model_files import EXTRACTORS, model_path
from gsvc.datasets.clips.packaged import packaged_clip


def lack(name: str, why: object) -> NoReturn:
    """Ends the test that needs `name`."""
    required = os.environ.get("GSVC_REQUIRE", "").split()
    if name in required or ("all" in required and f"-{name}" not in required):
        pytest.fail(f"{name} is required and missing: {why}")
    pytest.skip(str(why), allow_module_level=True)


@contextmanager
def need(name: str) -> Iterator[None]:
    """Ends the test when its block finds a package missing, or a model: the one of `name`."""
    try:
        yield
    except (MissingDependencyError, MissingModelError, ModuleNotFoundError) as error:
        cause = error.__cause__ or error
        lack(cause.name or name if isinstance(cause, ModuleNotFoundError) else name, error)


def need_package(name: str) -> Any:
    """The module of a package."""
    with need(name):
        return import_module(name)


def need_models() -> None:
    """The extractors' models."""
    with need("models"):
        for name in EXTRACTORS:
            model_path(name)


def need_gpu() -> None:
    """A GPU that torch can use."""
    if not need_package("torch").cuda.is_available():
        lack("gpu", "torch finds no GPU here")


def need_clip(name: str) -> Path:
    """A packaged clip, downloaded already."""
    try:
        return packaged_clip(name, download=False)
    except InputError as error:
        lack(name, error)


def need_node() -> str:
    """The program node, for the player's parser."""
    node = shutil.which("node")
    if node is None:
        lack("node", "no node here: apt-get install nodejs")
    return node
