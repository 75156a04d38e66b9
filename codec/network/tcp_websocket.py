"""Connections over TCP and WebSocket, each with a stream of its own.

TCP carries the bytes of a file, WebSocket one message for the header and one for each packet. The
stream may begin at any INTRA packet and end without END. Under a key both carry messages, which TCP
leads by their length in four bytes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from ssl import SSLCertVerificationError, SSLContext
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from gsvc.codec.errors import (
    BitstreamError,
    InputError,
    LimitError,
    MissingDependencyError,
    TruncatedStreamError,
)
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.network.address import Address
from gsvc.codec.network.backlog import unsent
from gsvc.codec.stream.header import HEADER_BYTES, Header
from gsvc.codec.stream.packet import Packet, read_packet
from gsvc.codec.stream.varint import read_varint

if TYPE_CHECKING:
    from websockets.asyncio.connection import Connection

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5
_VARINT_BYTES = 5
_WS_BOUNDS: dict[str, Any] = {"max_size": DEFAULT_LIMITS.packet_bytes + 64, "max_queue": 4}


class Channel(Protocol):
    """One connection; `unsent`: bytes written that have not got through.

    Reading raises BitstreamError, TruncatedStreamError when the peer is gone.
    """

    @property
    def unsent(self) -> int: ...
    async def write(self, data: bytes) -> None: ...
    async def write_message(self, data: bytes) -> None: ...
    async def read_message(self, most: int) -> bytes: ...
    async def read_header(self, limits: Limits) -> Header: ...
    async def read_packet(self, limits: Limits) -> Packet: ...


Handler = Callable[[Channel], Awaitable[None]]
"""Uses a connection, which is closed when the handler returns."""


async def run_channels(address: Address, handle: Handler, tls: SSLContext | None = None) -> None:
    """Give every connection to `handle`, until cancelled.

    An address that listens takes all connections at once; any other one is connected to again and
    again. `tls` is for wss:// addresses. Raises InputError when the port cannot be used and for a
    certificate that nobody vouches for, MissingDependencyError for ws:// and wss:// without the
    package websockets.
    """
    is_tcp = address.scheme == "tcp"
    if not is_tcp and find_spec("websockets") is None:
        raise MissingDependencyError(
            f"{address.scheme}:// needs the package websockets: pip install 'gsvc[stream]'"
        )
    connect, serve = partial(_connect_ws, tls), partial(_serve_ws, tls)
    if not address.listens:
        await _keep_connecting(address, handle, _connect_tcp if is_tcp else connect)
    try:
        await (_serve_tcp if is_tcp else serve)(address, handle)
    except OSError as error:
        raise InputError(
            f"cannot listen at {address} ({error.strerror or error}): choose another port"
        ) from error


async def _keep_connecting(
    address: Address, handle: Handler, connect: Callable[[Address, Handler], Awaitable[None]]
) -> NoReturn:
    is_told = False
    while True:
        try:
            await connect(address, handle)
            is_told = True
        except SSLCertVerificationError as error:
            raise InputError(
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
        if length > most:
            raise BitstreamError(f"a message of {length} bytes where {most} are the most")
        return await self._read(length)

    async def read_header(self, limits: Limits) -> Header:
        return Header.from_bytes(await self._read(HEADER_BYTES), limits)

    async def read_packet(self, limits: Limits) -> Packet:
        tag = await self._read_varint()
        length = read_varint(BytesIO(tag).read) >> 4
        if length > limits.packet_bytes:
            raise LimitError(
                f"a packet of {length} bytes exceeds the limit of {limits.packet_bytes}"
            )
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
            raise TruncatedStreamError("the connection ends early: the sender is gone") from error


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

    async def write_message(self, data: bytes) -> None:
        await self.write(data)

    async def read_message(self, most: int) -> bytes:
        message = await self._message()
        if len(message) > most:
            raise BitstreamError(f"a message of {len(message)} bytes where {most} are the most")
        return message

    async def read_header(self, limits: Limits) -> Header:
        return Header.from_bytes(await self._message(), limits)

    async def read_packet(self, limits: Limits) -> Packet:
        return read_packet(BytesIO(await self._message()).read, limits)

    async def _message(self) -> bytes:
        from websockets import ConnectionClosed

        try:
            message = await self._connection.recv()
        except ConnectionClosed as error:
            raise TruncatedStreamError("the connection ends early: the sender is gone") from error
        if isinstance(message, str):
            raise BitstreamError("a text message: gsvc sends binary ones, is the sender a gsvc?")
        return message


async def _serve_tcp(address: Address, handle: Handler) -> None:
    connected = partial(_use_tcp, handle)
    async with await asyncio.start_server(connected, address.host or None, address.port) as server:
        await server.serve_forever()


async def _connect_tcp(address: Address, handle: Handler) -> None:
    await _use_tcp(handle, *await asyncio.open_connection(address.host, address.port))


async def _use_tcp(
    handle: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        await handle(_TcpChannel(reader, writer))
    finally:
        writer.close()


async def _serve_ws(tls: SSLContext | None, address: Address, handle: Handler) -> None:
    from websockets.asyncio.server import serve

    use = partial(_use_ws, handle)
    async with serve(use, address.host or None, address.port, ssl=tls, **_WS_BOUNDS) as running:
        await running.serve_forever()


async def _connect_ws(tls: SSLContext | None, address: Address, handle: Handler) -> None:
    from websockets import WebSocketException
    from websockets.asyncio.client import connect

    with suppress(WebSocketException):
        async with connect(str(address), ssl=tls, **_WS_BOUNDS) as connection:
            await _use_ws(handle, connection)


async def _use_ws(handle: Handler, connection: "Connection") -> None:
    await handle(_WsChannel(connection))
