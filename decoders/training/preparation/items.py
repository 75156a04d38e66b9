"""What passes through the pipeline, from operator to operator."""

import pickle
import sys
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from gsvc.codec.bitstream.errors import GsvcError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.planning.process import peak_memory
from gsvc.decoders.training.packing.kinds import Sample
from gsvc.decoders.training.preparation.clips import Clip
from gsvc.decoders.training.preparation.selection import Found

Members = dict[str, bytes]
"""Files of a sample, by what stands after its key."""


class Cost(NamedTuple):
    """What an operator took for one item."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds of processors, of all threads of its process."""
    resident: int = 0
    """Bytes of memory that its process had held at most when it was done."""
    device: int = 0
    """Bytes that PyTorch had reserved on a GPU at most; 0 on a CPU."""


class Resources(NamedTuple):
    """What an operator needs while it runs."""

    cpus: float = 1.0
    """Cores that it keeps busy."""
    memory: int = 1_000_000_000
    """Bytes, libraries included, until they are measured."""
    device_memory: int = 0
    """Bytes of a GPU, until they are measured; 0: it has no use for one."""
    seconds: float = 600.0
    """That it may take for an item, which is set aside where it takes longer."""


@dataclass
class Item:
    """A source or a clip on its way."""

    number: int
    """Its place among all."""
    error: str = ""
    """Why it is set aside; what comes after leaves it alone."""
    costs: dict[str, Cost] = field(default_factory=dict)


@dataclass
class SourceItem(Item):
    """A source, and what the survey found in it."""

    address: str = ""
    sha256: str = ""
    bytes: int = 0
    found: list[Found] = field(default_factory=list)


@dataclass
class Crop:
    """A sample that was cut out of a coded clip."""

    key: str
    sample: Sample
    facts: dict[str, object]
    """What its JSON file says."""
    members: Members = field(default_factory=dict)


@dataclass
class ClipItem(Item):
    """A clip, its frames and what was cut out of what they were coded as."""

    clip: Clip | None = None
    measures: dict[str, float] = field(default_factory=dict)
    lambdas: tuple[int, ...] = ()
    """Numbers of the lambdas that it is encoded with; empty for all."""
    frames: list[Picture] = field(default_factory=list)
    crops: list[Crop] = field(default_factory=list)


UNCOUNTED = "_"
"""What the name of an operator begins with that does nothing worth a line in reports."""


class Operator(Protocol):
    """One step of the pipeline. It is sent to where it runs: what it loads, it loads there."""

    name: str
    resources: Resources

    def __call__(self, item: Any) -> None:
        """Do it to the item, of the kind that it is for. What it raises sets the item aside."""


class OnCard(NamedTuple):
    """Where an operator with a network runs."""

    device: str = "cpu"
    fraction: float = 1.0
    """Of a GPU's memory that PyTorch may take."""


@dataclass
class Network:
    """An operator with a network, which may live on a GPU that it shares."""

    place: OnCard = field(default_factory=OnCard)


def carried_out(operator: Operator, item: Item) -> None:
    """Let an operator do its work, and note what it took. Whatever it raises is the item's error:
    one bad file must not end a job of a weekend."""
    if item.error:
        return
    wall, cpu = time.monotonic(), time.process_time()
    try:
        operator(item)
    except GsvcError as error:
        item.error = str(error)
    except Exception as error:  # noqa: BLE001 - of any library, over any file
        item.error = f"{operator.name}: {type(error).__name__}: {error}"
    if operator.name.startswith(UNCOUNTED):
        return
    seconds = time.monotonic() - wall, time.process_time() - cpu
    item.costs[operator.name] = Cost(*seconds, peak_memory() or 0, _reserved())


def _reserved() -> int:
    torch = sys.modules.get("torch")  # an operator without a network does not load it
    if torch is None or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.max_memory_reserved())


def in_row(item: Item) -> dict[str, bytes]:
    """A row of Ray Data."""
    return {"item": pickle.dumps(item, protocol=5)}


def of_row(row: dict[str, bytes]) -> Item:
    """The item of a row that the pipeline itself made."""
    item: Item = pickle.loads(row["item"])
    return item
