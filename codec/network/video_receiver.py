"""Receiving video: network, decoding and what becomes of the frames, each without holding up the others."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from gsvc.codec.asyncio import LatestQueue
from gsvc.codec.decoder import Decoder, DecoderSettings
from gsvc.codec.errors import BitstreamError, ConfigError, InputError, TruncatedStreamError
from gsvc.codec.frames import Frame
from gsvc.codec.limits import Limits
from gsvc.codec.network.address import parse_address
from gsvc.codec.network.depacketizer import Counts, ReorderLimits
from gsvc.codec.network.playout import PlayoutClock
from gsvc.codec.network.rtp_receiver import RtpReceiver
from gsvc.codec.network.sequence_tracker import SequenceTracker
from gsvc.codec.network.stats import IP_UDP_BYTES, Durations, LayerMeter, ReceiverStats
from gsvc.codec.network.tcp_websocket import Channel, end_all, run_channels
from gsvc.codec.network.udp import UdpReceiver, open_udp_receiver
from gsvc.codec.scaffold.timing import nominal_time
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.ledger import total
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.decoders.refiners.base import Refiner
from gsvc.decoders.refiners.registry import load_refiner

_WAITING_PACKETS = 32
"""Packets that wait for the decoder; beyond, the oldest are lost."""
_LOOK_SECONDS = 0.1
"""Between looks at whether frames are due without a packet."""


@dataclass(frozen=True)
class ReceiveSettings:
    """How to receive.

    `decoder`: it conceals, whatever it says of that; `reorder`: what missing packets are waited for (UDP); `feedback`:
    ask the sender for what is missing (UDP); `silence`: seconds without a packet after which the stream counts as
    ended, None to wait for ever; `limits` on what a stream may ask for: tight ones, for nobody vouches for senders.
    """

    decoder: DecoderSettings = field(default_factory=DecoderSettings)
    reorder: ReorderLimits = field(default_factory=ReorderLimits)
    feedback: bool = True
    silence: float | None = None
    limits: Limits = field(default_factory=Limits.restrictive)

    def __post_init__(self) -> None:
        if self.silence is not None and self.silence <= 0:
            raise ConfigError(f"silence of {self.silence} s: choose a positive time")


@dataclass(frozen=True)
class _Arrival:
    """A packet, and the header of its stream; `stream` numbers the streams that came one after another."""

    stream: int
    header: Header
    packet: Packet
    at: float


@dataclass
class _Stream:
    """What is being decoded."""

    number: int
    decoder: Decoder
    meter: LayerMeter
    clock: PlayoutClock
    shift: int | None = None
    """What is added to its times, so that they follow those of the stream before."""


class VideoReceiver:
    """Receives one stream from `address`: udp://@:port, tcp:// or ws://, listening or connecting.

    Iterate over `frames`; `stats` at any time from the same event loop; `stop` ends it. Times are the sender's (over TCP
    and WebSocket, only the distances between them); when it begins again, frames of the new stream follow, with times that go on. `header` is that
    of the stream, known with the first frame.
    Raises ConfigError for what is no address, and for settings that a decoder refuses.
    """

    def __init__(self, address: str, settings: ReceiveSettings | None = None) -> None:
        self._address = parse_address(address)
        if self._address.scheme == "udp" and not self._address.listens:
            raise ConfigError(f"{address}: to receive over UDP, listen at a port: udp://@:port")
        self._settings = settings or ReceiveSettings()
        self.header: Header | None = None
        self._queue: LatestQueue[_Arrival] = LatestQueue(_WAITING_PACKETS)
        self._rtp = RtpReceiver(self._settings.limits, self._settings.reorder)
        self._udp: UdpReceiver | None = None
        self._stream: _Stream | None = None
        self._refiner: Refiner | None = None
        self._streams = self._bytes = 0
        self._source: int | None = None
        self._shown: Frame | None = None
        self._shown_at = 0.0
        self._frames = self._concealed = self._packets = self._damaged = 0
        self._latency, self._decoding = Durations(), Durations()
        self._began = self._asked = time.monotonic()
        self._sent_before = 0

    async def frames(self) -> AsyncIterator[Frame]:
        """Frames in order, as soon as they can be had, up to the END of the stream, or `stop`.

        Raises InputError where the address cannot be used, nothing came, or a new stream has pictures of another kind;
        and what the decoder raises when it is made.
        """
        await self._load_refiner()
        tasks = await self._connected()
        try:
            with ThreadPoolExecutor(1) as worker:
                async for frame in self._decoded(worker):
                    yield frame
            for task in tasks:
                if task.done():
                    await task
            if self._shown is None:
                raise InputError(self._what_came())
        finally:
            await end_all(tasks)
            if self._udp:
                self._udp.close()
            if self._stream:
                self._stream.decoder.close()

    async def _load_refiner(self) -> None:
        """Before anything is received: what waits for the network to load would be late for long."""
        settings = self._settings.decoder
        if settings.steps:
            self._refiner = load_refiner(settings.backend, settings.device)
            await asyncio.get_running_loop().run_in_executor(None, self._refiner.load)

    def stop(self) -> None:
        """Take no more packets; frames end after those that came."""
        self._queue.close()

    def stats(self) -> ReceiverStats:
        """How it goes; `bitrate` since the last call."""
        now, rtp, source = time.monotonic(), self._rtp, self._rtp.depacketizer
        size = rtp.bytes + self._bytes
        sent = size + IP_UDP_BYTES * rtp.datagrams
        bitrate = 8 * (sent - self._sent_before) / max(1e-6, now - self._asked)
        self._sent_before, self._asked = sent, now
        reception, counts = (
            (source.reception, source.counts) if source else (SequenceTracker(), Counts())
        )
        return ReceiverStats(
            seconds=round(now - self._began, 3),
            frames=self._frames,
            concealed=self._concealed,
            packets=self._packets,
            streams=self._streams,
            dropped=self._queue.dropped,
            queue=len(self._queue),
            reordering=source.depth if source else 0,
            datagrams=rtp.datagrams,
            bytes=size,
            lost=reception.lost,
            duplicates=reception.duplicates,
            reordered=reception.reordered,
            retransmitted=reception.retransmitted,
            damaged=rtp.invalid + counts.damaged + self._damaged,
            packets_lost=counts.lost - counts.late,
            repaired=counts.repaired,
            repeated=counts.repeated,
            bitrate=round(bitrate, 1),
            bits=self._stream.meter.bits if self._stream else total([]),
            latency=self._latency.summary(),
            decoding=self._decoding.summary(),
        )

    async def _connected(self) -> list[asyncio.Task[None]]:
        """Begin to listen, or to connect."""
        if self._address.scheme == "udp":
            self._udp = await open_udp_receiver(
                self._address, self._rtp, self._take, feedback=self._settings.feedback
            )
            return []
        task = asyncio.create_task(run_channels(self._address, self._read))
        task.add_done_callback(lambda _: self.stop())  # it ends by an error only
        return [task]

    def _take(self, packets: list[Packet]) -> None:
        """Packets came over UDP, all of one source."""
        if self._rtp.ssrc != self._source:
            self._source = self._rtp.ssrc
            self._streams += 1
        header, now = self._rtp.header, time.monotonic()
        assert header is not None  # it comes with the first packet
        for packet in packets:
            self._queue.put(_Arrival(self._streams, header, packet, now))

    async def _read(self, channel: Channel) -> None:
        """Take the packets of a connection, until the next one comes."""
        try:
            header = await channel.read_header(self._settings.limits)
            self._streams += 1
            stream, number, group = self._streams, 0, 0
            while stream == self._streams:
                packet = await channel.read_packet(self._settings.limits)
                self._bytes += len(packet.payload)
                if packet.is_picture:
                    group = number if packet.is_key else group
                    packet = replace(packet, number=number, group=group)
                    number += 1
                arrival = _Arrival(stream, header, packet, time.monotonic())
                await self._queue.put_all(arrival)
        except TruncatedStreamError:
            pass  # it ended; another may come
        except BitstreamError:
            self._damaged += 1

    async def _decoded(self, worker: ThreadPoolExecutor) -> AsyncIterator[Frame]:
        """The frames of what arrives, and those that are due without it."""
        loop = asyncio.get_running_loop()
        heard = time.monotonic()
        while True:
            try:
                arrival = await asyncio.wait_for(anext(self._queue, None), _LOOK_SECONDS)
            except TimeoutError:
                for frame in await loop.run_in_executor(worker, self._due):
                    yield self._show(frame)
                if self._is_over(time.monotonic() - heard):
                    return
                continue
            if arrival is None:
                return
            heard = time.monotonic()
            stream = await loop.run_in_executor(worker, self._begin, arrival)
            frames = self._frames_of(stream, arrival)
            spent = 0.0
            while True:
                since = time.monotonic()
                new: Frame | None = await loop.run_in_executor(worker, next, frames, None)
                spent += time.monotonic() - since
                if new is None:
                    break
                yield self._show(new)
            self._decoding.add(spent)
            if arrival.packet.type == PacketType.END:
                return

    def _begin(self, arrival: _Arrival) -> _Stream:
        """The stream of this packet, made ready if the packet is its first."""
        stream = self._stream
        if stream is None or stream.number != arrival.stream:
            if self.header and self.header.format != arrival.header.format:
                raise InputError(
                    "the sender began again with video of another format: receive it anew"
                )
            if stream and self.header == arrival.header:
                decoder = stream.decoder
                decoder.reset()
            else:
                settings = replace(self._settings.decoder, conceal=True)
                limits = self._settings.limits
                decoder = Decoder(arrival.header, settings, limits, self._refiner)
            self.header = arrival.header
            clock = PlayoutClock(arrival.header.format.time_base, self._settings.reorder.seconds)
            stream = _Stream(arrival.stream, decoder, LayerMeter(arrival.header), clock)
            self._stream = stream
        return stream

    def _frames_of(self, stream: _Stream, arrival: _Arrival) -> Iterator[Frame]:
        """The frames of one packet. Runs in the worker."""
        packet = arrival.packet
        stream.meter.add(packet)
        if packet.is_picture and packet.pts is not None:
            stream.clock.arrived(packet.pts, packet.duration, arrival.at)
        self._packets += 1
        try:
            yield from stream.decoder.frames(packet)
        except BitstreamError:
            self._damaged += 1

    def _due(self) -> list[Frame]:
        """Frames that are due without a packet. Runs in the worker."""
        stream = self._stream
        due = stream.clock.due(time.monotonic()) if stream else None
        if stream is None or due is None:
            return []
        return stream.decoder.conceal_until(due)

    def _is_over(self, silence: float) -> bool:
        """Whether to wait no longer: the sender said good-bye, or nothing came for as long as was set."""
        source = self._rtp.depacketizer
        if self._rtp.is_over and source and not source.depth:
            return True
        return self._settings.silence is not None and silence > self._settings.silence

    def _what_came(self) -> str:
        if self.stats().damaged:
            return (
                f"nothing from {self._address} can be decoded: it is damaged, or beyond the limits "
                "(1080p unless the sender is trusted)"
            )
        return f"nothing came from {self._address}: is there a sender?"

    def _show(self, frame: Frame) -> Frame:
        """The frame with times that go on where a stream before ended."""
        stream, header, now = self._stream, self.header, time.monotonic()
        assert stream is not None and header is not None
        captured = self._rtp.capture_time(frame.pts)
        if captured is not None and not frame.concealed:
            self._latency.add(time.time() - captured)
        if stream.shift is None:
            stream.shift = 0
            if self._shown:
                gap = round((now - self._shown_at) / float(header.format.time_base))
                gap = max(nominal_time(1, header.frame_ticks), gap)
                stream.shift = self._shown.pts + gap - frame.pts
        frame = replace(frame, pts=frame.pts + stream.shift)
        self._shown, self._shown_at = frame, now
        self._frames += 1
        self._concealed += frame.concealed
        return frame
