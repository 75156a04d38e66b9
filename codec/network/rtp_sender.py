"""The sending end of RTP, without its socket: datagrams to send, reports, and answers to feedback."""

import secrets
from collections.abc import Sequence

from gsvc.codec.errors import BitstreamError
from gsvc.codec.network.packetizer import Packetizer, WireSettings
from gsvc.codec.network.retransmission import RetransmissionBuffer
from gsvc.codec.network.rtcp import (
    Bye,
    Nack,
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
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet

_KEY_SECONDS = 1.0
"""Least time between two groups that are begun because a receiver asks."""


class RtpSender:
    """One source of one stream. After a restart there is another one, and receivers begin anew.

    `datagrams`, `bytes`: sent, with RTP headers, repeated ones not counted; `again`: datagrams sent again on request;
    `keys_asked`: requests for a group that were heeded; `report`: the receiver's last; `round_trip`: in seconds, from it.
    """

    def __init__(self, header: Header, settings: WireSettings | None = None) -> None:
        self.ssrc = secrets.randbits(32)
        self.datagrams = self.bytes = self.again = self.keys_asked = 0
        self.report: ReportBlock | None = None
        self.round_trip: float | None = None
        self._packetizer = Packetizer(header, self.ssrc, settings, sequence=secrets.randbits(16))
        self._time_base = header.format.time_base
        self._history = RetransmissionBuffer()
        self._last_key = float("-inf")

    def send(self, packets: Sequence[Packet]) -> list[bytes]:
        """Packets that are ready together, as datagrams; see `Packetizer.packetize`."""
        sent = []
        for rtp in self._packetizer.packetize(packets):
            data = rtp.to_bytes()
            self._history.add(rtp.sequence, data)
            self.datagrams += 1
            self.bytes += len(data)
            sent.append(data)
        return sent

    def report_capture(self, pts: int, at: float, now: float) -> bytes:
        """A report, sent `now`, that the frame at `pts` was captured `at`: times of day in seconds since 1970."""
        passed = round((now - at) * CLOCK_RATE)  # a report tells the RTP time of when it is sent
        timestamp = (rtp_timestamp(pts, self._time_base) + passed) % (1 << 32)
        counts = self.datagrams % (1 << 32), self.bytes % (1 << 32)
        return write_rtcp(SenderReport(self.ssrc, ntp_time(now), timestamp, *counts))

    def farewell(self) -> bytes:
        """What says that no more will come."""
        return write_rtcp(Bye(self.ssrc))

    def take_feedback(self, datagram: bytes, now: float) -> tuple[list[bytes], bool]:
        """Take what a receiver sent, at the time of day `now`.

        Gives the datagrams to send again, and whether a new group should begin. What is not valid or not about this
        source is ignored.
        """
        repeated: list[bytes] = []
        begins = False
        try:
            for packet in read_rtcp(datagram):
                match packet:
                    case Nack(source=self.ssrc):
                        repeated += self._history.again(packet.sequences)
                    case PictureLoss(source=self.ssrc) if now - self._last_key >= _KEY_SECONDS:
                        begins, self._last_key = True, now
                    case ReceiverReport():
                        self._read_report(packet, now)
        except BitstreamError:
            pass  # damaged: the next one will tell
        self.again += len(repeated)
        self.keys_asked += begins
        return repeated, begins

    def _read_report(self, packet: ReceiverReport, now: float) -> None:
        for block in packet.blocks:
            if block.source != self.ssrc:
                continue
            self.report = block
            if block.last_report:
                passed = (middle(ntp_time(now)) - block.last_report - block.delay) % (1 << 32)
                if passed < 1 << 22:  # a minute: else it is damaged, or clocks were set
                    self.round_trip = passed / 65536
