"""Sources that are opened once, pipes and cameras: their sound comes with the pictures."""

import asyncio
import logging
import os
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream
from av.video.stream import VideoStream

import gsvc
from gsvc.codec.api.encode_job import EncodeJob, suited
from gsvc.codec.command.main import command_parser
from gsvc.codec.command.recv import Watch, _recv
from gsvc.codec.command.send import send_video, settings_for
from live import free_port
from test_audio import RATE, _encode, bursts, onsets

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
Pictures = Callable[..., list[gsvc.Picture]]
FAST = gsvc.EncoderSettings(level=0, preset="fast", low_delay=True)
STILL = gsvc.DecoderSettings(steps=0)


def flashing(path: Path, seconds: int, times: list[float], *, sound: bool = True) -> Path:
    """Dark pictures, 25 a second, bright for 0.2 s at each time, with a burst of noise."""
    with av.open(str(path), "w") as container:
        options = {"preset": "ultrafast", "tune": "zerolatency", "g": "5"}
        video = container.add_stream("libx264", rate=25, options=options)
        assert isinstance(video, VideoStream)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        heard = container.add_stream("aac", rate=RATE) if sound else None
        assert heard is None or isinstance(heard, AudioStream)
        if heard is not None:
            heard.codec_context.layout = "mono"
        noise = bursts(seconds, times)
        for index in range(25 * seconds):
            if heard is not None and index % 5 == 0:
                begin = index * RATE // 25
                _encode(container, heard, index / 25, noise[:, begin : begin + RATE // 5])
            bright = any(0 <= index / 25 - begin < 0.2 for begin in times)
            gray = np.full((48, 64, 3), 235 if bright else 40, np.uint8)
            container.mux(video.encode(av.VideoFrame.from_ndarray(gray, "rgb24")))
        container.mux(video.encode(None))
        if heard is not None:
            container.mux(heard.encode(None))
    return path


def flashes(path: Path) -> list[float]:
    with av.open(str(path)) as container:
        frames = container.decode(video=0)
        shown = [(f.time or 0.0, f.to_ndarray(format="gray").mean() > 120) for f in frames]
    before = [False, *(is_bright for _, is_bright in shown)]
    return [at for (at, bright), was in zip(shown, before, strict=False) if bright and not was]


def pipe_of(whole: Path) -> Path:
    """A pipe that a thread writes the file to, as far as it is read."""
    os.mkfifo(pipe := whole.with_name(f"pipe{whole.suffix}"))

    def write() -> None:
        with suppress(BrokenPipeError):
            pipe.write_bytes(whole.read_bytes())

    threading.Thread(target=write, name="writer", daemon=True).start()
    return pipe


def test_a_pipe_gets_a_size_for_its_rate_as_a_file_does(
    tmp_path: Path, moving_pictures: Pictures, write_video: Callable[..., Path]
) -> None:
    path = write_video(tmp_path / "a.mkv", moving_pictures(20, (240, 320)), rate=30)
    jobs = [EncodeJob(source, FAST, frames=18, size="auto") for source in (path, pipe_of(path))]
    found = [suited(job, 1_500).encoded(FAST)[1] for job in jobs]
    shapes = [(one.width, one.height, one.frames, one.duration) for one in found]
    assert shapes[0] == shapes[1] and shapes[0][:3] == (144, 192, 6)
    with pytest.raises(gsvc.ConfigError, match="follows from a rate"):
        suited(jobs[1], None)


def camera(whole: Path, port: int, ended: threading.Event) -> None:
    """Sends MPEG-TS as it plays."""
    url, began = f"udp://127.0.0.1:{port}?pkt_size=1316", time.monotonic()
    with av.open(str(whole)) as given, av.open(url, "w", "mpegts") as sent:
        streams = {one.index: sent.add_stream_from_template(one) for one in given.streams}
        for packet in given.demux():
            if packet.dts is not None:
                due = began + float(packet.dts * packet.time_base)
                if ended.wait(max(0.0, due - time.monotonic())):
                    return
                packet.stream = streams[packet.stream.index]
                sent.mux(packet)


def options(*words: object) -> Namespace:
    return command_parser().parse_args(list(map(str, words)), Namespace(json=False))


async def transmit(source: object, target: Path, *more: object) -> None:
    """`gsvc send --audio opus` to `gsvc recv`."""
    port = free_port()
    incoming, outgoing = f"udp://@127.0.0.1:{port}", f"udp://127.0.0.1:{port}"
    receiver = gsvc.VideoReceiver(incoming, gsvc.ReceiveSettings(STILL, silence=30.0))
    taking = options("recv", incoming, "-o", target, "--steps", 0)
    receiving = asyncio.create_task(_recv(taking, receiver, Watch(receiver, taking)))
    while receiver._udp is None and not receiving.done():
        await asyncio.sleep(0.01)
    giving = options("send", source, outgoing, "--audio", "opus", *more)
    settings, encoding = settings_for(giving)
    await send_video(giving, settings, replace(FAST, bitrate=encoding.bitrate))
    await asyncio.wait_for(receiving, 60)


def in_step(path: Path) -> int:
    """How many flashes there are, each with its burst."""
    seen, heard = flashes(path), onsets(path)
    assert len(seen) == len(heard), (seen, heard)
    assert all(abs(one - other) < 0.1 for one, other in zip(seen, heard, strict=True))
    return len(seen)


@pytest.mark.parametrize(("name", "rate"), [("it.mkv", ()), ("it.ts", ("--total-bitrate", "60k"))])
def test_a_pipe_is_sent_with_its_sound(tmp_path: Path, name: str, rate: tuple[str, ...]) -> None:
    pipe = pipe_of(flashing(tmp_path / name, 2, [0.6, 1.4]))
    asyncio.run(transmit(pipe, tmp_path / "out.mkv", "--fast", *rate))
    assert in_step(tmp_path / "out.mkv") == 2


def test_a_camera_is_sent_with_its_sound(tmp_path: Path) -> None:
    """MPEG-TS at a port, which two cannot open."""
    whole = flashing(tmp_path / "it.ts", 30, [0.3 + 0.8 * index for index in range(36)])
    port, ended = free_port(), threading.Event()
    sender = threading.Thread(target=camera, args=(whole, port, ended))
    sender.start()
    try:
        source = f"udp://127.0.0.1:{port}"
        asyncio.run(transmit(source, tmp_path / "out.mkv", "--frames", 50))
    finally:
        ended.set()
        sender.join()
    assert in_step(tmp_path / "out.mkv") >= 1


def test_what_ends_early_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    pipe = pipe_of(flashing(tmp_path / "it.mkv", 60, [0.2, 0.8]))
    asyncio.run(transmit(pipe, tmp_path / "out.mkv", "--frames", 30, "--fast"))
    for thread in threading.enumerate():
        if thread.name == "writer":
            thread.join(10)  # nobody reads any more
    assert set(threading.enumerate()) <= before
    assert in_step(tmp_path / "out.mkv") == 2


def test_a_pipe_without_sound_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipe = pipe_of(flashing(tmp_path / "it.mkv", 1, [0.4], sound=False))
    with caplog.at_level(logging.WARNING):
        asyncio.run(transmit(pipe, tmp_path / "out.mkv", "--fast"))
    assert [r.getMessage() for r in caplog.records] == [f"{pipe} has no sound to send"]
    assert len(flashes(tmp_path / "out.mkv")) == 1


@pytest.mark.parametrize("start", [0.0, 0.6])
def test_a_pipe_is_encoded_as_its_file(tmp_path: Path, start: float) -> None:
    whole = flashing(tmp_path / "it.mkv", 2, [0.4, 1.2])
    settings = gsvc.EncoderSettings(level=0, preset="fast")
    for source in (whole, pipe_of(whole)):
        report = gsvc.encode(
            source, tmp_path / f"{source.stem}.gsv", settings=settings, start=start, texts=False
        )
        assert report.audio_size > 1000
    assert (tmp_path / "pipe.gsv").read_bytes() == (tmp_path / "it.gsv").read_bytes()
