"""Packages that only some of gsvc needs, and the extra that installs them."""

from importlib.util import find_spec

from gsvc.codec.errors import MissingDependencyError

EXTRAS = {
    "refine": ("torch", "diffusers", "safetensors"),
    "eval": ("torch", "diffusers", "safetensors", "stlpips_pytorch"),
    "stream": ("websockets",),
}
"""Extra → the modules without which nothing of it works, by the names they are imported under."""


def missing_from(extra: str) -> list[str]:
    """The modules of an extra that are not installed. None of them is imported."""
    return [module for module in EXTRAS[extra] if find_spec(module) is None]


def need(extra: str, what: str, otherwise: str = "") -> None:
    """Raise MissingDependencyError unless `extra` is installed.

    Args:
        extra: A key of `EXTRAS`.
        what: The thing that needs it, as the message's subject.
        otherwise: What the user can do without it, as the message's end.
    """
    if missing_from(extra):
        raise MissingDependencyError(
            f"{what} needs more packages: pip install 'gsvc[{extra}]'{otherwise}"
        )
