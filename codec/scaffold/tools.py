"""The set of scaffold layers that a stream has."""

from gsvc.codec.errors import ConfigError
from gsvc.codec.scaffold.layers import LAYERS
from gsvc.codec.typed import typed

TOOLS = tuple(layer.name for layer in LAYERS)
"""Names of the layers."""


class Tools:
    """The scaffold layers of a stream. `Tools(pose=False)` has every layer except pose.

    `name in tools` tells whether a layer is on.
    """

    @typed
    def __init__(self, **switches: bool) -> None:
        """Each layer, by name, is on by default. Raises ConfigError for an unknown name."""
        for name in switches:
            if name not in TOOLS:
                raise ConfigError(f"unknown scaffold layer {name!r}: there are {', '.join(TOOLS)}")
        self.names = frozenset(name for name in TOOLS if switches.get(name, True))

    def without(self, *names: str) -> "Tools":
        """These tools with the named layers off."""
        return Tools(**{name: name in self.names - set(names) for name in TOOLS})

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tools) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Tools({', '.join(f'{name}={name in self}' for name in TOOLS)})"
