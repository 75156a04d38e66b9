"""A steady video for players out of a stream that stalls, and frames of cameras that come and go.

A browser's page of a stream that comes over a thin link: its packets go on over a WebSocket.
The player sees a constant frame rate: the last picture stands until the next one is there, and
says how old it is. What is lost is tried again, ever more patiently, and told in one line.
"""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from threading import Thread
from typing import TypeVar
from urllib.parse import urlsplit

import av
import cv2
import numpy as np

from gsvc.codec.bitstream.container import PacketType
from gsvc.codec.bitstream.errors import ConfigError, InputError, OutputError
from gsvc.codec.bitstream.frames import Color, Frame, Picture, VideoFormat
from gsvc.codec.bitstream.header import Header
from gsvc.codec.media import color, places, video_reader
from gsvc.codec.network import live_decoder, player_server, stats
from gsvc.codec.network.address import Address
from gsvc.codec.network.tcp_websocket import Broadcaster, Channel, end_all, run_channels
from gsvc.codec.network.video_receiver import ReceiveSettings, VideoReceiver

_log = logging.getLogger(__name__)

NO_SOUND = "a relay carries pictures alone"
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # seconds before something lost is tried again


class Outage:
    """What there is to say and to wait while something is lost."""

    def __init__(self, name: str) -> None:
        self.name, self._since, self._pause = name, 0.0, _FIRST_PAUSE
        self.has_been_there = False

    def lost(self, why: str) -> float:
        """Tell of it, once; gives the seconds to wait before the next try."""
        if not self._since:
            self._since = time.monotonic()
            _log.warning("%s %s: trying again", time.strftime("%H:%M:%S"), why)
        pause, self._pause = self._pause, min(_LONGEST_PAUSE, 2 * self._pause)
        return pause

    def over(self) -> None:
        """It is there (again)."""
        if self._since:
            seconds = time.monotonic() - self._since
            _log.warning("%s %s: back after %.0f s", time.strftime("%H:%M:%S"), self.name, seconds)
        self._since, self._pause, self.has_been_there = 0.0, _FIRST_PAUSE, True


def newest(video: video_reader.VideoReader, outage: Outage) -> Iterator[Frame]:
    """The frames of a camera from now on. Those that had waited in FFmpeg when it was opened are
    left out: sent one by one, as they are due, they would keep all others as late."""
    tick, least, first = float(video.format.time_base), float("inf"), None
    early = 0.5 / float(video.format.frame_rate)
    for frame in video:
        late = time.monotonic() - frame.pts * tick
        if late < least - early:
            least = late
            continue
        if first is None:
            first = frame.pts
            outage.over()
        yield replace(frame, pts=frame.pts - first)


_OLD = 2.0  # seconds from which a picture says how old it is
_FROZEN, _FROZEN_FRAMES = 5.0, 6
"""Seconds, and frames that are due, without a new picture from which a video is frozen."""
_MOST_LATE = 600.0  # seconds: later pictures are of a clock that is wrong
_WAITING_FRAMES = 48  # frames that wait until they are due: a packet may bring a dozen


@dataclass(frozen=True)
class Shown:
    """The picture that is due, and what is known of it in seconds of the monotonic clock."""

    picture: Picture
    captured: float
    arrived: float
    """When the last one came that was not made up."""
    patience: float
    """Seconds without a new one that mean nothing."""

    def note(self, now: float) -> str:
        """How old it is: "as of 4 s ago"; "frozen" before it where nothing new comes."""
        age = _duration(max(0.0, now - self.captured))
        return f"{'frozen, ' * self.is_frozen(now)}as of {age} ago"

    def is_frozen(self, now: float) -> bool:
        """Whether nothing new has come for long."""
        return now - self.arrived > self.patience

    def burnt(self, now: float, *, burns_age: bool) -> Picture:
        """The picture; over it that it is frozen and, where asked for, that it is old."""
        is_old = burns_age and now - self.captured > _OLD
        if is_old or self.is_frozen(now):
            return stamped(self.picture, self.note(now))
        return self.picture


def _duration(seconds: float) -> str:
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


_FONT, _LINES = cv2.FONT_HERSHEY_SIMPLEX, 22  # heights of its letters in a picture


def stamped(picture: Picture, text: str) -> Picture:
    """A copy of RGB uint8 (H, W, 3) with white text on black in its lower left corner."""
    height, width = picture.shape[:2]
    (wide, high), below = cv2.getTextSize(text, _FONT, 1.0, 2)
    scale = min(height / _LINES / high, 0.96 * width / wide)
    drawn = np.ascontiguousarray(picture).copy()
    foot, pad = round(scale * (below + 4)), round(scale * 6) + 1
    top = max(0, height - foot - round(scale * high) - pad)
    drawn[top:, : round(scale * wide) + 2 * pad] = 0
    white, thick = (255, 255, 255), max(1, round(2 * scale))
    cv2.putText(drawn, text, (pad, height - foot), _FONT, scale, white, thick, cv2.LINE_AA)
    return drawn


class Playout:
    """Frames wait here until they are due; the last one that was stays."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Shown]] = deque(maxlen=_WAITING_FRAMES)
        self._clock: live_decoder.PlayoutClock | None = None
        self._shown: Shown | None = None
        self.format: VideoFormat | None = None

    def begin(self) -> None:
        """Times start anew."""
        self._clock = None

    def take(self, frame: Frame, form: VideoFormat, now: float, late: float | None) -> None:
        """Take a frame that came `now`; `late`: seconds from its capture, None: not known."""
        if self._clock is None:
            self._waiting.clear()
            self._clock = live_decoder.PlayoutClock(form.time_base, 0.0)
        self._clock.arrived(frame.pts, 0, now)
        patience = max(_FROZEN, _FROZEN_FRAMES / float(form.frame_rate))
        before = self._waiting[-1][1] if self._waiting else self._shown
        captured = now - (late if late is not None and 0 <= late < _MOST_LATE else 0.0)
        if frame.concealed and before is not None:
            now, captured = before.arrived, before.captured
        self._waiting.append((frame.pts, Shown(frame.pixels, captured, now, patience)))
        self.format = form

    def at(self, now: float) -> Shown | None:
        """What is to be seen; None before the first picture."""
        due = self._clock.due(now) if self._clock else None
        while self._waiting and (due is None or self._waiting[0][0] <= due):
            self._shown = self._waiting.popleft()[1]
        return self._shown


_LEAST_RATE, _MOST_RATE = 10, 60  # frames a second that players expect
_FORMATS = {"udp": "mpegts", "rtp": "rtp_mpegts", "rtsp": "rtsp"}
_DATAGRAM = "pkt_size=1316"
"""Seven packets of MPEG-TS: as many as fit into an Ethernet frame."""
_OPTIONS = {"rtsp": {"rtsp_transport": "tcp"}, "mpegts": {"mpegts_flags": "resend_headers"}}
_X264 = {"preset": "veryfast", "tune": "zerolatency", "crf": "23"}
_GROUP = 2  # seconds from one intra picture to the next: who tunes in waits so long
_DEVICE, _LOOPBACK = "v4l2", "sudo modprobe v4l2loopback video_nr=10"


def player_format(target: str) -> str:
    """FFmpeg's name of what a player is given at `target`.

    Raises ConfigError for what is none, OutputError for a device that is not there.
    """
    form = _DEVICE if target.startswith(places.DEVICE) else _FORMATS.get(urlsplit(target).scheme)
    if form == _DEVICE and not os.path.exists(target):
        raise OutputError(f"{target}: no such device: {_LOOPBACK}")
    if form is None or (form != _DEVICE and not _is_whole(target)):
        raise ConfigError(
            f"{target} is no player: write udp://host:port (MPEG-TS), rtp://host:port, "
            "rtsp://server/name or /dev/video10; gsvc recv -o writes files"
        )
    return form


def _is_whole(url: str) -> bool:
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme == "rtsp":  # which has a usual port, and names and passwords
            return bool(parts.hostname) and parts.port != 0
        return bool(parts.hostname and parts.port) and "@" not in parts.netloc
    return False


class PlayerOutput:
    """H.264 (raw pictures for a V4L2 device) at a constant rate, as an ordinary player takes it."""

    def __init__(self, target: str, form: VideoFormat, rate: Fraction) -> None:
        """Open it, for pictures of the size of `form`. Raises OutputError, ConfigError."""
        self._name, kind = places.display_name(target), player_format(target)
        self._size = form.width & ~1, form.height & ~1
        self._last = -1
        if kind == "mpegts" and "pkt_size" not in target:
            target += ("&" if "?" in target else "?") + _DATAGRAM
        with self._explained():
            self._container = av.open(target, "w", format=kind, options=_OPTIONS.get(kind, {}))
            codec, options = ("rawvideo", {}) if kind == _DEVICE else ("libx264", _X264)
            stream = self._container.add_stream(codec, rate=rate, options=dict(options))
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height = self._size
            stream.pix_fmt = "yuv420p"
            stream.codec_context.gop_size = max(1, round(_GROUP * rate))
            stream.codec_context.sample_aspect_ratio = form.pixel_aspect
        self._stream = stream

    def write(self, picture: Picture, number: int) -> None:
        """Show a picture of any size; `number`: of its frame, above the one before.

        Raises OutputError."""
        frame = color.yuv_from_rgb(_fitted(picture, *self._size), Color())
        frame.pts, frame.time_base = number, 1 / Fraction(self._stream.average_rate or 1)
        with self._explained():
            self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """End it."""
        with suppress(av.FFmpegError):
            self._container.mux(self._stream.encode(None))
        with suppress(av.FFmpegError):
            self._container.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except av.FFmpegError as error:
            advice = "is the host right, does it take this?"
            if self._name.startswith(places.DEVICE):
                advice = f"is it of v4l2loopback, and free? {_LOOPBACK}"
            if self._name.startswith("rtsp:"):
                advice = "is a server there that takes what is announced to it (ANNOUNCE, RECORD)?"
            why = f"cannot be sent to ({error.strerror}): {advice}"
            raise OutputError(f"{self._name}: {why}") from error


def _fitted(picture: Picture, width: int, height: int) -> Picture:
    """The picture in the middle of one of this size, in proportion."""
    own_height, own_width = picture.shape[:2]
    if (own_width, own_height) == (width, height):
        return picture
    factor = min(width / own_width, height / own_height)
    wide, high = (max(1, round(factor * side)) for side in (own_width, own_height))
    found = np.zeros((height, width, 3), np.uint8)
    left, top = (width - wide) // 2, (height - high) // 2
    found[top : top + high, left : left + wide] = cv2.resize(
        picture, (wide, high), interpolation=cv2.INTER_AREA
    )
    return found


_T = TypeVar("_T")


class Relay:
    """What comes from one `VideoReceiver` after another, until `stop`.

    Where nothing can be received at first, that raises; what came once is waited for again.
    """

    def __init__(self, address: str, settings: ReceiveSettings) -> None:
        self._address, self._settings = address, settings
        self._receiver = VideoReceiver(address, settings)
        self._past: stats.ReceiverStats | None = None
        self._coming, self._is_told = Outage(address), False
        self._is_stopped = asyncio.Event()

    def stop(self) -> None:
        """End it."""
        self._is_stopped.set()
        self._receiver.stop()

    def stats(self) -> stats.ReceiverStats:
        """Of all receivers so far."""
        now = self._receiver.stats()
        return stats.joined(self._past, now) if self._past else now

    @property
    def note(self) -> str:
        """What else there is to say."""
        return ""

    async def _received(
        self, made: Callable[[VideoReceiver], AsyncIterator[_T]]
    ) -> AsyncIterator[_T]:
        """What is `made` of each stream. Raises InputError where nothing can be received."""
        while True:
            receiver, pause = self._receiver, 0.1  # then its port is free
            try:
                async for item in made(receiver):
                    self._coming.over()
                    yield item
            except InputError as error:
                is_over = self._is_stopped.is_set()
                if not self._coming.has_been_there and (is_over or not receiver.stats().bytes):
                    raise
                if not is_over:
                    pause = self._coming.lost(str(error))
            if await self._stops_within(pause):
                return
            self._past = self.stats()
            self._receiver = VideoReceiver(self._address, self._settings)

    def _tell_of_sound(self, header: Header) -> None:
        if header.audio and not self._is_told:
            self._is_told = True
            _log.warning("%s: its sound is left out: %s", self._address, NO_SOUND)

    async def _stops_within(self, seconds: float) -> bool:
        """Wait so long, or until it is to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_stopped.wait(), max(0.001, seconds))
        return self._is_stopped.is_set()


class PlayerRelay(Relay):
    """Gives a player what comes. `run` it once."""

    def __init__(
        self,
        address: str,
        settings: ReceiveSettings,
        target: str,
        fps: float | None = None,
        burns_age: bool = False,
    ) -> None:
        """`target`: see `player_format`; `fps`: of the player's video, the stream's own without it,
        10 at least; `burns_age`: pictures older than 2 s say how old they are, as frozen ones do.
        """
        super().__init__(address, settings)
        player_format(target)
        self._target, self._fps, self._burns_age = target, fps, burns_age
        self._playout = Playout()
        self._output: PlayerOutput | None = None
        self._moving, self._going = Outage(address), Outage(places.display_name(target))

    @property
    def note(self) -> str:
        """How old the picture is that the player shows; "" before the first."""
        shown, now = self._playout.at(time.monotonic()), time.monotonic()
        return "" if shown is None else f", {shown.note(now)}"

    async def run(self) -> None:
        """Show what comes. Raises InputError or OutputError where none is received or shown."""
        with ThreadPoolExecutor(1) as pool:
            tasks = [asyncio.create_task(self._take()), asyncio.create_task(self._show(pool))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.stop()
                await asyncio.wait(tasks)
                if self._output is not None:
                    await asyncio.get_running_loop().run_in_executor(pool, self._output.close)
            for task in tasks:
                await task

    async def _take(self) -> None:
        before = None
        async for frame in self._received(VideoReceiver.frames):
            receiver = self._receiver
            if receiver is not before:
                before = receiver
                self._playout.begin()
            assert receiver.header is not None  # known with the first frame
            self._tell_of_sound(receiver.header)
            form, now = receiver.header.format, time.monotonic()
            self._playout.take(frame, form, now, receiver.late)

    async def _show(self, pool: ThreadPoolExecutor) -> None:
        """Write the picture of the time, at a constant rate."""
        while (form := self._playout.format) is None:
            if await self._stops_within(0.02):
                return
        usual = min(Fraction(_MOST_RATE), max(Fraction(_LEAST_RATE), form.frame_rate))
        rate = Fraction(self._fps).limit_denominator(1001) if self._fps else usual
        run, begun, number = asyncio.get_running_loop().run_in_executor, time.monotonic(), 0
        pause = 0.0
        while not await self._stops_within(max(pause, begun + number / rate - time.monotonic())):
            number = max(number + 1, int((time.monotonic() - begun) * rate))
            pause = 0.0
            try:
                await run(pool, partial(self._draw, form, rate, number))
                self._going.over()
            except OutputError as error:
                if not self._going.has_been_there:
                    raise
                pause = self._going.lost(str(error))

    def _draw(self, form: VideoFormat, rate: Fraction, number: int) -> None:
        """Show the picture of now as the frame of this number. Runs in the writer's thread."""
        if self._output is None:
            self._output = PlayerOutput(self._target, form, rate)
        now = time.monotonic()
        shown = self._playout.at(now)
        assert shown is not None
        if shown.is_frozen(now):
            self._moving.lost(f"{self._address}: no new picture comes, the last one stands")
        else:
            self._moving.over()
        try:
            self._output.write(shown.burnt(now, burns_age=self._burns_age), number)
        except OutputError:
            self._output.close()
            self._output = None
            raise


class PageRelay(Relay):
    """Serves the page at http://host:port, and the stream at the next port. `run` it once.

    Each stream that begins anew ends all connections: pages connect again by themselves.
    """

    def __init__(self, address: str, settings: ReceiveSettings, page: str) -> None:
        """Raises ConfigError for a page without the host that browsers name, and for an address
        that cannot be asked for the picture at which a browser begins."""
        super().__init__(address, settings)
        host, port = "", 0
        with suppress(ValueError):
            host, port = urlsplit(page).hostname or "", urlsplit(page).port or 0
        if not host or host in ("0.0.0.0", "::") or not 0 < port < 65535:
            raise ConfigError(f"{page}: write http://host:port, host as browsers name this machine")
        if not address.startswith("udp:"):
            raise ConfigError(f"{address}: a page is made of udp://@:port; gsvc serve takes ws://")
        self._host, self._port = host, port
        self._stream = Address("ws", host, port + 1, listens=True)
        self._broadcaster: Broadcaster | None = None
        self._has_begun = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def note(self) -> str:
        """How many browsers look on."""
        return f", {len(self._serving)} connected"

    async def run(self) -> None:
        """Serve what comes. Raises InputError where nothing can be received or served."""
        stream = str(replace(self._stream, listens=False))
        source = player_server.LiveSource(stream, lambda: self._receiver.late)
        with player_server.PlayerServer(source, self._host, self._port) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            tasks = [
                asyncio.create_task(run_channels(self._stream, self._handle)),
                asyncio.create_task(self._pass_on()),
            ]
            try:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    await task
            finally:
                self.stop()
                await end_all(list(self._serving))  # else their server waits for them
                await end_all(tasks[:1])
                await asyncio.wait(tasks)
                server.shutdown()

    async def _pass_on(self) -> None:
        before: tuple[VideoReceiver, int] | None = None
        async for arrival in self._received(VideoReceiver.packets):
            self._tell_of_sound(arrival.header)
            now = self._receiver, arrival.stream
            if now != before or self._broadcaster is None:
                before = now
                if self._broadcaster is not None:  # before the first stream browsers wait
                    await end_all(list(self._serving))
                self._broadcaster = Broadcaster(arrival.header, self._receiver.ask_key)
                self._has_begun.set()
            if arrival.packet.type != PacketType.END:  # another stream may come
                self._broadcaster.send([arrival.packet])

    async def _serve(self, channel: Channel) -> None:
        await self._has_begun.wait()
        assert self._broadcaster is not None
        await self._broadcaster.handle(channel)

    async def _handle(self, channel: Channel) -> None:
        task = asyncio.create_task(self._serve(channel))
        self._serving.add(task)
        try:
            await asyncio.wait((task,))
        finally:
            task.cancel()
            self._serving.discard(task)
