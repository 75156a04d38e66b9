"""Sending video: capture, encoder and network run side by side, so that none delays another."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

from gsvc.codec.api.asyncio import LatestQueue, made_in
from gsvc.codec.api.encoder import Encoder
from gsvc.codec.api.encoder_settings import check_bitrate
from gsvc.codec.bitstream.audio_and_text import SAMPLE_RATE
from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.errors import ConfigError, OutputError, WrongTypeError, typed
from gsvc.codec.bitstream.frames import AudioChunk, Frame
from gsvc.codec.media.track_source import Sound
from gsvc.codec.network import address as addresses, congestion_control, rtp, stats
from gsvc.codec.network.link_rate import LEAST_LINK, LinkRate, RateAdapter
from gsvc.codec.network.rtp_session import RtpSender, UdpSender, open_udp_sender
from gsvc.codec.network.tcp_websocket import Broadcaster, end_all, run_channels
from gsvc.encoders.tuning import LIVE_GOP

_log = logging.getLogger(__name__)
_SOUND_SIZE = 1.1  # what sound takes with headers that pictures do not share, in proportion
_HELD = 0.5  # seconds of sound that wait for a picture, whose datagram they share
_SAMPLED = 0.1  # seconds between two looks at what waits for connections
_ANSWERING = 5.0  # seconds without feedback after which nobody answers any more
_BEHIND = 0.2  # of a video's time, by how much its reading may be slower
_WAITING_SECONDS = 0.6
"""Seconds of frames that may wait for the encoder: a key picture takes longer than a frame."""
_LATE = 3
"""Seconds in which frames were dropped after which an encoder is too slow: models load at first."""


class Haste:
    """Has an encoder hurry that is slower than frames come, and tells."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._dropped = self._late = self._told = 0
        self._at = float("-inf")

    def dropped(self, count: int) -> None:
        """Take note of the frames dropped so far. Runs where frames are encoded."""
        now = time.monotonic()
        if count == self._dropped or now - self._at < 1:
            return
        self._at, self._dropped, self._late = now, count, self._late + 1
        if self._late < _LATE or self._told > 1:
            return
        self._late = 0
        self._told, told = 1, ": from now on without faces' motion"
        if not self._encoder.hurry():
            self._told = 2
            told = f", some are dropped: {stats.faster(self._encoder.preset)}"
        _log.warning("the encoder is slower than frames come%s", told)


@typed
@dataclass(frozen=True)
class SendSettings:
    """How to send."""

    wire: rtp.WireSettings = field(default_factory=rtp.WireSettings)
    realtime: bool = True
    """Send each frame when it is due, and without look-ahead drop what the encoder has no time for;
    else send all frames, as fast as they can be encoded and taken."""
    key: addresses.WireKey | None = None
    """Seals all over udp:// (SRTP): only a receiver with this key understands it or is heard."""
    tls: addresses.TlsSettings = field(default_factory=addresses.TlsSettings)
    """Certificates of a tls:// or wss:// address."""
    adapt: congestion_control.Adaptation | None = None
    """Bounds between which the rate follows the network (without look-ahead): by the reports of a
    receiver over UDP, else by what waits for the slowest connection. The encoder's `bitrate` is
    where it begins. None: it stays."""
    total_bitrate: float | None = None
    """Bits per second of the link: all that is sent keeps within it, sound and headers too. The
    encoder's `bitrate` is where its pictures begin. None: pictures take theirs."""

    def __post_init__(self) -> None:
        check_bitrate(self.total_bitrate, LEAST_LINK)
        if self.total_bitrate is not None and self.adapt is not None:
            raise ConfigError("a link of one rate, and bounds of its rate: give one of them")

    @property
    def cut(self) -> rtp.WireSettings:
        """How to cut what a key may then seal: sealed, datagrams are as long as `wire` says.

        Raises ConfigError for an mtu that a key has no room in, or SRTP none for.
        """
        if self.key is None:
            return self.wire
        least, most, mtu = rtp.LEAST_MTU + addresses.TAG_BYTES, addresses.MOST_BYTES, self.wire.mtu
        if not least <= mtu <= most:
            raise ConfigError(f"datagrams of {mtu} bytes: with a key {least} to {most}")
        return replace(self.wire, mtu=mtu - addresses.TAG_BYTES)


@typed
class VideoSender:
    """Sends one stream: udp:// to one receiver, tcp://, tls://, ws:// and wss:// to one or many.

    `run` it once; call `stats` at any time from the same event loop, and `stop` to end the stream
    after the frames so far. The encoder runs in a thread of its own and is closed at the end.
    With a `total_bitrate` or `adapt` the sender sets the encoder's `target_bitrate`.
    Raises ConfigError for an invalid address, for a key with another than udp://, and for an
    encoder that sends no pictures.
    """

    def __init__(
        self, address: str, encoder: Encoder, settings: SendSettings | None = None
    ) -> None:
        self.address = addresses.parse_address(address)
        if self.address.scheme == "udp" and self.address.listens:
            raise ConfigError(f"{address}: to send over UDP, name the receiver: udp://host:port")
        if not encoder.has_pictures:
            why = "receivers begin at a picture, and a task has none: send objects beside pictures"
            raise ConfigError(why)
        self._encoder, self._settings = encoder, settings or SendSettings()
        bounds, link = self._settings.adapt, self._settings.total_bitrate
        self._adapter = None if bounds is None else RateAdapter(encoder, bounds)
        self._link = None if link is None else LinkRate(encoder, link)
        self._patience = _WAITING_SECONDS if encoder.is_low_delay else 2 * LIVE_GOP
        size = max(4, round(_WAITING_SECONDS * encoder.header.format.frame_rate))
        self._queue: LatestQueue[tuple[Frame, float]] = LatestQueue(size)
        self._tls = addresses.tls_context(self.address, self._settings.tls)
        srtp = addresses.srtp_of(self.address, self._settings.key, sends=True)
        self._rtp = RtpSender(encoder.header, self._settings.cut, srtp)
        self._broadcaster = Broadcaster(encoder.header, self._force_keyframe)
        self._sink: UdpSender | Broadcaster = self._broadcaster
        self._meter = stats.LayerMeter(encoder.header)
        self._waiting, self._encoding, self._playout_delay = (stats.Durations() for _ in range(3))
        self._frames = self._sent = self._packets = self._left_out = 0
        self._starts_at: float | None = None
        self._behind = self._late = 0.0
        self._heard_at = float("-inf")
        self._sound, self._shown = Sound(iter(())), Fraction(0)
        self._held: list[AudioChunk] = []
        self._room = self._settings.cut.mtu - rtp.RTP_HEADER_BYTES - rtp.UNIT_HEAD_BYTES
        self._rate = stats.RateMeter()
        self._is_stopped = asyncio.Event()
        self._haste = Haste(encoder)

    async def run(self, frames: Iterable[Frame], sound: Iterable[AudioChunk | None] = ()) -> None:
        """Send all frames, then END. `frames` is read in a thread of its own, `sound` in another.

        The sound is sent as its frames are, timed by the first one; the encoder must be one with
        `audio`, and the address udp://: over a connection receivers do not know when it began.
        None among the sound: no more has come so far.

        Raises ConfigError for sound that cannot be sent and frames that are no ordinary iterable,
        OutputError or InputError when the address cannot be used or nobody took the stream, and
        what reading and encoding the frames raise.
        """
        if not isinstance(frames, Iterable):
            kind = type(frames).__name__
            raise WrongTypeError(f"frames is of type {kind}: give an ordinary iterable, as a list")
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
                working = coding, *serving
                ended, _ = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
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
            begin, heard = self._begin_group, self._heard
            self._sink = await open_udp_sender(self.address, self._rtp, begin, heard)
            opened.callback(self._sink.abort)
            if self._settings.total_bitrate and self._settings.realtime:
                self._sink.pace(self._settings.total_bitrate)
            return []
        running = run_channels(self.address, self._broadcaster.handle, self._tls)
        serving = [asyncio.create_task(running)]
        if self._adapter:
            serving.append(asyncio.create_task(self._watched(self._adapter)))
        return serving

    async def _watched(self, adapter: RateAdapter) -> None:
        """Let the rate follow what the slowest connection carries."""
        while True:
            await asyncio.sleep(_SAMPLED)
            if seen := self._broadcaster.sample(time.monotonic()):
                adapter.measured(seen, self._queue.dropped, self._broadcaster.announced)

    def _cut(self, sound: Iterable[AudioChunk | None]) -> Sound:
        """The sound in pieces that fit datagrams. Raises ConfigError where it cannot be sent."""
        found = Sound(rtp.cut_to_fit(sound, self._room))
        if found and not self._encoder.header.audio:
            raise ConfigError("the encoder was made without sound: Encoder(..., audio=True)")
        if found and self.address.scheme != "udp":
            raise ConfigError(f"{self.address}: sound is sent to udp:// addresses only")
        return found

    @property
    def total_bitrate(self) -> float | None:
        """Bits per second of the link. If the settings have one, set it at any time. Setting raises
        ConfigError without one, and for a rate that is not positive."""
        return self._settings.total_bitrate

    @total_bitrate.setter
    def total_bitrate(self, total: float | None) -> None:
        if self._link is None or total is None:
            raise ConfigError("the sender keeps to no link: give total_bitrate in SendSettings")
        self._settings = replace(self._settings, total_bitrate=total)  # checks it
        self._link.meet(total)
        if isinstance(self._sink, UdpSender) and self._settings.realtime:
            self._sink.pace(total)

    def stop(self) -> None:
        """End the stream after the frames captured so far."""
        self._is_stopped.set()

    def stats(self) -> stats.SenderStats:
        """A snapshot; its `bitrate` is since the last one."""
        session, sink = self._rtp, self._sink
        return stats.SenderStats(
            seconds=self._rate.seconds, frames=self._frames, sent=self._sent,
            dropped=self._queue.dropped + self._left_out, packets=self._packets,
            queue=len(self._queue), datagrams=sink.datagrams, bytes=sink.bytes, again=session.again,
            bitrate=self._rate.bitrate(sink.bytes + stats.IP_UDP_BYTES * sink.datagrams),
            bits=self._meter.bits, keys_asked=session.keys_asked,
            fraction_lost=session.report.fraction_lost / 256 if session.report else None,
            round_trip=session.round_trip,
            receivers=None if self.address.scheme == "udp" else len(self._broadcaster),
            refused=session.refused + self._broadcaster.refused, waiting=self._waiting.summary(),
            encoding=self._encoding.summary(), target=self._encoder.target_bitrate,
            left_out=self._left_out, lost=session.report.lost if session.report else None,
            estimate=self._adapter.controller.estimate if self._adapter else None,
            wire_bits=self._wire_bits, protection=session.packetizer.protection,
            playout_delay=self._playout_delay.summary(),
        )  # fmt: skip

    def _begin_group(self) -> None:
        """A receiver asked for an intra picture: what waited before it was dropped."""
        if self._link:
            self._link.dropped(self._wire_bits)
        self._force_keyframe()

    def _force_keyframe(self) -> None:
        with suppress(ConfigError):  # the stream has ended
            self._encoder.force_keyframe()

    def _heard(self) -> None:
        """Feedback came: the rate may follow it."""
        self._heard_at = time.monotonic()
        if self._adapter:
            self._adapter.heard(self._rtp, self._meter.bits, self._queue.dropped)

    @property
    def _is_answered(self) -> bool:
        """Whether all receivers ask for an intra picture where they need one: connections begin at
        one, and a receiver over UDP that reports asks."""
        if self.address.scheme != "udp":
            return True
        return time.monotonic() - self._heard_at < _ANSWERING and not self.address.is_multicast

    def _steered(self, frame: Frame) -> list[Packet]:
        """Encode a frame at the rate of the time. Runs in the coder's thread."""
        self._encoder.keyframes_on_request = is_answered = self._is_answered
        if self._adapter or self._link:
            self._rtp.protect(time.time(), is_answered=is_answered)
        self._haste.dropped(self._queue.dropped)
        form = self._encoder.header.format
        self._shown = frame.pts * form.time_base + 1 / form.frame_rate
        self._held += self._sound.until(self._shown)
        steered = self._adapter.steer() if self._adapter else True
        if self._link:
            beside = self._sound_bits / max(1.0, float(self._shown))
            unprotected = self._rtp.packetizer.unprotected
            steered = self._link.lets(float(self._shown), beside, unprotected)
        if not steered:
            self._left_out += 1
        packets = self._encoder.encode(frame) if steered else []
        held = sum(len(chunk.packets) * chunk.packet_samples for chunk in self._held)
        if self._link and not packets and held < _HELD * SAMPLE_RATE:
            return []
        return [*self._take_sound(), *packets]

    def _take_sound(self) -> list[Packet]:
        held, self._held = self._held, []
        return [rtp.sound_packet(chunk) for chunk in rtp.joined(held, self._room)]

    @property
    def _sound_bits(self) -> float:
        """Of the link, what sound took so far; its datagrams are the pictures', too."""
        return _SOUND_SIZE * self._meter.bits["audio"]

    def _ended(self) -> list[Packet]:
        """The last packets. Runs in the coder's thread."""
        self._held += self._sound.rest(self._shown)
        return [*self._take_sound(), *self._encoder.flush()]

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
                    if self._encoder.is_low_delay:
                        self._queue.put((frame, at))
                    else:  # it codes a group at once, and is late anyway: nothing is left out
                        await self._queue.put_all((frame, at))
                else:
                    await self._sink.room()
                    at = time.time()
                    await self._queue.put_all((frame, at))
                self._frames += 1
                self._sink.captured(frame.pts, at)
                if self._is_stopped.is_set():
                    break
            what, todo, behind = "reading", "scale it first, or end other work here", self._behind
            if not self._encoder.is_low_delay:
                what, todo = "encoding", stats.faster(self._encoder.preset)
                behind += self._late
            if behind > _BEHIND * self._shown:
                took = 1 + behind / float(self._shown)
                _log.warning("%s took %.1f times as long here as it plays: %s", what, took, todo)
        finally:
            self._queue.close()

    async def _until(self, frame: Frame) -> float:
        """Wait until the frame is due; gives that time of day. The first frame is due at once."""
        now = time.monotonic()
        seconds = float(frame.pts * self._encoder.header.format.time_base)
        late = 0.0 if self._starts_at is None else now - self._starts_at - seconds
        if self._starts_at is None or late > self._patience:  # also after a gap
            # Slow reading was late before, too; a camera that stopped was not.
            self._starts_at, self._behind, late = now - seconds, self._behind + self._late, 0.0
        self._late = max(0.0, late)
        due = self._starts_at + seconds
        await asyncio.sleep(max(0.0, due - now))
        return time.time() - (time.monotonic() - due)

    async def _encode(self, coder: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        async for frame, captured_at in self._queue:
            began = time.time()
            self._waiting.add(began - captured_at)
            encode = partial(self._steered, frame)
            packets = await loop.run_in_executor(coder, self._counted, encode)
            if packets:
                self._encoding.add(time.time() - began)
                self._send(packets)
                if self._adapter:
                    self._adapter.sent(self._rtp)
                if self._link and (shown := [p for p in packets if p.is_picture]):
                    tick = self._encoder.header.format.time_base
                    seconds = float((shown[-1].pts or 0) * tick)
                    pictures = stats.picture_bits(self._meter.bits)
                    self._link.sent(seconds, pictures, self._wire_bits, self._sound_bits)
                    if isinstance(self._sink, UdpSender) and self._settings.realtime:
                        left = time.time() + self._sink.waits - captured_at
                        self._note_delays(shown, left + float(frame.pts * tick))
        *packets, end = await loop.run_in_executor(coder, self._counted, self._ended)
        self._send(packets)
        await self._sink.close(end)

    def _note_delays(self, packets: list[Packet], left: float) -> None:
        """How long after capture these leave: at second `left` of the video."""
        tick = float(self._encoder.header.format.time_base)
        for packet in packets:
            newest, span = left - (packet.pts or 0) * tick, (packet.duration or 0) * tick
            for number in range(packet.frames):
                self._playout_delay.add(newest + span * number / packet.frames)

    def _send(self, packets: list[Packet]) -> None:
        self._sink.send(packets)
        self._sent += sum(packet.frames for packet in packets)

    @property
    def _wire_bits(self) -> float:
        """All that a receiver was sent, headers included."""
        if self.address.scheme == "udp":
            return 8.0 * (self._sink.bytes + stats.IP_UDP_BYTES * self._sink.datagrams)
        return stats.tcp_bits(sum(self._meter.bits.values()) / 8, self._packets)

    def _counted(self, encode: Callable[[], list[Packet]]) -> list[Packet]:
        """Count the packets that `encode` gives. Runs in the coder's thread."""
        packets = encode()
        for packet in packets:
            self._meter.add(packet)
        self._packets += len(packets)
        return packets
