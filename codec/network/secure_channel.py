"""Connections under a key: both sides prove that they have it, then every message is sealed.

The receiver of the video speaks first, over TCP and WebSocket alike:

    receiver:  magic (5 bytes), 16 random bytes
    sender:    magic, 16 random bytes, tag: an empty message sealed with its new key
    receiver:  tag: an empty message sealed with its own
    sender:    sealed messages: the stream header, then a packet each

Both keys come from the shared one, salted with the random bytes of both sides: what was recorded
opens nothing later. Nonces count messages, so that one that is missing, repeated or out of order
ends the connection.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

from gsvc.codec.bitstream.errors import BitstreamError, TruncatedStreamError
from gsvc.codec.bitstream.header import HEADER_BYTES, Header
from gsvc.codec.bitstream.limits import Limits
from gsvc.codec.bitstream.packet import Packet, read_packet
from gsvc.codec.network.tcp_websocket import Channel, Handler
from gsvc.codec.network.wire_key import TAG_BYTES, WireKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAGIC = b"GSVK\x01"
HELLO_BYTES = len(MAGIC) + 16
_SECONDS = 5.0
"""For the other side to prove that it has the key."""

_QUIET_SECONDS = 60.0
"""Between two warnings of refused connections."""

_log = logging.getLogger(__name__)


class _Sealed:
    """One direction of a connection."""

    def __init__(self, cipher: "AESGCM") -> None:
        self._cipher, self._count = cipher, 0

    def seal(self, message: bytes) -> bytes:
        return self._cipher.encrypt(self._nonce(), message, None)

    def open(self, sealed: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(self._nonce(), sealed, None)
        except InvalidTag as error:
            raise BitstreamError("a message is not sealed with the key: it is refused") from error

    def _nonce(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(12, "big")


class SecureChannel:
    """A channel whose messages are sealed. Make it with `secured`."""

    def __init__(self, channel: Channel, out: _Sealed, into: _Sealed) -> None:
        self._channel, self._out, self._into = channel, out, into

    @property
    def unsent(self) -> int:
        return self._channel.unsent

    async def write(self, data: bytes) -> None:
        await self.write_message(data)

    async def write_message(self, data: bytes) -> None:
        await self._channel.write_message(self._out.seal(data))

    async def read_message(self, most: int) -> bytes:
        return self._into.open(await self._channel.read_message(most + TAG_BYTES))

    async def read_header(self, limits: Limits) -> Header:
        return Header.from_bytes(await self.read_message(HEADER_BYTES), limits)

    async def read_packet(self, limits: Limits) -> Packet:
        return read_packet(BytesIO(await self.read_message(limits.packet_bytes + 16)).read, limits)


def secured(
    handle: Handler, key: WireKey | None, *, sends: bool, refused: Callable[[], None]
) -> Handler:
    """A handler that sees only connections whose other side has the key, as sealed channels.

    Without a key it is the handler itself. `refused` is called for each connection that is not
    let through.
    """
    if key is None:
        return handle
    shake = _greet_receiver if sends else _greet_sender
    tell = _occasionally()

    async def handle_secured(channel: Channel) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                sealed = await shake(channel, key)
        except (BitstreamError, OSError, TimeoutError) as error:
            if not isinstance(error, TruncatedStreamError):
                tell()
            refused()
            return
        await handle(sealed)

    return handle_secured


def _occasionally() -> Callable[[], None]:
    """Warns of a refused connection: of the first, then at most once a minute."""
    untold, last = 0, float("-inf")

    def tell() -> None:
        nonlocal untold, last
        untold += 1
        if time.monotonic() - last < _QUIET_SECONDS:
            return
        count = "a connection is" if untold == 1 else f"{untold} connections are"
        _log.warning("%s refused: the other side has another key, or none", count)
        untold, last = 0, time.monotonic()

    return tell


async def _greet_sender(channel: Channel, key: WireKey) -> SecureChannel:
    ours = MAGIC + secrets.token_bytes(16)
    await channel.write_message(ours)
    answer = await channel.read_message(HELLO_BYTES + TAG_BYTES)
    theirs, proof = _hello(answer[:HELLO_BYTES]), answer[HELLO_BYTES:]
    out, into = _keys(key, ours + theirs)
    into.open(proof)
    await channel.write_message(out.seal(b""))
    return SecureChannel(channel, out, into)


async def _greet_receiver(channel: Channel, key: WireKey) -> SecureChannel:
    theirs = _hello(await channel.read_message(HELLO_BYTES))
    ours = MAGIC + secrets.token_bytes(16)
    into, out = _keys(key, theirs + ours)
    await channel.write_message(ours + out.seal(b""))
    into.open(await channel.read_message(TAG_BYTES))
    return SecureChannel(channel, out, into)


def _keys(key: WireKey, salt: bytes) -> tuple[_Sealed, _Sealed]:
    """The receiver's direction, then the sender's."""
    return _Sealed(key.cipher(salt, b"from receiver")), _Sealed(key.cipher(salt, b"from sender"))


def _hello(message: bytes) -> bytes:
    if len(message) != HELLO_BYTES or not message.startswith(MAGIC):
        raise BitstreamError("the other side has no key: it is refused")
    return message
