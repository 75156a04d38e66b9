"""`gsvc send` and `gsvc recv`."""

import asyncio
import logging
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Protocol, TextIO

from gsvc.codec.command.progress import JsonLines
from gsvc.codec.decoder import DecoderSettings
from gsvc.codec.encoder import Encoder, EncoderSettings
from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Frame
from gsvc.codec.input import STANDARD_INPUT
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.media.video_reader import VideoReader, open_video
from gsvc.codec.media.video_writer import VideoWriter, open_writer
from gsvc.codec.network.depacketizer import ReorderLimits
from gsvc.codec.network.packetizer import WireSettings
from gsvc.codec.network.sdp import session_description
from gsvc.codec.network.stats import ReceiverStats, SenderStats
from gsvc.codec.network.video_receiver import ReceiveSettings, VideoReceiver
from gsvc.codec.network.video_sender import SendSettings, VideoSender
from gsvc.codec.output import STANDARD_OUTPUT, explain_failure
from gsvc.codec.scaffold.timing import nominal_time

_STATS_SECONDS = 1.0
_SIGNALS = signal.SIGINT, signal.SIGTERM

_log = logging.getLogger(__name__)


class _Session(Protocol):
    def stop(self) -> None: ...
    def stats(self) -> SenderStats | ReceiverStats: ...


def send(options: Namespace) -> int:
    """Encode a video as it plays and send it."""
    wire = WireSettings(options.mtu, options.redundancy, options.parity)
    settings = SendSettings(wire, realtime=not options.fast)
    encoding = EncoderSettings(
        level=options.level,
        bitrate=options.bitrate,
        preset=options.preset,
        low_delay=not options.look_ahead,
    )
    if options.loop and options.source == STANDARD_INPUT:
        raise ConfigError("--loop needs a source that can be read again: not standard input")
    asyncio.run(_send(options, settings, encoding))
    return 0


def recv(options: Namespace) -> int:
    """Receive a stream and write its video."""
    settings = ReceiveSettings(
        decoder=DecoderSettings(
            steps=options.steps, backend=options.backend, device=options.device, seed=options.seed
        ),
        reorder=ReorderLimits(seconds=options.wait / 1000),
        feedback=not options.no_feedback,
        silence=options.timeout,
        limits=DEFAULT_LIMITS if options.trusted else Limits.restrictive(),
    )
    if STANDARD_OUTPUT == options.output == options.stats:
        raise ConfigError("video and --stats cannot both go to standard output: give one a file")
    asyncio.run(_recv(options, settings))
    return 0


async def _send(options: Namespace, settings: SendSettings, encoding: EncoderSettings) -> None:
    with open_video(options.source, start=options.start, frames=options.frames) as video:
        encoder = Encoder(video.format, encoding)
        sender = VideoSender(options.address, encoder, settings)
        if video.has_sound:
            _log.warning("%s: its sound is not sent, only its pictures are", options.source)
        if options.sdp:
            with explain_failure(options.sdp):
                Path(options.sdp).write_text(session_description(encoder.header, sender.address))
        frames = _looped(video, options) if options.loop else iter(video)
        async with _Watch(sender, options.stats):
            await sender.run(frames)


async def _recv(options: Namespace, settings: ReceiveSettings) -> None:
    receiver = VideoReceiver(options.address, settings)
    loop = asyncio.get_running_loop()
    async with _Watch(receiver, options.stats):
        with ThreadPoolExecutor(1) as pool, ExitStack() as output:
            writer: VideoWriter | None = None
            first = 0
            async for frame in receiver.frames():
                if writer is None:
                    assert receiver.header is not None  # known with the first frame
                    opened = open_writer(
                        options.output, receiver.header.format, overwrite=options.overwrite
                    )
                    first = frame.pts
                    writer = await loop.run_in_executor(pool, output.enter_context, opened)
                await loop.run_in_executor(
                    pool, writer.write, replace(frame, pts=frame.pts - first)
                )


def _looped(video: VideoReader, options: Namespace) -> Iterator[Frame]:
    """The video over and over, its times going on."""
    ticks = 1 / (video.format.frame_rate * video.format.time_base)
    shift, last = 0, 0
    frames: Iterator[Frame] = iter(video)
    while True:
        for frame in frames:
            last = frame.pts + shift
            yield replace(frame, pts=last)
        shift = last + nominal_time(1, ticks)
        frames = _again(options)


def _again(options: Namespace) -> Iterator[Frame]:
    with open_video(options.source, start=options.start, frames=options.frames) as video:
        yield from video


class _Watch:
    """While a session runs: Ctrl-C ends it in good order (a second one at once), and every second its statistics are
    written."""

    def __init__(self, session: _Session, target: str | None) -> None:
        self._session, self._target = session, target

    async def __aenter__(self) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._end)
        self._file = self._open()
        self._task = asyncio.create_task(self._every_second())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        self._put("done")
        if self._file and self._file is not sys.stdout:
            self._file.close()

    def _end(self) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
        self._session.stop()

    async def _every_second(self) -> None:
        while True:
            await asyncio.sleep(_STATS_SECONDS)
            self._put("stats")

    def _open(self) -> TextIO | None:
        if self._target is None or self._target == STANDARD_OUTPUT:
            return sys.stdout if self._target else None
        with explain_failure(self._target):
            return open(self._target, "w")

    def _put(self, kind: str) -> None:
        if self._file:
            JsonLines(self._file).put(kind, **asdict(self._session.stats()))
