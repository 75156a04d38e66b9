"""Video over real sockets: all ways to connect, loss, restarts of both sides, the commands."""

import asyncio
import json
import logging
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import cv2
import numpy as np
import pytest

import gsvc
from commands import SCRIPT, run_gsvc
from gsvc import (
    Frame,
    LatestQueue,
    PacketType,
    ReceiveSettings,
    ReorderLimits,
    SendSettings,
    VideoFormat,
    VideoReceiver,
    VideoSender,
    WireSettings,
)
from gsvc.codec.command.recv import Watch, status_text
from gsvc.codec.network import video_receiver
from gsvc.codec.network.address import Address, parse_address
from gsvc.codec.network.link_rate import LinkRate
from gsvc.codec.network.live_decoder import ArrivedPacket, LiveDecoder, PlayoutClock
from gsvc.codec.network.rtp_session import RtpSender, UdpSender
from gsvc.codec.network.stats import Latency, ReceiverStats, SenderStats
from gsvc.codec.network.tcp_websocket import Broadcaster
from gsvc.codec.network.video_sender import Haste
from live import (
    PATIENT,
    RATE,
    SECONDS,
    SETTINGS,
    STILL,
    VIDEO,
    collect,
    endless,
    frames,
    free_port,
    listening,
    run,
    socket_of,
    some,
)
from lossy_relay import Loss, LossyRelay
from video_clips import Clip, read


def sender_to(port: int, **more: Any) -> VideoSender:
    encoder = gsvc.Encoder(VIDEO, SETTINGS)
    return VideoSender(f"udp://127.0.0.1:{port}", encoder, SendSettings(**more))


def receiver_at(port: int, **more: Any) -> VideoReceiver:
    return VideoReceiver(f"udp://@127.0.0.1:{port}", ReceiveSettings(decoder=STILL, **more))


def decoded_directly(count: int) -> list[Frame]:
    with gsvc.Encoder(VIDEO, SETTINGS) as encoder, gsvc.Decoder(encoder.header, STILL) as decoder:
        packets = [packet for frame in frames(count) for packet in encoder.encode(frame)]
        return [frame for p in packets + encoder.flush() for frame in decoder.decode(p)]


@pytest.mark.parametrize("scheme", ["udp", "tcp", "ws"])
@pytest.mark.parametrize("listens", ["receiver", "sender"])
def test_what_is_sent_is_shown(scheme: str, listens: str) -> None:
    if (scheme, listens) == ("udp", "sender"):
        pytest.skip("over UDP it is the receiver that listens")

    async def main() -> None:
        port = free_port(socket_of(scheme))
        ways = f"{scheme}://@127.0.0.1:{port}", f"{scheme}://127.0.0.1:{port}"
        there, here = ways if listens == "sender" else ways[::-1]
        # In real time, a busy machine would drop frames.
        settings = SendSettings(realtime=False)
        sender = VideoSender(there, gsvc.Encoder(VIDEO, SETTINGS), settings)
        receiver = VideoReceiver(here, ReceiveSettings(STILL, PATIENT))
        shown: list[Frame] = []
        receiving = asyncio.create_task(collect(receiver, shown))
        if listens == "receiver":
            await listening(port, socket_of(scheme))
        await sender.run(frames(40))
        await receiving
        expected = decoded_directly(40)
        times = [frame.pts for frame in shown]
        assert times == [frame.pts for frame in expected] == [frame.pts for frame in frames(40)]
        for ours, direct in zip(shown, expected, strict=True):
            assert np.array_equal(ours.pixels, direct.pixels) and not ours.concealed
        sent, came = sender.stats(), receiver.stats()
        assert (sent.frames, came.frames, came.concealed, came.damaged) == (40, 40, 0, 0)
        assert sum(sent.bits.values()) > 0 and sum(came.bits.values()) >= sum(sent.bits.values())
        if scheme == "udp":
            # Sent faster than it plays, a frame may come before its time.
            assert came.latency.p50 is not None and abs(came.latency.p50) < SECONDS
            assert came.lost == 0 and 0 < came.datagrams <= sent.datagrams
        assert came.wire_bits == pytest.approx(sent.wire_bits, rel=0.2)  # both count headers

    run(main())


def test_loss_never_stops_the_picture() -> None:
    async def main() -> None:
        port = free_port()
        receiver = receiver_at(port, reorder=ReorderLimits(seconds=0.1), silence=5.0)
        shown: list[Frame] = []
        receiving = asyncio.create_task(collect(receiver, shown))
        await listening(port)
        async with LossyRelay(port, Loss(0.2, burst=3)) as relay:
            sender = sender_to(relay.port, wire=WireSettings(mtu=400))
            await sender.run(frames(75))
            await receiving
            assert relay.lost > 0
        times = [frame.pts for frame in shown]
        assert times == sorted(set(times))
        # Hardly a frame is missing of those that the sender had time to encode.
        coded = sender.stats().frames - sender.stats().dropped
        assert len(times) >= 0.8 * coded

    run(main())


def test_a_file_waits_for_late_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveDecoder, "due", lambda _: pytest.fail("frames were made up"))

    async def main() -> None:
        port = free_port()
        shown: list[Frame] = []
        receiving = asyncio.create_task(collect(receiver_at(port, waits=True), shown))
        await listening(port)
        await asyncio.sleep(0.3)
        await sender_to(port, realtime=False).run(frames(20))
        await receiving
        assert len(shown) == 20

    run(main())


def test_what_is_no_iterable_is_refused_at_once() -> None:
    async def camera() -> AsyncIterator[Frame]:
        yield frames(1)[0]

    with pytest.raises(TypeError, match="async_generator: give an ordinary iterable"):
        run(sender_to(free_port()).run(camera()))  # type: ignore[arg-type]


def test_what_came_with_the_end_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender has gone while frames that were due were made."""
    is_making, has_gone = threading.Event(), threading.Event()

    def due(_: LiveDecoder) -> Iterator[Frame]:
        is_making.set()
        has_gone.wait(10)
        yield from ()

    monkeypatch.setattr(LiveDecoder, "due", due)

    async def main() -> None:
        port = free_port()
        shown: list[Frame] = []
        receiving = asyncio.create_task(collect(receiver_at(port), shown))
        await asyncio.to_thread(is_making.wait, 10)
        await sender_to(port, realtime=False).run(frames(20))
        has_gone.set()
        await receiving
        assert len(shown) == 20

    run(main())


def test_a_receiver_that_begins_again_joins_soon() -> None:
    async def main() -> None:
        port = free_port()
        sender = sender_to(port)
        sending = asyncio.create_task(sender.run(endless()))
        first: list[Frame] = []
        receiver = receiver_at(port)
        receiving = asyncio.create_task(collect(receiver, first))
        await some(first)
        receiver.stop()
        await receiving
        again: list[Frame] = []
        receiving = asyncio.create_task(collect(receiver_at(port), again))
        await some(again)
        sender.stop()
        await asyncio.gather(sending, receiving)
        assert sender.stats().keys_asked >= 1  # else the next group would be four seconds off

    run(main())


def test_a_sender_that_begins_again_is_followed() -> None:
    async def main() -> None:
        port = free_port()
        receiver, shown = receiver_at(port, reorder=PATIENT), list[Frame]()
        receiving = asyncio.create_task(collect(receiver, shown))
        await listening(port)
        killed = asyncio.create_task(sender_to(port).run(endless()))
        await some(shown)
        killed.cancel()  # without a good-bye
        await asyncio.gather(killed, return_exceptions=True)
        again = sender_to(port, realtime=False)  # else a busy machine would drop frames
        await asyncio.gather(again.run(frames(40)), receiving)
        times = [frame.pts for frame in shown]
        assert times == sorted(set(times))
        assert receiver.stats().streams == 2
        assert sum(not frame.concealed for frame in shown[-40:]) == 40

    run(main())


@pytest.mark.parametrize("garbage", [b"", b"GSV", bytes(5000), b"GET / HTTP/1.1\r\n\r\n"])
@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_strangers_at_the_port_do_no_harm(scheme: str, garbage: bytes) -> None:
    async def main() -> None:
        port, shown = free_port(socket.SOCK_STREAM), list[Frame]()
        receiver = VideoReceiver(f"{scheme}://@127.0.0.1:{port}", ReceiveSettings(decoder=STILL))
        receiving = asyncio.create_task(collect(receiver, shown))
        await listening(port, socket.SOCK_STREAM)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(garbage)
        writer.write_eof()
        with suppress(ConnectionError):
            await reader.read()  # until it was heard and the connection closed
        writer.close()
        settings = SendSettings(realtime=False)
        encoder = gsvc.Encoder(VIDEO, SETTINGS)
        await VideoSender(f"{scheme}://127.0.0.1:{port}", encoder, settings).run(frames(20))
        await receiving
        assert len(shown) == 20

    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # it tells of bad handshakes
    run(main())


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_a_receiver_that_stops_while_packets_wait_ends_in_good_order(
    scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        port = free_port(socket.SOCK_STREAM)
        receiver = VideoReceiver(f"{scheme}://@127.0.0.1:{port}", ReceiveSettings(decoder=STILL))
        encoder = gsvc.Encoder(VIDEO, gsvc.EncoderSettings(level=3, preset="fast", low_delay=True))
        sender = VideoSender(f"{scheme}://127.0.0.1:{port}", encoder, SendSettings(realtime=False))
        sending = asyncio.create_task(sender.run(frames(300)))
        async for _ in receiver.frames():
            while receiver.stats().queue < 32:  # then one more waits for room
                await asyncio.sleep(0.01)
            receiver.stop()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    run(main())
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_a_slow_connection_is_cut_off_and_holds_up_nobody() -> None:
    class Line:
        """A connection that takes what it gets, or nothing more once it is stuck."""

        def __init__(self, *, stuck: bool) -> None:
            self.taken, self._stuck = list[bytes](), stuck

        async def write(self, data: bytes) -> None:
            self.taken.append(data)
            if self._stuck:
                await asyncio.Event().wait()

    async def main() -> None:
        hub = Broadcaster(gsvc.Header(VIDEO, level=1), lambda: None)
        lines = Line(stuck=False), Line(stuck=True)
        serving = [asyncio.create_task(hub.handle(line)) for line in lines]  # type: ignore[arg-type]
        await asyncio.sleep(0)
        packets = [gsvc.Packet(PacketType.INTER, 1, b"too early")]
        packets += [gsvc.Packet(PacketType.INTRA, 1, bytes([n])) for n in range(100)]
        for packet in packets:
            hub.send([packet])
            await asyncio.sleep(0)
        await hub.close(gsvc.Packet(PacketType.END, 0, b"d"))
        await asyncio.gather(*serving)
        assert hub.refused == 1 and len(lines[1].taken) == 1
        assert len(lines[0].taken) == 1 + 100 + 1  # header, packets but the first, end

    run(main())


def test_another_video_in_the_same_place_is_refused() -> None:
    async def main() -> None:
        port = free_port()
        shown: list[Frame] = []
        receiving = asyncio.create_task(collect(receiver_at(port), shown))
        await listening(port)
        killed = asyncio.create_task(sender_to(port).run(endless()))
        await some(shown)
        killed.cancel()
        await asyncio.gather(killed, return_exceptions=True)
        other = VideoFormat(64, 64, 1 / RATE, RATE)
        pictures = [Frame(np.ascontiguousarray(f.pixels[:, :64]), f.pts) for f in frames(20)]
        address = f"udp://127.0.0.1:{port}"
        await VideoSender(address, gsvc.Encoder(other, SETTINGS)).run(pictures)
        with pytest.raises(gsvc.InputError, match="another format"):
            await receiving

    run(main())


def test_nothing_that_comes_is_an_error_in_the_end() -> None:
    async def main() -> None:
        with pytest.raises(gsvc.InputError, match="nothing came"):
            await collect(receiver_at(free_port(), silence=0.2), [])

    run(main())


def test_a_stream_whose_end_is_lost_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(video_receiver, "_SILENCE", 1.0)
    monkeypatch.setattr(video_receiver, "_FROZEN", 0.5)

    async def main() -> None:
        port = free_port()
        receiver, shown = receiver_at(port), list[Frame]()
        receiving = asyncio.create_task(collect(receiver, shown))
        await asyncio.sleep(1.2)  # before anything comes it waits
        rtp = RtpSender(gsvc.Encoder(VIDEO, SETTINGS).header)
        with gsvc.Encoder(VIDEO, SETTINGS) as encoder, socket.socket(type=socket.SOCK_DGRAM) as out:
            for frame in frames(40):
                for datagram in rtp.send(encoder.encode(frame)):
                    out.sendto(datagram, ("127.0.0.1", port))
        await receiving
        assert 0 < len(shown) <= 40 and receiver.stats().overdue == 0
        assert "end was not received: nothing came for 1 s" in caplog.text

    run(main())


def test_large_pictures_are_for_trusted_senders() -> None:
    large = VideoFormat(2400, 1600, 1 / RATE, RATE)
    header = gsvc.Header(large, level=1).to_bytes()

    async def main() -> None:
        port = free_port(socket.SOCK_STREAM)
        receiver = VideoReceiver(f"tcp://@127.0.0.1:{port}", ReceiveSettings(decoder=STILL))
        receiving = asyncio.create_task(collect(receiver, []))
        await listening(port, socket.SOCK_STREAM)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(header)
        while not receiver.stats().damaged:
            await asyncio.sleep(0.01)
        receiver.stop()
        with pytest.raises(gsvc.InputError, match="unless the sender is trusted"):
            await receiving
        writer.close()

    run(main())
    assert gsvc.Header.from_bytes(header, gsvc.Limits()).format == large


def test_a_busy_port_is_said_in_one_line() -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            with pytest.raises(gsvc.InputError, match="choose another port"):
                await collect(receiver_at(taken.getsockname()[1]), [])
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            for scheme in ("tcp", "ws"):
                address = f"{scheme}://@127.0.0.1:{taken.getsockname()[1]}"
                receiver = VideoReceiver(address, ReceiveSettings(decoder=STILL))
                with pytest.raises(gsvc.InputError, match="choose another port"):
                    await collect(receiver, [])

    run(main())


def test_addresses() -> None:
    assert parse_address("udp://@:5004") == Address("udp", "", 5004, True)
    assert parse_address("ws://a.example:80/live") == Address("ws", "a.example", 80, False, "/live")
    assert str(parse_address("tcp://[::1]:5004")) == "tcp://[::1]:5004"
    for text in (
        "udp://:1",
        "udp://host",
        "http://host:1",
        "host:1",
        "udp://u@host:1",
        "udp://h:x",
    ):
        with pytest.raises(gsvc.ConfigError):
            parse_address(text)
    with pytest.raises(gsvc.ConfigError, match="name the receiver"):
        VideoSender("udp://@:5004", gsvc.Encoder(VIDEO, SETTINGS))
    with pytest.raises(gsvc.ConfigError, match="listen"):
        VideoReceiver("udp://host:5004")


def test_a_queue_keeps_the_latest() -> None:
    async def main() -> None:
        queue: LatestQueue[int] = LatestQueue(3)
        assert queue and not len(queue)  # an empty one is a queue all the same
        for item in range(5):
            queue.put(item)
        assert queue.dropped == 2 and [await anext(queue) for _ in range(3)] == [2, 3, 4]
        filling = asyncio.create_task(fill(queue))
        assert [item async for item in queue] == [*range(10)]
        await filling
        assert queue.dropped == 2

    async def fill(queue: LatestQueue[int]) -> None:
        for item in range(10):
            await queue.put_all(item)
        queue.close()

    run(main())


def test_frames_are_due_as_late_as_packets_are() -> None:
    clock = PlayoutClock(Fraction(1, 100), patience=0.2)
    assert clock.due(0.0) is None
    for index in range(1, 6):
        clock.arrived(50 * index, 50, 10.0 + 0.5 * index + 0.1 * (index == 3))
    # The latest had waited half a second for its packet, which came 0.1 s late.
    assert clock.due(12.5 + 0.6 + 0.3) == pytest.approx(250, abs=1)


def test_frames_that_a_sender_holds_for_a_thin_link_are_not_concealed() -> None:
    with gsvc.Encoder(VIDEO, SETTINGS) as encoder:
        packets = [packet for frame in frames(40) for packet in encoder.encode(frame)]

    def made_up(silence: float) -> int:
        live, at = LiveDecoder(STILL, gsvc.Limits.restrictive(), patience=0.25), time.monotonic()
        for packet in packets:
            assert [*live.frames(ArrivedPacket(1, encoder.header, packet, at - silence))]
        count = len([*live.due()])
        assert not live.overdue  # nothing came behind them: it may be the end
        [*live.frames(ArrivedPacket(1, encoder.header, packets[-1], at))]
        live.close()
        assert live.overdue == count
        return count

    assert not made_up(1.8)
    assert made_up(60.0)  # an outage


def test_a_relay_with_an_outage_loses_all_for_so_long() -> None:
    async def relayed() -> tuple[int, int]:
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            async with LossyRelay(free_port(), Loss(0.0), outage=(0.0, 0.2)) as relay:
                for _ in range(2):
                    sender.sendto(b"!", ("127.0.0.1", relay.port))
                    await asyncio.sleep(0.3)
                return relay.lost, relay.passed

    assert asyncio.run(relayed()) == (1, 1)


def test_a_relay_with_a_rate_lets_datagrams_wait_and_loses_those_beyond() -> None:
    async def relayed() -> tuple[int, int, float]:
        kind = socket.SOCK_DGRAM
        with socket.socket(type=kind) as target, socket.socket(type=kind) as at:
            target.bind(("127.0.0.1", 0))
            async with LossyRelay(target.getsockname()[1], Loss(0.0), rate=100_000.0) as relay:
                began = asyncio.get_running_loop().time()
                for _ in range(30):  # of .1 s each
                    at.sendto(bytes(1222), ("127.0.0.1", relay.port))
                while not relay.lost:
                    await asyncio.sleep(0.01)
                target.setblocking(False)
                for _ in range(3):
                    await asyncio.get_running_loop().sock_recv(target, 2000)
                return relay.lost, relay.passed, asyncio.get_running_loop().time() - began

    lost, passed, took = asyncio.run(relayed())
    assert lost + passed == 30 and 20 <= passed <= 22 and 0.29 < took


@pytest.mark.parametrize("loss", [Loss(0.0), Loss(0.2), Loss(0.05, burst=4)], ids=str)
def test_a_relay_loses_as_much_as_it_is_told(loss: Loss) -> None:
    is_lost = loss.pattern(0)
    losses = [is_lost() for _ in range(40_000)]
    assert np.mean(losses) == pytest.approx(loss.share, abs=0.01)
    bursts = sum(b and not a for a, b in pairwise([False, *losses]))
    if loss.burst > 1:
        assert sum(losses) / bursts == pytest.approx(loss.burst, rel=0.1)


def clip(tmp_path: Path, count: int) -> Path:
    return Clip([frame.pixels for frame in frames(count)]).write(tmp_path / "clip.mkv")


def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(SCRIPT), *map(str, arguments)],
        stderr=subprocess.PIPE,
        **options,
        # A shell starts background jobs with the interrupt ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def test_two_processes(tmp_path: Path) -> None:
    port, heard, said = free_port(), tmp_path / "recv.json", tmp_path / "send.json"
    target, sdp = tmp_path / "out.mkv", tmp_path / "it.sdp"
    here, there = f"udp://@127.0.0.1:{port}", f"udp://127.0.0.1:{port}"
    hear = "--steps", 0, "--wait", 1000 * PATIENT.seconds, "--stats", heard
    receiving = start("recv", here, "-o", target, *hear)
    until(lambda: bool(lines(heard)))
    # In real time, a busy machine would drop frames.
    say = "--fast", "--level", 2, "--stats", said, "--sdp", sdp
    sending = start("send", clip(tmp_path, 30), there, *say)
    for process in (sending, receiving):
        assert process.wait(SECONDS) == 0
        told = process.communicate()[1]  # what came of it, and no more
        assert re.fullmatch(rb"(sent|received) 30 frames, .* bytes in .* s\n", told), told
    assert len(read(target)[1]) == 30
    last = lines(heard)[-1]
    assert (last["type"], last["frames"], last["lost"]) == ("done", 30, 0)
    assert lines(said)[-1]["frames"] == 30
    assert f"m=video {port} RTP/AVPF 96" in sdp.read_text()


@pytest.mark.parametrize("audio", [(), ("--audio", "none")])
def test_sound_that_is_not_sent_is_told(clip: Path, audio: tuple[str, ...]) -> None:
    address = f"udp://127.0.0.1:{free_port()}"
    sending = start("send", clip, address, "--fast", "--frames", 2, *audio)
    told = sending.communicate(timeout=SECONDS)[1]
    assert (sending.returncode, b"sound is not sent" in told) == (0, not audio)


@pytest.mark.parametrize("option", ["--sdp", "--stats"])
def test_what_sending_tells_of_replaces_no_file_of_another_kind(
    option: str, tmp_path: Path
) -> None:
    video = clip(tmp_path, 4)
    before = video.read_bytes()
    told = start("send", video, f"udp://127.0.0.1:{free_port()}", "--fast", option, video)
    assert b"holds something else" in told.communicate()[1] and told.returncode == 1
    assert video.read_bytes() == before


def test_a_rate_that_sending_does_not_keep_is_told(tmp_path: Path) -> None:
    there = f"udp://127.0.0.1:{free_port()}"
    told = start("send", clip(tmp_path, 30), there, "--fast", "--bitrate", "0.1k")
    assert b"asked for 0.1 kbit/s" in told.communicate()[1] and told.returncode == 0


class StandIn(gsvc.Encoder):
    """An encoder that has what a link needs of it, as given."""

    target_bitrate: Any = None
    keyframes_on_request: Any = None
    is_low_delay: Any = None
    hold: Any = None

    def __init__(self, **given: object) -> None:
        vars(self).update(given)


@pytest.mark.parametrize("is_answered", [True, False])
def test_all_that_is_sent_keeps_within_the_rate_of_a_link(is_answered: bool) -> None:
    """A copy of six tenths of the pictures, and 2 kbit/s of sound and headers."""
    encoder = StandIn(target_bitrate=9000.0, keyframes_on_request=is_answered)
    link = LinkRate(encoder, 10_000)
    pictures, sent, queue, rates = 0.0, 0.0, 0.0, list[float]()
    for second in range(1, 241):
        if second == 121:
            assert queue == 0 and 9_000 < float(np.mean(rates[40:])) < 10_000
            link.meet(20_000)
        rates.append(1.6 * encoder.target_bitrate + 2000)
        pictures, sent = pictures + encoder.target_bitrate, sent + rates[-1]
        queue = max(0.0, queue + rates[-1] - 10_000)
        link.sent(second, pictures, sent)
    assert 18_000 < float(np.mean(rates[160:])) < 20_000


@pytest.mark.parametrize("late", [1.5, 0])
def test_what_waits_once_a_link_got_slower_is_gone_in_seconds(late: float) -> None:
    """And where it is told at once, all of the link is used at once."""
    held, sent, queue, waits = [False], 0.0, 0.0, []
    encoder = StandIn(target_bitrate=9000.0, keyframes_on_request=True, is_low_delay=True)
    encoder.hold = lambda *, is_held, **_: held.append(is_held)
    link = LinkRate(encoder, 24_000)
    assert link.left(60) == 0 < link.left(0)
    with pytest.raises(gsvc.ConfigError, match="a rate of 12 bit/s: give 1000 or more: did you"):
        link.meet(12)
    with pytest.raises(gsvc.ConfigError, match="late -1: give seconds"):
        link.meet(12_000, late=-1)
    for frame in range(20 * 25):
        if frame == 250 + int(25 * late):
            link.meet(12_000, late)
        queue = max(0.0, queue - (24_000 if frame < 10 * 25 else 12_000) / 25)
        if link.lets(frame / 25) and not held[-1]:
            sent, queue = sent + 2000, queue + 2000
            link.sent(frame / 25, sent, sent)
        waits.append(queue / 12_000)
    assert late < max(waits) + 0.5 < late + 1 and max(waits[16 * 25 :]) < 0.5
    assert late or waits[255:275].count(0.0) < 5, "the link idles"


def test_an_intra_picture_takes_no_more_of_a_link_than_it_may() -> None:
    allowed = list[float]()
    encoder = StandIn(target_bitrate=3000.0, keyframes_on_request=True, is_low_delay=True)
    encoder.hold = lambda *, intra_bits, **_: allowed.append(intra_bits)
    for link in (LinkRate(encoder, 6_000), LinkRate(encoder, 6_000, longest_intra=1.0)):
        assert link.lets(10.0)
    assert allowed == [8800, pytest.approx(5130)]
    with pytest.raises(gsvc.ConfigError, match="give more than 0"):
        LinkRate(encoder, 6_000, longest_intra=0)


@pytest.mark.parametrize(("step", "spread"), [(2, 8), (5, 2)])
def test_all_frames_that_a_full_link_lets_pass_come(step: int, spread: int) -> None:
    """Also where a camera begins to pan, and noise with it: no picture takes long."""
    random, rate, sent = np.random.default_rng(0), 3_000, list[gsvc.Packet]()
    small = random.integers(0, 255, (64 // spread, 800 // spread, 3), np.uint8)
    wall = cv2.resize(small, (800, 64)).astype(float)
    taken = bits = 0
    settings = replace(SETTINGS, level=None, bitrate=rate / 2, faces=False)
    with gsvc.Encoder(replace(VIDEO, time_base=1 / RATE), settings) as encoder:
        encoder.keyframes_on_request = True
        link = LinkRate(encoder, rate)
        for number in range(220):
            now, x = float((number + 1) / RATE), step * max(0, number - 100)
            moved = wall[:, x : x + 96]
            if x:
                moved = np.clip(moved + random.normal(0, 30, moved.shape), 0, 255)
            if link.lets(now):
                sent += encoder.encode(moved.astype(np.uint8), number)
                taken, bits = taken + 1, sum(8 * len(packet.to_bytes()) for packet in sent)
                link.sent(now, bits, bits)
        sent += encoder.flush()
    assert taken == sum(packet.frames for packet in sent) > 180
    assert max(8 * len(packet.payload) for packet in sent) < 3 * rate


def test_only_a_sender_that_keeps_to_a_link_takes_another_rate() -> None:
    there, encoder = f"udp://127.0.0.1:{free_port()}", gsvc.Encoder(VIDEO, SETTINGS)
    sender = gsvc.VideoSender(there, encoder, gsvc.SendSettings(total_bitrate=20_000))
    sender.total_bitrate = 10_000
    assert sender.total_bitrate == 10_000
    with pytest.raises(gsvc.ConfigError, match="a rate of 0 bit/s: give 1000"):
        sender.total_bitrate = 0
    with pytest.raises(gsvc.ConfigError, match="give total_bitrate"):
        gsvc.VideoSender(there, encoder).total_bitrate = 10_000


def test_a_short_video_keeps_the_rate_of_its_link(tmp_path: Path) -> None:
    """Its first picture and what is left at its end included."""
    there, stats = f"udp://127.0.0.1:{free_port()}", tmp_path / "stats.jsonl"
    rate = "--total-bitrate", "10k", "--size", "source", "--stats", stats
    told = start("send", clip(tmp_path, 150), there, "--fast", *rate).communicate()[1]
    last = json.loads(stats.read_text().splitlines()[-1])
    assert last["wire_bits"] <= 10_000 * 150 / 25 and b"asked for" not in told


def test_a_sender_measures_the_playout_delay_of_its_link(tmp_path: Path) -> None:
    stats = tmp_path / "stats.jsonl"
    rate = "--total-bitrate", "10k", "--size", "source", "--stats", stats
    there = f"udp://127.0.0.1:{free_port()}"
    told = start("send", clip(tmp_path, 40), there, *rate).communicate()[1]
    last = json.loads(stats.read_text().splitlines()[-1])["playout_delay"]
    assert last["count"] > 1 and 0 < last["p50"] <= last["p99"] < SECONDS
    assert f"playout delay {last['p99']:.1f} s".encode() in told


def test_the_first_picture_over_a_link_is_sent_at_once() -> None:
    """Of frames before it a receiver could show nothing."""
    with gsvc.Encoder(VIDEO, replace(SETTINGS, bitrate=8000.0)) as encoder:
        assert LinkRate(encoder, 10_000).lets(0.02, 0.0, 0.0)
        (first,) = encoder.encode(frames(1)[0])
    assert first.is_intra and first.frames == 1


def test_a_link_gets_datagrams_as_fast_as_it_takes_them() -> None:
    """A burst would wait before it, or be lost."""
    packets = [
        packet for frame in frames(1) for packet in gsvc.Encoder(VIDEO, SETTINGS).encode(frame)
    ]

    async def spread() -> list[float]:
        loop, times = asyncio.get_running_loop(), []
        sender = UdpSender(RtpSender(gsvc.Encoder(VIDEO, SETTINGS).header), lambda: None)
        put = SimpleNamespace(sendto=lambda _: times.append(loop.time()), close=lambda: None)
        sender.connection_made(cast(asyncio.DatagramTransport, put))
        sender.pace(80_000)
        sender.send(packets)
        await sender.close(gsvc.Packet(gsvc.PacketType.END, 0, b"\0"))
        await asyncio.sleep(0.01)
        return [later - times[0] for later in times]

    times = asyncio.run(spread())
    size = sum(len(packet.payload) for packet in packets)
    assert len(times) > 4 and times[-1] > 8 * size / 80_000


def test_a_link_has_one_rate(tmp_path: Path) -> None:
    there = f"udp://127.0.0.1:{free_port()}"
    rates = "--total-bitrate", "8k", "--adapt", "4k:60k"
    told = start("send", clip(tmp_path, 4), there, *rates).communicate()[1]
    assert b"give one of them" in told


def test_an_encoder_that_is_too_slow_hurries_and_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", iter(range(100)).__next__)
    left = [True]
    encoder = SimpleNamespace(preset="slow", hurry=lambda: bool(left) and left.pop())
    haste = Haste(cast(gsvc.Encoder, encoder))
    for count in (0, 20, 20, 20, 30, 30):  # models load, and a picture is hard
        haste.dropped(count)
    assert left and not caplog.records
    for count in range(40, 100):
        haste.dropped(count)
    told = [record.getMessage() for record in caplog.records]
    assert not left and ["faces" in told[0], "take preset" in told[1]] == [True, True]
    assert len(told) == 2


def test_why_frames_are_dropped_is_told(tmp_path: Path) -> None:
    encoder = gsvc.Encoder(VIDEO, SETTINGS)
    stats = VideoSender(f"udp://127.0.0.1:{free_port()}", encoder).stats()
    told = status_text(replace(stats, dropped=9, left_out=2, lost=3, again=4))
    assert "9 dropped (slow encoder: 7, full link: 2)" in told
    assert told.endswith("3 datagrams never came, 4 repeated")
    assert status_text(replace(stats, datagrams=5)).endswith("headers, no receiver reports")


def test_why_frames_are_concealed_is_told_and_rates_count_headers() -> None:
    stats = receiver_at(free_port()).stats()
    told = status_text(replace(stats, frames=90, concealed=9, overdue=2, bitrate=5000.0))
    assert told.startswith("received 90 frames, 9 concealed (packets lost: 7, packets late: 2), 0 ")
    assert told.endswith("5.0 kbit/s with headers")
    assert ", 1.3 s of sound lost, " in status_text(replace(stats, sound_lost=1.26))
    delayed = status_text(replace(stats, playout_delay=Latency(9, 0.5, 1.0, 2.12)))
    assert delayed.endswith("with headers, playout delay 2.1 s")


def test_the_remedy_is_of_what_was_slow() -> None:
    options = Namespace(stats=None, verbose=False)
    sender = VideoSender(f"udp://127.0.0.1:{free_port()}", gsvc.Encoder(VIDEO, SETTINGS))
    sent = replace(sender.stats(), frames=100, dropped=20)
    receiver = receiver_at(free_port())
    late = Latency(99, 9.0, 9.0, 9.0)
    came = replace(receiver.stats(), seconds=100.0, packets=100, frames=900, latency=late)

    def told(session: VideoSender | VideoReceiver, stats: SenderStats | ReceiverStats) -> str:
        return Watch(session, options)._closing(stats).rpartition(": ")[2]

    assert "a lower fps" in told(sender, sent)
    full = replace(sent, left_out=15)
    assert "a lower --fps or --size, or raise the rate" in told(sender, full)
    assert "lower the most of --adapt" in told(sender, replace(full, estimate=9e3))
    quick, slow = (Latency(99, s, s, s) for s in (0.1, 0.9))
    behind = "decoding took 10% of the time and fell 9.0 s behind, "
    assert told(receiver, replace(came, decoding=quick)).startswith(behind)
    link_alone = replace(came, decoding=quick, playout_delay=late)
    assert told(receiver, link_alone).endswith("s")  # nothing to do here
    assert "--load 0.8x" in told(receiver, replace(came, decoding=slow))
    assert "--load 0.8x" in told(receiver, replace(came, decoding=slow, dropped=1))
    overdue = replace(came, latency=Latency(0), concealed=12, overdue=9)
    assert "allow more --wait" in told(receiver, overdue)
    assert "--wait" not in told(receiver, replace(overdue, lost=30))  # an outage: they never came


def test_frames_are_sent_when_their_packets_are() -> None:
    encoder = gsvc.Encoder(VIDEO, replace(SETTINGS, low_delay=False, gop=1.0))
    address = f"udp://127.0.0.1:{free_port()}"
    sender = VideoSender(address, encoder, SendSettings(realtime=False))
    told = [status_text(sender.stats())]

    def watched() -> Iterator[Frame]:
        yield from frames(10)
        told.append(status_text(sender.stats()))

    run(sender.run(watched()))
    waiting = "10 waiting, 0 dropped, of 10 read"  # look-ahead has them all
    assert told == [f"sent 0 frames, {w}, 0.0 kbit/s with headers" for w in ("0 dropped", waiting)]
    assert sender.stats().sent == sender.stats().frames == 10
    assert sender.stats().receivers is None


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
@pytest.mark.parametrize("at", ["@", ""])
def test_sending_to_nobody_is_told(scheme: str, at: str) -> None:
    address = f"{scheme}://{at}127.0.0.1:{free_port(socket.SOCK_STREAM)}"
    sender = VideoSender(address, gsvc.Encoder(VIDEO, SETTINGS))
    with pytest.raises(gsvc.OutputError, match=f"nobody .* {address}, nothing was sent"):
        run(sender.run(frames(3)))


def test_a_terminal_is_shown_how_it_goes(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    address = f"udp://127.0.0.1:{free_port()}"
    command = [str(SCRIPT), "send", str(clip(tmp_path, 30)), address]
    with subprocess.Popen(command, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
        assert process.wait(SECONDS) == 0
    os.close(ours)
    *_, status, closing = shown.split(b"\r\x1b[K")
    assert b"sent " in status and b"kbit/s" in status
    assert b" bytes in " in closing and closing.endswith(b"\n")
    assert re.search(rb"\(\d+\.\d video, \d+\.\d copies and parity, \d+\.\d headers\)", closing)


def test_what_is_told_stays_where_asked(tmp_path: Path) -> None:
    port = free_port(socket.SOCK_STREAM)
    here, there = f"tcp://@127.0.0.1:{port}", f"tcp://127.0.0.1:{port}"
    sending = start("send", clip(tmp_path, 20), here, "--fast", "--verbose")
    receiving = start("recv", there, "-o", tmp_path / "out.mkv", "--steps", 0, "-v")
    told = [process.communicate(timeout=SECONDS)[1] for process in (sending, receiving)]
    assert b"gsvc: info: a receiver connected" in told[0]
    assert b"sent 20 frames" in told[0] and b"received 20 frames" in told[1]


@pytest.mark.slow
def test_a_receiver_is_interrupted_at_once(tmp_path: Path) -> None:
    port, heard, target = free_port(), tmp_path / "recv.json", tmp_path / "out.mkv"
    draws = "--steps", 1, "--backend", "plain_refiners:OneKey"
    places = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    receiving = start(
        *("recv", f"udp://@127.0.0.1:{port}", "-o", target, "--stats", heard, *draws),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
    )
    until(lambda: bool(lines(heard)))
    sending = start("send", clip(tmp_path, 30), f"udp://127.0.0.1:{port}", "--loop")
    until((tmp_path / "drawing").exists)
    receiving.send_signal(signal.SIGINT)
    receiving.wait(SECONDS)
    sending.send_signal(signal.SIGINT)
    for process in (sending, receiving):
        told = process.communicate(timeout=SECONDS)[1]
        assert (told.count(b"\n"), process.returncode) == (1, 0), told
    assert read(target)[1]


@pytest.mark.parametrize("interrupted", [pytest.param("send", marks=pytest.mark.slow), "recv"])
def test_an_interrupt_ends_either_side_in_good_order(interrupted: str, tmp_path: Path) -> None:
    port, heard, target = free_port(), tmp_path / "recv.json", tmp_path / "out.mkv"
    receiving = start(
        "recv", f"udp://@127.0.0.1:{port}", "-o", target, "--steps", 0, "--stats", heard
    )
    until(lambda: bool(lines(heard)))
    sending = start("send", clip(tmp_path, 30), f"udp://127.0.0.1:{port}", "--loop")
    until(lambda: lines(heard)[-1]["frames"] > 20)
    (sending if interrupted == "send" else receiving).send_signal(signal.SIGINT)
    # An interrupted sender ends the stream, and so its receiver; it does not see a receiver go.
    assert receiving.wait(SECONDS) == 0
    if interrupted == "recv":
        sending.send_signal(signal.SIGINT)
    assert sending.wait(SECONDS) == 0
    assert len(read(target)[1]) > 20
    for process in (sending, receiving):
        assert process.communicate()[1].count(b" bytes in ") == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("send", "no.mp4", "udp://127.0.0.1:9"), 1),
        (("send", "no.mp4", "file://x"), 1),
        (("send", "{clip}", "file://x"), 2),
        (("send", "{clip}", "udp://127.0.0.1:9", "--mtu", "10"), 2),
        (("send", "{clip}", "udp://127.0.0.1:9", "--level", "7"), 2),
        (("send", "{clip}", "udp://no host:9"), 1),
        (("send", "{clip}", "tcp://@203.0.113.1:9"), 1),
        (("recv", "udp://127.0.0.1:9", "-o", "x.mkv"), 2),
        (("recv", "udp://@127.0.0.1:{port}", "-o", "x.mkv", "--timeout", "0.2", "--steps", "0"), 1),
        (("recv", "udp://@127.0.0.1:{port}", "-o", "x.mkv", "--timeout", "-1"), 2),
        (("recv", "udp://@127.0.0.1:{port}", "-o", "x.mkv", "--timeout", "nan"), 2),
        (("recv", "udp://@127.0.0.1:{port}", "-o", "x.mkv", "--wait", "-1"), 2),
        (("recv", "udp://@127.0.0.1:{port}", "-o", "-", "--stats", "-"), 2),
        (("recv", "udp://@127.0.0.1:{port}", "-o", "{clip}"), 1),
        (("recv", "udp://@127.0.0.1:{port}", "-o", "no/x.mkv"), 1),
        (("recv", "udp://@127.0.0.1:{port}", "-o", "x.docx"), 2),
    ],
    ids=str,
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], code: int, tmp_path: Path) -> None:
    values = {"clip": str(clip(tmp_path, 3)), "port": str(free_port())}
    done = run_gsvc(*(argument.format(**values) for argument in arguments), cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(b"gsvc: error: ") and done.stderr.count(b"\n") == 1
    assert not (tmp_path / "x.mkv").exists()


def test_web_sockets_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets", None)
    receiver = VideoReceiver("ws://127.0.0.1:1", ReceiveSettings(decoder=STILL))
    with pytest.raises(gsvc.MissingDependencyError, match="gsvc\\[stream\\]"):
        run(collect(receiver, []))


def test_a_source_that_is_read_too_slowly_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def slow() -> Iterator[Frame]:
        for frame in frames(45):
            time.sleep(0.05)
            yield frame

    asyncio.run(sender_to(free_port()).run(slow()))
    assert "reading took" in caplog.text and "or end other work here" in caplog.text


def test_with_look_ahead_a_slow_encoder_sends_every_frame_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    encode = gsvc.Encoder.encode

    def slow(encoder: gsvc.Encoder, frame: Frame) -> list[gsvc.Packet]:
        time.sleep(0.06)
        return encode(encoder, frame)

    monkeypatch.setattr(gsvc.Encoder, "encode", slow)
    encoder = gsvc.Encoder(VIDEO, replace(SETTINGS, low_delay=False, gop=0.3))
    sender = VideoSender(f"udp://127.0.0.1:{free_port()}", encoder)
    run(sender.run(frames(60)))
    seen = sender.stats()
    assert seen.dropped == 0 and seen.sent == seen.frames == 60
    assert "encoding took" in caplog.text and "a lower fps or size" in caplog.text
