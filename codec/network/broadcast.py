"""One stream to many connections; each begins at an INTRA packet, none delays another.

TCP tells its sender nothing of what it carries but what waits to be sent. A queue that does not
empty within a second is congestion (as in CoDel, RFC 8289): the least that waited counts, because a
large picture fills any queue for a moment.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.header import Header
from gsvc.codec.network.congestion_control import Reception
from gsvc.codec.network.tcp_websocket import Announced, Channel, heed, strictest

_log = logging.getLogger(__name__)

_WAITING_PACKETS = 64
"""Packets that wait for a connection; a slower one is cut off and may connect again."""
_CLOSING_SECONDS = 5.0
_SECONDS = 1.0
"""Between two measurements."""
_LEAST_RATE = 100.0
"""Bits per second: what carries less carries nothing."""


class SendQueue:
    """Of one connection. Sample it several times a second."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._least = self._came = 0

    def sample(self, now: float, put: int, waiting: int) -> Reception | None:
        """Take the time in seconds, the bytes so far that are to be sent, and those of them that
        wait, here or in the system; gives what arrived in the last second, when one is over."""
        if self._since is None:
            self._since, self._least, self._came = now, waiting, put - waiting
            return None
        self._least = min(self._least, waiting)
        passed = now - self._since
        if passed < _SECONDS:
            return None
        came = 8 * (put - waiting - self._came) / passed
        under_way = 8 * self._least
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
    """Bytes that were queued."""
    taken: int = 0
    """Bytes that the channel was given."""

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
                client.has_begun |= packet.is_key
                if client.has_begun:
                    self._put(client, data)

    async def room(self) -> None:
        """Wait until there is a connection and none is far behind."""
        while not self._clients or any(
            client.queue.qsize() > _WAITING_PACKETS // 2 for client in self._clients
        ):
            await asyncio.sleep(0.01)

    def sample(self, now: float) -> Reception | None:
        """What the slowest connection carries, once a second; sample it several times a second.

        None where there is nothing new.
        """
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
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                while self._clients:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pass

    def _put(self, client: _Client, data: bytes | None) -> None:
        try:
            client.queue.put_nowait(data)
            client.put += len(data or b"")
        except asyncio.QueueFull:
            self.refused += 1
            self._clients.remove(client)
            client.is_cut_off.set()

    async def _serve(self, channel: Channel, client: _Client) -> None:
        try:
            await channel.write(self._header)
            while (data := await client.queue.get()) is not None:
                client.taken += len(data)
                await channel.write(data)
                self.bytes += len(data)
        except OSError:
            pass  # the receiver is gone
