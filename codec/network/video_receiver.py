"""Receiving video: network and decoder run side by side, so that neither delays the other."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeVar

from gsvc.codec.api.asyncio import LatestQueue, finish, made_in, until_set
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encoder_settings import check_bitrate
from gsvc.codec.bitstream import container, errors, stream_info
from gsvc.codec.bitstream.audio_and_text import SAMPLE_RATE
from gsvc.codec.bitstream.frames import AudioChunk, Frame
from gsvc.codec.bitstream.header import Header
from gsvc.codec.network import depacketizer, live_decoder, rtp_session
from gsvc.codec.network.address import TlsSettings, WireKey, parse_address, srtp_of, tls_context
from gsvc.codec.network.rtp import ArrivedSound
from gsvc.codec.network.stats import IP_UDP_BYTES, Durations, RateMeter, ReceiverStats, tcp_bits
from gsvc.codec.network.tcp_websocket import Channel, announce, end_all, run_channels
from gsvc.decoders.detection import analyser, findings


@errors.typed
@dataclass(frozen=True)
class ReceiveSettings:
    """How to receive. Raises ConfigError for a `silence`, `bandwidth` or `load` that is not
    positive and for a `reorder` of less than 0 s."""

    decoder: DecoderSettings = field(default_factory=DecoderSettings)
    """The decoder's settings; `conceal` is always on."""
    reorder: depacketizer.ReorderLimits = field(default_factory=depacketizer.ReorderLimits)
    """Bounds of the jitter buffer (UDP)."""
    feedback: bool = True
    """Send NACK, PLI and receiver reports (UDP)."""
    bandwidth: float | None = None
    """The most bits per second that the sender is told to send, headers included; it keeps them
    if its rate follows the network. None: no limit is told."""
    load: float | None = None
    """Share of the time that decoding may take, above 0: refiner and learned motion are left out
    where there is no time for them. None: they are always used."""
    silence: float | None = None
    """Seconds without a packet after which the stream has ended; inf: never. None: 30 over UDP,
    from the first packet on, as END may be lost."""
    waits: bool = False
    """Wait for late packets, as a file can: frames are concealed where a later packet comes. Else
    they are concealed when they are due, as a display needs them."""
    limits: errors.Limits = field(default_factory=errors.Limits.restrictive)
    """Limits on the stream: restrictive by default, because senders are not trusted."""
    key: WireKey | None = None
    """Over udp:// nothing is taken that is not sealed with it (SRTP)."""
    tls: TlsSettings = field(default_factory=TlsSettings)
    """Certificates of a tls:// or wss:// address."""

    def __post_init__(self) -> None:
        if not 0 <= self.reorder.seconds < inf:
            raise errors.ConfigError(f"wait of {self.reorder.seconds} s: choose 0 or more")
        if self.silence is not None and not self.silence > 0:
            raise errors.ConfigError(f"silence of {self.silence} s: choose a positive time")
        check_bitrate(self.bandwidth)
        if self.load is not None and not 0 < self.load < inf:
            raise errors.ConfigError(f"load {self.load:g}: choose a positive share, as 0.8")


_WAITING_PACKETS, _OF_GROUPS = 32, 512
"""Packets that wait for the decoder; beyond, the oldest are dropped. Those of a group coded with
look-ahead come at once, and a file can wait for them."""
_LOOK_SECONDS = 0.1  # seconds between checks for frames that are due without a packet
_FROZEN = 5.0  # seconds without a packet for which such frames are made up: the end may be lost
_SILENCE = 30.0  # the usual `silence`: what sends events alone sends something every ten
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@errors.typed
class VideoReceiver:
    """Receives one stream: udp://@:port, or tcp://, ws:// or wss://, listening or connecting.

    Iterate over `frames`; call `stats` at any time from the same event loop, and `stop` to end.
    Presentation times are the sender's; over TCP and WebSocket only their differences are. When the
    sender begins again, the frames of its new stream follow, with times that go on. Raises
    ConfigError for an invalid address and for settings that the decoder refuses.
    """

    def __init__(self, address: str, settings: ReceiveSettings | None = None) -> None:
        self._address = parse_address(address)
        if self._address.scheme == "udp" and not self._address.listens:
            why = f"{address}: to receive over UDP, listen at a port: udp://@:port"
            raise errors.ConfigError(why)
        chosen = self._settings = settings or ReceiveSettings()
        self._tls = tls_context(self._address, chosen.tls)
        self._queue: LatestQueue[live_decoder.ArrivedPacket] = LatestQueue(
            _OF_GROUPS if chosen.waits else _WAITING_PACKETS
        )
        steps = chosen.decoder.steps
        pace = live_decoder.LivePace(chosen.load, steps=steps) if chosen.load else None
        self._pictures = lambda: pace.pictures if pace else None
        srtp = srtp_of(self._address, chosen.key, sends=False)
        self._rtp = rtp_session.RtpReceiver(
            chosen.limits, chosen.reorder, chosen.bandwidth, self._pictures, srtp
        )
        self._udp: rtp_session.UdpReceiver | None = None
        self._live = live_decoder.LiveDecoder(
            chosen.decoder, chosen.limits, chosen.reorder.seconds, pace
        )
        self._timeline, self._sound = live_decoder.PlayoutTimeline(), ArrivedSound()
        self._streams = self._bytes = self._packets = 0
        self._header: Header | None = None
        self._frames = self._concealed = self._damaged = 0
        self._latency, self._playout_delay, self._decoding = Durations(), Durations(), Durations()
        self._rate = RateMeter()
        self.late: float | None = None
        """Seconds from the last frame's capture by the sender's clock to its handing out by this
        one; None: not known, as over TCP and WebSocket."""
        self._is_stopped = asyncio.Event()

    @property
    def header(self) -> Header | None:
        """The stream's header; None before the first frame."""
        return self._live.stream.header if self._live.stream else None

    async def frames(self) -> AsyncIterator[Frame]:
        """Frames in order, as soon as they are decoded, up to the END of the stream or `stop`.

        Raises InputError when the address cannot be used, when nothing came, and when a new stream
        has another format; besides, what making a `Decoder` raises.
        """
        async with self._working(self._live.close) as (worker, tasks):
            made = self._made(self._live, worker, tasks, self._live.load)
            async for frame in until_set(self._is_stopped, made):
                yield self._show(frame)

    def take_sound(self) -> list[AudioChunk]:
        """The sound that came since the last call, in order and by the clock of `frames`.

        Losses are concealed. Call it between frames: what waits for a minute is dropped.
        """
        return self._sound.take(*self._timeline.shift)

    async def analysis(
        self, settings: analyser.AnalysisSettings | None = None
    ) -> AsyncIterator[findings.FrameAnalysis]:
        """What each frame shows, as `gsvc.analyse` tells it, in place of `frames`; none is drawn.

        A stream's own objects are read, and nothing beside them; of a stream without objects, the
        pictures are looked at.
        What is lost is left out, and frames are numbered without it. Raises InputError as `frames`
        does, and what making a `gsvc.AnalysisSettings` and its detector raise.
        """
        live = live_decoder.LiveAnalysis(settings, self._settings.limits)
        async with self._working(lambda: None) as (worker, tasks):
            async for told in until_set(self._is_stopped, self._made(live, worker, tasks)):
                self._frames += 1
                yield told
        self._damaged += live.damaged

    async def packets(self) -> AsyncIterator[live_decoder.ArrivedPacket]:
        """The packets themselves, in place of `frames`: those that a decoder can use, END last.

        Raises InputError as `frames` does.
        """
        live = live_decoder.LivePackets(self.ask_key)
        async with self._working(lambda: None) as (worker, tasks):
            async for arrival in until_set(self._is_stopped, self._made(live, worker, tasks)):
                self._frames += arrival.packet.frames
                if arrival.packet.is_picture and arrival.packet.pts is not None:
                    self._measure(arrival.packet.pts)
                yield arrival

    def ask_key(self) -> None:
        """Ask the sender for a new group (UDP)."""
        self._rtp.asks_key = True

    @asynccontextmanager
    async def _working(
        self, close: Callable[[], None]
    ) -> AsyncIterator[tuple[ThreadPoolExecutor, list[asyncio.Task[None]]]]:
        """A thread for the work, and room for the tasks that listen or connect. Raises InputError
        at the end of the block if there was no frame."""
        worker, tasks = ThreadPoolExecutor(1), list[asyncio.Task[None]]()
        try:
            yield worker, tasks
            for task in tasks:
                if task.done():
                    await task
            if not self._frames:
                raise errors.InputError(self._what_came())
        finally:
            if self._udp:
                self._udp.close()
            self._queue.close()  # a connection that waits for room would not end
            await end_all(tasks)
            finish(worker, close)

    def stop(self) -> None:
        """End `frames` at once: packets that wait and the frame that is being drawn are dropped."""
        self._is_stopped.set()

    def stats(self) -> ReceiverStats:
        """A snapshot; its `bitrate` is since the last one."""
        rtp, live = self._rtp, self._live
        wire_bits = 8.0 * (rtp.bytes + IP_UDP_BYTES * rtp.datagrams)
        wire_bits += tcp_bits(self._bytes, self._packets)
        source = rtp.current.depacketizer if rtp.current else None
        tracker = source.tracker if source else depacketizer.SequenceTracker()
        counts = source.counts if source else depacketizer.Counts()
        return ReceiverStats(
            seconds=0.0 if rtp.since is None else round(time.monotonic() - rtp.since, 3),
            frames=self._frames, concealed=self._concealed, packets=live.packets,
            streams=self._streams, dropped=self._queue.dropped, queue=len(self._queue),
            reordering=source.depth if source else 0, datagrams=rtp.datagrams,
            bytes=rtp.bytes + self._bytes, lost=tracker.lost, duplicates=tracker.duplicates,
            reordered=tracker.reordered, retransmitted=tracker.retransmitted,
            damaged=rtp.invalid + counts.damaged + self._damaged + live.damaged,
            refused=rtp.srtp.refused if rtp.srtp else 0, packets_lost=counts.lost - counts.late,
            repaired=counts.repaired, repeated=counts.repeated,
            bitrate=self._rate.bitrate(wire_bits / 8),
            bits=live.stream.meter.bits if live.stream else stream_info.total([]),
            latency=self._latency.summary(), decoding=self._decoding.summary(),
            left_out=live.pace.refused if live.pace else 0, overdue=live.overdue,
            wire_bits=wire_bits, playout_delay=self._playout_delay.summary(),
            sound_lost=self._sound.lost / SAMPLE_RATE,
        )  # fmt: skip

    async def _connected(self) -> list[asyncio.Task[None]]:
        """Start to listen or to connect; gives the tasks that do it."""
        if self._address.scheme == "udp":
            self._udp = await rtp_session.open_udp_receiver(
                self._address, self._rtp, self._take, feedback=self._settings.feedback
            )
            return []
        task = asyncio.create_task(run_channels(self._address, self._read, self._tls))
        task.add_done_callback(lambda _: self._queue.close())  # it ends by an error only
        return [task]

    def _take(self, packets: list[container.Packet]) -> None:
        """Take packets of one source that came over UDP."""
        source = self._rtp.current
        assert source and source.depacketizer.header  # they come with the first packet
        header, now, dropped = source.depacketizer.header, time.monotonic(), self._queue.dropped
        if header is not self._header:  # a sender that began again, even as the same source
            self._header = header
            self._streams += 1
        for packet in packets:
            self._queue.put(live_decoder.ArrivedPacket(self._streams, header, packet, now))
        self._rtp.asks_key |= self._queue.dropped > dropped  # what builds on these is damaged

    async def _read(self, channel: Channel) -> None:
        """Take the packets of a connection until it ends or another one comes."""
        telling = asyncio.create_task(announce(channel, self._settings.bandwidth, self._pictures))
        try:
            header = await channel.read_header(self._settings.limits)
            self._rtp.since = self._rtp.since or time.monotonic()
            self._streams += 1
            stream, number, group = self._streams, 0, 0
            while stream == self._streams:
                packet = await channel.read_packet(self._settings.limits)
                self._bytes, self._packets = self._bytes + len(packet.to_bytes()), self._packets + 1
                if packet.is_picture:
                    group = number if packet.is_intra else group
                    packet = replace(packet, number=number, group=group)
                    number += 1
                await self._queue.put_all(
                    live_decoder.ArrivedPacket(stream, header, packet, time.monotonic())
                )
        except (errors.TruncatedStreamError, errors.ConfigError):
            pass  # it ended, another may come; or the queue was closed
        except errors.BitstreamError:
            self._damaged += 1
        finally:
            telling.cancel()

    async def _made(
        self,
        live: live_decoder.Live[_T],
        worker: ThreadPoolExecutor,
        tasks: list[asyncio.Task[None]],
        load: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[_T, None]:
        """What is made of packets, or due without one; `tasks` gets those that listen, connect."""
        # Before anything comes: a refiner that loads meanwhile makes frames late.
        await asyncio.get_running_loop().run_in_executor(worker, load)
        tasks += await self._connected()
        heard = time.monotonic()
        while True:
            try:
                arrival = await asyncio.wait_for(anext(self._queue, None), _LOOK_SECONDS)
            except TimeoutError:
                silence = time.monotonic() - heard
                is_due = silence < _FROZEN and not self._settings.waits
                async for frame in made_in(worker, live.due() if is_due else iter(())):
                    yield frame
                if self._is_over(silence):
                    break
                continue
            if arrival is None:
                break
            if arrival.packet.type == container.PacketType.AUDIO:
                self._damaged += not self._sound.add(arrival.stream, arrival.packet)
            made = live_decoder.timed(live.frames(arrival), self._decoding.add)
            async for frame in made_in(worker, made):
                yield frame
            if arrival.packet.type == container.PacketType.END:
                break
            heard = time.monotonic()
        async for frame in made_in(worker, live.flush()):
            yield frame

    def _is_over(self, silence: float) -> bool:
        """Whether the sender said BYE, or nothing came for as long as the settings allow."""
        if len(self._queue):  # it came while frames that were due were made
            return False
        source = self._rtp.current
        if source and source.is_over and not source.depacketizer.depth:
            return True
        most = self._settings.silence or (_SILENCE if source else inf)
        if silence > most and self._frames:
            _log.warning("the stream's end was not received: nothing came for %g s", most)
        return silence > most

    def _what_came(self) -> str:
        stats = self.stats()
        if self._rtp.srtp and self._rtp.srtp.met_old_wire:
            return (
                f"{self._address} seals datagrams as gsvc did before SRTP: "
                "take the same gsvc on both sides"
            )
        if stats.refused:
            return (
                f"nothing from {self._address} is sealed with the key ({stats.refused} refused): "
                "does the sender have the same key, and do both clocks agree to a minute?"
            )
        if stats.damaged:
            return (
                f"nothing from {self._address} can be decoded: it is damaged, or beyond the limits "
                "(1080p unless the sender is trusted)"
            )
        return f"nothing came from {self._address}: is there a sender?"

    def _measure(self, pts: int) -> None:
        """Note how late what comes now is."""
        captured = self._rtp.capture_time(pts)
        if captured is not None:
            self.late = time.time() - captured
            self._latency.add(self.late)
            self._playout_delay.add(self.late - self._live.waited)

    def _show(self, frame: Frame) -> Frame:
        """Count a frame that is handed out, and put it on the timeline."""
        stream = self._live.stream
        assert stream is not None
        if not frame.concealed:
            self._measure(frame.pts)
        self._frames += 1
        self._concealed += frame.concealed
        return self._timeline.placed(frame, stream.number, stream.header, time.monotonic())
