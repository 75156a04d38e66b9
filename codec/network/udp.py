"""UDP sockets of the RTP sender and receiver, in the running event loop."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.errors import InputError, OutputError
from gsvc.codec.network.address import Address
from gsvc.codec.network.rtp_session import RtpReceiver, RtpSender

_END_COPIES, _END_SECONDS = 3, 0.1
"""How often END is sent, and the seconds between: no later packet would reveal its loss."""
_REPORT_SECONDS = 1.0
_TICK = 0.02
"""Seconds between two polls of the receiver."""


class UdpSender(asyncio.DatagramProtocol):
    """Sends packets to one receiver and answers its feedback. Open it with `open_udp_sender`.

    `datagrams` and `bytes` (with RTP headers) count all that was sent, with reports and
    retransmissions.
    """

    def __init__(
        self,
        rtp: RtpSender,
        begin_group: Callable[[], None],
        heard: Callable[[], None] | None = None,
    ) -> None:
        """`heard` is called after each datagram of feedback, when `rtp` has taken it."""
        self.datagrams = self.bytes = 0
        self._rtp, self._begin_group, self._heard = rtp, begin_group, heard
        self._reported = float("-inf")
        self._captured: tuple[int, float] | None = None
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: object) -> None:
        repeated, begins = self._rtp.take_feedback(data, time.time())
        self._put(repeated)
        if begins:
            self._begin_group()
        if self._heard:
            self._heard()

    def error_received(self, exc: Exception) -> None:
        """Nobody listens yet."""

    def send(self, packets: Sequence[Packet]) -> None:
        """Send packets that are ready together, and a sender report every second.

        The report goes first: behind an intra picture it would tell of waiting that is nobody
        else's. Only the first one follows the packets that make the source known.
        """
        knows = self._rtp.datagrams > 0
        if knows:
            self._report()
        self._put(self._rtp.send(packets))
        if not knows:
            self._report()

    def _report(self) -> None:
        now = time.monotonic()
        if self._captured and now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._put([self._rtp.report_capture(*self._captured, time.time())])

    def captured(self, pts: int, now: float) -> None:
        """Note for the next report that the frame at `pts` was captured at time of day `now`."""
        self._captured = pts, now

    async def room(self) -> None:
        """Return at once: UDP always has room, and the network drops what is too much."""
        await asyncio.sleep(0)

    async def close(self, end: Packet) -> None:
        """Send END a few times, answer feedback meanwhile, send BYE, and close."""
        for _ in range(_END_COPIES):
            self.send([end])
            await asyncio.sleep(_END_SECONDS)
        self._put([self._rtp.farewell()])
        self._transport.close()

    def abort(self) -> None:
        """Close at once if still open."""
        self._transport.abort()

    def _put(self, datagrams: Sequence[bytes]) -> None:
        for datagram in datagrams:
            self._transport.sendto(datagram)
            self.datagrams += 1
            self.bytes += len(datagram)


class UdpReceiver(asyncio.DatagramProtocol):
    """Receives packets and sends feedback to their sender. Open it with `open_udp_receiver`."""

    def __init__(
        self,
        rtp: RtpReceiver,
        take: Callable[[list[Packet]], None],
        *,
        feedback: bool,
    ) -> None:
        """`take` is called with packets of one source, `rtp.current`."""
        self._rtp, self._take, self._gives_feedback = rtp, take, feedback
        self._transport: asyncio.DatagramTransport
        self._timer: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self._timer = asyncio.create_task(self._tick())

    def datagram_received(self, data: bytes, addr: Any) -> None:
        packets = self._rtp.receive(data, time.monotonic(), addr)
        if packets:
            self._take(packets)

    def close(self) -> None:
        """Stop receiving."""
        self._timer.cancel()
        self._transport.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            packets = self._rtp.poll(now)
            if packets:
                self._take(packets)
            for datagram, peer in self._rtp.feedback(now) if self._gives_feedback else ():
                self._transport.sendto(datagram, peer)


async def open_udp_sender(
    address: Address,
    rtp: RtpSender,
    begin_group: Callable[[], None],
    heard: Callable[[], None] | None = None,
) -> UdpSender:
    """Open a sender to `address`; see `UdpSender`. Raises OutputError when it cannot be used."""
    try:
        _, sender = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: UdpSender(rtp, begin_group, heard),
            remote_addr=(address.host, address.port),
        )
    except OSError as error:
        raise OutputError(
            f"cannot send to {address} ({error.strerror or error}): check host and port"
        ) from error
    return sender


async def open_udp_receiver(
    address: Address,
    rtp: RtpReceiver,
    take: Callable[[list[Packet]], None],
    *,
    feedback: bool,
) -> UdpReceiver:
    """Listen at `address`. Raises InputError when its port is taken or not permitted."""
    try:
        _, receiver = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: UdpReceiver(rtp, take, feedback=feedback),
            local_addr=(address.host or "0.0.0.0", address.port),
        )
    except OSError as error:
        raise InputError(
            f"cannot listen at {address} ({error.strerror or error}): choose another port"
        ) from error
    return receiver
