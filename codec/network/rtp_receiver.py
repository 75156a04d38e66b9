"""RTP receiver without a socket: packets from datagrams, and feedback to the sender."""

import secrets
from collections.abc import Callable
from typing import Any

from gsvc.codec.errors import BitstreamError
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.network.depacketizer import Depacketizer, ReorderLimits
from gsvc.codec.network.rtcp import (
    BitrateLimit,
    Bye,
    Nack,
    PictureLimit,
    PictureLoss,
    ReceiverReport,
    Rtcp,
    SenderReport,
    is_rtcp,
    middle,
    read_rtcp,
    time_of_day,
    write_rtcp,
)
from gsvc.codec.network.rtp import CLOCK_RATE, RtpPacket, rtp_timestamp
from gsvc.codec.stream.packet import Packet

_REPORT_SECONDS = 1.0
_EARLY_SECONDS, _EARLY_SHARE = 0.2, 0.1
"""An early report, as RFC 4585 has them: least time after the one before, and the most that they
take, in proportion to what arrives."""
_REPORT_BYTES = 60
"""Of a report, IP and UDP headers included."""
_PLI_SECONDS = 0.5
"""Least time between two requests for a new group."""
_PATIENCE = 0.1
"""Seconds from the first datagram to the first such request: the group may be under way."""
_SILENCE = 0.5
"""Seconds of silence after which another source replaces one that has not begun."""


class Source:
    """The state of one source: `is_over` once it said BYE."""

    def __init__(self, ssrc: int, depacketizer: Depacketizer, now: float) -> None:
        self.ssrc, self.depacketizer = ssrc, depacketizer
        self.heard = now
        self.pli_sent = now - _PLI_SECONDS + _PATIENCE
        self.reported = now
        self.peer: Any = None
        self.capture: SenderReport | None = None
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
        limits: Limits = DEFAULT_LIMITS,
        reorder: ReorderLimits | None = None,
        bandwidth: float | None = None,
        pictures: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`bandwidth`: the most bits per second that the sender is told to send; `pictures`: gives
        the most coded pictures a second that there is time for, None: not known."""
        self._bandwidth, self._pictures = bandwidth, pictures
        self.datagrams = self.bytes = self.invalid = 0
        self._limits, self._reorder = limits, reorder
        self._own = secrets.randbits(32)
        self.current: Source | None = None
        self._next: Source | None = None

    def receive(self, datagram: bytes, now: float, peer: Any = None) -> list[Packet]:
        """Take a datagram from the address `peer`; `now` is in monotonic seconds.

        Gives the packets that are ready, all of one source.
        """
        self.datagrams += 1
        self.bytes += len(datagram)
        try:
            if is_rtcp(datagram):
                self._take_reports(datagram, now)
                return []
            source = self._source_of(RtpPacket.from_bytes(datagram).ssrc, now)
        except BitstreamError:
            self.invalid += 1
            return []
        if source is None:
            return []
        source.peer = peer
        source.spare = min(4.0 * _REPORT_BYTES, source.spare + _EARLY_SHARE * len(datagram))
        packets = source.depacketizer.push(datagram, now)
        if packets and source is not self.current:
            self.current, self._next = source, None
        return packets

    def poll(self, now: float) -> list[Packet]:
        """Packets that are ready because what they waited for is given up."""
        if self._next:
            self._next.depacketizer.poll(now)
        return self.current.depacketizer.poll(now) if self.current else []

    def feedback(self, now: float) -> list[tuple[bytes, Any]]:
        """Datagrams to send now, with their peers: NACK, PLI, and every second a report."""
        addressed: list[tuple[bytes, Any]] = []
        for source in filter(None, (self.current, self._next)):
            found: list[Rtcp] = []
            depacketizer = source.depacketizer
            missing = depacketizer.to_nack(now)
            if missing:
                found.append(Nack(self._own, source.ssrc, tuple(missing)))
            silent = now - source.heard > _PLI_SECONDS
            if depacketizer.needs_key and not silent and now - source.pli_sent >= _PLI_SECONDS:
                source.pli_sent = now
                found.append(PictureLoss(self._own, source.ssrc))
            if source.is_report_due(now):
                source.reported = now
                source.spare = max(0.0, source.spare - _REPORT_BYTES)
                found.append(self._report(source, now))
                if self._bandwidth is not None:
                    found.append(BitrateLimit(self._own, source.ssrc, self._bandwidth))
                if (pictures := self._pictures()) is not None:
                    found.append(PictureLimit(self._own, source.ssrc, pictures))
            addressed += [(write_rtcp(packet), source.peer) for packet in found]
        return addressed

    def capture_time(self, pts: int) -> float | None:
        """The sender's time of day when it captured the frame at `pts`, if a report has told it."""
        source = self.current
        if not (source and source.capture and source.depacketizer.header):
            return None
        report, video = source.capture, source.depacketizer.header.format
        ticks = rtp_timestamp(pts, video.time_base) - report.timestamp
        ticks = (ticks + (1 << 31)) % (1 << 32) - (1 << 31)
        return time_of_day(report.ntp) + ticks / CLOCK_RATE

    def _source_of(self, ssrc: int, now: float) -> Source | None:
        for source in (self.current, self._next):
            if source and source.ssrc == ssrc:
                source.heard = now
                return source
        if self._next and now - self._next.heard < _SILENCE:
            return None
        self._next = Source(ssrc, Depacketizer(self._limits, self._reorder), now)
        return self._next

    def _take_reports(self, datagram: bytes, now: float) -> None:
        for packet in read_rtcp(datagram):
            for source in filter(None, (self.current, self._next)):
                if isinstance(packet, SenderReport) and packet.ssrc == source.ssrc:
                    source.capture, source.captured_at = packet, now
                elif isinstance(packet, Bye) and packet.ssrc == source.ssrc:
                    source.is_over = True

    def _report(self, source: Source, now: float) -> ReceiverReport:
        last = middle(source.capture.ntp) if source.capture else 0
        delay = now - source.captured_at if source.capture else 0.0
        block = source.depacketizer.tracker.report(source.ssrc, last, delay)
        return ReceiverReport(self._own, (block,))
