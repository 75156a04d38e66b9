"""What is kept of one cell of a benchmark: its stream, how it was decoded, what was measured.

A cell is a clip coded once. Its record is a JSON file; every number of every table is made from
these.
"""

from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class Scores:
    """One metric of one decoded clip."""

    mean: float | None
    """None without a number."""
    values: list[float | None] = field(default_factory=list)
    """In the order of the run's frame indices; one for a metric of whole clips."""
    version: str = ""
    gap: str = ""
    """Why there is no number."""
    traceback: str = field(default="", compare=False)
    """Of an error that is none of gsvc's, such as one in a user's own metric."""
    seconds: float = field(default=0.0, compare=False)
    """Wall-clock time of measuring; its share, where several were measured at once."""


@dataclass(frozen=True)
class DecodeRecord:
    """One way a cell's stream was decoded."""

    way: dict[str, int | float | str]
    seconds: float
    """Wall-clock."""
    frames_sha256: str
    scores: dict[str, Scores]
    flops_per_pixel: float | None = None
    """Per pixel of a frame."""
    model_bytes: int | None = None
    not_counted: list[str] = field(default_factory=list)
    """Operators that the FLOPs leave out."""
    peak_memory: int | None = None
    """Bytes of resident memory at the peak, over those before decoding began."""
    joules: float | None = None
    """Of the processor while decoding; None where it was not measured."""
    cpu_seconds: float | None = field(default=None, compare=False)
    """Processor time of decoding, all cores together; None where it was not measured."""


@dataclass(frozen=True)
class CellRecord:
    """A cell that was run."""

    key: str
    clip: str
    size: str
    """"288", "480" or "native"."""
    width: int
    height: int
    frame_rate: str
    """A fraction: "30000/1001"."""
    frames: int
    source_sha256: str
    codec: str
    codec_version: str
    settings: dict[str, int | float | str]
    bits: int = 0
    stream_sha256: str = ""
    ledger: dict[str, int] = field(default_factory=dict)
    """Bits by layer."""
    encode_seconds: float = 0.0
    encode_joules: float | None = None
    """Of the processor while encoding; None where it was not measured."""
    encode_cpu_seconds: float | None = field(default=None, compare=False)
    """As `DecodeRecord.cpu_seconds`."""
    decodes: list[DecodeRecord] = field(default_factory=list)
    error: str = ""
    """Why it, or a part of it, failed; the rest of the record stays valid."""
    traceback: str = field(default="", compare=False)
    """Of that failure, unless gsvc itself says what is wrong."""
    schema: int = SCHEMA

    @property
    def bpp(self) -> float:
        """Bits per pixel of a frame as shown."""
        return self.bits / (self.frames * self.width * self.height)

    @property
    def bitrate(self) -> float:
        """Bits per second."""
        numerator, _, denominator = self.frame_rate.partition("/")
        return self.bits * int(numerator) / int(denominator or 1) / self.frames


def from_json(values: dict[str, Any]) -> CellRecord:
    """The inverse of `asdict`. Raises ValueError, KeyError or TypeError for what is no record."""
    if values["schema"] != SCHEMA:
        raise ValueError(f"schema {values['schema']} instead of {SCHEMA}")
    decodes = [
        DecodeRecord(**{**one, "scores": {k: Scores(**v) for k, v in one["scores"].items()}})
        for one in values["decodes"]
    ]
    return CellRecord(**{**values, "decodes": decodes})
