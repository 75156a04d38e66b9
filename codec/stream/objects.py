"""OBJECTS packets: the objects of some frames, which a decoder that draws frames skips.

since    varint   2 * packets since one that can be read alone, itself 0, + 1 without pictures
frames   varint   frames that it describes, after those of the OBJECTS packet before
the anchors of these frames, the last one at the last frame, entropy-coded
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gsvc.codec.errors import BitstreamError, ConfigError, LimitError
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.scaffold.coder import Coder, Reader, Trace, Writer
from gsvc.codec.scaffold.layers.objects import (
    Anchor,
    AnchorCoder,
    Parts,
    code_parts,
)
from gsvc.codec.scaffold.layout import code_ticks
from gsvc.codec.scaffold.timing import FrameClock
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.codec.stream.varint import Cutter, read_varint, varint


@dataclass(frozen=True, eq=False)
class ObjectRun:
    """What an OBJECTS packet says of some frames."""

    ticks: tuple[int, ...]
    """Time from the frame before of each frame, in units of the time base."""
    anchors: tuple[Anchor, ...]
    """Their gaps sum to the number of frames."""
    parts: Parts = field(default_factory=Parts)
    """What its anchors have."""
    begins: bool = False
    """Whether it can be read without the packets before."""
    is_alone: bool = False
    """Whether the stream has no pictures."""


class _RunCoder:
    """Codes the runs that build on each other: the same for writing and reading."""

    def __init__(self, coder: Coder, header: Header) -> None:
        self._coder = coder
        self._clock = FrameClock(header.frame_ticks)
        self._anchors = AnchorCoder(coder, header.geometry)

    def code(self, frames: int, run: ObjectRun | None) -> ObjectRun:
        parts = code_parts(self._coder, None if run is None else run.parts)
        ticks = code_ticks(self._coder, self._clock, frames, None if run is None else run.ticks)
        anchors: list[Anchor] = []
        left = frames
        while left:
            wanted = None if run is None else _nth(run.anchors, len(anchors))
            anchors.append(self._anchors.code(left, parts, wanted))
            left -= anchors[-1].gap
        return ObjectRun(ticks, tuple(anchors), parts)


def _nth(anchors: Sequence[Anchor], index: int) -> Anchor:
    if index == len(anchors):
        raise ConfigError("the anchors of objects end before their frames")
    return anchors[index]


class ObjectWriter:
    """Writes the runs of one stream, in order."""

    def __init__(self, header: Header) -> None:
        self._header, self._since = header, 0
        self._begin()

    def _begin(self) -> None:
        self._writer = Writer()
        self._coder = _RunCoder(self._writer, self._header)

    def write(self, run: ObjectRun) -> bytes:
        """The payload of a run. Raises ConfigError for what cannot be stored."""
        if run.begins:
            self._begin()
            self._since = 0
        head = varint(2 * self._since + run.is_alone) + varint(len(run.ticks))
        self._since += 1
        if not run.ticks:
            return head
        self._coder.code(len(run.ticks), run)
        return head + self._writer.finish()


def is_alone(packet: Packet) -> bool:
    """Whether it is an OBJECTS packet of a stream without pictures."""
    return packet.type == PacketType.OBJECTS and bool(packet.payload[:1] and packet.payload[0] & 1)


class ObjectReader:
    """Reads OBJECTS packets in order; after a lost one, from the next that can be read alone on."""

    def __init__(
        self, header: Header, limits: Limits = DEFAULT_LIMITS, trace: Trace | None = None
    ) -> None:
        self._header, self._limits, self._trace = header, limits, trace
        self._next: int | None = None

    def read(self, packet: Packet) -> ObjectRun:
        """The run of an OBJECTS packet. Raises BitstreamError where it is invalid or builds on one
        that is missing."""
        expected, self._next = self._next, None  # Damage ends what can be read.
        cutter = Cutter(packet.payload)
        since, is_alone = divmod(read_varint(cutter.take), 2)
        frames = read_varint(cutter.take)
        # A schematic draws these frames.
        most = self._limits.longest_interval(self._header.format.width, self._header.format.height)
        if frames > most:
            raise LimitError(f"objects of {frames} frames: at most {most} can be of this size")
        if since == 0:
            self._reader = Reader(self._trace, self._limits.scaffold_bits)
            self._coder = _RunCoder(self._reader, self._header)
        elif since != expected:
            raise BitstreamError("objects build on a packet that is missing: begin at another")
        run = ObjectRun((), ())
        if frames:
            self._reader.start(cutter.rest())
            run = self._coder.code(frames, None)
        self._next = since + 1
        return replace(run, begins=since == 0, is_alone=bool(is_alone))
