"""Connections over TCP and WebSocket, plain or under TLS, and one stream sent to many of them.

Their form: docs/wire.md, section 8. TCP tells its sender nothing of what it carries but what waits
to be sent. A queue that does not empty within a second is congestion (as in CoDel, RFC 8289): the
least that waited counts, because a large picture fills any queue for a moment.
"""

import asyncio
import logging
import struct
import sys
from asyncio import WriteTransport
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from ssl import SSLCertVerificationError, SSLContext
from typing import TYPE_CHECKING, Any, NoReturn

from gsvc.codec.bitstream import errors
from gsvc.codec.bitstream.container import Packet, read_packet, read_varint
from gsvc.codec.bitstream.header import HEADER_BYTES, Header
from gsvc.codec.network.address import Address, refused
from gsvc.codec.network.congestion_control import Reception
from gsvc.codec.network.rtcp import BitrateLimit, PictureLimit, read_rtcp, write_rtcp

if TYPE_CHECKING:
    from websockets.asyncio.connection import Connection


def unsent(transport: WriteTransport) -> int:
    """Bytes that a transport and, where it tells (Linux), the system have not got through."""
    waiting = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    if sys.platform == "linux" and connection is not None:
        import fcntl
        import termios

        with suppress(OSError, ValueError):  # it is closed
            told = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
            waiting += struct.unpack("i", told)[0]
    return waiting


_log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5
_VARINT_BYTES = 5
_GONE = "the connection ends early: the sender is gone"
_WS_BOUNDS: dict[str, Any] = {"max_size": errors.DEFAULT_LIMITS.packet_bytes + 64, "max_queue": 4}


def _check_length(length: int, most: int) -> None:
    if length > most:
        raise errors.BitstreamError(f"a message of {length} bytes where {most} are the most")


class _TcpChannel:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def unsent(self) -> int:
        return unsent(self._writer.transport)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def write_message(self, data: bytes) -> None:
        await self.write(len(data).to_bytes(4, "big") + data)

    async def read_message(self, most: int) -> bytes:
        length = int.from_bytes(await self._read(4), "big")
        _check_length(length, most)
        return await self._read(length)

    async def read_header(self, limits: errors.Limits) -> Header:
        return Header.from_bytes(await self._read(HEADER_BYTES), limits)

    async def read_packet(self, limits: errors.Limits) -> Packet:
        tag = await self._read_varint()
        length = read_varint(BytesIO(tag).read) >> 4
        if length > limits.packet_bytes:
            why = f"a packet of {length} bytes exceeds the limit of {limits.packet_bytes}"
            raise errors.LimitError(why)
        data = tag + await self._read_varint() + await self._read(length + 4)
        return read_packet(BytesIO(data).read, limits)

    async def _read_varint(self) -> bytes:
        data = b""
        while len(data) < _VARINT_BYTES:
            data += await self._read(1)
            if data[-1] < 128:
                break
        return data

    async def _read(self, count: int) -> bytes:
        try:
            return await self._reader.readexactly(count)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise errors.TruncatedStreamError(_GONE) from error


class _WsChannel:
    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    @property
    def unsent(self) -> int:
        return unsent(self._connection.transport)

    async def write(self, data: bytes) -> None:
        from websockets import ConnectionClosed

        try:
            await self._connection.send(data)
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from error

    write_message = write

    async def read_message(self, most: int) -> bytes:
        message = await self._message()
        _check_length(len(message), most)
        return message

    async def read_header(self, limits: errors.Limits) -> Header:
        return Header.from_bytes(await self._message(), limits)

    async def read_packet(self, limits: errors.Limits) -> Packet:
        return read_packet(BytesIO(await self._message()).read, limits)

    async def _message(self) -> bytes:
        from websockets import ConnectionClosed

        try:
            message = await self._connection.recv()
        except ConnectionClosed as error:
            raise errors.TruncatedStreamError(_GONE) from error
        if isinstance(message, str):
            why = "a text message: gsvc sends binary ones, is the sender a gsvc?"
            raise errors.BitstreamError(why)
        return message


Channel = _TcpChannel | _WsChannel
"""One connection; `unsent`: bytes written that have not got through. Reading raises BitstreamError,
TruncatedStreamError when the peer is gone."""
Handler = Callable[[Channel], Awaitable[None]]
"""Uses a connection, which is closed when the handler returns."""


async def run_channels(address: Address, handle: Handler, tls: SSLContext | None = None) -> None:
    """Give every connection to `handle`, until cancelled.

    An address that listens takes all connections at once; any other one is connected to again and
    again. `tls` is for tls:// and wss:// addresses. Raises InputError when the port cannot be used
    and for a certificate that nobody vouches for, MissingDependencyError for ws:// and wss://
    without the package websockets.
    """
    is_tcp = address.scheme in ("tcp", "tls")
    if not is_tcp and find_spec("websockets") is None:
        why = f"{address.scheme}:// needs the package websockets: pip install 'gsvc[stream]'"
        raise errors.MissingDependencyError(why)
    if not address.listens:
        connect = partial(_connect_tcp if is_tcp else _connect_ws, tls)
        await _keep_connecting(address, handle, connect)
    with refused(f"listen at {address}", errors.InputError, "choose another port or host"):
        await (_serve_tcp if is_tcp else _serve_ws)(tls, address, handle)


async def _keep_connecting(
    address: Address, handle: Handler, connect: Callable[[Address, Handler], Awaitable[None]]
) -> NoReturn:
    is_told = False
    while True:
        try:
            await connect(address, handle)
            is_told = True
        except SSLCertVerificationError as error:
            raise errors.InputError(
                f"{address}: its certificate is refused ({error.verify_message}): "
                "name the certificates that vouch for it with authorities="
            ) from error
        except OSError as error:  # nobody listens yet, or the connection broke
            if not is_told:
                _log.warning("%s: %s: trying on", address, error.strerror or error)
            is_told = True
        await asyncio.sleep(_RETRY_SECONDS)


async def end_all(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended, so that connections close properly."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def _serve_tcp(tls: SSLContext | None, address: Address, handle: Handler) -> None:
    server = await asyncio.start_server(
        partial(_use_tcp, handle), address.host or None, address.port, ssl=tls
    )
    async with server:
        await server.serve_forever()


async def _connect_tcp(tls: SSLContext | None, address: Address, handle: Handler) -> None:
    await _use_tcp(handle, *await asyncio.open_connection(address.host, address.port, ssl=tls))


async def _use_tcp(
    handle: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        await handle(_TcpChannel(reader, writer))
    finally:
        writer.close()


async def _serve_ws(tls: SSLContext | None, address: Address, handle: Handler) -> None:
    from websockets.asyncio.server import serve

    async def use(connection: "Connection") -> None:
        await handle(_WsChannel(connection))

    async with serve(use, address.host or None, address.port, ssl=tls, **_WS_BOUNDS) as running:
        await running.serve_forever()


async def _connect_ws(tls: SSLContext | None, address: Address, handle: Handler) -> None:
    from websockets import WebSocketException
    from websockets.asyncio.client import connect

    with suppress(WebSocketException):
        async with connect(str(address), ssl=tls, **_WS_BOUNDS) as connection:
            await handle(_WsChannel(connection))


_SECONDS = 1.0  # between two looks at what there is time for
_CHANGED = 0.1
"""By what share pictures a second differ from those announced before they are announced again."""
_MOST_BYTES = 256


@dataclass
class Announced:
    """The most bits, and coded pictures, a second of one receiver; None: none was announced."""

    limit: float | None = None
    pictures: float | None = None


async def announce(
    channel: Channel, bandwidth: float | None, pictures: Callable[[], float | None]
) -> None:
    """Tell a sender, over its connection, until cancelled or the connection ends.

    `bandwidth`: bits per second; `pictures`: gives coded pictures a second.
    """
    told: float | None = None
    with suppress(OSError, errors.BitstreamError):
        if bandwidth is not None:
            await channel.write_message(write_rtcp(BitrateLimit(0, 0, bandwidth)))
        while True:
            now = pictures()
            if now is not None and (told is None or abs(now - told) > _CHANGED * told):
                told = now
                await channel.write_message(write_rtcp(PictureLimit(0, 0, now)))
            await asyncio.sleep(_SECONDS)


async def heed(channel: Channel, found: Announced) -> None:
    """Note in `found` what a receiver announces, until it sends what is none, or is gone."""
    with suppress(OSError, errors.BitstreamError):
        while True:
            for packet in read_rtcp(await channel.read_message(_MOST_BYTES)):
                if isinstance(packet, BitrateLimit):
                    found.limit = packet.bitrate
                elif isinstance(packet, PictureLimit):
                    found.pictures = packet.pictures


def strictest(every: list[Announced]) -> Announced:
    """What keeps to all of them."""
    return Announced(
        min((one.limit for one in every if one.limit is not None), default=None),
        min((one.pictures for one in every if one.pictures is not None), default=None),
    )


_WAITING_PACKETS = 64
"""Packets that wait for a connection; a slower one is cut off and may connect again."""
_CLOSING_SECONDS = 5.0
_LEAST_RATE = 100.0  # bits per second: what carries less carries nothing


class SendQueue:
    """Of one connection. Sample it several times a second."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._least = self._came = 0

    def sample(self, now: float, put: int, waiting: int) -> Reception | None:
        """Take the time in seconds, the bytes so far that are to be sent, and those of them that
        wait, here or in the system; gives what arrived in the last second, when one is over."""
        found = None
        if self._since is not None:
            self._least, passed = min(self._least, waiting), now - self._since
            if passed < _SECONDS:
                return None
            came, under_way = 8 * (put - waiting - self._came) / passed, 8 * self._least
            found = Reception(now, came, 0.0, under_way / max(_LEAST_RATE, came), under_way)
        self._since, self._least, self._came = now, waiting, put - waiting
        return found


@dataclass(eq=False)
class _Client:
    channel: Channel
    queue: asyncio.Queue[bytes | None] = field(
        default_factory=lambda: asyncio.Queue(_WAITING_PACKETS)
    )
    has_begun: bool = False
    is_cut_off: asyncio.Event = field(default_factory=asyncio.Event)
    send_queue: SendQueue = field(default_factory=SendQueue)
    announced: Announced = field(default_factory=Announced)
    put: int = 0
    taken: int = 0

    def sample(self, now: float) -> Reception | None:
        """See `SendQueue.sample`."""
        return self.send_queue.sample(now, self.put, self.put - self.taken + self.channel.unsent)


class Broadcaster:
    """Sends packets to every connection that `handle` is given; its length is their number.

    `bytes` counts what was sent, without TCP's framing; `refused` counts connections that were cut
    off because they were too slow; `datagrams` is always 0.
    """

    def __init__(self, header: Header, begin_group: Callable[[], None]) -> None:
        self.datagrams = self.bytes = self.refused = 0
        self._header, self._begin_group = header.to_bytes(), begin_group
        self._clients: list[_Client] = []

    def __len__(self) -> int:
        return len(self._clients)

    async def handle(self, channel: Channel) -> None:
        """Serve one connection to its end."""
        client = _Client(channel)
        self._clients.append(client)
        _log.info("a receiver connected, %d are here", len(self))
        self._begin_group()
        serving = asyncio.create_task(self._serve(channel, client))
        cut_off = asyncio.create_task(client.is_cut_off.wait())
        heeding = asyncio.create_task(heed(channel, client.announced))
        try:
            await asyncio.wait((serving, cut_off), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (serving, cut_off, heeding):
                task.cancel()
            if client in self._clients:
                self._clients.remove(client)
            _log.info("a receiver left, %d are here", len(self))

    def send(self, packets: Sequence[Packet]) -> None:
        """Queue packets for all connections."""
        for packet in packets:
            data = packet.to_bytes()
            for client in list(self._clients):
                client.has_begun |= packet.is_intra
                if client.has_begun:
                    self._put(client, data)

    async def room(self) -> None:
        """Wait until there is a connection and none is far behind."""
        while not self._clients or any(
            client.queue.qsize() > _WAITING_PACKETS // 2 for client in self._clients
        ):
            await asyncio.sleep(0.01)

    def sample(self, now: float) -> Reception | None:
        """What the slowest connection carries, if that is news; sample several times a second."""
        found = [seen for client in self._clients if (seen := client.sample(now))]
        return max(found, key=lambda seen: seen.round_trip or 0.0, default=None)

    @property
    def announced(self) -> Announced:
        """What keeps to the budgets of all receivers."""
        return strictest([client.announced for client in self._clients])

    def captured(self, pts: int, now: float) -> None:
        """Take note of a frame: TCP and WebSocket have no reports to tell it in."""

    async def close(self, end: Packet) -> None:
        """Send the end, wait a few seconds until all has arrived, and end every connection."""
        self.send([end])
        for client in list(self._clients):
            self._put(client, None)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                while self._clients:
                    await asyncio.sleep(0.01)

    def _put(self, client: _Client, data: bytes | None) -> None:
        try:
            client.queue.put_nowait(data)
            client.put += len(data or b"")
        except asyncio.QueueFull:
            self.refused += 1
            self._clients.remove(client)
            client.is_cut_off.set()

    async def _serve(self, channel: Channel, client: _Client) -> None:
        with suppress(OSError):  # the receiver is gone
            await channel.write(self._header)
            while (data := await client.queue.get()) is not None:
                client.taken += len(data)
                await channel.write(data)
                self.bytes += len(data)
