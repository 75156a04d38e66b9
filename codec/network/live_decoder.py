"""Decoding of live packets: one stream after another, each with its playout clock."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gsvc.codec.decoder import Decoder
from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.errors import BitstreamError, InputError
from gsvc.codec.frames import Frame
from gsvc.codec.limits import Limits
from gsvc.codec.network.playout import PlayoutClock
from gsvc.codec.network.stats import LayerMeter
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.ledger import Ledger, total
from gsvc.codec.stream.packet import Packet
from gsvc.decoders.refiners.base import Refiner
from gsvc.decoders.refiners.registry import load_refiner


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
class _Stream:
    number: int
    header: Header
    decoder: Decoder
    meter: LayerMeter
    clock: PlayoutClock


class LiveDecoder:
    """Decodes arrivals and conceals what is lost. Its methods run in one worker thread.

    `packets` counts those taken, `damaged` those that could not be decoded.
    """

    def __init__(self, settings: DecoderSettings, limits: Limits, patience: float) -> None:
        """`patience`: seconds that packets may wait for a missing one, see `PlayoutClock`."""
        self.packets = self.damaged = 0
        self._settings, self._limits = replace(settings, conceal=True), limits
        self._patience = patience
        self._refiner: Refiner | None = None
        self._stream: _Stream | None = None

    @property
    def stream(self) -> int:
        """Number of the stream that is being decoded; 0 before the first."""
        return self._stream.number if self._stream else 0

    @property
    def header(self) -> Header | None:
        """Header of the stream that is being decoded."""
        return self._stream.header if self._stream else None

    @property
    def bits(self) -> Ledger:
        """Bits of the stream's packets by layer."""
        return self._stream.meter.bits if self._stream else total([])

    def load(self) -> None:
        """Load the refiner ahead of the first packet: it takes longer than a frame may wait."""
        if self._settings.steps:
            self._refiner = load_refiner(self._settings.backend, self._settings.device)
            self._refiner.load()

    def frames(self, arrival: Arrival) -> Iterator[Frame]:
        """The frames of one packet.

        Of a new stream's first packet: before them those that the stream before held back. Raises
        InputError if the new stream's format is another.
        """
        if arrival.stream != self.stream:
            yield from self.flush()
            self._begin(arrival)
        stream, packet = self._stream, arrival.packet
        assert stream is not None
        stream.meter.add(packet)
        if packet.is_picture and packet.pts is not None:
            stream.clock.arrived(packet.pts, packet.duration, arrival.at)
        self.packets += 1
        try:
            yield from stream.decoder.frames(packet)
        except BitstreamError:
            self.damaged += 1

    def due(self) -> Iterator[Frame]:
        """Concealed frames whose playout time has come without their packet."""
        pts = self._stream.clock.due(time.monotonic()) if self._stream else None
        if self._stream and pts is not None:
            yield from self._stream.decoder.conceal_until(pts)

    def flush(self) -> Iterator[Frame]:
        """Frames of the stream that are held back, at its end."""
        if self._stream:
            yield from self._stream.decoder.flush()

    def close(self) -> None:
        """Release the decoder."""
        if self._stream:
            self._stream.decoder.close()

    def _begin(self, arrival: Arrival) -> None:
        """Get ready for the stream of this packet."""
        old, header = self._stream, arrival.header
        if old and old.header.format != header.format:
            raise InputError("the sender began again with video of another format: receive it anew")
        if old and old.header == header:
            decoder = old.decoder
            decoder.reset()
        else:
            self.close()
            decoder = Decoder(header, self._settings, self._limits, self._refiner)
        clock = PlayoutClock(header.format.time_base, self._patience)
        self._stream = _Stream(arrival.stream, header, decoder, LayerMeter(header), clock)
