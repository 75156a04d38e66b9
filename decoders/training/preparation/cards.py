"""The GPUs of a Ray cluster."""

import subprocess
from typing import Any

from gsvc.decoders.training.preparation.residency import Cards

_QUERY = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
_MIB = 1 << 20


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
    """Bytes of each GPU of this machine."""
    try:
        told = subprocess.run(_QUERY, capture_output=True, text=True, check=True).stdout
        return [int(line) * _MIB for line in told.split()]
    except (OSError, ValueError, subprocess.CalledProcessError):
        return []
