"""Operators that hang, end their process, or note where they ran; for tests of the pipeline."""

import os
import time
from dataclasses import dataclass, field

from gsvc.decoders.training.preparation.items import ClipItem, Item, Network, Resources

HANGS, EXITS = 1, 2
"""Numbers of items."""


class Fragile:
    """Hangs at one item and ends its process at another one."""

    name = "fragile"
    resources = Resources(memory=1_000_000, seconds=3.0)

    def __call__(self, item: Item) -> None:
        """Notes nothing."""
        if item.number == HANGS:
            time.sleep(60)
        if item.number == EXITS:
            os._exit(3)


@dataclass
class Noting(Network):
    """Takes a while, and notes when, and the GPUs that its process sees."""

    name: str = ""
    resources: Resources = field(default_factory=lambda: Resources(memory=1_000_000))

    def __call__(self, item: ClipItem) -> None:
        """As measures `NAME begun`, `NAME ended`, `NAME gpus`."""
        item.measures[f"{self.name} begun"] = time.time()
        time.sleep(0.3)
        item.measures[f"{self.name} ended"] = time.time()
        seen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        on_card = self.place.device == "cuda" and seen == "0"
        item.measures[f"{self.name} gpus"] = float(on_card)
