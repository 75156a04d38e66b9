"""What the benchmark asks of a codec. Adding one is one small class with these members."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gsvc.codec.errors import InputError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import ClipFormat, TestClip

Value = int | float | str
Settings = Mapping[str, Value]
"""Names and values that settle what is done; they stand in the cell's key, so defaults stand in too."""


@dataclass(frozen=True)
class Encoded:
    """A coded clip: the bytes a receiver must get, and the wall-clock seconds from frames to bytes.

    `ledger` gives bits by layer and sums to the bytes' bits; one layer where the codec has no others.
    """

    data: bytes = field(repr=False)
    seconds: float
    ledger: Mapping[str, int]


@dataclass(frozen=True)
class Decoded:
    """Frames RGB uint8 (H, W, 3) at the clip's size, and the wall-clock seconds from bytes to frames."""

    frames: Sequence[Picture] = field(repr=False)
    seconds: float


class Codec(Protocol):
    """A way to code a clip. Methods raise a GsvcError that says why when they cannot."""

    name: str
    """As on the command line and in tables: "svtav1", "gsvc"."""
    suffix: str
    """Of a file with the stream: ".obu", ".gsv"."""

    def version(self) -> str:
        """Library and version, for the cell's key; raises MissingDependencyError when it is not here."""

    def rate_points(self) -> Sequence[Settings]:
        """The settings that a benchmark runs when nobody asks for others."""

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        """How a stream coded with `settings` is decoded: `[{}]`, or several (gsvc: one for each number
        of steps).
        """

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        """Code the whole clip."""

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """Decode from nothing but the bytes and the format; as many frames as the clip has."""

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> "Compute | None":
        """What `decode` costs by counting, where it can be counted; None: only the clock can say."""


@dataclass(frozen=True)
class Compute:
    """Decoder cost: floating point operations a pixel of a frame (2 a multiply-add), bytes of weights.

    `not_counted` names the operators that the counter does not know.
    """

    flops_per_pixel: float
    model_bytes: int
    not_counted: tuple[str, ...] = ()


def require_frames(clip: TestClip) -> None:
    """Raise InputError for a clip without frames."""
    if not clip.frames:
        raise InputError("there are no frames to code: give a clip with at least one")
