"""`gsvc relay`: a camera's video over gsvc to an ordinary player, which never loses its picture."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import cast
from urllib.request import urlopen

import av
import numpy as np
import pytest

import gsvc
from browsers import BROWSERS
from commands import FAILED, SCRIPT, USAGE, assert_one_line, run_gsvc
from gsvc import Frame, Packet, PacketType, ReceiveSettings, VideoReceiver, VideoSender
from gsvc.codec.media import places
from gsvc.codec.media.places import display_name
from gsvc.codec.media.source_file import open_media
from gsvc.codec.media.video_reader import VideoReader
from gsvc.codec.network.live_decoder import ArrivedPacket, LivePackets
from gsvc.codec.network.player_relay import (
    Outage,
    PageRelay,
    PlayerOutput,
    Playout,
    Shown,
    newest,
    stamped,
)
from live import (
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
    some,
)
from video_clips import Clip

GREY = np.full((64, 96, 3), 128, np.uint8)


def shown(captured: float, arrived: float) -> Shown:
    return Shown(GREY, captured, arrived, 5.0)


@pytest.mark.parametrize(
    ("captured", "arrived", "note"),
    [
        (99.0, 99.5, "as of 1 s ago"),
        (96.0, 99.5, "as of 4 s ago"),
        (90.0, 91.0, "frozen, as of 10 s ago"),
        (-200.0, 0.0, "frozen, as of 5 min ago"),
        (101.0, 100.0, "as of 0 s ago"),  # clocks differ
    ],
)
def test_a_picture_says_how_old_it_is(captured: float, arrived: float, note: str) -> None:
    assert shown(captured, arrived).note(100.0) == note


@pytest.mark.parametrize(
    ("captured", "arrived", "with_age", "without"),
    [(99.0, 99.5, False, False), (96.0, 99.5, True, False), (90.0, 91.0, True, True)],
)
def test_what_is_burnt_in(captured: float, arrived: float, with_age: bool, without: bool) -> None:
    one = shown(captured, arrived)
    for burns_age, changes in ((True, with_age), (False, without)):
        assert (one.burnt(100.0, burns_age=burns_age) is not GREY) == changes
    assert np.array_equal(GREY, np.full_like(GREY, 128))


@pytest.mark.parametrize(("width", "height"), [(96, 64), (640, 360), (1920, 1080), (64, 256)])
def test_a_stamp_fits_the_picture(width: int, height: int) -> None:
    picture = np.full((height, width, 3), 128, np.uint8)
    drawn = stamped(picture, "frozen, as of 10 min ago")
    assert drawn.shape == picture.shape and drawn.max() > 140 and drawn.min() < 50
    assert (drawn[: height // 2] == 128).all()  # at the foot alone
    assert (drawn[:, -1] == 128).all() or width < 640


def test_frames_of_a_burst_are_shown_in_turn_and_the_last_one_stays() -> None:
    playout, made = Playout(), frames(12)
    for number in range(12):  # six at once, every 6 / 50 s
        at = 10.0 + 0.12 * (number // 6)
        playout.take(Frame(made[number].pixels, number), VIDEO, at, 0.5)
    seen = [playout.at(10.0 + 0.01 * step) for step in range(60)]
    pictures = {id(one.picture): one for one in seen if one}
    assert len(pictures) == 12
    last = seen[-1]
    assert last and last.picture is made[11].pixels
    assert (last.arrived, last.captured) == pytest.approx((10.12, 9.62))


def test_what_is_made_up_is_no_news() -> None:
    playout = Playout()
    playout.take(Frame(GREY, 0), VIDEO, 10.0, None)
    playout.take(Frame(GREY, 50, concealed=True), VIDEO, 17.0, 0.1)
    now = playout.at(17.0)
    assert now and now.note(17.0) == "frozen, as of 7 s ago"


def test_what_waited_in_a_camera_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    class Camera:
        format = VIDEO

        def __iter__(self) -> Iterator[Frame]:
            for number in range(100):  # a second of frames had waited
                clock[0] += 0.001 if number < 50 else 0.02
                yield Frame(GREY, number)

    found = list(newest(cast(VideoReader, Camera()), Outage("camera")))
    assert [frame.pts for frame in found] == list(range(len(found)))
    assert 48 <= len(found) <= 51


def test_passwords_are_not_shown() -> None:
    assert display_name("rtsp://me:secret@192.0.2.7/1") == "rtsp://192.0.2.7/1"
    assert display_name("udp://@:5004") == "udp://@:5004"


@pytest.mark.parametrize(
    ("source", "target", "code", "part"),
    [
        ("no.mp4", "udp://127.0.0.1:9", FAILED, "no such file"),
        ("rtsp://me:secret@127.0.0.1:9/x", "udp://127.0.0.1:9", FAILED, "nothing comes"),
        ("/dev/video77", "udp://127.0.0.1:9", FAILED, "no such device: ls /dev/video*"),
        ("{clip}", "udp://@127.0.0.1:9", USAGE, "name the receiver"),
        ("{clip}", "out.mp4", USAGE, "is no address"),
        ("udp://@127.0.0.1:9", "out.mp4", USAGE, "gsvc recv -o"),
        ("udp://@127.0.0.1:9", "udp://@127.0.0.1:9", USAGE, "is no player"),
        ("udp://@127.0.0.1:9", "rtp://127.0.0.1", USAGE, "is no player"),
        ("udp://@127.0.0.1:9", "/dev/video77", FAILED, "modprobe v4l2loopback"),
        ("udp://@127.0.0.1:9", "http://0.0.0.0:8000", USAGE, "as browsers name"),
        ("tcp://127.0.0.1:9", "http://127.0.0.1:8000", USAGE, "gsvc serve takes ws://"),
        ("udp://@203.0.113.1:9", "udp://127.0.0.1:9", FAILED, "cannot listen"),
    ],
)
def test_what_cannot_be_relayed_is_told_in_a_line(
    source: str, target: str, code: int, part: str, tmp_path: Path
) -> None:
    if "{clip}" in source:
        source = source.format(clip=clip(tmp_path, 4))
    assert_one_line(result := run_gsvc("relay", source, target), code, part)
    assert b"secret" not in result.stderr


def test_what_is_no_v4l2_device_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file under a device's name is given to FFmpeg as one, which refuses it."""
    monkeypatch.setattr(places, "DEVICE", str(tmp_path / "video"))
    (device := tmp_path / "video0").write_bytes(b"0")
    with pytest.raises(gsvc.InputError, match=r"nothing comes \(.*v4l2-ctl --list-devices"):
        open_media(device)
    with pytest.raises(gsvc.OutputError, match=r"cannot be sent to \(.*modprobe v4l2loopback"):
        PlayerOutput(str(device), VIDEO, Fraction(10)).write(GREY, 0)


def clip(folder: Path, count: int) -> Path:
    return Clip([frame.pixels for frame in frames(count)]).write(folder / "clip.mkv")


def test_after_a_loss_packets_go_on_from_an_intra_picture() -> None:
    header = gsvc.Encoder(VIDEO, SETTINGS).header
    kinds = [PacketType.INTRA, *[PacketType.INTER] * 5, PacketType.INTRA, PacketType.INTER]
    packets = [Packet(kind, 1, b"", number=n) for n, kind in enumerate(kinds)]
    asked: list[bool] = []
    live = LivePackets(lambda: asked.append(True))
    came = [ArrivedPacket(1, header, one, 0.0) for one in packets if one.number != 3]
    kept = [one.packet.number for arrival in came for one in live.frames(arrival)]
    assert kept == [0, 1, 2, 6, 7] and len(asked) == 2


def test_a_page_gets_what_comes_over_udp(caplog: pytest.LogCaptureFixture) -> None:
    """Its pictures: that there was sound is told."""
    port, page = free_port(), free_port(socket.SOCK_STREAM)
    relay = PageRelay(f"udp://@127.0.0.1:{port}", ReceiveSettings(), f"http://127.0.0.1:{page}")

    async def main() -> None:
        encoder = gsvc.Encoder(VIDEO, SETTINGS, audio=True)
        sender = VideoSender(f"udp://127.0.0.1:{port}", encoder)
        working = [asyncio.create_task(relay.run()), asyncio.create_task(sender.run(endless()))]
        for _ in range(2):  # the second browser comes long after the first picture
            settings = ReceiveSettings(decoder=STILL)
            browser, seen = VideoReceiver(f"ws://127.0.0.1:{page + 1}", settings), list[Frame]()
            looking = asyncio.create_task(collect(browser, seen))
            await some(seen)
            browser.stop()
            await looking
            assert seen[0].pixels.shape == (64, 96, 3)
        asking = partial(urlopen, f"http://127.0.0.1:{page}/source.json")
        with await asyncio.get_running_loop().run_in_executor(None, asking) as answer:
            told = json.load(answer)
        assert told["live"] == f"ws://127.0.0.1:{page + 1}" and 0 <= told["late"] < SECONDS
        relay.stop()
        sender.stop()
        await asyncio.gather(*working)

    run(main())
    assert caplog.text.count("its sound is left out") == 1


@contextmanager
def relaying(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(SCRIPT), "relay", *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.slow
def test_a_page_says_how_old_its_picture_is_and_that_it_is_frozen(tmp_path: Path) -> None:
    video, port, site = clip(tmp_path, 700), free_port(), free_port(socket.SOCK_STREAM)
    here, there = f"udp://@127.0.0.1:{port}", f"udp://127.0.0.1:{port}"
    told = "document.getElementById('time').textContent"
    with relaying(here, f"http://127.0.0.1:{site}"):
        asyncio.run(listening(site, socket.SOCK_STREAM))
        with BROWSERS["chromium"]() as page:
            page.open(f"http://127.0.0.1:{site}/")
            with relaying(video, there) as camera:
                assert until(lambda: page.evaluate("document.getElementById('screen').width") == 96)
                camera.kill()
            assert until(lambda: re.fullmatch(r"frozen, as of \d+ s ago", page.evaluate(told)))


class Player:
    """Reads MPEG-TS over UDP as an ordinary player does."""

    def __init__(self) -> None:
        self.port = free_port()
        self.sizes: list[tuple[int, int]] = []
        self.times: list[float] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        url = f"udp://127.0.0.1:{self.port}"
        with (
            suppress(av.FFmpegError),  # nothing comes any more, maybe during another test
            av.open(url, format="mpegts", timeout=SECONDS) as container,
        ):
            stream = container.streams.video[0]
            for frame in container.decode(stream):
                self.sizes.append((frame.width, frame.height))
                self.times.append(float(frame.time or 0.0))

    def has(self, count: int) -> bool:
        """Whether it sees so many pictures, in time."""
        return until(lambda: len(self.sizes) >= count)


def until(condition: Callable[[], object]) -> bool:
    """Whether it comes true, in time."""
    deadline = time.monotonic() + SECONDS
    while not (is_true := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(is_true)


def has_begun(heard: Path, number: int) -> bool:
    """Whether so many senders began, by the statistics of a second ago."""
    told = heard.read_text().splitlines() if heard.exists() else []
    return bool(told) and json.loads(told[-1])["streams"] == number


@pytest.mark.slow
def test_a_player_keeps_its_picture_while_the_camera_begins_again(tmp_path: Path) -> None:
    video, port, player = clip(tmp_path, 700), free_port(), Player()
    here, there = f"udp://@127.0.0.1:{port}", f"udp://127.0.0.1:{port}"
    heard, at = tmp_path / "heard.json", f"udp://127.0.0.1:{player.port}"
    with relaying(here, at, "--steps", 0, "-v", "--stats", heard) as viewer:
        for number in (1, 2):
            with relaying(video, there) as camera:
                assert until(partial(has_begun, heard, number))
                assert player.has(len(player.sizes) + 60)
                camera.kill()
            assert player.has(len(player.sizes) + 150)  # six seconds: it is frozen
        viewer.send_signal(signal.SIGINT)
        told = viewer.communicate(timeout=SECONDS)[1].decode()
    assert viewer.returncode == 0, told
    assert set(player.sizes) == {(96, 64)}
    gaps = np.diff(player.times)
    assert np.median(gaps) == pytest.approx(1 / 25, rel=0.01) and gaps.min() > 0
    assert told.count("no new picture comes") == 2 and told.count("back after") == 1
    assert "frozen, as of " in told and "Traceback" not in told


def test_a_player_gets_what_a_camera_sends(tmp_path: Path) -> None:
    """The clip is long: on a busy machine the camera begins before its viewer listens."""
    video, port, player = clip(tmp_path, 700), free_port(), Player()
    here, there = f"udp://@127.0.0.1:{port}", f"udp://127.0.0.1:{port}"
    with (
        relaying(here, f"udp://127.0.0.1:{player.port}", "--steps", 0) as viewer,
        relaying(video, there) as camera,
    ):
        assert player.has(10) and player.sizes[0] == (96, 64)
        for process in (camera, viewer):
            process.send_signal(signal.SIGINT)
            told = process.communicate(timeout=SECONDS)[1]
            assert (told.count(b"\n"), process.returncode) == (1, 0), told
            assert b" 0 frames" not in told  # also of the session before the last, empty one
