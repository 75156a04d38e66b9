"""Packages that only some of gsvc needs, and the extra that installs them."""

from importlib.util import find_spec
from typing import NamedTuple

from gsvc.codec.errors import MissingDependencyError


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


_REFINE = "torch", "diffusers", "safetensors"
EXTRAS = {
    "refine": Extra("decoding with steps or --motion rife", _REFINE),
    "eval": Extra("gsvc bench and gsvc train", (*_REFINE, "stlpips_pytorch")),
    "pretrained": Extra("--backend ltx and its like", (*_REFINE, "accelerate", "transformers")),
    "quantize": Extra("--quantize", (*_REFINE, "accelerate", "torchao", "transformers")),
    "detect": Extra("--detector coco", ("onnx",)),
    "data": Extra("gsvc data", ("fsspec", "pyarrow", "ray", "stlpips_pytorch", "tensorboard")),
    "analysis": Extra("gsvc bench analyse", ("bjontegaard", "motmetrics", "pycocotools", "scipy")),
    "c2pa": Extra("gsvc sign, and verifying what it signed", ("c2pa", "cryptography")),
    "secure": Extra("--key-file of gsvc send and gsvc recv", ("cryptography",)),
    "stream": Extra("ws:// and wss:// addresses", ("websockets",)),
}


def need(extra: str, what: str, otherwise: str = "") -> None:
    """Raise MissingDependencyError unless `extra` is installed.

    Args:
        extra: A key of `EXTRAS`.
        what: The thing that needs it, as the message's subject.
        otherwise: What the user can do without it, as the message's end.
    """
    if EXTRAS[extra].missing:
        raise MissingDependencyError(
            f"{what} needs more packages: pip install 'gsvc[{extra}]'{otherwise}"
        )
