"""What operators take while a job runs: each process notes it in a file, who watches reads them."""

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gsvc.decoders.training.preparation.prepared_samples import Cost, Item, Operator, Resources


@dataclass
class Note:
    """Notes what the operators before it took for an item."""

    folder: Path
    """Seen by all nodes."""
    names: tuple[str, ...]
    """Of these operators."""
    name = "_note"
    resources = Resources(memory=0)

    def __call__(self, item: Item) -> None:
        """A line of a file that no other process writes."""
        costs = {name: item.costs[name] for name in self.names if name in item.costs}
        path = self.folder / f"{socket.gethostname()}-{os.getpid()}.jsonl"
        with path.open("a") as file:
            file.write(json.dumps(costs) + "\n")


def noted(operators: Sequence[Operator], folder: Path | None) -> list[Operator]:
    """Operators that run together, and after them the one that notes, if anybody watches."""
    if folder is None:
        return list(operators)
    return [*operators, Note(folder, tuple(each.name for each in operators))]


@dataclass
class Watched:
    """What was noted since watching began."""

    folder: Path
    items: dict[str, int] = field(default_factory=dict)
    """Done, by operator."""
    wall: dict[str, float] = field(default_factory=dict)
    """Seconds, by operator."""
    cpu: float = 0.0
    """Seconds of processors, of all operators."""
    _read: dict[Path, int] = field(default_factory=dict)

    def look(self) -> None:
        """Read what is new; a line that is being written waits."""
        for path in sorted(self.folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.splitlines():
                for name, cost in json.loads(line).items():
                    self._add(name, Cost(*cost))

    def _add(self, name: str, cost: Cost) -> None:
        self.items[name] = self.items.get(name, 0) + 1
        self.wall[name] = self.wall.get(name, 0.0) + cost.wall
        self.cpu += cost.cpu
