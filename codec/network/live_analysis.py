"""Analysis of live packets: one stream after another, each told frame by frame."""

from collections.abc import Iterator
from itertools import chain

from gsvc.codec.errors import BitstreamError
from gsvc.codec.limits import Limits
from gsvc.codec.network.live_decoder import Arrival
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.decoders.analysis.analyser import Analyser, AnalysisSettings
from gsvc.decoders.analysis.sent_objects import find_content
from gsvc.decoders.analysis.types import FrameAnalysis


class LiveAnalysis:
    """Analyses arrivals. Its methods run in one worker thread.

    A stream's objects are read where there are any up to its second picture packet; else its
    pictures are looked at. What is lost is left out: numbers and times of frames count on.
    `damaged` counts packets that could not be read.
    """

    def __init__(self, settings: AnalysisSettings | None, limits: Limits) -> None:
        self.damaged = 0
        self._settings, self._limits = settings, limits
        self._stream = 0
        self._header: Header | None = None
        self._analyser: Analyser | None = None
        self._waiting: list[Packet] = []

    def frames(self, arrival: Arrival) -> Iterator[FrameAnalysis]:
        """What is known after one more packet. Raises as making an `Analyser` does."""
        if arrival.stream != self._stream:
            yield from self.flush()
            self._stream, self._header = arrival.stream, arrival.header
        if self._analyser is not None:
            yield from self._taken(arrival.packet)
            return
        self._waiting.append(arrival.packet)
        pictures = sum(packet.is_picture for packet in self._waiting)
        if pictures == 2 or arrival.packet.type == PacketType.OBJECTS:
            yield from self._begun()

    def due(self) -> Iterator[FrameAnalysis]:
        """Nothing: only what arrives is told."""
        return iter(())

    def flush(self) -> Iterator[FrameAnalysis]:
        """What is left of a stream at its end."""
        if self._waiting:
            yield from self._begun()
        analyser, self._analyser = self._analyser, None
        if analyser is not None:
            yield from analyser.finish()

    def _begun(self) -> Iterator[FrameAnalysis]:
        """The stream's first packets, now that it is known what it has."""
        waiting, self._waiting = self._waiting, []
        assert self._header is not None
        # Objects decide, wherever they stand among the first packets.
        ordered = sorted(waiting, key=lambda packet: packet.type != PacketType.OBJECTS)
        content, _ = find_content(self._header, ordered, self._limits)
        self._analyser = Analyser(self._header, self._settings, self._limits, content)
        yield from chain.from_iterable(map(self._taken, waiting))

    def _taken(self, packet: Packet) -> Iterator[FrameAnalysis]:
        assert self._analyser is not None
        try:
            yield from self._analyser.take(packet)
        except BitstreamError:
            self.damaged += 1
