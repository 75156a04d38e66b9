"""What networks need of diffusers' base classes, for machines without diffusers.

In the package, networks inherit diffusers' own classes; the standalone trainer has these instead.
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from torch import nn


class _Config(dict[str, Any]):
    """Settings by name, as items and as attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class ModelMixin(nn.Module):
    """A network."""


class ConfigMixin:
    """Keeps the settings that it was made with."""

    config: _Config


def register_to_config(init: Callable[..., None]) -> Callable[..., None]:
    """Decorates `__init__`: its arguments become `config`."""

    @wraps(init)
    def keeping(self: Any, *arguments: Any, **settings: Any) -> None:
        init(self, *arguments, **settings)
        bound = signature(init).bind(self, *arguments, **settings)
        bound.apply_defaults()
        given = {name: value for name, value in bound.arguments.items() if name != "self"}
        self.config = _Config(given)

    return keeping
