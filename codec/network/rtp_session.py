"""Both ends of an RTP session, and the UDP sockets under them in the running event loop.

The ends themselves have no sockets: datagrams, reports and answers to feedback go in and out.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

from gsvc.codec.bitstream import container, errors
from gsvc.codec.bitstream.header import Header
from gsvc.codec.network import congestion_control, rtcp, rtp as wire, stats
from gsvc.codec.network.address import Address, Srtp, refused
from gsvc.codec.network.depacketizer import Depacketizer, ReorderLimits
from gsvc.codec.network.rtp import CLOCK_RATE, Packetizer, RtpPacket, WireSettings, rtp_timestamp

_REMEMBERED = 1 << 14
"""Datagrams whose place in the sum of all bytes is known when a report tells of them."""
_TOGETHER = 0.9  # seconds whose reports make one `Reception`
_WARY = 20.0  # seconds after a loss for which packets are sent twice
_KEY_SECONDS = 1.0  # least time between two groups that receivers request


class RtpSender:
    """One RTP source of one stream; a sender that restarts is another source.

    `datagrams` and `bytes` (with RTP headers) count what was sent, without retransmissions, which
    `again` counts. `report` is the receiver's last one, `round_trip` the seconds measured from it,
    `reception` what came since the report before, `arrived` the bits that it knows of, all headers
    included; `limit` and `pictures` are what the receiver announced. All are None before it.
    """

    def __init__(
        self, header: Header, settings: WireSettings | None = None, srtp: Srtp | None = None
    ) -> None:
        """`srtp`: seals all that is sent, and nothing else is heard."""
        self.ssrc = secrets.randbits(32)
        self._srtp = srtp
        self.datagrams = self.bytes = self.again = self.keys_asked = 0
        self.report: rtcp.ReportBlock | None = None
        self.round_trip: float | None = None
        self.reception: congestion_control.Reception | None = None
        self.reports, self.arrived = 0, 0
        self.limit: float | None = None
        self.pictures: float | None = None
        self._totals: dict[int, int] = {}
        self._reported: tuple[float, int] | None = None
        self._highest, self._expected, self._missing = 0, 0, 0.0
        self._lost_at = float("-inf")
        self._news: float | None = None
        self.packetizer = Packetizer(header, self.ssrc, settings, sequence=secrets.randbits(16))
        self._time_base = header.format.time_base
        self.kept = wire.RetransmissionBuffer()
        self._last_key = self._key_at = float("-inf")
        self._keys = set[int]()

    def send(self, packets: Sequence[container.Packet]) -> list[bytes]:
        """The datagrams of packets that are ready together, see `Packetizer.packetize`."""
        sent, cut = [], self.packetizer.packetize(packets)
        if any(packet.is_intra for packet in packets):
            self._keys = {rtp.sequence for rtp in cut}
        for rtp in cut:
            data = self._sealed(rtp.to_bytes())
            self.kept.add(rtp.sequence, data)
            self.datagrams += 1
            self.bytes += len(data)
            self._totals[rtp.sequence] = self.wire_bytes
            if len(self._totals) > _REMEMBERED:
                del self._totals[next(iter(self._totals))]
            sent.append(data)
        return sent

    def left(self, datagram: bytes, now: float) -> None:
        """A datagram leaves, and has left the link at the time of day `now`."""
        if not rtcp.is_rtcp(datagram):
            self.kept.left(sequence := int.from_bytes(datagram[2:4]), now)
            self._key_at = now if sequence in self._keys else self._key_at

    def protect(self, now: float, *, is_answered: bool) -> None:
        """Send copies and parity where nobody tells of losses, or somebody did of late.

        `now`: the time of day, as of `take_feedback`.
        """
        self.packetizer.is_answered = is_answered
        self.packetizer.protects = not is_answered or now - self._lost_at < _WARY

    def report_capture(self, pts: int, at: float, now: float) -> bytes:
        """A sender report at `now` on the frame at `pts`, captured `at`: seconds since 1970."""
        passed = round((now - at) * CLOCK_RATE)  # a report has the RTP timestamp of its sending
        timestamp = (rtp_timestamp(pts, self._time_base) + passed) % (1 << 32)
        counts = self.datagrams % (1 << 32), self.bytes % (1 << 32)
        report = rtcp.SenderReport(self.ssrc, rtcp.ntp_time(now), timestamp, *counts)
        return self._sealed(rtcp.write_rtcp(report))

    @property
    def wire_bytes(self) -> int:
        """Bytes sent, with the headers of IP and UDP, without retransmissions."""
        return self.bytes + stats.IP_UDP_BYTES * self.datagrams

    def farewell(self) -> bytes:
        """The RTCP packet that ends the source."""
        return self._sealed(rtcp.write_rtcp(rtcp.Bye(self.ssrc)))

    @property
    def refused(self) -> int:
        """Datagrams that were not sealed with the key, came twice or were old."""
        return self._srtp.refused if self._srtp else 0

    def _sealed(self, datagram: bytes) -> bytes:
        return self._srtp.protect(datagram) if self._srtp else datagram

    def take_feedback(
        self, datagram: bytes, now: float, waits: Sequence[bytes] = ()
    ) -> tuple[list[bytes], bool]:
        """Take a receiver's RTCP datagram at the time of day `now`, while datagrams wait to leave.

        Gives the datagrams to send again, and whether to begin a new group. Feedback on other
        sources, other datagrams and invalid bytes are ignored.
        """
        repeated: list[bytes] = []
        begins, trip = False, self.round_trip or 0.0
        opened = self._srtp.unprotect(datagram) if self._srtp else datagram
        if opened is None or not rtcp.is_rtcp(opened):
            return [], False
        # Sooner, it was asked before the last group could arrive.
        asked = now - self._last_key >= max(_KEY_SECONDS, trip) and now - self._key_at >= trip
        is_free = asked and not any(int.from_bytes(data[2:4]) in self._keys for data in waits)
        try:
            for packet in rtcp.read_rtcp(opened):
                match packet:
                    case rtcp.Nack(source=self.ssrc):
                        repeated += self.kept.again(packet.sequences, now, trip, waits)
                    case rtcp.PictureLoss(source=self.ssrc) if is_free and not begins:
                        begins, self._last_key = True, now
                    case rtcp.ReceiverReport():
                        self._read_report(packet, now)
                    case rtcp.BitrateLimit(source=self.ssrc):
                        self.limit = packet.bitrate
                    case rtcp.PictureLimit(source=self.ssrc):
                        self.pictures = packet.pictures
        except errors.BitstreamError:
            pass  # damaged: the receiver repeats it
        self.again += len(repeated)
        self.keys_asked += begins
        return repeated, begins

    def _read_report(self, packet: rtcp.ReceiverReport, now: float) -> None:
        for block in packet.blocks:
            if block.source != self.ssrc:
                continue
            is_news = self.report is None or block.last_report != self.report.last_report
            self.report = block
            self._lost_at = now if block.fraction_lost else self._lost_at
            if block.last_report:
                told = block.last_report + block.delay
                passed = (rtcp.middle(rtcp.ntp_time(now)) - told) % (1 << 32)
                if passed < 1 << 22:  # a minute: else it is damaged, or a clock was set
                    self.round_trip = passed / 65536
            self._receive(block, now, self.round_trip if is_news else None)

    def _receive(self, block: rtcp.ReportBlock, now: float, trip: float | None) -> None:
        """What came since the last report: what was sent in between, less what was lost.

        Reports that come early are put together to a second's."""
        total = self._totals.get(block.highest % (1 << 16))
        if total is None:
            return
        self.reports, self.arrived = self.reports + 1, 8 * total
        expected = max(0, block.highest - self._highest) if self._highest else 1
        self._highest, self._expected = block.highest, self._expected + expected
        self._missing += expected * block.fraction_lost / 256
        self._news = self._news if trip is None else trip
        if self._reported is not None and now > self._reported[0]:
            since, before = self._reported
            if now - since < _TOGETHER:
                return
            lost = self._missing / max(1, self._expected)
            under_way = 8 * (self.wire_bytes - total)
            came = 8 * max(0, total - before) * (1 - lost) / (now - since)
            self.reception = congestion_control.Reception(now, came, lost, self._news, under_way)
        self._reported, self._news = (now, total), None
        self._expected, self._missing = 0, 0.0


_REPORT_SECONDS = 1.0
_EARLY_SECONDS, _EARLY_SHARE = 0.2, 0.1
"""An early report, as RFC 4585 has them: least time after the one before, and the most that they
take, in proportion to what arrives."""
_REPORT_BYTES, _REPORT_PART = 60, 0.02
"""Of a report, IP and UDP headers included; part of a link that a sender's reports take."""
_PLI_SECONDS = 0.5  # least time between two requests for a new group
_PATIENCE = 0.1  # seconds from the first datagram to such a request: the group may be under way
_SILENCE = 0.5  # seconds of silence after which another source replaces one that has not begun


class RtpSource:
    """The state of one source: `is_over` once it said BYE."""

    def __init__(self, ssrc: int, depacketizer: Depacketizer, now: float) -> None:
        self.ssrc, self.depacketizer = ssrc, depacketizer
        self.heard = now
        self.pli_sent = now - _PLI_SECONDS + _PATIENCE
        self.reported = now
        self.peer: Any = None
        self.capture: rtcp.SenderReport | None = None
        self.captured_at = now
        self.is_over = False
        self.spare = 0.0
        """Bytes that early reports may take."""
        self._seen = 0

    def is_report_due(self, now: float) -> bool:
        """Whether to report: each second, and early where something came and much comes."""
        passed, came = now - self.reported, self.depacketizer.tracker.received
        has_room = came > self._seen and self.spare >= _REPORT_BYTES
        is_due = passed >= _REPORT_SECONDS or (passed >= _EARLY_SECONDS and has_room)
        self._seen = came if is_due else self._seen
        return is_due


class RtpReceiver:
    """Follows one source; another one takes over when its first INTRA packet is complete.

    So a sender may restart. Memory is that of two depacketizers. Invalid bytes raise nothing:
    `invalid` counts datagrams that are neither RTP nor RTCP. `current` is the source that packets
    come from, None before the first one.
    """

    def __init__(
        self,
        limits: errors.Limits = errors.DEFAULT_LIMITS,
        reorder: ReorderLimits | None = None,
        bandwidth: float | None = None,
        pictures: Callable[[], float | None] = lambda: None,
        srtp: Srtp | None = None,
    ) -> None:
        """`bandwidth`: the most bits per second that the sender is told to send; `pictures`: gives
        the most coded pictures a second that there is time for, None: not known; `srtp`: opens what
        comes, nothing else is taken, and seals feedback."""
        self.srtp = srtp
        self._bandwidth, self._pictures = bandwidth, pictures
        self.datagrams = self.bytes = self.invalid = 0
        self.since: float | None = None
        """When the first datagram came, or the first stream over a connection."""
        self.asks_key = False
        """Set it to ask for a new group once."""
        self._limits, self._reorder = limits, reorder
        self._own = secrets.randbits(32)
        self.current: RtpSource | None = None
        self._next: RtpSource | None = None

    def receive(self, datagram: bytes, now: float, peer: Any = None) -> list[container.Packet]:
        """Take a datagram from the address `peer`; `now` is in monotonic seconds.

        Gives the packets that are ready, all of one source.
        """
        opened = self.srtp.unprotect(datagram) if self.srtp else datagram
        if opened is None:
            return []
        self.since = self.since or now
        self.datagrams += 1
        self.bytes += len(datagram)
        source = None
        try:
            if rtcp.is_rtcp(opened):
                self._take_reports(opened, now)
            else:
                source = self._source_of(RtpPacket.from_bytes(opened).ssrc, now)
        except errors.BitstreamError:
            self.invalid += 1
        if source is None:
            return []
        source.peer = peer
        source.spare = min(4.0 * _REPORT_BYTES, source.spare + _EARLY_SHARE * len(datagram))
        packets = source.depacketizer.push(opened, now)
        if packets and source is not self.current:
            self.current, self._next = source, None
        return packets

    def poll(self, now: float) -> list[container.Packet]:
        """Packets that are ready because what they waited for is given up."""
        if self._next:
            self._next.depacketizer.poll(now)
        return self.current.depacketizer.poll(now) if self.current else []

    def feedback(self, now: float) -> list[tuple[bytes, Any]]:
        """Datagrams to send now, with their peers: NACK, PLI, and every second a report."""
        addressed: list[tuple[bytes, Any]] = []
        for source in filter(None, (self.current, self._next)):
            found: list[rtcp.Rtcp] = []
            depacketizer = source.depacketizer
            if missing := depacketizer.to_nack(now):
                found.append(rtcp.Nack(self._own, source.ssrc, tuple(missing)))
            silent = now - source.heard > _PLI_SECONDS
            needs_key = depacketizer.needs_key or self.asks_key
            if needs_key and not silent and now - source.pli_sent >= _PLI_SECONDS:
                source.pli_sent, self.asks_key = now, False
                found.append(rtcp.PictureLoss(self._own, source.ssrc))
            if source.is_report_due(now):
                source.reported = now
                source.spare = max(0.0, source.spare - _REPORT_BYTES)
                found.append(self._report(source, now))
                if self._bandwidth is not None:
                    found.append(rtcp.BitrateLimit(self._own, source.ssrc, self._bandwidth))
                if (pictures := self._pictures()) is not None:
                    found.append(rtcp.PictureLimit(self._own, source.ssrc, pictures))
            for packet in found:
                datagram = rtcp.write_rtcp(packet)
                sealed = self.srtp.protect(datagram) if self.srtp else datagram
                addressed.append((sealed, source.peer))
        return addressed

    def capture_time(self, pts: int) -> float | None:
        """The sender's time of day when it captured the frame at `pts`, if a report has told it."""
        source = self.current
        if not (source and source.capture and source.depacketizer.header):
            return None
        report, video = source.capture, source.depacketizer.header.format
        ticks = rtp_timestamp(pts, video.time_base) - report.timestamp
        ticks = (ticks + (1 << 31)) % (1 << 32) - (1 << 31)
        return rtcp.time_of_day(report.ntp) + ticks / CLOCK_RATE

    def _source_of(self, ssrc: int, now: float) -> RtpSource | None:
        for source in (self.current, self._next):
            if source and source.ssrc == ssrc:
                source.heard = now
                return source
        if self._next and now - self._next.heard < _SILENCE:
            return None
        self._next = RtpSource(ssrc, Depacketizer(self._limits, self._reorder), now)
        return self._next

    def _take_reports(self, datagram: bytes, now: float) -> None:
        for packet in rtcp.read_rtcp(datagram):
            for source in filter(None, (self.current, self._next)):
                if isinstance(packet, rtcp.SenderReport) and packet.ssrc == source.ssrc:
                    source.capture, source.captured_at = packet, now
                elif isinstance(packet, rtcp.Bye) and packet.ssrc == source.ssrc:
                    source.is_over = True

    def _report(self, source: RtpSource, now: float) -> rtcp.ReceiverReport:
        last = rtcp.middle(source.capture.ntp) if source.capture else 0
        delay = now - source.captured_at if source.capture else 0.0
        block = source.depacketizer.tracker.report(source.ssrc, last, delay)
        return rtcp.ReceiverReport(self._own, (block,))


_END_COPIES, _END_SECONDS = 3, 0.1
"""How often END is sent, and the seconds between: no later packet would reveal its loss."""
_TICK = 0.02  # seconds between two polls of the receiver


class UdpSender(asyncio.DatagramProtocol):
    """Sends packets to one receiver and answers its feedback. Open it with `open_udp_sender`.

    `datagrams` and `bytes` (with RTP headers) count reports and retransmissions, too. When a
    receiver asks for a new group, the pictures and repeats that wait for the link are dropped.
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
        self._rate: float | None = None
        self._free_at = self._report_seconds = 0.0
        self._queue = deque[tuple[bytes, container.Packet | None]]()  # with the sound in it
        self._timer: asyncio.TimerHandle | None = None
        self._is_ending = False
        self._reported = float("-inf")
        self._captured: tuple[int, float] | None = None
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: object) -> None:
        waits = [waiting for waiting, _ in self._queue]
        repeated, begins = self._rtp.take_feedback(data, time.time(), waits)
        self._put(repeated)
        if begins and not self._is_ending:
            self._clear()
            self._begin_group()
        if self._heard:
            self._heard()

    def error_received(self, exc: Exception) -> None:
        """Nobody listens yet."""

    def pace(self, rate: float) -> None:
        """Send no faster than a link of `rate` bits per second takes it, headers included, and
        spend a fiftieth of that on reports (RFC 3550, section 6.2: at most a twentieth)."""
        self._rate = self._rtp.kept.rate = rate
        self._report_seconds = 8 * _REPORT_BYTES / (_REPORT_PART * rate)

    @property
    def waits(self) -> float:
        """Seconds of the link that what was sent waits for it."""
        if self._rate is None:
            return 0.0
        bits = sum(stats.wire_bits(data) for data, _ in self._queue)
        return max(0.0, self._free_at - asyncio.get_running_loop().time()) + bits / self._rate

    def send(self, packets: Sequence[container.Packet]) -> None:
        """Send packets that are ready together, and a sender report every second.

        The report goes first: behind an intra picture it would tell of waiting that is nobody
        else's. Only the first one follows the packets that make the source known.
        """
        knows = self._rtp.datagrams > 0
        if knows:
            self._report()
        sounds = [packet for packet in packets if packet.type == container.PacketType.AUDIO]
        for sound in sounds[:-1]:
            self._put(self._rtp.send([sound]), sound)
        rest = [packet for packet in packets if packet not in sounds[:-1]]
        self._put(self._rtp.send(rest), sounds[-1] if sounds else None)
        if not knows:
            self._report()

    def _report(self) -> None:
        now = time.monotonic()
        if self._captured and now - self._reported >= max(_REPORT_SECONDS, self._report_seconds):
            self._reported = now
            self._put([self._rtp.report_capture(*self._captured, time.time() + self.waits)])

    def captured(self, pts: int, now: float) -> None:
        """Note for the next report that the frame at `pts` was captured at time of day `now`."""
        self._captured = pts, now

    async def room(self) -> None:
        """Return at once: UDP always has room, and the network drops what is too much."""
        await asyncio.sleep(0)

    async def close(self, end: container.Packet) -> None:
        """Send END a few times, answer feedback meanwhile, send BYE, and close."""
        self._is_ending = True
        for _ in range(_END_COPIES):
            self.send([end])
            await asyncio.sleep(_END_SECONDS)
        self._put([self._rtp.farewell()])
        while self._queue:
            await asyncio.sleep(self.waits)
        self._transport.close()

    def abort(self) -> None:
        """Close at once if still open."""
        self._transport.abort()

    def _put(self, datagrams: Sequence[bytes], sound: container.Packet | None = None) -> None:
        """Queue datagrams; the first holds the sound."""
        for datagram in datagrams:
            self._queue.append((datagram, sound))
            self.datagrams += 1
            self.bytes += len(datagram)
            sound = None
        self._drain()

    def _drain(self) -> None:
        """Send what waits, as fast as the link takes it."""
        loop = asyncio.get_running_loop()
        while self._queue and (self._rate is None or self._free_at <= loop.time()):
            data, _ = self._queue.popleft()
            self._transport.sendto(data)
            if self._rate is not None:
                self._free_at = max(self._free_at, loop.time()) + stats.wire_bits(data) / self._rate
            self._rtp.left(data, time.time() + max(0.0, self._free_at - loop.time()))
        if self._timer:
            self._timer.cancel()
        self._timer = loop.call_at(self._free_at, self._drain) if self._queue else None

    def _clear(self) -> None:
        """Drop what waits but sound, which needs no picture before it."""
        self._rtp.kept.clear()
        self._rtp.packetizer.forget()
        waiting = list(self._queue)
        self._queue.clear()
        for datagram, sound in waiting:
            self.datagrams, self.bytes = self.datagrams - 1, self.bytes - len(datagram)
            self._put(self._rtp.send([sound] if sound else []), sound)


class UdpReceiver(asyncio.DatagramProtocol):
    """Receives packets and sends feedback to their sender. Open it with `open_udp_receiver`."""

    def __init__(
        self, rtp: RtpReceiver, take: Callable[[list[container.Packet]], None], *, feedback: bool
    ) -> None:
        """`take` is called with packets of one source, `rtp.current`."""
        self._rtp, self._take, self._gives_feedback = rtp, take, feedback
        self._transport: asyncio.DatagramTransport
        self._timer: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self._timer = asyncio.create_task(self._tick())

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if packets := self._rtp.receive(data, time.monotonic(), addr):
            self._take(packets)

    def close(self) -> None:
        """Stop receiving."""
        self._timer.cancel()
        self._transport.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            if packets := self._rtp.poll(now):
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
    with refused(f"send to {address}", errors.OutputError, "check host and port"):
        _, sender = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: UdpSender(rtp, begin_group, heard), remote_addr=(address.host, address.port)
        )
    return sender


async def open_udp_receiver(
    address: Address,
    rtp: RtpReceiver,
    take: Callable[[list[container.Packet]], None],
    *,
    feedback: bool,
) -> UdpReceiver:
    """Listen at `address`. Raises InputError when its port is taken or not permitted."""
    with refused(f"listen at {address}", errors.InputError, "choose another port or host"):
        _, receiver = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: UdpReceiver(rtp, take, feedback=feedback),
            local_addr=(address.host or "0.0.0.0", address.port),
        )
    return receiver
