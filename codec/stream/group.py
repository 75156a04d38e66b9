"""The packets of a group: intervals and coded pictures to payloads, and back.

The payload of a picture packet is the length of the scaffold (varint), the scaffold, and the AV1
temporal unit. Models and predictions of the scaffold are reset at each group.
"""

from dataclasses import dataclass

from gsvc.codec.errors import BitstreamError, LimitError
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.scaffold.coder import Coder, Reader, Trace, Writer
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.syntax import IntervalCoder
from gsvc.codec.scaffold.types import Interval
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet
from gsvc.codec.stream.varint import Cutter, read_varint, varint


class GroupWriter:
    """Writes the payloads of one group's packets, in order."""

    def __init__(self, header: Header, crf: int, scale: int) -> None:
        """`crf`: quantiser of the pictures, 1 to 70; `scale`: their scale in eighths, 1 to 8."""
        self._writer = Writer()
        self._coder = _interval_coder(self._writer, header)
        self._coder.code_picture(crf, scale)

    def write(self, interval: Interval, unit: bytes) -> bytes:
        """The payload with an interval's scaffold and `unit`.

        `unit` is the AV1 temporal unit of the picture at its end, empty where there is none. Raises
        ConfigError for an interval that cannot be stored.
        """
        has_picture = interval.place is not Place.AFTER
        self._coder.code(interval.length, interval, has_picture=has_picture)
        scaffold = self._writer.finish()
        return varint(len(scaffold)) + scaffold + unit


@dataclass(frozen=True)
class ParsedInterval:
    """A picture packet after parsing; its picture is not decoded."""

    is_intra: bool
    """Whether it opens a group."""
    crf: int
    """Quantiser of the group's pictures, 1 to 70."""
    scale: int
    """Their scale in eighths of the display size, 1 to 8."""
    interval: Interval
    """The scaffold."""
    unit: bytes
    """AV1 temporal unit; empty where frames are held after a scene's last picture."""
    scaffold_size: int
    """Bytes of the scaffold."""
    bits: dict[str, float]
    """Bits of the scaffold before rounding to bytes, by layer of the ledger."""


@dataclass(frozen=True)
class _Group:
    reader: Reader
    coder: IntervalCoder
    crf: int
    scale: int


class GroupReader:
    """Reads the scaffold of picture packets, group after group."""

    def __init__(
        self, header: Header, limits: Limits = DEFAULT_LIMITS, trace: Trace | None = None
    ) -> None:
        self._header, self._limits, self._trace = header, limits, trace
        self._longest = limits.longest_interval(header.format.width, header.format.height)
        self._group: _Group | None = None

    def read(self, packet: Packet) -> ParsedInterval:
        """Parse the next INTRA or INTER packet. An error, BitstreamError, ends the group."""
        group, scaffold, unit = self._started(packet)
        interval = group.coder.code(packet.frames, None, has_picture=bool(unit))
        self._group = group
        return ParsedInterval(
            is_intra=packet.is_key,
            crf=group.crf,
            scale=group.scale,
            interval=interval,
            unit=unit,
            scaffold_size=len(scaffold),
            bits=dict(group.reader.bits),
        )

    def read_times(self, packet: Packet) -> tuple[Place, tuple[int, ...]]:
        """Where the packet's frames lie, and their ticks: a faster substitute for `read`."""
        group, _, unit = self._started(packet)
        times = group.coder.code_times(packet.frames, None, has_picture=bool(unit))
        self._group = group
        return times

    def end_group(self) -> None:
        """Refuse INTER packets up to the next INTRA packet."""
        self._group = None

    def _started(self, packet: Packet) -> tuple[_Group, bytes, bytes]:
        """The packet's group, ready to read; its scaffold and its temporal unit."""
        group, self._group = self._group, None  # Damage ends the group.
        if not 1 <= packet.frames <= self._longest:
            raise LimitError(
                f"a packet of {packet.frames} frames: 1 to {self._longest} can be of this size"
            )
        scaffold, unit = split_payload(packet.payload)
        if packet.is_key:
            group = self._opened(scaffold)
        elif group is None:
            raise BitstreamError("a picture lacks the intra picture it builds on: begin at one")
        else:
            group.reader.bits.clear()
            group.reader.start(scaffold)
        return group, scaffold, unit

    def _opened(self, scaffold: bytes) -> _Group:
        reader = Reader(self._trace, self._limits.scaffold_bits)
        reader.start(scaffold)
        coder = _interval_coder(reader, self._header)
        return _Group(reader, coder, *coder.code_picture(None, None))


def _interval_coder(coder: Coder, header: Header) -> IntervalCoder:
    return IntervalCoder(coder, header.prediction(), header.geometry, header.tools)


def split_payload(payload: bytes) -> tuple[bytes, bytes]:
    """Scaffold and temporal unit of a payload. Raises BitstreamError for a scaffold cut short."""
    cutter = Cutter(payload)
    return cutter.take(read_varint(cutter.take)), cutter.rest()
