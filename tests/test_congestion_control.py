"""Following a network and the time there is: rates, levels, refining, without to and fro."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

import gsvc
from follow_network import FollowSession, there_and_back
from gsvc import (
    Adaptation,
    ConfigError,
    InputError,
    ReceiveSettings,
    SendSettings,
    VideoReceiver,
    VideoSender,
)
from gsvc.codec.command.main import main
from gsvc.codec.network.congestion_control import (
    CongestionController,
    InFlight,
    PresetLadder,
    Reception,
)
from gsvc.codec.network.live_decoder import LivePace
from gsvc.codec.network.rtcp import (
    BitrateLimit,
    PictureLimit,
    ReceiverReport,
    ReportBlock,
    read_rtcp,
    write_rtcp,
)
from gsvc.codec.network.rtp_session import RtpReceiver, RtpSender
from gsvc.codec.network.tcp_websocket import Announced, SendQueue, strictest
from gsvc.decoders.streams.reconstruction import REFINING
from live import SETTINGS, STILL, VIDEO, collect, endless, frames, free_port, run
from network_traces import TRACES, recorded
from paces import heated

BOUNDS = Adaptation(3_000, 60_000)
PIXEL_RATE = 352 * 288 * 25.0


def flown(
    capacity: Callable[[float], float], seconds: int, start: float = 8_000.0
) -> tuple[CongestionController, list[float]]:
    """A controller over a network that loses what is beyond its capacity; its rates by second."""
    controller, rates = CongestionController(BOUNDS, start, PIXEL_RATE), list[float]()
    for second in range(seconds):
        sent, room = controller.order(float(second)).bitrate, capacity(second)
        lost = max(0.0, 1 - room / sent)
        controller.report(Reception(second, min(sent, room), lost, 0.1), 1.0)
        rates.append(controller.order(float(second)).bitrate)
    return controller, rates


def test_a_rate_finds_the_network_and_stays() -> None:
    controller, rates = flown(lambda _: 40_000.0, 120)
    late = rates[60:]
    assert 20_000 < min(late) and max(late) < 50_000
    assert controller.steps < 30


def test_a_rate_falls_at_once_and_rises_by_degrees() -> None:
    _, rates = flown(lambda t: 40_000.0 if t < 60 or t >= 80 else 6_000.0, 160)
    assert rates[63] < 6_000 and rates[82] < 10_000 and rates[-1] > 20_000


def queued(capacity: Callable[[float], float], seconds: int) -> tuple[list[float], list[float]]:
    """A controller over a connection that loses nothing and queues; rates and waits by second."""
    controller, queue = CongestionController(BOUNDS, 8_000.0, PIXEL_RATE), SendQueue()
    put, waiting, rates, waits = 0.0, 0.0, list[float](), list[float]()
    for tick in range(10 * seconds):
        now = tick / 10
        if not controller.is_paused(now):
            sent = controller.order(now).bitrate / 80
            put, waiting = put + sent, waiting + sent
        waiting = max(0.0, waiting - capacity(now) / 80)
        if seen := queue.sample(now, int(put), int(waiting)):
            controller.report(seen, 1.0)
            rates.append(controller.order(now).bitrate)
            waits.append(8 * waiting / capacity(now))
    return rates, waits


def test_a_rate_follows_a_connection_that_only_queues() -> None:
    rates, waits = queued(lambda t: 40_000.0 if t < 60 or t >= 90 else 8_000.0, 180)
    assert 15_000 < min(rates[40:58]) and max(rates[40:58]) < 45_000
    assert max(rates[66:88]) < 12_000 and rates[-1] > 15_000
    assert max(waits[74:88]) < 1.0  # the queue of the fall is gone, and none grows again


def test_a_large_picture_is_no_congestion() -> None:
    queue, found = SendQueue(), []
    for tick in range(40):  # 5 kB at once each second, gone within half a second
        put = 5_000 * (tick // 10 + 1)
        seen = queue.sample(tick / 10, put, max(0, 5_000 - 1_000 * (tick % 10)))
        found += [seen] if seen else []
    assert len(found) == 3 and all(seen.under_way == 0 for seen in found)
    assert all(seen.bitrate == pytest.approx(40_000, rel=0.15) for seen in found)


def test_headers_of_small_packets_do_not_keep_a_free_rate_down() -> None:
    controller, headers, rates = CongestionController(BOUNDS, 8_000.0, 768_000.0), 1_150, []
    for second in range(15):  # a calm scene: of its rate only intra pictures take much
        rate = controller.order(second).bitrate
        controller.tried = 1.5 * rate
        sent = 0.1 * rate + headers
        controller.report(Reception(second, sent, 0.0, 0.06), 1 - headers / sent)
        rates.append(controller.order(second).bitrate)
    assert min(rates) > 7_000 and rates[-1] > 12_000


def test_noise_does_not_move_a_rate() -> None:
    controller = CongestionController(BOUNDS, 30_000.0, PIXEL_RATE)
    for second in range(60):
        trip = 0.1 + 0.15 * (second % 2)  # waits on the way, now and then
        controller.report(Reception(second, 30_000.0 + 2_000 * (second % 3), 0.01, trip), 1.0)
    assert controller.steps <= 12


def test_waiting_on_the_way_is_congestion_before_anything_is_lost() -> None:
    controller = CongestionController(BOUNDS, 30_000.0, PIXEL_RATE)
    controller.report(Reception(0.0, 30_000.0, 0.0, 0.1), 1.0)
    controller.report(Reception(1.0, 20_000.0, 0.0, 0.9), 1.0)
    assert controller.order(1.0).bitrate < 20_000


def test_without_reports_there_is_less_and_less() -> None:
    controller = CongestionController(BOUNDS, 30_000.0, PIXEL_RATE)
    assert controller.order(100.0).bitrate == 30_000  # nobody has told anything yet
    controller.report(Reception(100.0, 30_000.0, 0.0, 0.1), 1.0)
    for at in range(100, 130):
        bitrate = controller.order(float(at)).bitrate
    assert bitrate == BOUNDS.least


def test_a_receiver_announces_what_it_can_take() -> None:
    limit = BitrateLimit(1, 2, 12_000.0)
    assert list(read_rtcp(write_rtcp(limit))) == [limit]
    (large,) = read_rtcp(write_rtcp(BitrateLimit(1, 2, 123_456_789.0)))
    assert isinstance(large, BitrateLimit) and large.bitrate == pytest.approx(123_456_789, rel=1e-4)
    controller = CongestionController(BOUNDS, 8_000.0, PIXEL_RATE)
    controller.limit = 12_000.0
    for second in range(60):
        controller.report(Reception(second, 20_000.0, 0.0, 0.1), 1.0)
    assert 8_000 < controller.order(60.0).bitrate <= 12_000


def test_an_encoder_that_is_late_codes_fewer_pictures() -> None:
    controller = CongestionController(BOUNDS, 30_000.0, PIXEL_RATE)
    level = controller.order(0.0).level
    controller.report(Reception(0.0, 30_000.0, 0.0, 0.1), 1.0, dropped=3)
    assert controller.order(0.0).level < level


def test_a_late_encoder_takes_a_faster_preset_and_comes_back_by_degrees() -> None:
    ladder = PresetLadder("slow")
    seen = []
    for second in range(120):
        if ladder.preset != "fast" and second < 40:
            ladder.late(second)  # the machine is weak for 40 s
        else:
            ladder.rested(second)
        seen.append(ladder.preset)
    assert seen[0] == "medium" and "fast" in seen[5:12] and seen[-1] == "slow"
    changes = sum(a != b for a, b in pairwise(seen))
    assert changes <= 10
    assert PresetLadder("fast").preset == "fast"


def test_a_receiver_that_restores_announces_the_pictures_it_has_time_for() -> None:
    limit = PictureLimit(1, 2, 2.5)
    assert list(read_rtcp(write_rtcp(limit))) == [limit]
    pace = LivePace(0.8)
    assert pace.pictures is None
    for _ in range(20):  # plain decoding takes a quarter of the time, restoring .2 s a picture
        pace.begins(0.0, 0.5)
        if pace.may(REFINING):
            pace.took(REFINING, 0.2)
            pace.ends(0.325)
        else:
            pace.ends(0.125)
    assert pace.pictures is not None and 1.5 < pace.pictures < 3
    controller = CongestionController(BOUNDS, 50_000.0, PIXEL_RATE)
    controller.report(Reception(0.0, 50_000.0, 0.0, 0.1), 1.0)
    before = controller.order(0.0).level
    controller.pictures = 1.3
    for second in range(1, 10):
        controller.report(Reception(second, 50_000.0, 0.0, 0.1), 1.0)
    assert controller.order(9.0).level == 0 < before
    controller.pictures = None
    controller.report(Reception(10.0, 50_000.0, 0.0, 0.1), 1.0)
    assert controller.order(10.0).level == before


def test_what_a_receiver_announces_reaches_the_sender() -> None:
    sender = RtpSender(gsvc.Encoder(VIDEO, SETTINGS).header)
    receiver = RtpReceiver(bandwidth=12_000.0, pictures=lambda: 2.0)
    with gsvc.Encoder(VIDEO, SETTINGS) as encoder:
        packets = [packet for frame in frames(20) for packet in encoder.encode(frame)]
    for datagram in sender.send(packets):
        receiver.receive(datagram, 0.0)
    for told, _ in receiver.feedback(5.0):
        sender.take_feedback(told, 5.0)
    assert (sender.limit, sender.pictures) == (12_000.0, 2.0)


def test_a_rate_follows_over_tcp_too() -> None:
    async def main() -> None:
        port = free_port(socket.SOCK_STREAM)
        bounds = Adaptation(500, 60_000)
        encoder = gsvc.Encoder(VIDEO, replace(SETTINGS, bitrate=500))
        sender = VideoSender(f"tcp://127.0.0.1:{port}", encoder, SendSettings(adapt=bounds))
        receiver = VideoReceiver(f"tcp://@127.0.0.1:{port}", ReceiveSettings(STILL))
        shown: list[gsvc.Frame] = []
        receiving = asyncio.create_task(collect(receiver, shown))
        sending = asyncio.create_task(sender.run(endless()))
        start = sender.stats().estimate
        while sender.stats().estimate == start:  # the free connection carries more
            await asyncio.sleep(0.02)
        sender.stop()
        await sending
        await receiving
        target = sender.stats().target
        assert shown and target is not None and 500 <= target <= 60_000

    run(main())


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_a_budget_reaches_a_sender_over_connections(scheme: str) -> None:
    if scheme == "ws":
        pytest.importorskip("websockets")

    async def main() -> None:
        port = free_port(socket.SOCK_STREAM)
        encoder = gsvc.Encoder(VIDEO, replace(SETTINGS, bitrate=20_000))
        adapt = SendSettings(adapt=Adaptation(500, 60_000))
        sender = VideoSender(f"{scheme}://127.0.0.1:{port}", encoder, adapt)
        settings = ReceiveSettings(STILL, bandwidth=600.0)
        receiver = VideoReceiver(f"{scheme}://@127.0.0.1:{port}", settings)
        receiving = asyncio.create_task(collect(receiver, []))
        sending = asyncio.create_task(sender.run(endless()))
        async with asyncio.timeout(60):
            while (sender.stats().target or 1e9) > 600:
                await asyncio.sleep(0.02)
        sender.stop()
        await sending
        await receiving
        assert (encoder.target_bitrate or 1e9) <= 600

    run(main())


def test_the_strictest_of_all_budgets_counts() -> None:
    every = [Announced(9_000.0, None), Announced(None, 2.0), Announced(12_000.0, 3.0)]
    assert strictest(every) == Announced(9_000.0, 2.0)
    assert strictest([]) == Announced(None, None)


def test_an_encoder_follows_to_another_rate_and_spacing() -> None:
    encoder = gsvc.Encoder(VIDEO, gsvc.EncoderSettings(level=3, preset="fast", low_delay=True))
    with encoder:
        near = encoder.delay
        encoder.follow(2_000.0, 0, "medium")
        assert encoder.preset == "medium"
        assert encoder.delay > near and encoder.target_bitrate == 2_000
        packets = [packet for frame in frames(60) for packet in encoder.encode(frame)]
        packets += encoder.flush()
        with gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=0)) as decoder:
            assert sum(len(decoder.decode(packet)) for packet in packets) == 60


@pytest.mark.parametrize("name", TRACES)
def test_a_stream_over_a_trace_is_in_time_where_a_fixed_rate_is_not(name: str) -> None:
    trace, video = TRACES[name](20.0, 0), VIDEO
    slow = gsvc.VideoFormat(video.width, video.height, Fraction(1, 10), Fraction(10))
    late = {}
    for rule in ("fixed", "following"):
        session = FollowSession(slow, trace, rule, 60_000.0 if rule == "fixed" else 6_000.0)
        sent = session.run(there_and_back([f.pixels for f in frames(40)]), 20.0)
        rate = float(slow.frame_rate)
        came = [p.frames for at, p in sent.came if p.pts and at <= p.pts / rate + 1]
        late[rule] = 1 - sum(came) / sent.frames
    assert late["following"] < 0.5 * late["fixed"]


def test_refining_pauses_while_the_machine_is_hot_and_no_frame_is_late() -> None:
    ours, always = (heated(rule, 60.0) for rule in ("following", "always"))
    assert ours.late == 0 < always.late
    assert ours.refined > 0.4 and ours.switches <= 6


def test_refining_that_is_slow_alone_pauses() -> None:
    ours, always = (heated(rule, 120.0, 4.0, whole=False) for rule in ("following", "always"))
    assert ours.late <= 0.01 and always.late > 0.5  # the first slow picture nobody can foretell
    assert ours.refined > 0.4 and ours.switches <= 24


def test_a_refiner_takes_fewer_steps_before_it_is_left_out() -> None:
    stepped, whole = (heated(rule, 300.0) for rule in ("following, 4 steps", "following"))
    assert stepped.late <= whole.late + 0.01
    assert stepped.refined > whole.refined and stepped.steps > whole.steps
    now = 0.0
    pace = LivePace(1.0, lambda: now, steps=4)
    taken = []
    for number in range(40):
        now, plain = 0.5 * number, 0.25 if 8 <= number < 16 else 0.1
        pace.begins(0.0, 0.5)
        taken.append(pace.steps(4) if pace.may(REFINING) else 0)
        pace.took(REFINING, 0.07 * taken[-1])
        pace.ends(plain + 0.07 * taken[-1])
    assert taken[:8] == [4] * 8 and taken[-1] == 4
    assert {1, 2} & set(taken[10:16]) and taken[10:16].count(4) == 0


def test_a_packet_that_waited_is_drawn_plainly() -> None:
    pace = LivePace(1.0)
    for waited, expected in ((0.0, True), (0.6, False)):
        pace.begins(waited, 0.5)
        assert pace.may(REFINING) is expected
        pace.took(REFINING, 0.2)
        pace.ends(0.25)


def test_what_is_under_way_tells_how_long_the_next_packet_waits() -> None:
    flight = InFlight()
    flight.trip = 0.1
    flight.sent(0.0, 30_000)
    assert flight.waiting(0.1, 10_000.0) == 0  # no receiver is there yet
    assert flight.told(0.2, 2_000) is None
    assert flight.waiting(0.2, 10_000.0) == pytest.approx(2.7)  # 28 kbit, a round trip later
    assert flight.told(1.2, 12_000) == pytest.approx(10_000)  # it empties at 10 kbit/s
    assert flight.waiting(1.2, 50_000.0) == pytest.approx(1.7)
    assert flight.waiting(3.2, 50_000.0) > 0  # nobody told that it arrived
    assert flight.waiting(60.0, 50_000.0) == 0  # who joins then must get something
    flight.told(61.0, 30_000)
    assert flight.waiting(61.0, 10_000.0) == 0


def test_what_a_calm_scene_sends_is_not_what_the_network_carries() -> None:
    flight = InFlight()
    flight.trip = 0.1
    for second in range(20):  # a picture each, under way for a little longer than the shortest trip
        flight.sent(second, 5_000 * (second + 1))
        assert flight.told(second + 0.15, 5_000 * second) is None
    controller = CongestionController(BOUNDS, 40_000.0, PIXEL_RATE)
    for second in range(10):  # of few datagrams a radio loses some, whatever their rate
        lost = 0.6 if second == 5 else 0.0
        controller.report(Reception(second, 4_000.0, lost, 0.1), 0.5)
        assert controller.estimate > 20_000


def test_frames_wait_for_one_picture_and_an_intra_picture_fits() -> None:
    settings = gsvc.EncoderSettings(bitrate=60_000, preset="fast", low_delay=True)
    with gsvc.Encoder(VIDEO, settings) as encoder:
        (first,) = [p for frame in frames(1) for p in encoder.encode(frame)]
        encoder.hold(is_held=True)
        assert not [p for frame in frames(40)[1:] for p in encoder.encode(frame)]
        encoder.hold(is_held=False, intra_bits=4 * len(first.payload))
        encoder.force_keyframe()
        (late,) = encoder.encode(frames(41)[-1])
        assert late.is_intra and late.frames == 40
        assert len(late.payload) < len(first.payload)


def test_pictures_fill_a_link_without_an_intra_picture_for_its_rate() -> None:
    settings = gsvc.EncoderSettings(bitrate=60_000, preset="fast", low_delay=True)
    counts = []
    for fills in (False, True):
        with gsvc.Encoder(VIDEO, settings) as encoder:
            encoder.keyframes_on_request = True
            encoder.hold(is_held=False, intra_bits=60_000, fills=fills)
            sent = [p for frame in frames(30) for p in encoder.encode(frame)]
            encoder.target_bitrate = 20_000
            sent += [p for frame in frames(60)[30:] for p in encoder.encode(frame)]
        counts.append((len(sent), sum(p.is_intra for p in sent)))
    assert counts[1][0] > 2 * counts[0][0] and counts[1][1] < counts[0][1]


def test_copies_and_parity_are_sent_where_something_is_lost() -> None:
    sender = RtpSender(gsvc.Encoder(VIDEO, gsvc.EncoderSettings()).header)

    def protects(lost: int, now: float, *, is_answered: bool = True) -> bool:
        block = ReportBlock(sender.ssrc, lost, 0, 0, 0, 0, 0)
        sender.take_feedback(write_rtcp(ReceiverReport(1, (block,))), now)
        sender.protect(now, is_answered=is_answered)
        return sender.packetizer.protects

    assert protects(0, 1.0, is_answered=False)
    assert not protects(0, 2.0) and protects(10, 3.0) and protects(0, 4.0)
    assert not protects(0, 60.0)


def test_recorded_traces_are_read(tmp_path: Path) -> None:
    path = tmp_path / "cell.down"
    path.write_text("".join(f"{20 * n}\n" for n in range(100)))  # 2 s, 50 packets each
    (first, second) = recorded(path, 1.0, 8_000.0)
    assert first.mean == second.mean == pytest.approx(8_000)
    path.write_text("20\n10\n")
    with pytest.raises(InputError, match="rise"):
        recorded(path, 1.0, 8_000.0)


def test_what_cannot_follow_is_refused() -> None:
    fast = gsvc.EncoderSettings(bitrate=8_000, preset="fast")
    adapt = SendSettings(adapt=BOUNDS)
    with pytest.raises(ConfigError, match="look-ahead"):
        VideoSender("udp://127.0.0.1:9", gsvc.Encoder(VIDEO, fast), adapt)
    with pytest.raises(ConfigError, match="lower one first"):
        Adaptation(9_000, 3_000)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["send", "in.mp4", "udp://h:1", "--adapt", "60k:4k"], "the lower one first, as 4k:60k"),
        (["send", "in.mp4", "udp://h:1", "--adapt", "4:60"], "as 4k:60k"),
        (["send", "in.mp4", "udp://h:1", "--adapt", "4k"], "the lower one first, as 4k:60k"),
        (["recv", "udp://@:1", "-o", "x.mp4", "--load", "10min"], "a share of its time"),
        (["recv", "udp://@:1", "-o", "x.mp4", "--load", "0x"], "above 0"),
        (["recv", "udp://@:1", "-o", "x.mp4", "--bandwidth", "12"], "did you mean 12000"),
        (["recv", "udp://@:1", "-o", "x.png"], "x-%05d.png"),
    ],
)
def test_bad_bounds_get_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], part: str
) -> None:
    try:
        assert main(arguments) == 2
    except SystemExit as ended:
        assert ended.code == 2
    assert part in capsys.readouterr().err
