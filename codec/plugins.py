"""A user's own classes by name, as `module:Class`."""

import importlib
import os
import sys
from typing import Any

from gsvc.codec.errors import ConfigError


def find_class(name: str) -> Any:
    """The class `module:Class`, of an installed module or one in the current folder.

    Raises ConfigError when it cannot be imported.
    """
    module, _, attribute = name.partition(":")
    here = os.getcwd()  # a script's path lacks it
    if here not in sys.path:
        sys.path.append(here)
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{name}: {error}: write module:Class of a module in this folder or installed"
        ) from error
