"""Which operators live on GPUs together: chosen by the memory that they were measured to take.

A GPU is shared by as many models as fit in its memory. Each is a process of its own that waits for
items most of the time, so that their kernels overlap; what does not fit runs on the CPU.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gsvc.decoders.training.preparation.items import Operator

_CONTEXT = 600_000_000
"""Bytes of a CUDA context and its kernels, which PyTorch does not count. An estimate: 0.3 to 0.6 GB
are usual."""
_MARGIN = 1.2
"""Of memory, over what was measured: fragmentation, and items that are larger."""
_UNIT = 1000
"""Shares are told to Ray in thousandths."""


@dataclass(frozen=True)
class Cards:
    """GPUs of a cluster."""

    count: int
    bytes: int
    """Of the smallest."""


@dataclass(frozen=True)
class Model:
    """An operator that can use a GPU."""

    name: str
    bytes: int
    """That its process takes of a GPU."""
    seconds: float = 0.0
    """For an item; 0 where that is not known."""


@dataclass(frozen=True)
class Residence:
    """Where the processes of an operator live."""

    share: float
    """Of a GPU that each takes: what Ray is asked for, and the limit of its memory."""
    cards: tuple[int, ...]
    """Of each process, the GPU that the plan has it on."""


def model_of(operator: Operator, costs: Mapping[str, Mapping[str, float]]) -> Model:
    """What is known of an operator: measured where it ran on a GPU before, else as declared."""
    row = costs.get(operator.name)
    if row is None or not row["device"]:
        return Model(operator.name, operator.resources.device_memory + _CONTEXT)
    measured = int(row["device"] * _MARGIN) + _CONTEXT
    return Model(operator.name, measured, row["wall"] / row["items"])


def residences(
    models: Sequence[Model], cards: Cards | None, supply: float = 0.0
) -> dict[str, Residence]:
    """Where each model lives; those that are missing run on the CPU.

    Models that take most time for their memory come first, each on the first GPU with room. Then
    the slowest is doubled, and so on, until all keep up with `supply`, items a second that CPUs
    give (0: not known, one process each), or nothing more fits.
    """
    if cards is None:
        return {}
    room = [_UNIT] * cards.count
    placed: dict[str, list[int]] = {}
    shares = {each.name: math.ceil(_UNIT * each.bytes / cards.bytes) for each in models}
    for each in sorted(models, key=lambda one: (-one.seconds / one.bytes, one.bytes, one.name)):
        _place(each.name, shares, room, placed)
    while slow := [x for x in models if x.name in placed and _lags(x, placed, supply)]:
        slowest = max(slow, key=lambda each: each.seconds / len(placed[each.name]))
        if not _place(slowest.name, shares, room, placed):
            break
    return {name: Residence(shares[name] / _UNIT, tuple(own)) for name, own in placed.items()}


def budget(place: Residence, cards: Cards) -> tuple[float, int]:
    """Of a process: the fraction of a GPU that PyTorch may take, and the bytes in all."""
    limit = int(place.share * cards.bytes)
    return max(0.0, limit - _CONTEXT) / cards.bytes, limit


def _place(
    name: str, shares: Mapping[str, int], room: list[int], placed: dict[str, list[int]]
) -> bool:
    for card, left in enumerate(room):
        if shares[name] <= left:
            room[card] -= shares[name]
            placed.setdefault(name, []).append(card)
            return True
    return False


def _lags(model: Model, placed: Mapping[str, list[int]], supply: float) -> bool:
    return len(placed[model.name]) < supply * model.seconds
