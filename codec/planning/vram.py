"""Pretrained models within a GPU's memory: the fastest way to hold each, by what is counted.

Their quality and time on a GPU were not measured, so that a plan names them and chooses none.
"""

from dataclasses import dataclass

from gsvc.codec.errors import DeviceError
from gsvc.codec.extras import need

_WINDOW = 33
"""Frames that go through a model at once."""


@dataclass(frozen=True)
class Held:
    """A model, and how a GPU's memory holds it."""

    name: str
    """Of the back end."""
    kind: str | None
    """One of `budget.KINDS`: the slower, the less is held; None: it does not fit."""
    memory: int
    """Bytes that it then takes: weights are counted, the rest is estimated; of one that does not
    fit, the least that it needs."""


def held_within(memory: float, width: int, height: int) -> list[Held]:
    """Every pretrained model within `memory` bytes, for pictures of a size in pixels.

    Raises MissingDependencyError without gsvc[refine].
    """
    need("refine", "--vram")
    from gsvc.decoders.architectures.table import ARCHITECTURES
    from gsvc.decoders.refiners.pretrained.memory import need_of

    found = []
    for name in ARCHITECTURES:
        needed = need_of(name, height, width, _WINDOW)
        try:
            kind = needed.chosen(int(memory))
        except DeviceError:
            kind = None
        found.append(Held(name, kind, needed.of(kind or "groups")))
    return found
