"""`gsvc recv`: network to video."""

import asyncio
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from gsvc.codec.api.decoder_settings import DecoderSettings, mark_of
from gsvc.codec.bitstream.audio_and_text import SAMPLE_RATE
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, ConfigError, InputError
from gsvc.codec.command.arguments import add_overwrite, add_refiner, bitrate, settings_of
from gsvc.codec.command.live_session import Watch, add_security, add_watch, security_of
from gsvc.codec.command.main import complain
from gsvc.codec.media.output import STANDARD_OUTPUT
from gsvc.codec.network.depacketizer import ReorderLimits

if TYPE_CHECKING:
    from gsvc.codec.media.video_writer import VideoWriter
    from gsvc.codec.network.video_receiver import ReceiveSettings, VideoReceiver

DESCRIPTION = """Receive what gsvc send sends: udp://@:port, tcp://, tls://, ws:// or wss:// (the
last two need gsvc[stream]), listening (@) or connecting, and write the video; missing packets never
stop it. Ends with the stream, or by Ctrl-C; the output is complete then."""

RENAMED = {"--budget": "--load"}


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc recv`."""
    add = parser.add_argument
    add("address", metavar="ADDRESS", help="udp://@:port, tcp://@:port, ws://host:port ...")
    add("-o", dest="output", metavar="OUT", required=True, help="the video, or - for y4m")
    add_overwrite(parser)
    add_receiving(parser)
    silence = "end after so long without a packet"
    add("--timeout", dest="silence", type=float, metavar="S", help=silence)
    add_security(parser)
    add_watch(parser)


def add_receiving(parser: ArgumentParser) -> None:
    """How to receive and draw a stream."""
    add = parser.add_argument
    add_refiner(parser, DecoderSettings())
    wait = 1000 * ReorderLimits.seconds
    add("--wait", type=float, default=wait, metavar="MS", help="for missing packets (%(default)g)")
    add("--no-feedback", dest="feedback", action="store_false", help="ask the sender for nothing")
    most = "ask the sender for no more, with --adapt it keeps to that (UDP): 12k"
    add("--bandwidth", type=bitrate, metavar="RATE", help=most)
    share = "time that decoding may take: 0.8x; refiner and rife are left out beyond it"
    add("--load", type=load, metavar="TIME", help=share)
    add("--trusted", action="store_true", help="wide limits: pictures beyond 1080p too")


def run(options: Namespace) -> int:
    """Receive a stream and write its video."""
    from gsvc.codec.network.video_receiver import VideoReceiver

    settings = receive_settings(options)
    if STANDARD_OUTPUT == options.output == options.stats:
        raise ConfigError("video and --stats cannot both go to standard output: give one a file")
    receiver = VideoReceiver(options.address, settings)
    watch = Watch(receiver, options)
    return run_watched(_recv(options, receiver, watch), watch)


def receive_settings(options: Namespace) -> "ReceiveSettings":
    """Of the options of `add_receiving` and `add_security`."""
    from gsvc.codec.network.video_receiver import ReceiveSettings

    return settings_of(
        ReceiveSettings,
        options,
        decoder=settings_of(DecoderSettings, options),
        reorder=ReorderLimits(seconds=options.wait / 1000),
        **security_of(options),
        **({"limits": DEFAULT_LIMITS} if options.trusted else {}),
    )


def run_watched(work: Coroutine[Any, Any, None], watch: Watch) -> int:
    """Run what receives; where it is interrupted, the process ends with it."""
    try:
        asyncio.run(work)
    except InputError as error:
        if not watch.was_interrupted:
            raise
        complain(str(error))
        _leave(1)
    if watch.was_interrupted:
        _leave(0)
    return 0


def load(text: str) -> float:
    """A share of the video's own time, from text such as 0.8x."""
    from gsvc.codec.planning.budgets import time_of

    try:
        found = time_of("--load", text)
    except ConfigError as error:
        raise ArgumentTypeError(str(error)) from error
    if not found.is_multiple:
        raise ArgumentTypeError(
            f"{text!r}: a live video has no end, write a share of its time: 0.8x"
        )
    return found.value


def _leave(code: int) -> NoReturn:
    """End now: Python would wait for the thread that draws a frame or loads a network."""
    for file in (sys.stdout, sys.stderr):
        if file is not None:
            file.flush()
    os._exit(code)


async def _recv(options: Namespace, receiver: "VideoReceiver", watch: Watch) -> None:
    from gsvc.codec.media.video_writer import open_writer

    run = asyncio.get_running_loop().run_in_executor
    async with watch:
        with ThreadPoolExecutor(1) as pool, ExitStack() as output:
            writer: VideoWriter | None = None
            first = begun = 0
            async for frame in receiver.frames():
                if writer is None:
                    assert receiver.header is not None  # known with the first frame
                    opened = open_writer(
                        options.output,
                        receiver.header.format,
                        mark=mark_of(settings_of(DecoderSettings, options)),
                        live_sound=receiver.header.audio,
                        overwrite=options.overwrite,
                    )
                    first = frame.pts
                    begun = round(first * receiver.header.format.time_base * SAMPLE_RATE)
                    writer = await run(pool, output.enter_context, opened)
                for chunk in receiver.take_sound():
                    writer.add_sound(replace(chunk, pts=chunk.pts - begun))
                await run(pool, writer.write, replace(frame, pts=frame.pts - first))
