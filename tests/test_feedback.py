"""The back channel: reports, requests to repeat and for a new group, other senders."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from gsvc import Packet, WireSettings
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
from gsvc.codec.network.rtp_session import RtpReceiver, RtpSender, RtpSource
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
    assert [sender.take_feedback(begin, DAY + now)[1] for now in times] == [
        True,
        False,
        False,
        True,
    ]


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
