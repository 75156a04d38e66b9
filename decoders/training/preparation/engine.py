"""The pipeline on Ray Data: it streams, spreads over nodes, and holds back what runs ahead."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from gsvc.decoders.training.preparation.items import Item, Operator, carried_out, in_row, of_row


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


class InTurn:
    """All in this process, one item after the other: what the rest is compared with."""

    def run(
        self, items: Iterable[Item], operators: Sequence[Operator], write: Writes, group: int
    ) -> None:
        """As of `Engine`."""
        done: list[Item] = []
        for item in items:
            for operator in operators:
                carried_out(operator, item)
            done.append(item)
            if len(done) == group:
                write(done)
                done = []
        if done:
            write(done)


class OnRay:
    """On the Ray cluster that this process is connected to."""

    def run(
        self, items: Iterable[Item], operators: Sequence[Operator], write: Writes, group: int
    ) -> None:
        """As of `Engine`; groups are written where their last operator ran."""
        import ray.data

        context = _quiet(ray.data.DataContext.get_current())
        context.execution_options.preserve_order = True  # batches below are groups
        rows = [in_row(item) for item in items]
        data = ray.data.from_items(rows, override_num_blocks=len(rows))
        for operator in operators:
            needs = operator.resources
            more = {"num_cpus": needs.cpus, "memory": needs.memory}
            data = data.map(_carry_out, fn_args=(operator,), **more)
        data = data.map_batches(
            _written, batch_size=group, batch_format="numpy", fn_args=(write,), num_cpus=0.01
        )
        for _ in data.iter_batches(batch_size=None):
            pass


def _quiet(context: Any) -> Any:
    """Ray tells nothing of its own; warnings would come between our lines."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context.enable_progress_bars = False
    context.issue_detectors_config.detectors = []
    return context


def _carry_out(row: dict[str, bytes], operator: Operator) -> dict[str, bytes]:
    item = of_row(row)
    carried_out(operator, item)
    return in_row(item)


def _written(batch: dict[str, Any], write: Writes) -> dict[str, list[int]]:
    items = [of_row({"item": each}) for each in batch["item"]]
    write(items)
    return {"items": [len(items)]}
