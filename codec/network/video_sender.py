"""Sending video as it is captured: pacing, encoding and the network, each without holding up the others."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from gsvc.codec.asyncio import LatestQueue
from gsvc.codec.encoder import Encoder
from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Frame
from gsvc.codec.network.address import parse_address
from gsvc.codec.network.broadcast import Broadcaster
from gsvc.codec.network.packetizer import WireSettings
from gsvc.codec.network.rtp_sender import RtpSender
from gsvc.codec.network.stats import IP_UDP_BYTES, Durations, LayerMeter, SenderStats
from gsvc.codec.network.tcp_websocket import end_all, run_channels
from gsvc.codec.network.udp import UdpSender, open_udp_sender
from gsvc.codec.stream.packet import Packet

_WAITING_SECONDS = 0.6
"""Frames that wait for the encoder: a key picture takes longer than a frame."""
_REPORT_SECONDS = 1.0


@dataclass(frozen=True)
class SendSettings:
    """How to send. `realtime`: each frame when it is due, and none that comes too late is waited for; else as fast
    as frames can be encoded and taken, and none is dropped."""

    wire: WireSettings = field(default_factory=WireSettings)
    realtime: bool = True


@dataclass(frozen=True)
class _Captured:
    frame: Frame
    at: float


class VideoSender:
    """Sends one stream to `address`: udp:// to one receiver, tcp:// and ws:// to all that connect, or to one.

    `address` is as parsed. `run` it once; `stats` at any time from the same event loop; `stop` ends the stream after the
    frames so far. The encoder is used in a thread of its own and closed at the end. Raises ConfigError for what is no address.
    """

    def __init__(
        self, address: str, encoder: Encoder, settings: SendSettings | None = None
    ) -> None:
        self.address = parse_address(address)
        if self.address.scheme == "udp" and self.address.listens:
            raise ConfigError(f"{address}: to send over UDP, name the receiver: udp://host:port")
        self._encoder, self._settings = encoder, settings or SendSettings()
        rate = encoder.header.format.frame_rate
        self._queue: LatestQueue[_Captured] = LatestQueue(max(4, round(_WAITING_SECONDS * rate)))
        self._rtp = RtpSender(encoder.header, self._settings.wire)
        self._hub = Broadcaster(encoder.header, encoder.force_keyframe)
        self._sink: UdpSender | Broadcaster = self._hub
        self._meter = LayerMeter(encoder.header)
        self._waiting, self._encoding = Durations(), Durations()
        self._frames = self._packets = 0
        self._starts_at: float | None = None
        self._began = self._asked = time.monotonic()
        self._sent_before = 0
        self._is_stopped = asyncio.Event()

    async def run(self, frames: Iterable[Frame]) -> None:
        """Send all frames, then say the end. `frames` is read in a thread of its own.

        Raises OutputError or InputError where the address cannot be used or the frames cannot be read, and what the
        encoder raises.
        """
        with (
            self._encoder,
            ThreadPoolExecutor(1) as reader,
            ThreadPoolExecutor(1) as coder,
            ExitStack() as opened,
        ):
            serving = []
            if self.address.scheme == "udp":
                begin_group = self._encoder.force_keyframe
                self._sink = await open_udp_sender(self.address, self._rtp, begin_group)
                opened.callback(self._sink.abort)
            else:
                serving = [asyncio.create_task(run_channels(self.address, self._hub.handle))]
            capturing = asyncio.create_task(self._capture(iter(frames), reader))
            coding = asyncio.create_task(self._encode(coder))
            try:
                ended, _ = await asyncio.wait(
                    (coding, *serving), return_when=asyncio.FIRST_COMPLETED
                )
                for task in (*ended, capturing):
                    await task
            finally:
                self.stop()
                await end_all([capturing, coding, *serving])

    def stop(self) -> None:
        """End the stream after what has been captured."""
        self._is_stopped.set()

    def stats(self) -> SenderStats:
        """How it goes; `bitrate` since the last call."""
        now, rtp, sink = time.monotonic(), self._rtp, self._sink
        sent = sink.bytes + IP_UDP_BYTES * sink.datagrams
        bitrate = 8 * (sent - self._sent_before) / max(1e-6, now - self._asked)
        self._sent_before, self._asked = sent, now
        return SenderStats(
            seconds=round(now - self._began, 3),
            frames=self._frames,
            dropped=self._queue.dropped,
            packets=self._packets,
            queue=len(self._queue),
            datagrams=sink.datagrams,
            bytes=sink.bytes,
            again=rtp.again,
            bitrate=round(bitrate, 1),
            bits=self._meter.bits,
            keys_asked=rtp.keys_asked,
            fraction_lost=rtp.report.fraction_lost / 256 if rtp.report else None,
            round_trip=rtp.round_trip,
            receivers=len(self._hub),
            refused=self._hub.refused,
            waiting=self._waiting.summary(),
            encoding=self._encoding.summary(),
        )

    async def _capture(self, frames: Iterator[Frame], reader: ThreadPoolExecutor) -> None:
        """Take frames from the source, each when it is due."""
        loop = asyncio.get_running_loop()
        try:
            while not self._is_stopped.is_set():
                frame = await loop.run_in_executor(reader, next, frames, None)
                if frame is None:
                    break
                if self._settings.realtime:
                    at = await self._until(frame)
                    self._queue.put(_Captured(frame, at))
                else:
                    await self._sink.room()
                    at = time.time()
                    await self._queue.put_all(_Captured(frame, at))
                self._frames += 1
                self._sink.captured(frame.pts, at)
        finally:
            self._queue.close()

    async def _until(self, frame: Frame) -> float:
        """Wait for the time of the frame, which is returned as time of day; the first one's is when it comes."""
        now = time.monotonic()
        seconds = float(frame.pts * self._encoder.header.format.time_base)
        if self._starts_at is None or now - self._starts_at - seconds > _WAITING_SECONDS:
            self._starts_at = now - seconds  # also where the source had no frame for long
        due = self._starts_at + seconds
        await asyncio.sleep(max(0.0, due - now))
        return time.time() - (time.monotonic() - due)

    async def _encode(self, coder: ThreadPoolExecutor) -> None:
        """Encode what was captured and send it, then the end."""
        loop = asyncio.get_running_loop()
        async for captured in self._queue:
            began = time.time()
            self._waiting.add(began - captured.at)
            packets = await loop.run_in_executor(
                coder, self._counted, partial(self._encoder.encode, captured.frame)
            )
            if packets:
                self._encoding.add(time.time() - began)
                self._sink.send(packets)
        *packets, end = await loop.run_in_executor(coder, self._counted, self._encoder.flush)
        self._sink.send(packets)
        await self._sink.close(end)

    def _counted(self, encode: Callable[[], list[Packet]]) -> list[Packet]:
        """The packets that `encode` gives, counted. Runs in the coder's thread."""
        packets = encode()
        for packet in packets:
            self._meter.add(packet)
        self._packets += len(packets)
        return packets
