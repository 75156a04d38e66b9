"""What the benchmark asks of a codec, and what codecs share: options, length-prefixed parts."""

import io
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import av

from gsvc.codec.bitstream.container import Cutter, read_varint, varint
from gsvc.codec.bitstream.errors import BitstreamError, ConfigError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip_reader import ClipFormat, TestClip
from gsvc.eval.late_loading import CodecFacts

Value = int | float | str
Settings = Mapping[str, Value]
"""Names and values that decide what is done, defaults included; they are part of the cell's key."""

_DELIMITER = re.compile(
    rb"\A(\x12\x00|\x00\x00\x00\x01(\x09|\x46\x01|\x00[\xa1-\xa7]).)", re.DOTALL
)
"""Before a frame: of AV1 a temporal delimiter, of H.264, H.265, H.266 an access unit delimiter."""
_FILES = "mov,mp4", "matroska", "ivf", "avi", "mpegts", "flv", "obu", "h264", "hevc", "vvc"
"""Formats of FFmpeg."""


@dataclass(frozen=True)
class Encoded:
    """A coded clip."""

    data: bytes = field(repr=False)
    """The bytes that a receiver must get."""
    seconds: float
    """Wall-clock time from frames to bytes."""
    ledger: Mapping[str, int]
    """Bits by layer; they sum to the bits of `data`. One layer where the codec has no others."""

    @property
    def bits(self) -> int:
        """Those that count: of a file of video, its packets and parameter sets; else all.

        Units that only delimit frames do not count: MP4 has none.
        """
        with suppress(av.FFmpegError), av.open(io.BytesIO(self.data), mode="r") as file:
            if file.format.name.startswith(_FILES):
                packets = [bytes(packet) for packet in file.demux()]
                codecs = [stream.codec_context for stream in file.streams.video]
                # Those of AV1 are in its first packet, too, in another form.
                sets = [o.extradata or b"" for o in codecs if o.codec.canonical_name != "av1"]
                beside = [one for one in sets if one not in packets[0]]
                carried = [*beside, *(_DELIMITER.sub(b"", packet) for packet in packets)]
                return 8 * sum(map(len, carried)) or 8 * len(self.data)
        return 8 * len(self.data)


@dataclass(frozen=True)
class Decoded:
    """A decoded clip."""

    frames: Sequence[Picture] = field(repr=False)
    """RGB uint8 (H, W, 3) at the clip's size."""
    seconds: float
    """Wall-clock time from bytes to frames."""


@dataclass(frozen=True)
class Compute:
    """What a decoder costs, by counting."""

    flops_per_pixel: float
    """Floating-point operations per pixel of a frame; a multiply-add counts two."""
    model_bytes: int
    """Bytes of weights."""

    def __add__(self, other: "Compute") -> "Compute":
        """Both, one after the other."""
        flops = self.flops_per_pixel + other.flops_per_pixel
        return Compute(flops, self.model_bytes + other.model_bytes)


class Codec(Protocol):
    """A way to code a clip; codecs inherit from it for the defaults.

    A method that cannot do its work raises a GsvcError that says why.
    """

    name: str
    """As on the command line and in tables: "svtav1", "gsvc"."""
    suffix: str
    """Of a file that holds the stream: ".obu", ".gsv"."""
    facts: CodecFacts = CodecFacts()
    """For tables and plots; the run records them."""

    def __init__(self) -> None:
        """Make one without options. Else a protocol's class takes any, and ignores them."""

    @abstractmethod
    def version(self) -> str:
        """Library and version, for the cell's key. Raises MissingDependencyError without it."""

    @abstractmethod
    def rate_points(self) -> Sequence[Settings]:
        """The settings that a benchmark runs when the user asks for no others."""

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        """How a stream coded with `settings` is decoded: one entry per choice, such as steps."""
        return [{}]

    @abstractmethod
    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        """Code the whole clip."""

    @abstractmethod
    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """Decode from the bytes and the format alone; as many frames as the clip has."""

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> Compute | None:
        """What `decode` costs; None where no counter sees it."""
        return None


def all_frames(name: str, frames: Sequence[Picture], clip: ClipFormat) -> Sequence[Picture]:
    """The frames of a stream of codec `name`. Raises BitstreamError unless the clip has as many."""
    if len(frames) != clip.frame_count:
        why = f"the {name} stream holds {len(frames)} of {clip.frame_count} frames: code it again"
        raise BitstreamError(why)
    return frames


_NAMED = re.compile(rb"(x26[45]) (?:- core|\(build)[^\0]*")


def self_description(data: bytes) -> str:
    """Bytes of text in which x264 or x265 names itself, and what leaves them out; "" without."""
    if (found := _NAMED.search(data)) is None:
        return ""
    how = {b"x264": "ffmpeg -bsf:v filter_units=remove_types=6", b"x265": "-x265-params info=0"}
    told = f"{len(found[0])} of {len(data)} bytes are {found[1].decode()}'s words on itself"
    return f"{told}: {how[found[1]]} leaves them out"


def require_frames(clip: TestClip) -> None:
    """Raise InputError for a clip without frames."""
    if not clip.frames:
        raise InputError("there are no frames to code: give a clip with at least one")


Option = Value | tuple[Value, ...]

_Kind = TypeVar("_Kind", int, float, str)


def several(value: Option) -> tuple[Value, ...]:
    """The values of an option."""
    return value if isinstance(value, tuple) else (value,)


def all_of(name: str, value: Option, kind: type[_Kind]) -> Sequence[_Kind]:
    """The values of an option, each of `kind` (an int will do for float). Raises ConfigError."""
    values: list[_Kind] = []
    for one in several(value):
        if kind is float and isinstance(one, int):
            one = float(one)
        if not isinstance(one, kind):
            raise ConfigError(f"{name} {one!r} is no {kind.__name__}: give another value")
        values.append(one)
    return values


def unless_usual(
    name: str, value: Option | None, usual: Value | None, kind: type[_Kind]
) -> list[dict[str, Value]]:
    """A setting for each value of an option, none for the usual one. Raises as `all_of`."""
    values = () if value is None else all_of(name, value, kind)
    return [{} if one == usual else {name: one} for one in values] or [{}]


def join_parts(parts: Iterable[bytes]) -> bytes:
    """Each part after its length, a varint."""
    return b"".join(varint(len(part)) + part for part in parts)


def split_parts(data: bytes) -> Iterator[bytes]:
    """The parts, one by one. Raises BitstreamError where the lengths do not fit the data."""
    cutter = Cutter(data)
    while cutter.left:
        yield cutter.take(read_varint(cutter.take))
