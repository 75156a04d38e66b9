"""RTP sender without a socket: datagrams, sender reports, and answers to feedback."""

import secrets
from collections.abc import Sequence

from gsvc.codec.errors import BitstreamError
from gsvc.codec.network.packetizer import Packetizer, WireSettings
from gsvc.codec.network.pilot import Reception
from gsvc.codec.network.retransmission import RetransmissionBuffer
from gsvc.codec.network.rtcp import (
    BitrateLimit,
    Bye,
    Nack,
    PictureLimit,
    PictureLoss,
    ReceiverReport,
    ReportBlock,
    SenderReport,
    middle,
    ntp_time,
    read_rtcp,
    write_rtcp,
)
from gsvc.codec.network.rtp import CLOCK_RATE, rtp_timestamp
from gsvc.codec.network.stats import IP_UDP_BYTES
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet

_REMEMBERED = 1 << 14
"""Datagrams whose place in the sum of all bytes is known when a report tells of them."""
_TOGETHER = 0.9
"""Seconds whose reports make one `Reception`."""
_KEY_SECONDS = 1.0
"""Least time between two groups that receivers request."""


class RtpSender:
    """One RTP source of one stream; a sender that restarts is another source.

    `datagrams` and `bytes` (with RTP headers) count what was sent, without retransmissions, which
    `again` counts. `keys_asked` counts the groups begun on request. `report` is the receiver's last
    one, `round_trip` the seconds measured from it, `reception` what came since the report before;
    `reports` counts them, `arrived` the bits that the last one knows of, all headers included;
    `limit` is the most bits per second that the receiver announced, `pictures` the most coded
    pictures a second. All are None before it.
    """

    def __init__(self, header: Header, settings: WireSettings | None = None) -> None:
        self.ssrc = secrets.randbits(32)
        self.datagrams = self.bytes = self.again = self.keys_asked = 0
        self.report: ReportBlock | None = None
        self.round_trip: float | None = None
        self.reception: Reception | None = None
        self.reports, self.arrived = 0, 0
        self.limit: float | None = None
        self.pictures: float | None = None
        self._totals: dict[int, int] = {}
        self._reported: tuple[float, int] | None = None
        self._highest, self._expected, self._missing = 0, 0, 0.0
        self._news: float | None = None
        self._packetizer = Packetizer(header, self.ssrc, settings, sequence=secrets.randbits(16))
        self._time_base = header.format.time_base
        self._sent = RetransmissionBuffer()
        self._last_key = float("-inf")

    @property
    def protects(self) -> bool:
        """Whether copies and parity are sent, as the settings have them."""
        return self._packetizer.protects

    @protects.setter
    def protects(self, protects: bool) -> None:
        self._packetizer.protects = protects

    def send(self, packets: Sequence[Packet]) -> list[bytes]:
        """The datagrams of packets that are ready together, see `Packetizer.packetize`."""
        sent = []
        for rtp in self._packetizer.packetize(packets):
            data = rtp.to_bytes()
            self._sent.add(rtp.sequence, data)
            self.datagrams += 1
            self.bytes += len(data)
            self._totals[rtp.sequence] = self.bytes + IP_UDP_BYTES * self.datagrams
            if len(self._totals) > _REMEMBERED:
                del self._totals[next(iter(self._totals))]
            sent.append(data)
        return sent

    def report_capture(self, pts: int, at: float, now: float) -> bytes:
        """A sender report at `now` on the frame at `pts`, captured `at`: seconds since 1970."""
        passed = round((now - at) * CLOCK_RATE)  # a report has the RTP timestamp of its sending
        timestamp = (rtp_timestamp(pts, self._time_base) + passed) % (1 << 32)
        counts = self.datagrams % (1 << 32), self.bytes % (1 << 32)
        return write_rtcp(SenderReport(self.ssrc, ntp_time(now), timestamp, *counts))

    def farewell(self) -> bytes:
        """The RTCP packet that ends the source."""
        return write_rtcp(Bye(self.ssrc))

    def take_feedback(self, datagram: bytes, now: float) -> tuple[list[bytes], bool]:
        """Take a receiver's RTCP datagram at the time of day `now`.

        Gives the datagrams to send again, and whether to begin a new group. Feedback on other
        sources and invalid bytes are ignored.
        """
        repeated: list[bytes] = []
        begins, trip = False, self.round_trip or 0.0
        try:
            for packet in read_rtcp(datagram):
                match packet:
                    case Nack(source=self.ssrc):
                        repeated += self._sent.again(packet.sequences, now, trip)
                    case PictureLoss(source=self.ssrc) if now - self._last_key >= max(
                        _KEY_SECONDS,
                        trip,  # asked before the last group could arrive
                    ):
                        begins, self._last_key = True, now
                    case ReceiverReport():
                        self._read_report(packet, now)
                    case BitrateLimit(source=self.ssrc):
                        self.limit = packet.bitrate
                    case PictureLimit(source=self.ssrc):
                        self.pictures = packet.pictures
        except BitstreamError:
            pass  # damaged: the receiver repeats it
        self.again += len(repeated)
        self.keys_asked += begins
        return repeated, begins

    def _read_report(self, packet: ReceiverReport, now: float) -> None:
        for block in packet.blocks:
            if block.source != self.ssrc:
                continue
            is_news = self.report is None or block.last_report != self.report.last_report
            self.report = block
            if block.last_report:
                passed = (middle(ntp_time(now)) - block.last_report - block.delay) % (1 << 32)
                if passed < 1 << 22:  # a minute: else it is damaged, or a clock was set
                    self.round_trip = passed / 65536
            self._receive(block, now, self.round_trip if is_news else None)

    def _receive(self, block: ReportBlock, now: float, trip: float | None) -> None:
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
            under_way = 8 * (self.bytes + IP_UDP_BYTES * self.datagrams - total)
            came = 8 * max(0, total - before) * (1 - lost) / (now - since)
            self.reception = Reception(now, came, lost, self._news, under_way)
        self._reported, self._news = (now, total), None
        self._expected, self._missing = 0, 0.0
