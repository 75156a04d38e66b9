"""`gsvc recv` and `gsvc serve`: network to video, a stream to browsers; and how sessions go."""

import asyncio
import logging
import os
import signal
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TextIO

from gsvc.codec.api import decoder_settings, reports
from gsvc.codec.bitstream.audio_and_text import SAMPLE_RATE
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, ConfigError, InputError
from gsvc.codec.command import arguments, main
from gsvc.codec.command.decode import settings_of
from gsvc.codec.media.output import STANDARD_OUTPUT, explain_failure, refuse_foreign
from gsvc.codec.network.address import VARIABLE, TlsSettings, find_key
from gsvc.codec.network.depacketizer import ReorderLimits
from gsvc.codec.network.stats import ReceiverStats, SenderStats, faster

if TYPE_CHECKING:
    from gsvc.codec.media.video_writer import VideoWriter
    from gsvc.codec.network.video_receiver import ReceiveSettings, VideoReceiver


SECURITY = f"""
--key-file FILE         udp://: encrypt and authenticate (SRTP) by this key of 64 hex digits (or
                        {VARIABLE})
--tls-cert FILE         PEM file of this side's certificate, to listen at tls:// or wss://
--tls-key FILE          PEM file of its private key
--tls-ca FILE           PEM file of authorities (the system's); listeners then demand certificates
--stats FILE            write a JSON object a second to FILE, or - for standard output
--verbose -v            log connections, and progress every second
"""
"""What secures a live session, and what is told of it."""


def security_of(options: Namespace) -> dict[str, Any]:
    """The fields `key` and `tls` of the settings."""
    tls = TlsSettings(options.tls_cert, options.tls_key, options.tls_ca)
    return {"key": find_key(options.key_file), "tls": tls}


_log = logging.getLogger(__name__)
_JOINED = 0.5  # seconds of a stream that may be missed at its begin without a word
_MANY = 0.05  # part of the frames dropped from which that is told
_BEHIND, _STATS_SECONDS = 1.0, 1.0
_BUSY = 0.4  # part of the time spent decoding from which frames are late by it
_LOAD = 0.8  # part of it that leaves time for other work
_SIGNALS = signal.SIGINT, signal.SIGTERM


class LiveSession(Protocol):
    """What is watched over."""

    def stop(self) -> None: ...
    def stats(self) -> SenderStats | ReceiverStats: ...


def status_text(stats: SenderStats | ReceiverStats, split: str = "") -> str:
    """How a session goes, in a line; `split`: what the rate is for."""
    rate = f"{stats.bitrate / 1000:.1f} kbit/s with headers{split}"
    if stats.playout_delay.p99 is not None:
        rate += f", playout delay {stats.playout_delay.p99:.1f} s"
    if stats.refused:
        rate += f", {stats.refused} refused"
    if isinstance(stats, SenderStats):
        loss = ", no receiver reports" * bool(stats.datagrams and stats.receivers is None)
        if stats.lost is not None:
            loss = f", {stats.lost} datagrams never came, {stats.again} repeated"
        receivers = "" if stats.receivers is None else f", {stats.receivers} connected"
        slow = stats.dropped - stats.left_out
        told = _counted("dropped", slow_encoder=slow, full_link=stats.left_out)
        if waiting := max(0, stats.frames - stats.sent - stats.dropped):  # for encoder or link
            told = f"{waiting} waiting, {told}, of {stats.frames} read"
        return f"sent {stats.sent} frames, {told}, {rate}{loss}{receivers}"
    dropped = "slow_decoder" if _busy(stats) > _BUSY else "busy_machine"
    why = dropped if stats.dropped > stats.packets_lost else "packets_lost"
    causes = {why: stats.concealed - stats.overdue, "packets_late": stats.overdue}
    silent = f"{stats.sound_lost:.1f} s of sound lost, " if stats.sound_lost >= 0.05 else ""
    return (
        f"received {stats.frames} frames, {_counted('concealed', **causes)}, {silent}"
        f"{stats.lost} datagrams never came, {rate}"
    )


def _busy(stats: ReceiverStats) -> float:
    """The share of the time that decoding took."""
    return (stats.decoding.p50 or 0.0) * stats.packets / max(1e-6, stats.seconds)


def _behind(stats: ReceiverStats) -> float:
    """Seconds that packets waited for the decoder."""
    return (stats.latency.p99 or 0.0) - (stats.playout_delay.p99 or 0.0)


def _counted(what: str, **causes: int) -> str:
    """How many frames, and why."""
    told = ", ".join(f"{why.replace('_', ' ')}: {count}" for why, count in causes.items() if count)
    return f"{sum(causes.values())} {what}" + (f" ({told})" if told else "")


class Watch:
    """While a session runs, Ctrl-C ends it in good order (a second one at once), and every second
    its statistics are written, and shown on a terminal. The last ones are always told."""

    was_interrupted = False

    def __init__(
        self, session: LiveSession, options: Namespace, note: Callable[[], str] = lambda: ""
    ) -> None:
        """`options`: those of `SECURITY`; `note`: gives what else there is to say."""
        self._note, self._preset = note, getattr(options, "preset", "fast")
        self._session, self._target, self._stays = session, options.stats, options.verbose
        self._line = sys.stderr is not None and sys.stderr.isatty() and not self._stays
        if self._stays:
            logging.getLogger("gsvc").setLevel(logging.INFO)

    async def __aenter__(self) -> Self:
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._end)
        self._file = self._open()
        self._task = asyncio.create_task(self._every_second())
        return self

    async def __aexit__(self, failed: object, *_: object) -> None:
        self._task.cancel()
        stats = self._session.stats()
        self._put("done", stats)
        self._show(self._closing(stats), ended=failed is None or self._line)
        if self._file and self._file is not sys.stdout:
            self._file.close()

    def _end(self) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
        self.was_interrupted = True
        self._session.stop()

    async def _every_second(self) -> None:
        while True:
            await asyncio.sleep(_STATS_SECONDS)
            stats = self._session.stats()
            self._put("stats", stats)
            self._show(status_text(stats) + self._note())

    def _show(self, text: str, *, ended: bool = False) -> None:
        """On a terminal, write over the last line."""
        if self._line:
            reports.write_over(sys.stderr, text + "\n" * ended)
        elif (ended or self._stays) and sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)

    def _closing(self, stats: SenderStats | ReceiverStats) -> str:
        """The last line: its rates are over all the time."""
        split = remedy = ""
        seconds = max(1e-6, stats.seconds)
        if isinstance(stats, SenderStats):
            parts = {"video": stats.picture_bits, "sound": stats.bits["audio"]}
            parts["copies and parity"] = 8 * stats.protection
            rest = round(stats.wire_bits) - sum(parts.values())
            parts["headers" + " and repeats" * bool(stats.again)] = rest
            told = [f"{part / seconds / 1000:.1f} {n}" for n, part in parts.items() if part > 0]
            split = f" ({', '.join(told)})" if told else ""
            if stats.dropped > _MANY * stats.frames:
                is_link = 2 * stats.left_out > stats.dropped
                rate = "lower the most of --adapt" if stats.estimate else "raise the rate"
                cause = f"pictures did not fit the rate, take a lower --fps or --size, or {rate}"
                remedy = f": {cause if is_link else main.as_options(faster(self._preset))}"
        elif stats.dropped or _behind(stats) > _BEHIND:
            busy, cause = _busy(stats), "the sender looks ahead, or a machine has other work"
            fell = f" and fell {_behind(stats):.1f} s behind" * (_behind(stats) > _BEHIND)
            todo = f"give --load {_LOAD}x or --steps 0" if busy > _BUSY else cause
            remedy = f": decoding took {busy:.0%} of the time{fell}, {todo}"
        elif stats.overdue > max(stats.lost, stats.concealed / 2):
            remedy = f": packets of {stats.overdue} frames came too late, allow more --wait"
        mean = status_text(replace(stats, bitrate=stats.wire_bits / seconds), split)
        return f"{mean}, {stats.wire_bits / 8:.0f} bytes in {seconds:.1f} s{remedy}"

    def _open(self) -> TextIO | None:
        if self._target is None or self._target == STANDARD_OUTPUT:
            return sys.stdout if self._target else None
        refuse_foreign(self._target, b"{")
        with explain_failure(self._target):
            return open(self._target, "w", encoding="utf-8")

    def _put(self, kind: str, stats: SenderStats | ReceiverStats) -> None:
        if self._file:
            reports.JsonLines(self._file).put(kind, **asdict(stats))


RECEIVING = f"""
--steps --backend --look --motion --device --seed
--wait MS               time to wait for missing packets (={1000 * ReorderLimits.seconds:g})
--no-feedback -> not feedback  send no requests and reports to the sender
--bandwidth RATE        highest rate to ask of a sender with --adapt, over UDP: 12k
--load TIME             share of real time for decoding (-o -: 0.8x); beyond it, no refiner and rife
--trusted               default limits instead of restrictive ones: also above 1080p
"""
"""How to receive and draw a stream."""

USAGE = f"""Receive a stream of gsvc send and write the video. ADDRESS is udp://@:port, tcp://,
tls://, ws:// or wss://; the last two need gsvc[stream]. With @ before the host, gsvc listens;
otherwise it connects. Missing frames are concealed. Reception ends with the stream or by Ctrl-C,
and the output is then complete.

address ADDRESS         udp://@:port, tcp://@:port, ws://host:port ...
-o OUT! -> output       the video, or - for y4m
-y
{RECEIVING}
--timeout S -> silence  end after S seconds without a packet; inf: never (UDP: 30 after the first)
{SECURITY}"""
DEFAULTS = (decoder_settings.DecoderSettings(),)


def run(options: Namespace) -> int:
    """Receive a stream and write its video."""
    from gsvc.codec.media.video_writer import try_target
    from gsvc.codec.network.video_receiver import VideoReceiver

    settings = replace(receive_settings(options), waits=options.output != STANDARD_OUTPUT)
    if not settings.waits:  # who shows it has no use for frames that are late
        settings = replace(settings, load=settings.load or _LOAD)
    if STANDARD_OUTPUT == options.output == options.stats:
        raise ConfigError("video and --stats cannot both go to standard output: give one a file")
    try_target(options.output, options.overwrite)  # not hours later, with the first picture
    receiver = VideoReceiver(options.address, settings)
    watch = Watch(receiver, options)
    return run_watched(_recv(options, receiver, watch), watch)


def receive_settings(options: Namespace) -> "ReceiveSettings":
    """Of the options of `RECEIVING` and `SECURITY`."""
    from gsvc.codec.network.video_receiver import ReceiveSettings

    return arguments.with_options(
        ReceiveSettings, options, decoder=settings_of(options),
        reorder=ReorderLimits(seconds=options.wait / 1000), **security_of(options),
        **({"limits": DEFAULT_LIMITS} if options.trusted else {}),
    )  # fmt: skip


def run_watched(work: Coroutine[Any, Any, None], watch: Watch) -> int:
    """Run what receives; where it is interrupted, the process ends with it."""
    try:
        asyncio.run(work)
    except InputError as error:
        if not watch.was_interrupted:
            raise
        main.complain(str(error))
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
        why = f"{text!r}: a live video has no end, write a share of its time: 0.8x"
        raise ArgumentTypeError(why)
    return found.value


TYPES = {"--load": load}


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
                        options.output, receiver.header.format,
                        mark=decoder_settings.mark_of(settings_of(options)),
                        live_sound=receiver.header.audio, overwrite=options.overwrite,
                    )  # fmt: skip
                    first = frame.pts
                    if (missed := float(first * receiver.header.format.time_base)) > _JOINED:
                        _log.warning("begins %.1f s into the stream: no picture before", missed)
                    begun = round(first * receiver.header.format.time_base * SAMPLE_RATE)
                    writer = await run(pool, output.enter_context, opened)
                for chunk in receiver.take_sound():
                    writer.add_sound(replace(chunk, pts=chunk.pts - begun))
                await run(pool, writer.write, replace(frame, pts=frame.pts - first))


_SERVE = """Serve a page that plays a stream in browsers: a .gsv file, a file of gsvc mux, or the
live stream of gsvc send at ws://host:port. Without --host, only this machine can open the page.
Ctrl-C ends it.

source IN               the stream, or ws://host:port
--port PORT             0: any free port (=8000)
--host HOST             address to listen at; 0.0.0.0: every network (=127.0.0.1)
--untrusted --quiet
"""


def _serve(options: Namespace) -> int:
    # late: --help does not wait for FFmpeg
    from gsvc.codec.network.player_server import FileSource, LiveSource, PlayerServer, Source

    if "://" in options.source:
        source: Source = LiveSource(options.source)
    else:
        source = FileSource(Path(options.source), arguments.limits_of(options))
    with PlayerServer(source, options.host, options.port) as server:
        if not options.quiet:
            print(f"{server.address} (Ctrl-C ends)", file=sys.stderr, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
    return 0


SERVE = main.Verb(_SERVE, _serve)
