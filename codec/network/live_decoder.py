"""Live packets to frames or to analysis: one stream after another, each frame in time.

`PlayoutClock` says when frames are due, `PlayoutTimeline` puts successive streams on one timeline.
`LivePace` decides where there is time for networks. Frames may take a share of the time that they
are shown for, less what their packet waited; what a packet leaves, up to half a second's, the next
ones may take. A refiner takes fewer steps before it is left out; each time for twice as long.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from math import floor
from typing import Protocol, TypeVar

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.container import Packet, PacketType, next_frames
from gsvc.codec.bitstream.errors import BitstreamError, InputError, Limits
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.scaffold import nominal_time
from gsvc.codec.network import depacketizer, stats
from gsvc.decoders.detection.analyser import Analyser, AnalysisSettings
from gsvc.decoders.detection.findings import FrameAnalysis
from gsvc.decoders.detection.sent_objects import find_content
from gsvc.decoders.interpolation.rife import loaded_rife
from gsvc.decoders.keyframes import backends, refiner
from gsvc.decoders.streams.reconstruction import MOTION, REFINING

_PACKETS, _FEWEST = 32, 3
_SLACK = 0.1


class PlayoutClock:
    """Estimates the playout delay from the packets of one stream.

    A frame is due when its packet would have arrived with the largest delay of the last 32 packets
    and then waited for `patience` seconds. Times are seconds of any clock, `pts` in `time_base`.
    """

    def __init__(self, time_base: Fraction, patience: float) -> None:
        self._time_base = float(time_base)
        self._patience = patience + _SLACK
        self._delays: deque[float] = deque(maxlen=_PACKETS)

    def arrived(self, pts: int, duration: int | None, now: float) -> None:
        """Note a packet whose frames fill the `duration` up to `pts`. Ignored if that is None."""
        if duration is not None:
            self._delays.append(now - (pts - duration) * self._time_base)

    def due(self, now: float) -> int | None:
        """The pts that is due now; None until three packets have told their delay."""
        if len(self._delays) < _FEWEST:
            return None
        return floor((now - max(self._delays) - self._patience) / self._time_base)


class PlayoutTimeline:
    """Shifts the times of each new stream so that they follow those of the stream before."""

    def __init__(self) -> None:
        self._stream = self._shift = self._last = 0
        self._shown_at: float | None = None
        self._tick = Fraction(0)

    @property
    def shift(self) -> tuple[int, Fraction]:
        """Number of the stream that is shown, and seconds by which its times are shifted."""
        return self._stream, self._shift * self._tick

    def placed(self, frame: Frame, stream: int, header: Header, now: float) -> Frame:
        """The frame, shown `now`, with its time on the timeline."""
        if stream != self._stream:
            self._stream, self._shift = stream, 0
            self._tick = header.format.time_base
            if self._shown_at is not None:
                gap = round((now - self._shown_at) / float(header.format.time_base))
                gap = max(1, nominal_time(1, header.frame_ticks), gap)
                self._shift = self._last + gap - frame.pts
        self._last, self._shown_at = frame.pts + self._shift, now
        return replace(frame, pts=self._last)


_SAFE = 1.15  # what work is taken to need, in proportion to what it took last
_AGAIN = 1.3  # the same, where it was left out before
_FORGOTTEN = 0.99
"""What is kept of a cost each time that it was too high: it may have been so by chance."""
_SAVED = 0.5
"""Seconds shown whose time may be saved up: an intra picture may have a packet of one frame."""
_MEMORY = 0.7  # of what earlier packets took for plain decoding, at each packet
_MOST_PICTURES = 100.0  # a second: more are not sent
_SHORTEST, _LONGEST = 2.0, 15.0  # seconds for which work is left out
_FEWER = 4, 2, 1
"""Steps that a refiner may take in place of more: its own loops are trained for these."""


@dataclass
class _Work:
    shares: tuple[float, ...] = (0.0, 1.0)
    """Of the whole work, rising: what may be done of it, from nothing to all."""
    cost: float | None = None
    """Seconds that all of it took last, for one picture or interval; None: not known."""
    pace: float = 1.0
    """What plain decoding took then, in proportion to the time shown."""
    is_warm: bool = False
    """Whether it was done before: the first time takes longer than any other."""
    now: int = -1
    """Which of the shares is done; at first all."""
    rose: float = float("-inf")
    """When more was done than before."""
    fell: list[float] = field(default_factory=list)
    """By share, when there was no time for it."""
    holds: list[float] = field(default_factory=list)
    """By share, seconds for which it is left out then."""
    granted: float = 0.0
    spent: float = 0.0

    def __post_init__(self) -> None:
        self.now = len(self.shares) - 1
        self.fell = [float("-inf")] * len(self.shares)
        self.holds = [_SHORTEST] * len(self.shares)


class LivePace:
    """See `Pace`. `begins` and `ends` frame each packet; its methods run in one thread. `refused`
    counts what there was no time for."""

    def __init__(
        self, load: float, clock: Callable[[], float] = time.monotonic, steps: int = 1
    ) -> None:
        """`load`: share of time that decoding may take, above 0; `steps`: the refiner's most."""
        self.refused, self._load, self._clock = 0, load, clock
        fewer = sorted(count / steps for count in _FEWER if count < steps)
        self._works = {REFINING: _Work((0.0, *fewer, 1.0)), MOTION: _Work()}
        self._took = self._shown = self._seconds = 0.0
        self._share = 1.0
        self._room, self._credit = 0.0, load * _SAVED

    def begins(self, waited: float, seconds: float) -> None:
        """A packet is next, whose frames are shown for `seconds`; it has waited for `waited`."""
        self._seconds = seconds
        self._credit = min(self._load * max(_SAVED, seconds), self._credit + self._load * seconds)
        self._room = self._credit - waited - self._plain * seconds
        for work in self._works.values():
            work.granted, work.spent = 0, 0.0

    def may(self, work: str) -> bool:
        """See `Pace`."""
        kind = self._works[work]
        fits = max(n for n in range(len(kind.shares)) if not n or self._fits(kind, n))
        if fits != kind.now:
            self._switch(kind, fits)
        share = kind.shares[fits]
        if not share:
            kind.cost = kind.cost and _FORGOTTEN * kind.cost
            self.refused += 1
            return False
        self._room -= share * self._needs(kind, _SAFE)
        kind.granted += share
        self._share = share
        return True

    def steps(self, most: int) -> int:
        """See `StepPace`."""
        return max(1, round(self._share * most))

    def took(self, work: str, seconds: float) -> None:
        """See `Pace`."""
        self._works[work].spent += seconds

    def ends(self, seconds: float) -> None:
        """The packet's frames are there; they took `seconds`."""
        extra = sum(work.spent for work in self._works.values())
        self._credit -= seconds
        self._took = _MEMORY * self._took + max(0.0, seconds - extra)
        self._shown = _MEMORY * self._shown + self._seconds
        for work in self._works.values():
            if work.granted and work.is_warm:
                work.cost, work.pace = work.spent / work.granted, max(1e-6, self._plain)
            work.is_warm |= work.granted > 0

    @property
    def pictures(self) -> float | None:
        """Coded pictures a second that there is time to restore, 0 to 100; None: not known yet.

        May be asked for in another thread."""
        kind, spare = self._works[REFINING], self._load - self._plain
        if kind.cost is None:
            return None
        share, safe = kind.shares[max(1, kind.now)], _SAFE if kind.now else _AGAIN
        return min(_MOST_PICTURES, max(0.0, spare / max(1e-6, share * self._needs(kind, safe))))

    @property
    def _plain(self) -> float:
        """What plain decoding takes, in proportion to the time shown."""
        return self._took / max(1e-3, self._shown)

    def _fits(self, kind: _Work, number: int) -> bool:
        """Whether one of its shares may be done: there is time, and it is not left out."""
        is_more = number > kind.now
        if is_more and self._clock() - kind.fell[number] < kind.holds[number]:
            return False
        return kind.shares[number] * self._needs(kind, _AGAIN if is_more else _SAFE) <= self._room

    def _needs(self, kind: _Work, safe: float) -> float:
        """Seconds for all of it: what it took last, slower where all has become slower since."""
        if kind.cost is None:
            return 0.0  # one is tried
        return safe * kind.cost * max(0.1, self._plain / kind.pace)

    def _switch(self, kind: _Work, number: int) -> None:
        now, before = self._clock(), kind.now
        if number > before:
            kind.rose = now
        else:
            hold = kind.holds[before]
            relapsed = now - kind.rose < 4 * hold
            kind.holds[before] = min(_LONGEST, 2 * hold) if relapsed else _SHORTEST
            kind.fell[number + 1 :] = [now] * (len(kind.shares) - number - 1)
        kind.now = number


_Made = TypeVar("_Made")
_Made_co = TypeVar("_Made_co", covariant=True)


def timed(items: Iterator[_Made], done: Callable[[float], None]) -> Iterator[_Made]:
    """The items; `done` is told in the end how many seconds it took to make them."""
    spent, since = 0.0, time.monotonic()
    for item in items:
        spent += time.monotonic() - since
        yield item
        since = time.monotonic()
    done(spent + time.monotonic() - since)


@dataclass(frozen=True)
class ArrivedPacket:
    """A packet that arrived."""

    stream: int
    """Number of its stream among those that came one after another, from 1."""
    header: Header
    packet: Packet
    at: float


@dataclass(frozen=True)
class LiveStream:
    """One stream, with what decodes it."""

    number: int
    header: Header
    decoder: Decoder
    meter: stats.LayerMeter
    clock: PlayoutClock


class Live(Protocol[_Made_co]):
    """What makes something of arrivals, in a thread."""

    def frames(self, arrival: ArrivedPacket) -> Iterator[_Made_co]: ...

    def due(self) -> Iterator[_Made_co]:
        """What is due without an arrival: nothing, unless it is made up."""
        return iter(())

    def flush(self) -> Iterator[_Made_co]: ...


class LivePackets(Live[ArrivedPacket]):
    """Passes arrivals on; after a loss those from the next INTRA packet on, which it asks for."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask, self._next = ask, (0, 0)

    def frames(self, arrival: ArrivedPacket) -> Iterator[ArrivedPacket]:
        """The arrival, if what it builds on went before."""
        packet = arrival.packet
        if packet.is_picture and packet.number is not None:
            if not packet.is_intra and (arrival.stream, packet.number) != self._next:
                self._ask()
                return
            self._next = arrival.stream, packet.number + 1
        yield arrival

    def flush(self) -> Iterator[ArrivedPacket]:
        """Nothing is held back."""
        return iter(())


class LiveDecoder:
    """Decodes arrivals and conceals what is lost. Its methods run in one worker thread.

    `packets` counts those taken, `damaged` those that could not be decoded, `overdue` the frames of
    `due` before another packet; `stream` is the one that is being decoded, None before the first;
    `waited`: seconds that its last packet waited for this.
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
        self.pace, self.waited = pace, 0.0
        self.packets = self.damaged = self.overdue = self._made_up = 0
        self._settings, self._limits = replace(settings, conceal=True), limits
        self._patience = max(patience, depacketizer.UNDER_WAY)
        self._refiner: refiner.Refiner | None = None
        self.stream: LiveStream | None = None

    def load(self) -> None:
        """Load networks ahead of the first packet: it takes longer than a frame may wait."""
        if self._settings.steps:
            self._refiner = backends.load_refiner(self._settings.backend, self._settings.device)
            self._refiner.load()
        if self._settings.motion == "rife":
            loaded_rife(self._settings.device)

    def frames(self, arrival: ArrivedPacket) -> Iterator[Frame]:
        """The frames of one packet.

        Of a new stream's first packet: before them those that the stream before held back. Raises
        InputError if the new stream's format is another.
        """
        stream, packet = self.stream, arrival.packet
        if stream is None or arrival.stream != stream.number:
            yield from self.flush()
            stream = self.stream = self._begun(arrival)
        stream.meter.add(packet)
        self.overdue, self._made_up = self.overdue + self._made_up, 0
        if packet.is_picture and packet.pts is not None:
            stream.clock.arrived(packet.pts, packet.duration, arrival.at)
        self.packets, self.waited = self.packets + 1, time.monotonic() - arrival.at
        made = next_frames(stream.decoder, packet)
        if self.pace and packet.is_picture:
            seconds = float((packet.duration or 0) * stream.header.format.time_base)
            self.pace.begins(self.waited, seconds)
            made = timed(made, self.pace.ends)
        try:
            yield from made
        except BitstreamError:
            self.damaged += 1

    def due(self) -> Iterator[Frame]:
        """Concealed frames whose playout time has come without their packet."""
        if self.stream and (pts := self.stream.clock.due(time.monotonic())) is not None:
            made = self.stream.decoder.conceal_until(pts)
            self._made_up += len(made)
            yield from made

    def flush(self) -> Iterator[Frame]:
        """Frames of the stream that are held back, at its end."""
        if self.stream:
            yield from next_frames(self.stream.decoder, None)

    def close(self) -> None:
        """Release the decoder."""
        if self.stream:
            self.stream.decoder.close()

    def _begun(self, arrival: ArrivedPacket) -> LiveStream:
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
        return LiveStream(arrival.stream, header, decoder, stats.LayerMeter(header), clock)


class LiveAnalysis(Live[FrameAnalysis]):
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

    def frames(self, arrival: ArrivedPacket) -> Iterator[FrameAnalysis]:
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
