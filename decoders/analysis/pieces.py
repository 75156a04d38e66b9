"""Reads a stream for analysis: its intervals one by one, with or without their coded pictures."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from gsvc.codec.frames import Picture
from gsvc.codec.limits import Limits
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.codec.stream.group import GroupReader
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet
from gsvc.decoders.reconstruction import Reconstruction
from gsvc.decoders.timeline import Strict, Timeline


@dataclass(frozen=True, eq=False)
class Piece:
    """An interval of a stream, with the time of each of its frames."""

    interval: Interval
    closing: Sample | None
    """The sample on the coded picture before."""
    ticks: list[int]
    """The pts of its frames."""
    begins: bool
    """Whether it is not known how the frames before go on: a scene begins."""
    picture: Picture | None
    """The coded picture at its end, RGB uint8 (H, W, 3); None AFTER, and where none is decoded."""


class Pieces(Protocol):
    """Takes the packets of a stream in order."""

    def of(self, packet: Packet) -> Iterator[Piece]:
        """The pieces of the next packet. Raises BitstreamError where it is damaged or one before it
        is missing: then go on at an INTRA packet."""


class DecodedPieces(Pieces):
    """Gives pieces with their pictures."""

    def __init__(self, header: Header, limits: Limits) -> None:
        chain = Reconstruction(header, GroupReader(header, limits), attrgetter("picture"))
        self._strict = Strict(header, chain, limits)

    def of(self, packet: Packet) -> Iterator[Piece]:
        for one, ticks in self._strict.intervals(packet):
            has_picture = one.interval.place is not Place.AFTER
            picture = one.key.decoded if has_picture else None
            yield Piece(one.interval, one.closing, ticks, one.before is None, picture)


class ScaffoldPieces(Pieces):
    """Gives pieces without pictures, of which none is decoded."""

    def __init__(self, header: Header, limits: Limits) -> None:
        self._reader, self._timeline = GroupReader(header, limits), Timeline(header, limits)
        self._closing: Sample | None = None
        self._anew = True

    def of(self, packet: Packet) -> Iterator[Piece]:
        if not packet.is_picture:
            return
        parsed = self._reader.read(packet)
        ticks = self._timeline.times(packet, parsed.ticks, anew=self._anew)
        opens, self._anew = parsed.is_intra, False
        for interval in parsed.intervals:
            times, ticks = ticks[: interval.length], ticks[interval.length :]
            begins = opens and (interval.place is Place.BEFORE or interval.length == 1)
            yield Piece(interval, self._closing, times, begins, None)
            self._closing, opens = interval.closing_sample, False
