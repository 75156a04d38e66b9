"""The back channel: reports, requests to repeat and for a new group, other senders."""

import asyncio
from fractions import Fraction
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, strategies as st

from gsvc import Packet, Packetizer, PacketType, VideoReceiver, WireSettings
from gsvc.codec.network import rtp_session
from gsvc.codec.network.rtcp import (
    Bye,
    Nack,
    PictureLoss,
    ReceiverReport,
    ReportBlock,
    Rtcp,
    SenderReport,
    is_rtcp,
    ntp_time,
    read_rtcp,
    time_of_day,
    write_rtcp,
)
from gsvc.codec.network.rtp_session import RtpReceiver, RtpSender, RtpSource, UdpSender
from test_transport import HEADER, stream

PLAIN = WireSettings(redundancy=0, parity_span=0)
DAY = 1_800_000_000.0


@pytest.mark.parametrize(
    "packet",
    [
        SenderReport(1, ntp_time(DAY), 2, 3, 4),
        ReceiverReport(1, (ReportBlock(2, 3, 4, 5, 6, 7, 8), ReportBlock(9, 0, 0, 0, 0, 0, 0))),
        Nack(1, 2, (65_534, 65_535, 0, 14, 15, 40)),
        PictureLoss(1, 2),
        Bye(1),
    ],
    ids=lambda packet: type(packet).__name__,
)
def test_rtcp_round_trips(packet: Rtcp) -> None:
    data = write_rtcp(packet)
    assert is_rtcp(data) and len(data) % 4 == 0
    assert list(read_rtcp(data + data)) == [packet, packet]


def test_time_of_day_round_trips() -> None:
    assert time_of_day(ntp_time(DAY + 0.125)) == pytest.approx(DAY + 0.125, abs=1e-6)


@given(st.binary(max_size=200))
def test_any_feedback_is_ignored_or_read(data: bytes) -> None:
    datagrams, _ = RtpSender(HEADER).take_feedback(data, DAY)
    assert not datagrams  # nothing was sent that could be sent again
    assert not RtpReceiver().receive(b"\x81\xc8" + data, 0.0)


def test_what_is_lost_is_asked_for_and_sent_again() -> None:
    sender, receiver = RtpSender(HEADER, PLAIN), RtpReceiver()
    packets = stream([200] * 6)
    came: list[Packet] = []
    for index, packet in enumerate(packets):
        now = index * 0.04
        datagrams = sender.send([packet])
        for datagram in datagrams if index != 2 else []:
            came += receiver.receive(datagram, now)
        for feedback, _ in receiver.feedback(now + 0.02):
            for datagram in sender.take_feedback(feedback, DAY)[0]:
                came += receiver.receive(datagram, now + 0.03)
    assert [packet.number for packet in came] == [0, 1, 2, 3, 4, 5, None]
    assert current_of(receiver).depacketizer.tracker.retransmitted == 1
    assert sender.again == 1


def test_the_same_datagram_is_not_sent_again_for_ever() -> None:
    sender = RtpSender(HEADER, PLAIN)
    (datagram,) = sender.send(stream([200])[:1])
    sequence = int.from_bytes(datagram[2:4], "big")
    ask = write_rtcp(Nack(5, sender.ssrc, (sequence,)))
    assert sum(len(sender.take_feedback(ask, DAY)[0]) for _ in range(20)) == 3
    assert sender.take_feedback(write_rtcp(Nack(5, sender.ssrc + 1, (sequence,))), DAY)[0] == []


def test_requests_within_a_round_trip_are_answered_once() -> None:
    sender = RtpSender(HEADER, PLAIN)
    (datagram,) = sender.send(stream([200])[:1])
    sender.round_trip = 4.0  # a queue: what was sent again has not arrived yet
    ask = write_rtcp(Nack(5, sender.ssrc, (int.from_bytes(datagram[2:4], "big"),)))
    begin = write_rtcp(PictureLoss(5, sender.ssrc))
    times = (0.0, 0.1, 3.9, 4.1)
    assert [len(sender.take_feedback(ask, DAY + now)[0]) for now in times] == [1, 0, 0, 1]
    begun = [sender.take_feedback(begin, DAY + now)[1] for now in times]
    assert begun == [True, False, False, True]


def test_a_receiver_that_joins_late_asks_for_a_group() -> None:
    sender, receiver = RtpSender(HEADER, PLAIN), RtpReceiver()
    asked = 0
    for index, packet in enumerate(stream([200] * 20, group=100)[5:20]):
        now = index * 0.1
        for datagram in sender.send([packet]):
            assert receiver.receive(datagram, now) == []
        for feedback, _ in receiver.feedback(now):
            asked += sender.take_feedback(feedback, DAY + now)[1]
    assert asked == 2  # in 1.5 seconds: a sender heeds one a second


def current_of(receiver: RtpReceiver) -> RtpSource:
    assert receiver.current is not None
    return receiver.current


def test_a_sender_that_begins_again_is_another_source() -> None:
    receiver = RtpReceiver()
    sources = []
    for sender in (RtpSender(HEADER, PLAIN), RtpSender(HEADER, PLAIN)):
        for packet in stream([200] * 5)[:-1]:
            for datagram in sender.send([packet]):
                if receiver.receive(datagram, 0.0):
                    sources.append(current_of(receiver).ssrc)
        assert current_of(receiver).ssrc == sender.ssrc
    assert len(sources) == 10 and len(set(sources)) == 2


def test_a_sender_that_begins_again_as_the_same_source_is_another_stream() -> None:
    """Which takes another decoder: the header may be another, too."""
    receiver = VideoReceiver("udp://@:5004")
    for size in (200, 210):
        packetizer = Packetizer(HEADER, ssrc=5)
        for datagram in packetizer.packetize(stream([size] * 60)[:-1]):
            if came := receiver._rtp.receive(datagram.to_bytes(), 0.0):
                receiver._take(came)
    assert receiver.stats().streams == 2


def test_a_stranger_without_a_stream_changes_nothing() -> None:
    receiver, sender, stranger = RtpReceiver(), RtpSender(HEADER, PLAIN), RtpSender(HEADER, PLAIN)
    came = []
    for ours, theirs in zip(stream([200] * 5), stream([200] * 6, group=100)[1:], strict=True):
        for datagram in sender.send([ours]):
            came += receiver.receive(datagram, 0.0)
        for datagram in stranger.send([theirs]):
            assert receiver.receive(datagram, 0.0) == []
        assert receiver.receive(stranger.farewell(), 0.0) == []
    assert len(came) == 6 and not current_of(receiver).is_over
    receiver.receive(sender.farewell(), 0.0)
    assert current_of(receiver).is_over


def test_reports_tell_loss_round_trip_and_capture_time() -> None:
    sender, receiver = RtpSender(HEADER, PLAIN), RtpReceiver()
    for index, packet in enumerate(stream([200] * 20)[:20]):
        now = index * 0.1
        if packet.number == 4:
            receiver.receive(
                sender.report_capture(packet.pts or 0, DAY + now - 0.5, DAY + now), now + 0.01
            )
        for datagram in sender.send([packet]):
            if index % 4 != 3:
                receiver.receive(datagram, now + 0.01)
        for feedback, _ in receiver.feedback(now + 0.01):
            sender.take_feedback(feedback, DAY + now + 0.02)
    assert sender.report is not None and 1 <= sender.report.lost <= 5
    assert 0 < sender.report.fraction_lost < 128
    assert sender.round_trip == pytest.approx(0.02, abs=0.005)
    seconds = 3 * Fraction(1001, 30_000)  # from one packet to the next
    expected = DAY + 0.4 - 0.5 + float(seconds)
    assert receiver.capture_time(3 * 5) == pytest.approx(expected, abs=1e-4)


class Outage:
    """A link of 12 kbit/s over which nothing comes either way for a while, by a clock that jumps;
    the sender codes a picture as soon as little waits, an intra one when it is asked to."""

    def __init__(self, down: tuple[float, float]) -> None:
        self._down, self._receiver = down, RtpReceiver()
        self.waited, self.shown = 0.0, list[float]()
        """The most that waited, and when pictures that can be decoded came, in seconds."""
        self._loop, self._last, self._can_decode, self._asked = Jumping(), -1, False, True

    def run(self, seconds: float) -> None:
        with pytest.MonkeyPatch.context() as patch:
            clock = SimpleNamespace(time=self._loop.time, monotonic=self._loop.time)
            patch.setattr(rtp_session, "time", clock)
            self._loop.run_until_complete(self._send(seconds))
        self._loop.close()

    async def _send(self, seconds: float) -> None:
        self._sender = sender = UdpSender(RtpSender(HEADER), self._ask)
        put = SimpleNamespace(sendto=self._take, close=lambda: None)
        sender.connection_made(cast(asyncio.DatagramTransport, put))
        sender.pace(12_000)
        number = group = 0
        while (now := self._loop.time()) < seconds:
            if sender.waits < 0.1 and int(now / 0.02) % 5 == 0:
                group, size = (number, 1400) if self._asked else (group, 150)
                self._asked, kind = False, PacketType.INTER if number > group else PacketType.INTRA
                pts = round(now * 30)
                packet = Packet(kind, 5, bytes(size), number=number, group=group, pts=pts)
                sender.captured(pts, now)
                sender.send([packet])
                number += 1
            self.waited = max(self.waited, sender.waits)
            for packet in self._receiver.poll(now):
                self._show(packet, now)
            for feedback, _ in self._receiver.feedback(now):
                if not self._is_down:
                    sender.datagram_received(feedback, None)
            await asyncio.sleep(0.02)

    @property
    def _is_down(self) -> bool:
        return self._down[0] <= self._loop.time() < self._down[1]

    def _ask(self) -> None:
        self._asked = True

    def _take(self, datagram: bytes) -> None:
        now = self._loop.time()
        for packet in [] if self._is_down else self._receiver.receive(datagram, now):
            self._show(packet, now)

    def _show(self, packet: Packet, now: float) -> None:
        follows = packet.number == self._last + 1
        self._can_decode = packet.is_intra or (self._can_decode and follows)
        self.shown += [now] * self._can_decode
        self._last = packet.number or 0


class Jumping(asyncio.SelectorEventLoop):
    """An event loop that does not wait: its clock jumps."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 1000.0
        self._selector.select = self._jump  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._at

    def _jump(self, timeout: float | None = None) -> list[object]:
        self._at += timeout or 0.0
        return []


@pytest.mark.parametrize("seconds", [2.0, 4.0, 6.0])
def test_the_picture_is_back_soon_after_an_outage(seconds: float) -> None:
    """Two seconds and what an intra picture takes of the link at most, and little waits for it."""
    outage = Outage((1005.0, 1005.0 + seconds))
    outage.run(1020.0)
    back = min(at for at in outage.shown if at > 1005.0 + seconds)
    assert back < 1005.0 + seconds + 2.0 + 8 * 1400 / 12_000
    assert outage.waited < 2.0
    assert sum(at > 1015.0 for at in outage.shown) > 15  # and it stays
