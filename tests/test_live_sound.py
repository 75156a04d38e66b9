"""Sound beside live pictures: cut to datagrams, in step at the receiver, losses concealed."""

import asyncio
import socket
import wave
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import gsvc
from gsvc.codec.command.main import command_parser, main
from gsvc.codec.command.recv import Watch, _recv
from gsvc.codec.command.send import send_video
from gsvc.codec.media.muxer import _decoded
from gsvc.codec.media.track_source import Sound, encode_audio, read_audio
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.network.address import WireKey
from gsvc.codec.network.rtp import ArrivedSound, cut_to_fit, joined, sound_packet

FAST = gsvc.EncoderSettings(level=0, preset="fast", low_delay=True)
STILL = gsvc.DecoderSettings(steps=0)


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def packets_of(chunks: list[gsvc.AudioChunk]) -> list[tuple[int, bytes]]:
    return [
        (chunk.pts + index * chunk.packet_samples, data)
        for chunk in chunks
        for index, data in enumerate(chunk.packets)
    ]


def test_pieces_fit_and_lose_nothing(clip: Path) -> None:
    whole = list(read_audio(clip))
    pieces = list(cut_to_fit(whole, 300))
    assert packets_of(pieces) == packets_of(whole) and len(pieces) > len(whole)
    assert all(len(sound_packet(piece).to_bytes()) <= 300 for piece in pieces)
    assert all(len(p.packets) * p.packet_samples <= 9600 for p in cut_to_fit(whole, 60_000))


def test_sound_shares_the_datagram_of_a_picture(clip: Path) -> None:
    """On a thin link a datagram's headers cost as much as a tenth of a second of speech."""
    pieces = list(cut_to_fit(read_audio(clip, bitrate=6000), 900))
    (whole,) = joined(pieces, 900)
    assert packets_of([whole]) == packets_of(pieces)
    assert packets_of(list(joined(pieces[::2], 900))) == packets_of(pieces[::2])  # with gaps
    with open_video(clip) as video:
        encoder = gsvc.Encoder(video.format, replace(FAST, bitrate=2000), audio=True)
        pictures = [p for frame in video for p in encoder.encode(frame)] + encoder.flush()
    cutter, reader = gsvc.Packetizer(encoder.header), gsvc.Depacketizer()
    begin, then = cutter.packetize(pictures[:1]), pictures[1]
    both = cutter.packetize([sound_packet(whole), then])
    assert len(both) == 1 and len(cutter.packetize([sound_packet(whole)])[0].payload) < 900
    got = [p for one in (*begin, *both) for p in reader.push(one.to_bytes(), 0.0)]
    assert [p.type for p in got[1:]] == [gsvc.PacketType.AUDIO, then.type]


def test_sound_that_fits_no_datagram_is_told_of_once(
    clip: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not list(cut_to_fit(read_audio(clip), 30))
    (record,) = caplog.records
    assert "fits no datagram" in record.getMessage()


def test_losses_are_concealed_and_late_pieces_dropped(clip: Path) -> None:
    pieces = list(cut_to_fit(read_audio(clip), 200))
    arrived, lost = ArrivedSound(), (2, 3)
    for index in (0, 1, 4, 5, 3, 6):  # 2 is lost, 3 comes too late
        assert arrived.add(1, sound_packet(pieces[index]))
    assert not arrived.add(1, gsvc.Packet(gsvc.PacketType.AUDIO, 0, b"\xff\xff"))
    taken = arrived.take(1, Fraction(2))
    assert not arrived.take(1, Fraction(0))
    ends = [c.pts + len(c.packets) * c.packet_samples for c in taken]
    assert [c.pts for c in taken[1:]] == ends[:-1]  # without a gap
    assert taken[0].pts == pieces[0].pts + 96_000
    count = sum(len(pieces[index].packets) * pieces[index].packet_samples for index in lost)
    assert arrived.lost == count
    made = taken[2]
    assert len(made.packets) * made.packet_samples == count
    decoded = [frame.to_ndarray() for frame in _decoded(taken)]  # by FFmpeg's Opus decoder
    assert sum(one.shape[1] for one in decoded) >= ends[-1] - taken[0].pts - 960
    assert all(np.isfinite(one).all() for one in decoded)


def test_concealed_sound_is_not_louder_than_what_was_sent(tmp_path: Path) -> None:
    time = np.arange(4 * 48_000) / 48_000
    pitch = np.cumsum(120 + 40 * np.sin(9 * time)) / 48_000  # a voice, by syllables
    tones = np.array([np.sin(2 * np.pi * n * pitch) / n for n in range(1, 30)])
    voice = tones.sum(axis=0) * np.sin(12 * time) ** 2
    sounds = np.round(9_000 * voice).astype("<i2")
    with wave.open(str(tmp_path / "voice.wav"), "wb") as file:
        file.setparams((1, 2, 48_000, 0, "NONE", ""))
        file.writeframes(sounds.tobytes())

    def peak(chunks: list[gsvc.AudioChunk]) -> float:  # by FFmpeg's Opus decoder
        return max(float(np.abs(frame.to_ndarray()).max()) for frame in _decoded(chunks))

    pieces = list(cut_to_fit(encode_audio(tmp_path / "voice.wav", Fraction(0), 8_000), 200))
    for lost in range(3, 20):
        arrived = ArrivedSound()
        for piece in (*pieces[:lost], *pieces[lost + 3 :]):
            arrived.add(1, sound_packet(piece))
        assert peak(arrived.take(1, Fraction(0))) < 1.05 * peak(pieces)


def test_sound_of_another_stream_waits_for_its_frames(clip: Path) -> None:
    first, second, *_ = cut_to_fit(read_audio(clip), 200)
    arrived = ArrivedSound()
    arrived.add(1, sound_packet(first))
    arrived.add(2, sound_packet(second))
    assert [c.packets for c in arrived.take(1, Fraction(0))] == [first.packets]
    assert [c.packets for c in arrived.take(2, Fraction(0))] == [second.packets]


@pytest.mark.parametrize("key", [None, bytes(range(32))])
def test_sound_comes_with_the_pictures(clip: Path, key: bytes | None) -> None:
    if key is not None:
        pytest.importorskip("pylibsrtp")
    sealed = key and WireKey(key)
    port, wanted = free_port(), list(read_audio(clip))
    got: list[gsvc.AudioChunk] = []

    async def receive(receiver: gsvc.VideoReceiver) -> int:
        count = 0
        async for _ in receiver.frames():
            count += 1
            got.extend(receiver.take_sound())
        got.extend(receiver.take_sound())
        return count

    async def both() -> int:
        settings = gsvc.ReceiveSettings(STILL, silence=20.0, key=sealed or None)
        receiver = gsvc.VideoReceiver(f"udp://@127.0.0.1:{port}", settings)
        receiving = asyncio.create_task(receive(receiver))
        while receiver._udp is None and not receiving.done():
            await asyncio.sleep(0.01)
        with open_video(clip) as video:
            encoder = gsvc.Encoder(video.format, FAST, audio=True)
            sending = gsvc.SendSettings(key=sealed or None, realtime=False)
            sender = gsvc.VideoSender(f"udp://127.0.0.1:{port}", encoder, sending)
            await sender.run(iter(video), Sound(read_audio(clip)).rest(None))
        assert sender.stats().bits["audio"] > 0
        return await receiving

    assert asyncio.run(both()) > 0
    sent = dict(packets_of(wanted))
    heard = packets_of(got)
    assert heard and all(sent[time] == data for time, data in heard if len(data) > 1)
    assert [time for time, _ in heard] == sorted(time for time, _ in heard)


def test_what_cannot_carry_sound_is_refused(clip: Path) -> None:
    video = gsvc.VideoFormat(64, 48, Fraction(1, 25), Fraction(25))

    def run(address: str, *, audio: bool) -> None:
        sender = gsvc.VideoSender(address, gsvc.Encoder(video, FAST, audio=audio))
        asyncio.run(sender.run(iter(()), read_audio(clip)))

    with pytest.raises(gsvc.ConfigError, match="udp:// addresses only"):
        run(f"tcp://127.0.0.1:{free_port()}", audio=True)
    with pytest.raises(gsvc.ConfigError, match="audio=True"):
        run(f"udp://127.0.0.1:{free_port()}", audio=False)


@pytest.mark.parametrize("name", ["live.mp4", "live.mkv", "live.y4m"])
def test_recv_writes_what_send_sends(
    clip: Path, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    port, target = free_port(), tmp_path / name
    incoming, outgoing = f"udp://@127.0.0.1:{port}", f"udp://127.0.0.1:{port}"

    def options(*words: object) -> Namespace:
        return command_parser().parse_args(list(map(str, words)), Namespace(json=False))

    async def both() -> None:
        settings = gsvc.ReceiveSettings(STILL, silence=30.0)
        taking = options("recv", incoming, "-o", target, "--steps", 0)
        receiver = gsvc.VideoReceiver(incoming, settings)
        receiving = asyncio.create_task(_recv(taking, receiver, Watch(receiver, taking)))
        while receiver._udp is None and not receiving.done():
            await asyncio.sleep(0.01)
        giving = options("send", clip, outgoing, "--audio", "opus", "--fast")
        await send_video(giving, gsvc.SendSettings(realtime=False), FAST)
        await receiving

    asyncio.run(both())
    lost = [record for record in caplog.records if "carries no sound" in record.getMessage()]
    assert bool(lost) == (name == "live.y4m") and "is not sent" not in caplog.text
    with av.open(str(target)) as container:
        assert container.streams.video
        if name != "live.y4m":
            (sound,) = container.streams.audio
            frames = list(container.decode(sound))
            assert sum(frame.samples for frame in frames) > 0.5 * 48_000
            assert all(0 <= (frame.time or 0) < 1 for frame in frames)


def test_send_says_what_it_does_not_do(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (("udp://127.0.0.1:9", "--loop"), "--loop repeats pictures"),
        (("udp://127.0.0.1:9", "--adapt", "4k:60k"), "by pictures alone"),
        (("tcp://127.0.0.1:9",), "udp:// addresses only"),
        (("udp://127.0.0.1:9", "--audio-bitrate", "1k"), "must be 6000 to 510000"),
        (("udp://127.0.0.1:9", "--total-bitrate", "4k"), "allow at least --total-bitrate 9000"),
        (
            ("udp://127.0.0.1:9", "--total-bitrate", "11k", "--audio-bitrate", "9k"),
            "lower its rate (--audio-bitrate 6000), or allow at least --total-bitrate 12000",
        ),
    ):
        assert main(["send", str(clip), *words, "--audio", "opus"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert told in line


def test_the_least_rate_with_sound_is_kept(
    tmp_path: Path,
    moving_pictures: Callable[..., list[gsvc.Picture]],
    write_video: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the error of a slower link advises works."""
    path = write_video(tmp_path / "a.mp4", moving_pictures(30, (128, 96)), rate=5, sound=6)
    rate = "--total-bitrate", "9k", "--audio", "opus", "--fast", "--size", "source"
    assert main(["send", str(path), f"udp://127.0.0.1:{free_port()}", *rate]) == 0
    told = capsys.readouterr().err
    assert "asked for" not in told
    assert told.count("take --audio none (pictures then get 4.5 kbit/s) or about 15 kbit/s") == 1
