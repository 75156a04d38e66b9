"""A stream as analysis reads it: its intervals one by one, and their frames while they wait.

Intervals are read with or without their keyframes. Frames wait until it is known which tracks in
them are objects.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.errors import Limits
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.scaffold import Interval, Place, Sample
from gsvc.decoders.detection.findings import Box, CameraStep, clipped, within
from gsvc.decoders.detection.tracker import Track
from gsvc.decoders.streams.reconstruction import PacketTimeline, Reconstruction, StrictTimeline


@dataclass(frozen=True, eq=False)
class StreamPiece:
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


class DecodedPieces:
    """The pieces of a stream with their keyframes, decoded."""

    def __init__(self, header: Header, limits: Limits) -> None:
        chain = Reconstruction(header, GroupReader(header, limits), attrgetter("picture"))
        self._strict = StrictTimeline(header, chain, limits)

    def of(self, packet: Packet) -> Iterator[StreamPiece]:
        """The pieces of the next packet.

        Raises BitstreamError where it is damaged or one before it is missing: then go on at an
        INTRA packet.
        """
        for one, ticks in self._strict.intervals(packet):
            has_picture = one.interval.place is not Place.AFTER
            picture = one.key.textured if has_picture else None
            yield StreamPiece(one.interval, one.closing, ticks, one.before is None, picture)


class ScaffoldPieces:
    """The pieces of a stream without keyframes: no picture is decoded."""

    def __init__(self, header: Header, limits: Limits) -> None:
        self._reader, self._timeline = GroupReader(header, limits), PacketTimeline(header, limits)
        self._closing: Sample | None = None
        self._anew = True

    def of(self, packet: Packet) -> Iterator[StreamPiece]:
        """As of `DecodedPieces.of`."""
        if not packet.is_picture:
            return
        parsed = self._reader.read(packet)
        ticks = self._timeline.times(packet, parsed.ticks, anew=self._anew)
        opens, self._anew = parsed.opens_shot, False
        for interval in parsed.intervals:
            times, ticks = ticks[: interval.length], ticks[interval.length :]
            begins = opens and (interval.place is Place.BEFORE or interval.length == 1)
            yield StreamPiece(interval, self._closing, times, begins, None)
            self._closing, opens = interval.closing_sample, False


_VISIBLE = 0.3
"""Share of an object within the picture, below which it is not shown."""


@dataclass(eq=False)
class Draft:
    """One frame."""

    frame: int
    """Its number, from 0."""
    ticks: int
    """Its pts."""
    piece: StreamPiece
    """Where it is from."""
    offset: int
    """Frames since the piece's begin, from 1."""
    objects: list[tuple[Track, Box]] = field(default_factory=list)
    """What may be in it."""
    activity: float | None = None
    """As in `FrameAnalysis`."""
    camera: CameraStep | None = None
    """As in `FrameAnalysis`."""
    is_cut: bool = False
    """Whether a scene begins here."""

    @property
    def is_decided(self) -> bool:
        """Whether all of its tracks are known to be objects or not."""
        return all(track.confirmed or track.ended for track, _ in self.objects)

    def shown(self, size: tuple[int, int]) -> Iterator[tuple[Track, Box]]:
        """The objects, by number, that are in a picture of that width and height, and where."""
        whole = np.array([0.0, 0.0, *size])
        for track, box in sorted(self.objects, key=lambda pair: pair[0].number):
            if track.confirmed and within(box, whole) > _VISIBLE:
                yield track, clipped(box, size)


class Queue:
    """Holds frames, a run at a time, until they are decided."""

    def __init__(self) -> None:
        self._runs: list[list[Draft]] = []

    def put(self, run: list[Draft]) -> None:
        """Add the next frames."""
        self._runs.append(run)

    def decided(self) -> Iterator[Draft]:
        """Take out those that are decided; the last run stays."""
        while len(self._runs) > 1 and all(draft.is_decided for draft in self._runs[0]):
            yield from self._runs.pop(0)

    def all(self) -> Iterator[Draft]:
        """Take out everything."""
        while self._runs:
            yield from self._runs.pop(0)
