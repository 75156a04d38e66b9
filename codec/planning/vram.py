"""Pretrained models within a GPU's memory: how each is held, and which to take, by counts alone.

Their quality and time on a GPU were not measured: what is chosen stands beside a plan, and the plan
promises nothing of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gsvc.codec.bitstream.errors import DeviceError
from gsvc.codec.weights.extras import need

WINDOW = 33
"""Frames that go through a model at once."""
WAYS_TO_HOLD = "whole", "offload", "groups"
"""As of `budget.KINDS`, the fastest first."""
_LINES = 720, 480, 288
"""Shorter sides that are tried where nothing is held at the video's own."""


@dataclass(frozen=True)
class HeldModel:
    """A model, and how a GPU's memory holds it."""

    name: str
    """Of the back end."""
    kind: str | None
    """One of `budget.KINDS`: the slower, the less is held; None: it does not fit."""
    memory: int
    """Bytes that it then takes: weights are counted, the rest is estimated; of one that does not
    fit, the least that it needs."""
    weights: int
    """Bytes in bfloat16."""
    steps: int
    """That are usual in restoring."""


def held_within(memory: float, width: int, height: int) -> list[HeldModel]:
    """Every pretrained model within `memory` bytes, for pictures of a size in pixels.

    Raises MissingDependencyError without gsvc[refine].
    """
    need("refine", "--vram")
    from gsvc.decoders.keyframes.pretrained.architectures import ARCHITECTURES
    from gsvc.decoders.keyframes.pretrained.gpu_memory import need_of

    found = []
    for name, form in ARCHITECTURES.items():
        needed = need_of(name, height, width, WINDOW)
        try:
            kind = needed.chosen(int(memory))
        except DeviceError:
            kind = None
        weights = needed.network + needed.others
        found.append(HeldModel(name, kind, needed.of(kind or "groups"), weights, form.steps))
    return found


def preferred(models: Sequence[HeldModel]) -> list[HeldModel]:
    """Those that fit: the fastest way to hold one first, then the largest network."""
    fitting = [model for model in models if model.kind is not None]
    return sorted(fitting, key=lambda model: (WAYS_TO_HOLD.index(model.kind), -model.weights))


def smaller_sizes(width: int, height: int) -> list[tuple[int, int]]:
    """Sizes below the video's, of its shape, the largest first."""
    scales = [lines / min(width, height) for lines in _LINES if lines < min(width, height)]
    return [(2 * round(scale * width / 2), 2 * round(scale * height / 2)) for scale in scales]
