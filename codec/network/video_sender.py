"""Sending video: capture, encoder and network run side by side, so that none delays another."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

from gsvc.codec.asyncio import LatestQueue, made_in
from gsvc.codec.encoder import Encoder
from gsvc.codec.errors import ConfigError, OutputError
from gsvc.codec.frames import AudioChunk, Frame
from gsvc.codec.media.audio_source import Sound
from gsvc.codec.network.address import parse_address
from gsvc.codec.network.broadcast import Broadcaster
from gsvc.codec.network.packetizer import LEAST_MTU, UNIT_HEAD_BYTES, WireSettings
from gsvc.codec.network.pilot import Adaptation
from gsvc.codec.network.rtp import RTP_HEADER_BYTES
from gsvc.codec.network.rtp_sender import RtpSender
from gsvc.codec.network.sealing import OVERHEAD_BYTES
from gsvc.codec.network.secure_channel import secured
from gsvc.codec.network.sound import cut_to_fit, sound_packet
from gsvc.codec.network.stats import IP_UDP_BYTES, Durations, LayerMeter, RateMeter, SenderStats
from gsvc.codec.network.steering import Steering
from gsvc.codec.network.tcp_websocket import end_all, run_channels
from gsvc.codec.network.tls import TlsSettings, tls_context
from gsvc.codec.network.udp import UdpSender, open_udp_sender
from gsvc.codec.network.wire_key import WireKey
from gsvc.codec.stream.packet import Packet
from gsvc.codec.typed import typed

_SAMPLED = 0.1
"""Seconds between two looks at what waits for connections."""
_WAITING_SECONDS = 0.6
"""Seconds of frames that may wait for the encoder: a key picture takes longer than a frame."""


@typed
@dataclass(frozen=True)
class SendSettings:
    """How to send."""

    wire: WireSettings = field(default_factory=WireSettings)
    realtime: bool = True
    """Send each frame when it is due and drop what the encoder has no time for; else send all
    frames, as fast as they can be encoded and taken."""
    key: WireKey | None = None
    """Seals all that is sent; only receivers with the same key understand it or are heard."""
    tls: TlsSettings = field(default_factory=TlsSettings)
    """Certificates of a wss:// address."""
    adapt: Adaptation | None = None
    """Bounds between which the rate follows the network (without look-ahead): by the reports of a
    receiver over UDP, else by what waits for the slowest connection. The encoder's `bitrate` is
    where it begins. None: it stays."""

    @property
    def cut(self) -> WireSettings:
        """How to cut what a key may then seal: sealed, datagrams are as long as `wire` says.

        Raises ConfigError for an mtu that is too small for a key.
        """
        if self.key is None:
            return self.wire
        least = LEAST_MTU + OVERHEAD_BYTES
        if self.wire.mtu < least:
            raise ConfigError(f"datagrams of {self.wire.mtu} bytes: with a key {least} or more")
        return replace(self.wire, mtu=self.wire.mtu - OVERHEAD_BYTES)


@typed
class VideoSender:
    """Sends one stream to `address`: udp:// to one receiver, tcp://, ws:// and wss:// to one
    or many.

    `run` it once; call `stats` at any time from the same event loop, and `stop` to end the stream
    after the frames so far. The encoder runs in a thread of its own and is closed at the end.
    Raises ConfigError for an invalid address, and for an encoder that sends no pictures.
    """

    def __init__(
        self, address: str, encoder: Encoder, settings: SendSettings | None = None
    ) -> None:
        self.address = parse_address(address)
        if self.address.scheme == "udp" and self.address.listens:
            raise ConfigError(f"{address}: to send over UDP, name the receiver: udp://host:port")
        if not encoder.has_pictures:
            raise ConfigError(
                "receivers begin at a picture, and a task has none: send objects beside pictures"
            )
        self._encoder, self._settings = encoder, settings or SendSettings()
        self._steering = self._steering_of(encoder)
        size = max(4, round(_WAITING_SECONDS * encoder.header.format.frame_rate))
        self._queue: LatestQueue[tuple[Frame, float]] = LatestQueue(size)
        self._tls = tls_context(self.address, self._settings.tls)
        self._rtp = RtpSender(encoder.header, self._settings.cut)
        self._broadcaster = Broadcaster(encoder.header, encoder.force_keyframe)
        self._sink: UdpSender | Broadcaster = self._broadcaster
        self._meter = LayerMeter(encoder.header)
        self._waiting, self._encoding = Durations(), Durations()
        self._frames = self._packets = self._left_out = 0
        self._starts_at: float | None = None
        self._sound, self._shown = Sound(iter(())), Fraction(0)
        self._rate = RateMeter()
        self._is_stopped = asyncio.Event()

    async def run(self, frames: Iterable[Frame], sound: Iterable[AudioChunk] = ()) -> None:
        """Send all frames, then END. `frames` is read in a thread of its own, `sound` in another.

        The sound is sent as its frames are, timed by the first one; the encoder must be one with
        `audio`, and the address udp://: over a connection receivers do not know when it began.

        Raises ConfigError for sound that cannot be sent.
        Raises OutputError or InputError when the address cannot be used, OutputError when nobody
        took the stream over TCP or WebSocket, and what reading and encoding the frames raise.
        """
        self._sound = self._cut(sound)
        with (
            self._encoder,
            ThreadPoolExecutor(1) as reader,
            ThreadPoolExecutor(1) as coder,
            ExitStack() as opened,
        ):
            serving = await self._connected(opened)
            capturing = asyncio.create_task(self._capture(iter(frames), reader))
            coding = asyncio.create_task(self._encode(coder))
            try:
                ended, _ = await asyncio.wait(
                    (coding, *serving), return_when=asyncio.FIRST_COMPLETED
                )
                for task in (*ended, capturing):
                    await task
                if serving and not self._broadcaster.bytes:
                    raise OutputError(self._who_came())
            finally:
                self.stop()
                await end_all([capturing, coding, *serving])

    async def _connected(self, opened: ExitStack) -> list[asyncio.Task[None]]:
        """Open the socket, or start to listen or to connect; gives the task that does it."""
        if self.address.scheme == "udp":
            begin_group = self._encoder.force_keyframe
            self._sink = await open_udp_sender(
                self.address, self._rtp, begin_group, self._settings.key, self._heard
            )
            opened.callback(self._sink.abort)
            return []
        caster = self._broadcaster
        handle = secured(caster.handle, self._settings.key, sends=True, refused=caster.refuse)
        serving = [asyncio.create_task(run_channels(self.address, handle, self._tls))]
        if self._steering:
            serving.append(asyncio.create_task(self._watched(self._steering)))
        return serving

    async def _watched(self, steering: Steering) -> None:
        """Let the rate follow what the slowest connection carries."""
        while True:
            await asyncio.sleep(_SAMPLED)
            if seen := self._broadcaster.sample(time.monotonic()):
                steering.measured(seen, self._queue.dropped, self._broadcaster.announced)

    def _cut(self, sound: Iterable[AudioChunk]) -> Sound:
        """The sound in pieces that fit datagrams. Raises ConfigError where it cannot be sent."""
        room = self._settings.cut.mtu - RTP_HEADER_BYTES - UNIT_HEAD_BYTES
        found = Sound(cut_to_fit(sound, room))
        if found and not self._encoder.header.audio:
            raise ConfigError("the encoder was made without sound: Encoder(..., audio=True)")
        if found and self.address.scheme != "udp":
            raise ConfigError(f"{self.address}: sound is sent to udp:// addresses only")
        return found

    def stop(self) -> None:
        """End the stream after the frames captured so far."""
        self._is_stopped.set()

    def stats(self) -> SenderStats:
        """A snapshot; its `bitrate` is since the last one."""
        rtp, sink = self._rtp, self._sink
        return SenderStats(
            seconds=self._rate.seconds,
            frames=self._frames,
            dropped=self._queue.dropped + self._left_out,
            packets=self._packets,
            queue=len(self._queue),
            datagrams=sink.datagrams,
            bytes=sink.bytes,
            again=rtp.again,
            bitrate=self._rate.bitrate(sink.bytes + IP_UDP_BYTES * sink.datagrams),
            bits=self._meter.bits,
            keys_asked=rtp.keys_asked,
            fraction_lost=rtp.report.fraction_lost / 256 if rtp.report else None,
            round_trip=rtp.round_trip,
            receivers=len(self._broadcaster),
            refused=sink.refused,
            waiting=self._waiting.summary(),
            encoding=self._encoding.summary(),
            target=self._encoder.target_bitrate,
            estimate=self._steering.pilot.estimate if self._steering else None,
        )

    def _steering_of(self, encoder: Encoder) -> Steering | None:
        """What follows the network. Raises ConfigError where that is not possible."""
        bounds = self._settings.adapt
        return None if bounds is None else Steering(encoder, bounds)

    def _heard(self) -> None:
        """Feedback came: the rate may follow it."""
        if self._steering:
            self._steering.heard(self._rtp, self._meter.bits, self._queue.dropped)

    def _steered(self, frame: Frame) -> list[Packet]:
        """Encode a frame at the rate of the time. Runs in the coder's thread."""
        form = self._encoder.header.format
        self._shown = frame.pts * form.time_base + 1 / form.frame_rate
        sound = [sound_packet(chunk) for chunk in self._sound.until(self._shown)]
        if self._steering and not self._steering.steer():
            self._left_out += 1
            return sound
        return [*sound, *self._encoder.encode(frame)]

    def _ended(self) -> list[Packet]:
        """The last packets. Runs in the coder's thread."""
        sound = [sound_packet(chunk) for chunk in self._sound.rest(self._shown)]
        return [*sound, *self._encoder.flush()]

    def _who_came(self) -> str:
        if self.address.listens:
            return f"nobody connected to {self.address}, nothing was sent: receive while it plays"
        return f"nobody listened at {self.address}, nothing was sent: start the receiver first"

    async def _capture(self, frames: Iterator[Frame], reader: ThreadPoolExecutor) -> None:
        """Queue frames for the encoder, each when it is due."""
        try:
            async for frame in made_in(reader, frames):
                if self._settings.realtime:
                    at = await self._until(frame)
                    self._queue.put((frame, at))
                else:
                    await self._sink.room()
                    at = time.time()
                    await self._queue.put_all((frame, at))
                self._frames += 1
                self._sink.captured(frame.pts, at)
                if self._is_stopped.is_set():
                    break
        finally:
            self._queue.close()

    async def _until(self, frame: Frame) -> float:
        """Wait until the frame is due; gives that time of day. The first frame is due at once."""
        now = time.monotonic()
        seconds = float(frame.pts * self._encoder.header.format.time_base)
        if self._starts_at is None or now - self._starts_at - seconds > _WAITING_SECONDS:
            self._starts_at = now - seconds  # also after a gap in the source
        due = self._starts_at + seconds
        await asyncio.sleep(max(0.0, due - now))
        return time.time() - (time.monotonic() - due)

    async def _encode(self, coder: ThreadPoolExecutor) -> None:
        """Encode and send what was captured, then END."""
        loop = asyncio.get_running_loop()
        async for frame, captured_at in self._queue:
            began = time.time()
            self._waiting.add(began - captured_at)
            packets = await loop.run_in_executor(
                coder, self._counted, partial(self._steered, frame)
            )
            if packets:
                self._encoding.add(time.time() - began)
                self._sink.send(packets)
                if self._steering:
                    self._steering.sent(self._rtp)
        *packets, end = await loop.run_in_executor(coder, self._counted, self._ended)
        self._sink.send(packets)
        await self._sink.close(end)

    def _counted(self, encode: Callable[[], list[Packet]]) -> list[Packet]:
        """Count the packets that `encode` gives. Runs in the coder's thread."""
        packets = encode()
        for packet in packets:
            self._meter.add(packet)
        self._packets += len(packets)
        return packets
