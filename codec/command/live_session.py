"""What `gsvc send` and `gsvc recv` share: keys and certificates, how a session ends and goes."""

import asyncio
import logging
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Protocol, Self, TextIO

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.media.output import STANDARD_OUTPUT, explain_failure, refuse_foreign
from gsvc.codec.network.address import VARIABLE, TlsSettings, find_key
from gsvc.codec.network.stats import ReceiverStats, SenderStats


def add_security(parser: ArgumentParser) -> None:
    """--key-file and the options of tls:// and wss:// addresses."""
    add = parser.add_argument
    key = f"udp://: take and send only what its key seals (64 hex digits; or variable {VARIABLE})"
    add("--key-file", metavar="FILE", help=key)
    own = "PEM: this side's certificate, for a tls:// or wss:// address that listens"
    add("--tls-cert", metavar="FILE", help=own)
    add("--tls-key", metavar="FILE", help="PEM: its private key")
    vouch = "PEM: who vouches for the other side (the system's; listening: nobody is asked)"
    add("--tls-ca", metavar="FILE", help=vouch)


def security_of(options: Namespace) -> dict[str, Any]:
    """The fields `key` and `tls` of the settings."""
    tls = TlsSettings(options.tls_cert, options.tls_key, options.tls_ca)
    return {"key": find_key(options.key_file), "tls": tls}


_STATS_SECONDS = 1.0
_SIGNALS = signal.SIGINT, signal.SIGTERM


class LiveSession(Protocol):
    """What is watched over."""

    def stop(self) -> None: ...
    def stats(self) -> SenderStats | ReceiverStats: ...


def add_watch(parser: ArgumentParser) -> None:
    """--stats and --verbose."""
    help = "a JSON object a second to a file, or - for standard output"
    parser.add_argument("--stats", metavar="FILE", help=help)
    help = "who connects, and a line a second that stays, with or without a terminal"
    parser.add_argument("--verbose", "-v", action="store_true", help=help)


def status_text(stats: SenderStats | ReceiverStats) -> str:
    """How a session goes, in a line."""
    rate = f"{stats.bitrate / 1000:.1f} kbit/s"
    if stats.refused:
        rate += f", {stats.refused} refused"
    if isinstance(stats, SenderStats):
        loss = "" if stats.fraction_lost is None else f", {stats.fraction_lost:.0%} lost"
        receivers = f", {stats.receivers} connected" if not stats.datagrams else ""
        return f"sent {stats.frames - stats.dropped} frames, {stats.dropped} dropped, {rate}" + (
            loss + receivers
        )
    late = "" if stats.latency.p50 is None else f", {stats.latency.p50:.1f} s late"
    return (
        f"received {stats.frames} frames, {stats.concealed} concealed, "
        f"{stats.lost + stats.packets_lost} packets lost, {rate}{late}"
    )


class Watch:
    """While a session runs, Ctrl-C ends it in good order (a second one at once), and every second
    its statistics are written, and shown on a terminal."""

    was_interrupted = False

    def __init__(
        self, session: LiveSession, options: Namespace, note: Callable[[], str] = lambda: ""
    ) -> None:
        """`options`: those of `add_watch`; `note`: gives what else there is to say."""
        self._note = note
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

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        stats = self._session.stats()
        self._put("done", stats)
        self._show(self._closing(stats), ended=True)
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
            print(f"\r\x1b[K{text}", end="\n" if ended else "", file=sys.stderr, flush=True)
        elif self._stays:
            print(text, file=sys.stderr, flush=True)

    def _closing(self, stats: SenderStats | ReceiverStats) -> str:
        """The last line: its rates are over all the time."""
        wire, seconds = 8.0 * stats.bytes, max(1e-6, stats.seconds)
        of_video = ""
        if isinstance(stats, SenderStats):
            wire = stats.wire_bits
            of_video = f" in all, {stats.picture_bits / seconds / 1000:.1f} for video"
        mean = status_text(replace(stats, bitrate=wire / seconds))
        return f"{mean}{of_video}, {stats.bytes} bytes in {stats.seconds:.1f} s"

    def _open(self) -> TextIO | None:
        if self._target is None or self._target == STANDARD_OUTPUT:
            return sys.stdout if self._target else None
        refuse_foreign(self._target, b"{")
        with explain_failure(self._target):
            return open(self._target, "w", encoding="utf-8")

    def _put(self, kind: str, stats: SenderStats | ReceiverStats) -> None:
        if self._file:
            JsonLines(self._file).put(kind, **asdict(stats))
