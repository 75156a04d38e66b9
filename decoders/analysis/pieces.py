"""Reads a stream for analysis: its intervals one by one, with or without their coded pictures."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

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


def decoded_pieces(header: Header, packets: Iterable[Packet], limits: Limits) -> Iterator[Piece]:
    """The pieces of a whole stream with their pictures. Raises BitstreamError where damaged."""
    chain = Reconstruction(header, GroupReader(header, limits), attrgetter("picture"))
    strict = Strict(header, chain, limits)
    for packet in packets:
        for one, ticks in strict.intervals(packet):
            has_picture = one.interval.place is not Place.AFTER
            picture = one.key.decoded if has_picture else None
            yield Piece(one.interval, one.closing, ticks, one.before is None, picture)


def scaffold_pieces(header: Header, packets: Iterable[Packet], limits: Limits) -> Iterator[Piece]:
    """The same without pictures, of which none is decoded."""
    reader, timeline = GroupReader(header, limits), Timeline(header, limits)
    closing: Sample | None = None
    for number, packet in enumerate(each for each in packets if each.is_picture):
        parsed = reader.read(packet)
        ticks, opens = timeline.times(packet, parsed.ticks, anew=not number), parsed.is_intra
        for interval in parsed.intervals:
            times, ticks = ticks[: interval.length], ticks[interval.length :]
            begins = opens and (interval.place is Place.BEFORE or interval.length == 1)
            yield Piece(interval, closing, times, begins, None)
            closing, opens = interval.closing_sample, False
