"""What passes through the pipeline, and samples as files and back.

Any reader of WebDataset shards can read the files.
"""

import io
import pickle
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import GsvcError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.planning.process import peak_memory
from gsvc.decoders.training.packing.kinds import Arrays, Sample, Stacks, exact, stored
from gsvc.decoders.training.preparation.selection import Found
from gsvc.decoders.training.preparation.sources import Clip
from gsvc.decoders.training.standalone.samples import (
    LOSSLESS,
    sample_files,
    sample_of_files,
    stack_of_picture,
)

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


DRAWN, FEATURES = "drawn.webp", "features.npy"
"""Files of what frozen networks made."""
_SEEN = "drawn", "features"


def sample_members(sample: Sample, facts: Mapping[str, object]) -> Members:
    """The files of a sample, but for what networks saw in it: that has files of its own."""
    stacks = {name: stack for name, stack in sample.stacks.items() if name not in _SEEN}
    arrays = {name: array for name, array in sample.arrays.items() if name not in _SEEN}
    own = replace(sample, stacks=stacks, arrays=arrays)
    return sample_files(stored(own, **facts), LOSSLESS)


def sample_of(members: Mapping[str, bytes]) -> Sample:
    """The sample that has these files. Raises InputError where they are damaged."""
    try:
        sample = exact(sample_of_files(members, "a sample of the shards"))
        stacks, arrays = seen_by_networks(members)
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise InputError(f"a sample of the shards is damaged ({error})") from error
    return replace(sample, stacks=sample.stacks | stacks, arrays=sample.arrays | arrays)


def seen_by_networks(members: Mapping[str, bytes]) -> tuple[Stacks, Arrays]:
    """What frozen networks made of a sample: the stack `drawn`, two pictures for each that was
    decoded, and the array `features`, where they are among its files.

    Raises OSError or ValueError where they are damaged.
    """
    stacks: Stacks = {}
    arrays: Arrays = {}
    if DRAWN in members:
        strip = stack_of_picture(members[DRAWN], 1)
        side = strip.shape[2]
        stacks["drawn"] = strip.reshape(-1, side, side, strip.shape[3])
    if FEATURES in members:
        arrays["features"] = np.load(io.BytesIO(members[FEATURES]), allow_pickle=False)
    return stacks, arrays


def array_bytes(array: NDArray[np.generic]) -> bytes:
    """An array as a .npy file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
