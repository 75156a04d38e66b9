"""A user's own classes by name, as `module:Class`."""

import importlib
from typing import Any

from gsvc.codec.errors import ConfigError


def find_class(name: str) -> Any:
    """The class `module:Class`. Raises ConfigError when it cannot be imported."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{name}: {error}: write module:Class of an importable module") from error
