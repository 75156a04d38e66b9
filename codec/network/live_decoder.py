"""Decoding of live packets: one stream after another, each with its playout clock."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from gsvc.codec.decoder import Decoder
from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.errors import BitstreamError, InputError
from gsvc.codec.frames import Frame
from gsvc.codec.limits import Limits
from gsvc.codec.network.live_pace import LivePace
from gsvc.codec.network.playout import PlayoutClock
from gsvc.codec.network.stats import LayerMeter
from gsvc.codec.stream.decoding import next_frames
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet
from gsvc.decoders.motion.learned.rife import loaded_rife
from gsvc.decoders.refiners.base import Refiner
from gsvc.decoders.refiners.registry import load_refiner

_Made_co = TypeVar("_Made_co", covariant=True)


@dataclass(frozen=True)
class Arrival:
    """A packet that arrived."""

    stream: int
    """Number of its stream among those that came one after another, from 1."""
    header: Header
    """Header of its stream."""
    packet: Packet
    at: float
    """Seconds of the monotonic clock."""


@dataclass(frozen=True)
class LiveStream:
    """One stream, with what decodes it."""

    number: int
    header: Header
    decoder: Decoder
    meter: LayerMeter
    clock: PlayoutClock


class Live(Protocol[_Made_co]):
    """What makes something of arrivals, in a thread."""

    def frames(self, arrival: Arrival) -> Iterator[_Made_co]: ...

    def due(self) -> Iterator[_Made_co]: ...

    def flush(self) -> Iterator[_Made_co]: ...


class LiveDecoder:
    """Decodes arrivals and conceals what is lost. Its methods run in one worker thread.

    `packets` counts those taken, `damaged` those that could not be decoded; `stream` is the one
    that is being decoded, None before the first.
    """

    def __init__(
        self,
        settings: DecoderSettings,
        limits: Limits,
        patience: float,
        pace: LivePace | None = None,
    ) -> None:
        """`patience`: seconds that packets may wait for a missing one, see `PlayoutClock`.

        `pace`: decides where there is time for networks; None: always.
        """
        self.pace = pace
        self.packets = self.damaged = 0
        self._settings, self._limits = replace(settings, conceal=True), limits
        self._patience = patience
        self._refiner: Refiner | None = None
        self.stream: LiveStream | None = None

    def load(self) -> None:
        """Load networks ahead of the first packet: it takes longer than a frame may wait."""
        if self._settings.steps:
            self._refiner = load_refiner(self._settings.backend, self._settings.device)
            self._refiner.load()
        if self._settings.motion == "rife":
            loaded_rife(self._settings.device)

    def frames(self, arrival: Arrival) -> Iterator[Frame]:
        """The frames of one packet.

        Of a new stream's first packet: before them those that the stream before held back. Raises
        InputError if the new stream's format is another.
        """
        stream, packet = self.stream, arrival.packet
        if stream is None or arrival.stream != stream.number:
            yield from self.flush()
            stream = self.stream = self._begun(arrival)
        stream.meter.add(packet)
        if packet.is_picture and packet.pts is not None:
            stream.clock.arrived(packet.pts, packet.duration, arrival.at)
        self.packets += 1
        try:
            yield from self._paced(stream, arrival)
        except BitstreamError:
            self.damaged += 1

    def _paced(self, stream: LiveStream, arrival: Arrival) -> Iterator[Frame]:
        """The frames of a packet; the pace learns how long they took."""
        packet, pace = arrival.packet, self.pace
        if pace is None or not packet.is_picture:
            yield from next_frames(stream.decoder, packet)
            return
        since = time.monotonic()
        seconds = float((packet.duration or 0) * stream.header.format.time_base)
        pace.begins(since - arrival.at, seconds)
        spent = 0.0
        for frame in next_frames(stream.decoder, packet):
            spent += time.monotonic() - since
            yield frame
            since = time.monotonic()
        pace.ends(spent + time.monotonic() - since)

    def due(self) -> Iterator[Frame]:
        """Concealed frames whose playout time has come without their packet."""
        if self.stream and (pts := self.stream.clock.due(time.monotonic())) is not None:
            yield from self.stream.decoder.conceal_until(pts)

    def flush(self) -> Iterator[Frame]:
        """Frames of the stream that are held back, at its end."""
        if self.stream:
            yield from next_frames(self.stream.decoder, None)

    def close(self) -> None:
        """Release the decoder."""
        if self.stream:
            self.stream.decoder.close()

    def _begun(self, arrival: Arrival) -> LiveStream:
        """The stream of this packet."""
        old, header = self.stream, arrival.header
        if old and old.header.format != header.format:
            raise InputError("the sender began again with video of another format: receive it anew")
        if old and old.header == header:
            decoder = old.decoder
            decoder.reset()
        else:
            self.close()
            decoder = Decoder(header, self._settings, self._limits, self._refiner, self.pace)
        clock = PlayoutClock(header.format.time_base, self._patience)
        return LiveStream(arrival.stream, header, decoder, LayerMeter(header), clock)
