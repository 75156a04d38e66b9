"""The pipeline on Ray Data: it streams, spreads over nodes, and holds back what runs ahead.

Operators live on a GPU together as far as the memory that they were measured to take allows.
"""

import logging
import math
import pickle
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import Any

from gsvc.decoders.training import guard, pipeline

_CONTEXT = 600_000_000
"""Bytes of a CUDA context and its kernels, not counted by PyTorch; 0.3 to 0.6 GB are usual."""
_MARGIN = 1.2  # of memory, over what was measured: fragmentation, and items that are larger
_UNIT = 1000  # shares are told to Ray in thousandths


@dataclass(frozen=True)
class Cards:
    """GPUs of a cluster."""

    count: int
    bytes: int
    """Of the smallest."""


def card_shares(
    operators: Sequence[pipeline.Operator], costs: pipeline.Costs, cards: Cards | None
) -> dict[str, float]:
    """The share of a GPU that a process of each operator takes, by name; none: on the CPU.

    It is as large as the memory that the operator was measured to take, or else declares. All that
    fit live there together, the smallest first; Ray starts more of the slow ones in what is left.
    """
    room = [_UNIT] * (cards.count if cards else 0)
    found: dict[str, float] = {}
    able = [each for each in operators if each.resources.device_memory]
    for operator in sorted(able, key=lambda each: _card_bytes(each, costs)):
        share = math.ceil(_UNIT * _card_bytes(operator, costs) / cards.bytes) if cards else 0
        card = next((card for card, left in enumerate(room) if share <= left), None)
        if card is not None:
            room[card] -= share
            found[operator.name] = share / _UNIT
    return found


def _card_bytes(operator: pipeline.Operator, costs: pipeline.Costs) -> int:
    measured = int(costs.get(operator.name, {}).get("device", 0.0) * _MARGIN)
    return _CONTEXT + (measured or operator.resources.device_memory)


_FEEDS = 0.25  # cores that a process takes to feed a GPU
WORKER_BYTES = 250_000_000
"""Bytes of a worker of Ray beside the helper that carries operators out."""

Writes = Callable[[Sequence[pipeline.Item]], None]
"""Writes a finished group of items, all of it, in order."""

Engine = Callable[
    [Iterable[pipeline.Item], Sequence[pipeline.Operator], Writes, int], Iterator[int]
]
"""Carries operators out over items, and gives every so many items that follow each other to
`Writes` when they are done; then yields how many they are."""


def in_turn(
    items: Iterable[pipeline.Item],
    operators: Sequence[pipeline.Operator],
    write: Writes,
    group: int,
    *,
    patience: float = 1.0,
) -> Iterator[int]:
    """In one process, one item after the other, on the CPU: what the rest is compared with.

    See `Engine`; `patience` is that of `OnRay`.
    """
    sent, limits = pickle.dumps(list(operators)), limits_of(operators, patience)
    rows = (guard.carry_row(pipeline.in_row(item), sent, limits) for item in items)
    done = map(pipeline.of_row, rows)
    while some := list(islice(done, group)):
        write(some)
        yield len(some)


@dataclass(frozen=True)
class OnRay:
    """On the Ray cluster that this process is connected to."""

    cards: Cards | None = None
    costs: Callable[[], pipeline.Costs] = dict
    patience: float = 1.0
    """Times the time that operators may take."""

    def __call__(
        self,
        items: Iterable[pipeline.Item],
        operators: Sequence[pipeline.Operator],
        write: Writes,
        group: int,
    ) -> Iterator[int]:
        """As of `Engine`; groups are written where their last operator ran."""
        import ray.data

        context = _quiet(ray.data.DataContext.get_current())
        context.execution_options.preserve_order = True  # batches below are groups
        rows = [pipeline.in_row(item) for item in items]
        data = ray.data.from_items(rows, override_num_blocks=len(rows))
        costs = self.costs()
        shares = card_shares(operators, costs, self.cards)
        for stage in stages(operators, shares):
            limits = limits_of(stage, self.patience)
            share = shares.get(stage[0].name)
            if share is None:
                needs = {"num_cpus": max(each.resources.cpus for each in stage)}
                needs["memory"] = max(_memory(each, costs) for each in stage)
                sent = pickle.dumps(stage)
                data = data.map(guard.carry_row, fn_args=(sent, limits), **needs)
            else:
                data = self._on_cards(data, stage[0], share, limits)
        data = data.map_batches(
            _written, batch_size=group, batch_format="numpy", fn_args=(write,), num_cpus=0.01
        )
        for batch in data.iter_batches(batch_size=None):
            yield int(sum(batch["items"]))

    def _on_cards(
        self, data: Any, operator: pipeline.Operator, share: float, limits: Mapping[str, float]
    ) -> Any:
        import ray.data

        assert self.cards is not None
        fraction = max(0.0, share - _CONTEXT / self.cards.bytes)  # that PyTorch may take
        place = pipeline.OnCard("cuda", fraction)
        moved = replace(operator, work=partial(operator.work, place=place))
        most = self.cards.count * int(1 / share)
        actors = ray.data.ActorPoolStrategy(min_size=1, max_size=most)
        more = {"num_gpus": share, "num_cpus": _FEEDS, "memory": operator.resources.memory}
        arguments = pickle.dumps([moved]), dict(limits)
        return data.map(guard.Resident, fn_constructor_args=arguments, compute=actors, **more)


def limits_of(operators: Sequence[pipeline.Operator], patience: float) -> dict[str, float]:
    """Seconds that each may take for an item."""
    return {each.name: patience * each.resources.seconds for each in operators}


def stages(
    operators: Sequence[pipeline.Operator], apart: Mapping[str, object]
) -> Iterator[list[pipeline.Operator]]:
    """Operators that run in one task, without a copy between them: all neighbours on the CPU.

    Those in `apart` are stages of their own.
    """
    for _, stage in groupby(operators, lambda each: each.name if each.name in apart else ""):
        yield list(stage)


def _memory(operator: pipeline.Operator, costs: pipeline.Costs) -> int:
    measured = costs.get(operator.name, {}).get("resident", 0.0)
    return WORKER_BYTES + (int(_MARGIN * measured) or operator.resources.memory)


def _quiet(context: Any) -> Any:
    """Ray tells nothing of its own; warnings would come between our lines."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context.enable_progress_bars = False
    context.issue_detectors_config.detectors = []
    return context


def _written(batch: dict[str, Any], write: Writes) -> dict[str, list[int]]:
    items = [pipeline.of_row({"item": each}) for each in batch["item"]]
    write(items)
    return {"items": [len(items)]}


_QUERY = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]


def cards_of(ray: Any, card_bytes: int | None = None) -> Cards | None:
    """The GPUs that a connected cluster has; None where it has none.

    `card_bytes`: of each; None: as nvidia-smi says on every node, and where it says nothing there
    is no GPU to plan with.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    count = int(ray.cluster_resources().get("GPU", 0))
    if count and card_bytes is None:
        ask = ray.remote(num_cpus=0)(_cards_here)
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
        ways = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
        found = ray.get([ask.options(scheduling_strategy=way).remote() for way in ways])
        card_bytes = min((size for sizes in found for size in sizes), default=None)
    return Cards(count, card_bytes) if count and card_bytes else None


def _cards_here() -> list[int]:
    try:
        told = subprocess.run(_QUERY, capture_output=True, text=True, check=True).stdout
        return [int(line) << 20 for line in told.split()]
    except (OSError, ValueError, subprocess.CalledProcessError):
        return []
