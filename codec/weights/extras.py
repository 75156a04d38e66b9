"""What is installed here: optional packages by extra, a user's own classes, the machine."""

import importlib
import os
import platform
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from gsvc.codec.bitstream.errors import ConfigError, MissingDependencyError


class Late:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


class Extra(NamedTuple):
    """An extra of the package, as in `pip install 'gsvc[refine]'`."""

    use: str
    """What needs it."""
    modules: tuple[str, ...]
    """Modules without which nothing of it works, by the names they are imported under."""

    @property
    def missing(self) -> list[str]:
        """Those of its modules that are not installed. None of them is imported."""
        return [module for module in self.modules if find_spec(module) is None]


_REFINE = "torch", "safetensors"
_PRETRAINED = *_REFINE, "accelerate", "diffusers", "transformers"
EXTRAS = {
    "refine": Extra("larger refiners, as --backend compact:small, and --motion rife", _REFINE),
    "eval": Extra("gsvc bench and gsvc train", (*_REFINE, "stlpips_pytorch")),
    "pretrained": Extra("--backend ltx and its like", _PRETRAINED),
    "quantize": Extra("--quantize", (*_PRETRAINED, "torchao")),
    "detect": Extra("--detector coco", ("onnx",)),
    "data": Extra("gsvc data", ("fsspec", "pyarrow", "ray", "stlpips_pytorch")),
    "analysis": Extra("gsvc bench analyse", ("bjontegaard", "motmetrics", "pycocotools", "scipy")),
    "c2pa": Extra("gsvc sign, and verifying what it signed", ("c2pa", "cryptography")),
    "secure": Extra("--key-file of gsvc send and gsvc recv", ("cryptography", "pylibsrtp")),
    "stream": Extra("ws:// and wss:// addresses", ("websockets",)),
}


def need(extra: str, what: str, otherwise: str = "") -> None:
    """Raise MissingDependencyError unless `extra`, of `EXTRAS`, is installed.

    `what`: needs it, the message's subject; `otherwise`: what to do without, the message's end.
    """
    if EXTRAS[extra].missing:
        why = f"{what} needs more packages: pip install 'gsvc[{extra}]'{otherwise}"
        raise MissingDependencyError(why)


def find_class(name: str) -> Any:
    """The class `module:Class`, installed or in this folder. Raises ConfigError without it."""
    module, _, attribute = name.partition(":")
    here = os.getcwd()  # a script's path lacks it
    if here not in sys.path:
        sys.path.append(here)
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a user's module may fail in any way
        why = f"{name}: {error}: write module:Class of a module in this folder or installed"
        raise ConfigError(why) from error


def machine() -> dict[str, str | int]:
    """Processor model, cores, memory in bytes, operating system."""
    text = ""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = [line.partition(":")[2] for line in text.splitlines() if line.startswith("model name")]
    return {
        "cpu": names[0].strip() if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count() or 1,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
    }
