"""The pipeline on Ray Data: it streams, spreads over nodes, and holds back what runs ahead."""

import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from gsvc.decoders.training.preparation.guard import carry_row
from gsvc.decoders.training.preparation.items import (
    Item,
    Network,
    OnCard,
    Operator,
    in_row,
    of_row,
)
from gsvc.decoders.training.preparation.live import noted
from gsvc.decoders.training.preparation.residency import (
    Cards,
    Residence,
    budget,
    model_of,
    residences,
)
from gsvc.decoders.training.preparation.resident import Resident
from gsvc.decoders.training.preparation.shards import Costs

_FEEDS = 0.25
"""Cores that a process takes to feed a GPU."""
WORKER_BYTES = 250_000_000
"""Bytes of a worker of Ray beside the helper that carries operators out."""
_MARGIN = 1.2
"""Of memory, over what was measured."""


class Writes(Protocol):
    """Writes a finished group of items."""

    def __call__(self, items: Sequence[Item]) -> None:
        """`items`: all of a group, in order."""


class Engine(Protocol):
    """Carries operators out over items."""

    def run(
        self, items: Iterable[Item], operators: Sequence[Operator], write: Writes, group: int
    ) -> None:
        """Give every `group` items that follow each other to `write` when they are done."""


@dataclass(frozen=True)
class InTurn:
    """In one process, one item after the other, on the CPU: what the rest is compared with."""

    patience: float = 1.0
    """Times the time that operators may take."""
    live: Path | None = None
    """The folder where operators note what they take."""

    def run(
        self, items: Iterable[Item], operators: Sequence[Operator], write: Writes, group: int
    ) -> None:
        """As of `Engine`."""
        work, limits = noted(operators, self.live), limits_of(operators, self.patience)
        sent = pickle.dumps(work)
        done: list[Item] = []
        for item in items:
            done.append(of_row(carry_row(in_row(item), sent, limits)))
            if len(done) == group:
                write(done)
                done = []
        if done:
            write(done)


@dataclass(frozen=True)
class OnRay:
    """On the Ray cluster that this process is connected to."""

    cards: Cards | None = None
    """Its GPUs."""
    cores: float = 1.0
    """Of all nodes."""
    costs: Callable[[], Costs] = dict
    """What operators took so far."""
    patience: float = 1.0
    """Times the time that operators may take."""
    live: Path | None = None
    """The folder where operators note what they take; all nodes see it."""

    def run(
        self, items: Iterable[Item], operators: Sequence[Operator], write: Writes, group: int
    ) -> None:
        """As of `Engine`; groups are written where their last operator ran."""
        import ray.data

        context = _quiet(ray.data.DataContext.get_current())
        context.execution_options.preserve_order = True  # batches below are groups
        rows = [in_row(item) for item in items]
        data = ray.data.from_items(rows, override_num_blocks=len(rows))
        costs = self.costs()
        places = self.residences(operators, costs)
        for stage in stages(operators, places):
            limits = limits_of(stage, self.patience)
            place = places.get(stage[0].name)
            if place is None:
                needs = {"num_cpus": max(each.resources.cpus for each in stage)}
                needs["memory"] = max(_memory(each, costs) for each in stage)
                sent = pickle.dumps(noted(stage, self.live))
                data = data.map(carry_row, fn_args=(sent, limits), **needs)
            else:
                data = self._on_card(data, stage[0], place, limits)
        data = data.map_batches(
            _written, batch_size=group, batch_format="numpy", fn_args=(write,), num_cpus=0.01
        )
        for _ in data.iter_batches(batch_size=None):
            pass

    def residences(self, operators: Sequence[Operator], costs: Costs) -> dict[str, Residence]:
        """Which operators live on GPUs, for as many items a second as CPUs give."""
        able = [each for each in operators if each.resources.device_memory]
        known = [costs[each.name] for each in operators if each.name in costs and each not in able]
        seconds = sum(row["cpu"] / row["items"] for row in known)
        models = [model_of(each, costs) for each in able]
        return residences(models, self.cards, self.cores / seconds if seconds else 0.0)

    def _on_card(
        self, data: Any, operator: Operator, place: Residence, limits: Mapping[str, float]
    ) -> Any:
        """The stage of an operator that lives on GPUs, one actor for each of its processes."""
        import ray.data

        assert self.cards is not None and isinstance(operator, Network)
        fraction, limit = budget(place, self.cards)
        moved = replace(operator, place=OnCard("cuda", fraction))
        actors = ray.data.ActorPoolStrategy(min_size=1, max_size=len(place.cards))
        more = {"num_gpus": place.share, "num_cpus": _FEEDS, "memory": operator.resources.memory}
        arguments = pickle.dumps(noted([moved], self.live)), dict(limits), limit
        return data.map(Resident, fn_constructor_args=arguments, compute=actors, **more)


def limits_of(operators: Sequence[Operator], patience: float) -> dict[str, float]:
    """Seconds that each may take for an item."""
    return {each.name: patience * each.resources.seconds for each in operators}


def stages(operators: Sequence[Operator], apart: Mapping[str, object]) -> Iterator[list[Operator]]:
    """Operators that run in one task, without a copy between them: all neighbours on the CPU.

    Those in `apart` are stages of their own.
    """
    together: list[Operator] = []
    for operator in operators:
        if operator.name not in apart:
            together.append(operator)
            continue
        if together:
            yield together
        yield [operator]
        together = []
    if together:
        yield together


def _memory(operator: Operator, costs: Costs) -> int:
    measured = costs.get(operator.name, {}).get("resident", 0.0)
    return WORKER_BYTES + (int(_MARGIN * measured) or operator.resources.memory)


def _quiet(context: Any) -> Any:
    """Ray tells nothing of its own; warnings would come between our lines."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context.enable_progress_bars = False
    context.issue_detectors_config.detectors = []
    return context


def _written(batch: dict[str, Any], write: Writes) -> dict[str, list[int]]:
    items = [of_row({"item": each}) for each in batch["item"]]
    write(items)
    return {"items": [len(items)]}
