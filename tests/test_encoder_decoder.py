"""`Encoder` and `Decoder` on tiny streams: every shape of video, the same result everywhere."""

import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run_process
from gsvc import (
    BitstreamError,
    Color,
    ConfigError,
    Decoder,
    DecoderSettings,
    Detection,
    Encoder,
    EncoderSettings,
    Frame,
    GsvcError,
    Header,
    InputError,
    LimitError,
    Packet,
    PacketType,
    Picture,
    StreamReader,
    StreamWriter,
    VideoFormat,
)
from gsvc.codec.bitstream.container import varint
from gsvc.codec.bitstream.group import GroupReader, GroupWriter, ParsedPacket
from gsvc.codec.bitstream.header import TOOLS
from gsvc.codec.bitstream.scaffold import Interval
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.datasets.clips.packaged import CLIPS
from gsvc.decoders.keyframes.keyframe import Keyframe, KeyframeDecoder
from needs import need_clip, need_models
from plain_refiners import PlainKeys
from scaffolds import only, scaffold_hash

Pictures = Callable[..., list[Picture]]
SHOWN = DecoderSettings(steps=0)


def video_format(pictures: Sequence[Picture], rate: Fraction = Fraction(25)) -> VideoFormat:
    height, width = pictures[0].shape[:2]
    return VideoFormat(width, height, 1 / rate, rate)


def encode(
    pictures: Sequence[Picture],
    settings: EncoderSettings,
    *,
    times: Sequence[int] | None = None,
    video: VideoFormat | None = None,
) -> bytes:
    encoder = Encoder(video or video_format(pictures), settings)
    file = io.BytesIO()
    writer = StreamWriter(file, encoder.header)
    for pixels, pts in zip(pictures, times or range(len(pictures)), strict=True):
        for packet in encoder.encode(Frame(pixels, pts)):
            writer.write(packet)
    for packet in encoder.flush():
        writer.write(packet)
    return file.getvalue()


def decode(data: bytes) -> list[Frame]:
    reader = StreamReader(io.BytesIO(data))
    return decode_packets(reader.header, reader)


def decode_packets(header: Header, packets: Iterable[Packet]) -> list[Frame]:
    decoder = Decoder(header, SHOWN)
    return [frame for packet in packets for frame in decoder.decode(packet)]


def parse(data: bytes) -> list[ParsedPacket]:
    reader = StreamReader(io.BytesIO(data))
    parser = GroupReader(reader.header)
    return [parser.read(packet) for packet in reader if packet.is_picture]


def difference(a: Picture, b: Picture) -> float:
    return float(np.abs(a.astype(float) - b).mean())


def check(
    pictures: Sequence[Picture],
    data: bytes,
    times: Sequence[int] | None = None,
    *,
    moves: bool = False,
    is_coarse: bool = False,
) -> None:
    """Every frame comes back at its time, near enough to its source.

    It is clearly nearer than the clip's mean colour (`is_coarse`: hardly farther, since a picture
    of a few blocks keeps little but that), and hardly farther than the first frame held (`moves`:
    clearly nearer).
    """
    frames = decode(data)
    assert [frame.pts for frame in frames] == list(times or range(len(pictures)))
    for frame, source in zip(frames, pictures, strict=True):
        assert frame.pixels.shape == source.shape and frame.pixels.dtype == np.uint8
    colour = np.broadcast_to(np.mean(pictures, axis=(0, 1, 2)), pictures[0].shape)
    decoded = [difference(f.pixels, s) for f, s in zip(frames, pictures, strict=True)]
    blank = [difference(colour, source) for source in pictures]
    frozen = [difference(frames[0].pixels, source) for source in pictures]
    assert np.mean(decoded) < (1.05 if is_coarse else 0.7) * np.mean(blank)
    assert np.mean(decoded) <= (0.85 if moves else 1.05) * np.mean(frozen)


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_short_videos(
    moving_pictures: Pictures, bare_settings: EncoderSettings, count: int
) -> None:
    pictures = moving_pictures(count)
    check(pictures, encode(pictures, bare_settings), moves=count == 9)


@pytest.mark.parametrize("size", [(16, 16), (17, 31), (65, 49), (37, 64), (96, 33)])
def test_odd_and_small_sizes(
    moving_pictures: Pictures, bare_settings: EncoderSettings, size: tuple[int, int]
) -> None:
    pictures = moving_pictures(4, size)
    for level in (0, 3):
        data = encode(pictures, replace(bare_settings, level=level))
        check(pictures, data, is_coarse=level == 0)


@pytest.mark.parametrize("size", [(8, 2), (300, 16), (16384, 16384), (20_000, 64)])
def test_sizes_that_cannot_be_coded_are_refused(
    bare_settings: EncoderSettings, size: tuple[int, int]
) -> None:
    with pytest.raises(InputError, match="pictures of"):
        Encoder(VideoFormat(*size, Fraction(1, 25), Fraction(25)), bare_settings)


def test_a_still_clip_costs_little(
    moving_pictures: Pictures, bare_settings: EncoderSettings
) -> None:
    one = moving_pictures(1)
    data = encode(one * 40, bare_settings)
    check(one * 40, data)
    # One picture, and a better one than a single frame is worth.
    packets = parse(data)
    assert len(packets) <= 2
    (unit,) = (unit for packet in packets for unit in packet.units)
    assert len(data) < len(unit) + 60 * len(packets)
    assert len(data) < 4 * len(encode(one, bare_settings))


def test_a_cut_on_every_frame(bare_settings: EncoderSettings) -> None:
    levels = (0, 255, 90, 200, 20, 160)
    pictures = [np.full((48, 64, 3), level, np.uint8) for level in levels]
    data = encode(pictures, bare_settings)
    check(pictures, data, moves=True)
    assert all(p.is_intra and len(p.ticks) == 1 for p in parse(data))
    assert all(
        difference(frame.pixels, picture) < 2
        for frame, picture in zip(decode(data), pictures, strict=True)
    )


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_and_a_group_boundary(
    moving_pictures: Pictures, bare_settings: EncoderSettings, level: int
) -> None:
    pictures = moving_pictures(25)
    video = video_format(pictures, Fraction(5))
    data = encode(pictures, replace(bare_settings, level=level, gop=4.0), video=video)
    check(pictures, data, moves=level > 0, is_coarse=level == 0)
    packets = parse(data)
    assert [p.is_intra for p in packets].count(True) == 2
    assert sum(len(p.ticks) for p in packets) == 25


def test_another_thread_is_refused_meanwhile_and_changes_nothing(
    moving_pictures: Pictures, bare_settings: EncoderSettings
) -> None:
    pictures, refused = moving_pictures(12), list[str]()

    def meanwhile(work: Callable[..., object], given: object) -> None:
        with ThreadPoolExecutor(1) as other:
            refused.append(str(other.submit(work, given).exception()))

    class Busy(PlainKeys):
        def refine(self, key: Keyframe, *, steps: int, seed: int) -> Picture:
            meanwhile(decoder.decode, packets[0])
            return key.picture

    packets = list(reader := StreamReader(io.BytesIO(encode(pictures, bare_settings))))
    with Encoder(video_format(pictures), bare_settings) as encoder:
        encoder.watch(lambda _: meanwhile(encoder.encode, pictures[0]))
        made = [p for one in pictures for p in encoder.encode(one)] + encoder.flush()
        assert [one.payload for one in made] == [one.payload for one in packets]
    with Decoder(reader.header, DecoderSettings(steps=1), refiner=Busy("busy")) as decoder:
        assert sum(len(decoder.decode(packet)) for packet in packets) == 12
    for name in ("encoder", "decoder"):
        assert any(f"this {name} is at work in another thread: give" in one for one in refused)


def test_closing_in_the_midst_of_work_waits_for_it(
    moving_pictures: Pictures, bare_settings: EncoderSettings
) -> None:
    pictures = moving_pictures(12)

    class Closing:
        def __call__(self, picture: Picture) -> list[Detection]:
            with ThreadPoolExecutor(1) as other:
                other.submit(live.close).result()
            return []

    with Encoder(video_format(pictures), bare_settings) as encoder:
        encoder.watch(lambda _: encoder.close())
        packets = [p for one in pictures for p in encoder.encode(one)] + encoder.flush()
    assert sum(one.frames for one in packets) == 12
    seen = replace(bare_settings, low_delay=True, objects=True, detector=Closing())
    live = Encoder(video_format(pictures), seen)
    with pytest.raises(ConfigError, match="flushed or closed"):
        for one in 2 * pictures:
            live.encode(one)


def test_times_are_kept(moving_pictures: Pictures, bare_settings: EncoderSettings) -> None:
    pictures = moving_pictures(12)
    times = [0, 33, 67, 100, 101, 350, 10_000, 10_033, 10_067, 10_100, 10_133, 9_000_000]
    video = replace(video_format(pictures), time_base=Fraction(1, 1000))
    data = encode(pictures, bare_settings, times=times, video=video)
    check(pictures, data, times, moves=True)
    with pytest.raises(ConfigError, match="must rise"):
        encode(pictures[:3], bare_settings, times=[0, 5, 5])


@pytest.mark.parametrize(
    "color", [Color(1, 1, 1), Color(5, 6, 6, full_range=True), Color(9, 14, 9)]
)
def test_colours_are_kept(
    moving_pictures: Pictures, bare_settings: EncoderSettings, color: Color
) -> None:
    pictures = moving_pictures(2)
    data = encode(
        pictures,
        replace(bare_settings, level=3),
        video=replace(video_format(pictures), color=color),
    )
    assert StreamReader(io.BytesIO(data)).header.format.color == color
    assert difference(decode(data)[0].pixels.mean((0, 1)), pictures[0].mean((0, 1))) < 3


def test_key_pictures_are_what_the_encoder_saw(
    moving_pictures: Pictures, bare_settings: EncoderSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    plain = KeyframeDecoder.decode_lazily

    def watched(
        self: KeyframeDecoder, unit: bytes, coded_size: tuple[int, int], *, luma: bool = False
    ) -> Callable[[], Picture]:
        made = plain(self, unit, coded_size, luma=luma)
        seen.append(made())
        return made

    monkeypatch.setattr(KeyframeDecoder, "decode_lazily", watched)
    pictures = moving_pictures(25, (65, 49))
    short = replace(bare_settings, gop=4.0)
    data = encode(pictures, short, video=video_format(pictures, Fraction(5)))
    encoders = seen.copy()
    seen.clear()
    decode(data)
    # The encoder decodes its trials too; what it decoded last of a group is what was sent.
    assert len(encoders) > len(seen) > 1
    assert all(any(np.array_equal(a, b) for b in encoders) for a in seen)


@pytest.mark.parametrize("conceal", [False, True])
def test_frames_are_the_receivers_to_write_on(stream: Path, conceal: bool) -> None:
    def shown(*, writes: bool) -> Iterator[Picture]:
        reader = StreamReader(io.BytesIO(stream.read_bytes()))
        decoder = Decoder(reader.header, replace(SHOWN, conceal=conceal))
        for frame in (frame for packet in reader for frame in decoder.decode(packet)):
            yield frame.pixels.copy()
            frame.pixels[:] *= not writes

    for kept, written in zip(shown(writes=False), shown(writes=True), strict=True):
        assert np.array_equal(kept, written)


def test_joining_at_a_later_group(
    moving_pictures: Pictures, bare_settings: EncoderSettings
) -> None:
    pictures = moving_pictures(25)
    short = replace(bare_settings, gop=4.0)
    data = encode(pictures, short, video=video_format(pictures, Fraction(5)))
    packets = list(StreamReader(io.BytesIO(data)))
    header = StreamReader(io.BytesIO(data)).header
    second = [k for k, packet in enumerate(packets) if packet.type == PacketType.INTRA][1]
    frames = sum(packet.frames for packet in packets[: second + 1])
    joined = decode_packets(
        header, [replace(packets[second], pts=frames - 1), *packets[second + 1 :]]
    )
    whole = decode(data)[-len(joined) :]
    assert joined[0].pts == 20
    assert [frame.pts for frame in joined] == [frame.pts for frame in whole]
    assert all(np.array_equal(a.pixels, b.pixels) for a, b in zip(joined, whole, strict=True))
    later = next(packet for packet in packets if packet.type == PacketType.INTER)
    with pytest.raises(BitstreamError, match="intra"):
        Decoder(header, SHOWN).decode(later)


def test_damage_ends_a_group_and_no_more(
    moving_pictures: Pictures, bare_settings: EncoderSettings
) -> None:
    pictures = moving_pictures(12)
    settings = replace(bare_settings, level=None, bpp=0.5)
    packets = list(StreamReader(io.BytesIO(encode(pictures, settings))))
    assert len(packets) > 3
    header = Encoder(video_format(pictures), settings).header
    decoder = Decoder(header, SHOWN)
    assert len(decoder.decode(packets[0])) == packets[0].frames
    with pytest.raises(BitstreamError):
        decoder.decode(replace(packets[1], payload=b""))
    for packet in (p for p in packets[2:] if p.type == PacketType.INTER):
        with pytest.raises(BitstreamError, match="intra"):
            decoder.decode(packet)


def test_intervals_beyond_the_limit_are_refused(bare_settings: EncoderSettings) -> None:
    header = Encoder(VideoFormat(64, 48, Fraction(1, 25), Fraction(25)), bare_settings).header
    with pytest.raises(LimitError, match="frames"):
        Decoder(header, SHOWN).decode(Packet(PacketType.INTRA, 3000, b""))


@pytest.mark.parametrize("seed", range(60))
def test_hostile_payloads_decode_or_are_refused(stream: Path, seed: int) -> None:
    """Payloads whose checksum is right: the parsers alone must hold."""
    rng = np.random.default_rng(seed)
    reader = StreamReader(io.BytesIO(stream.read_bytes()))
    tools, holds = only(*(name for name in TOOLS if rng.random() < 0.5)), bool(rng.random() < 0.5)
    header = replace(reader.header, tools=tools, holds=holds)
    decoder = Decoder(header, SHOWN)
    for packet in reader:
        payload = bytearray(packet.payload)
        for _ in range(int(rng.integers(0, 4))):
            position = int(len(payload) * rng.random() ** 3)
            payload[position] = int(rng.integers(256))
        try:
            frames = decoder.decode(replace(packet, payload=bytes(payload)))
        except GsvcError:
            return
        assert all(frame.pixels.shape == (48, 64, 3) for frame in frames)


def test_a_stream_of_unknown_optional_packets_decodes(
    moving_pictures: Pictures, bare_settings: EncoderSettings
) -> None:
    pictures = moving_pictures(3)
    packets = list(StreamReader(io.BytesIO(encode(pictures, bare_settings))))
    header = Encoder(video_format(pictures), bare_settings).header
    file = io.BytesIO()
    writer = StreamWriter(file, header)
    for packet in packets[:-1]:
        writer.write(packet)
        writer.write(Packet(12, 0, b"of the future"))
    writer.write(Packet(PacketType.END, 0, varint(len(packets) - 1)))
    assert len(decode(file.getvalue())) == 3


_IN_A_PROCESS = """
import hashlib, sys
import cv2
from pathlib import Path
import gsvc
cv2.setNumThreads(int(sys.argv[1]))
clip, stream, again = map(Path, sys.argv[2:])
print(gsvc.info(stream).scaffold_hash)
settings = gsvc.EncoderSettings(level=3, preset="fast")
gsvc.encode(clip, again, settings=settings)
print(hashlib.sha256(again.read_bytes()).hexdigest())
"""


def test_processes_and_threads_agree(clip: Path, stream: Path, tmp_path: Path) -> None:
    """The scaffold's hash and the encoder's bytes are the same with any threads and hash seed."""
    expected = [
        scaffold_hash(one for packet in parse(stream.read_bytes()) for one in packet.intervals),
        hashlib.sha256(stream.read_bytes()).hexdigest(),
    ]
    for threads in ("1", "2"):
        environment = {"PYTHONHASHSEED": threads, "OMP_NUM_THREADS": threads}
        again = tmp_path / f"{threads}.gsv"
        result = subprocess.run(
            [sys.executable, "-c", _IN_A_PROCESS, threads, str(clip), str(stream), str(again)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        assert result.stdout.split() == expected


@pytest.mark.parametrize("name", list(CLIPS))
def test_packaged_clips_come_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tools on real video: frames, times, and every integer of the scaffold."""
    written: dict[bytes, Sequence[Interval]] = {}

    def watched(self: GroupWriter, intervals: Sequence[Interval], *more: Any) -> bytes:
        payload = write(self, intervals, *more)
        written[payload] = list(intervals)
        return payload

    write = GroupWriter.write
    monkeypatch.setattr(GroupWriter, "write", watched)
    need_models()
    pictures, rate = load_clip(need_clip(name), 30 if name == "city" else 17, 144)
    video = video_format(pictures, rate)
    data = encode(pictures, EncoderSettings(level=1, semantics=True), video=video)
    check(pictures, data, moves=name == "city")
    sent = [one for packet in parse(data) for one in packet.intervals]
    payloads = [one.payload for one in StreamReader(io.BytesIO(data)) if one.is_picture]
    assert scaffold_hash(sent) == scaffold_hash(chain(*map(written.__getitem__, payloads)))


def test_a_picture_larger_than_the_header_says_is_refused(
    moving_pictures: Pictures, bare_settings: EncoderSettings
) -> None:
    small, large = moving_pictures(1), moving_pictures(1, (640, 480))
    packet = next(iter(StreamReader(io.BytesIO(encode(large, bare_settings)))))
    header = Encoder(video_format(small), bare_settings).header
    with pytest.raises(BitstreamError):
        Decoder(header, SHOWN).decode(packet)


def test_real_video_encodes_to_the_same_bytes(tmp_path: Path) -> None:
    """All extractors, on one core and on all, with other hash seeds."""
    need_models()
    path = need_clip("vtest")
    few = "--level", 2, "--preset", "fast", "--semantics", "--frames", 6
    streams = []
    for threads in ("1", "2"):
        target = tmp_path / f"{threads}.gsv"
        environment = {"PYTHONHASHSEED": threads, "OMP_NUM_THREADS": threads}
        result = run_process("encode", path, target, *few, env=environment)
        assert result.returncode == 0, result.stderr
        streams.append(target.read_bytes())
    assert streams[0] == streams[1]


@pytest.mark.parametrize(
    ("rate", "tick", "frames"), [(Fraction(2503, 100), Fraction(1, 25), 420), (25, 25, 60)]
)
def test_nominal_times_rise_where_a_frame_takes_less_than_a_tick(
    rate: Fraction, tick: Fraction, frames: int
) -> None:
    video = VideoFormat(64, 48, Fraction(tick), Fraction(rate))
    settings = EncoderSettings(0, low_delay=True, preset="fast", faces=False)
    with Encoder(video, settings) as encoder:
        grey = np.full((48, 64, 3), 128, np.uint8)
        count = sum(packet.frames for _ in range(frames) for packet in encoder.encode(grey))
        assert count + sum(packet.frames for packet in encoder.flush()) == frames


@pytest.mark.parametrize(
    ("size", "step", "bitrate", "told"),
    [
        ((1280, 720), 40, 8_000, "426x240"),
        ((640, 360), 40, 6_000, "320x180"),
        ((640, 360), 40, 12_000, None),
        ((64, 48), 40, 6_000, None),
        ((64, 48), 100, 6_000, "10 frames come a second, not 25"),
    ],
)
def test_live_encoder_warns_once_of_size_and_pace(
    caplog: pytest.LogCaptureFixture,
    size: tuple[int, int],
    step: int,
    bitrate: int,
    told: str | None,
) -> None:
    video = VideoFormat(*size, time_base=Fraction(1, 1000), frame_rate=Fraction(25))
    settings = EncoderSettings(bitrate=bitrate, low_delay=True, preset="fast", faces=False)
    with Encoder(video, settings) as encoder:
        for number in range(220 if size == (64, 48) else 0):
            encoder.encode(np.full((48, 64, 3), number, np.uint8), number * step)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (told is not None) and (told is None or told in lines[0])


def test_a_cameras_clock_is_told_apart_from_the_streams() -> None:
    video = VideoFormat(64, 48, time_base=Fraction(1, 90_000), frame_rate=Fraction(25))
    for first, origin in ((1 << 30, 0), ((1 << 30) + 1, (1 << 30) + 1), (1 << 50, 1 << 50)):
        with Encoder(video, EncoderSettings(low_delay=True, preset="fast")) as encoder:
            assert encoder.origin == 0
            grey = np.full((48, 64, 3), 128, np.uint8)
            packets = encoder.encode(grey, first) + encoder.encode(grey, first + 3600)
            with pytest.raises(ConfigError, match=f"{first} follows {first + 3600}, give "):
                encoder.encode(grey, first)
            last = [p.pts or 0 for p in packets + encoder.flush() if p.is_picture][-1]
            assert encoder.origin == origin and last + origin == first + 3600


@pytest.mark.parametrize("fills", [False, True])
def test_frames_around_a_pause_show_their_own_time(fills: bool) -> None:
    """A camera that stalls, or a full link: nothing is drawn before it happened."""
    video = VideoFormat(128, 96, time_base=Fraction(1, 25), frame_rate=Fraction(25))
    settings = EncoderSettings(level=1, bitrate=60_000, low_delay=True, faces=False)
    packets = []
    with Encoder(video, settings) as encoder:
        for number in (*range(22), *range(40, 60)):
            picture = np.full((96, 128, 3), 60, np.uint8)
            picture[30:60, 3 * number // 2 : 3 * number // 2 + 20] = 220
            if fills:
                encoder.hold(is_held=16 < number < 22, intra_bits=20_000, fills=True)
            packets += encoder.encode(picture, pts=number)
        packets += encoder.flush()
    shown = dict[int, float]()
    with Decoder(encoder.header, DecoderSettings(steps=0)) as decoder:
        for packet in packets:
            for frame in decoder.decode(packet):
                light = frame.pixels[45, :, 1] - 60.0
                shown[frame.pts] = float((light * np.arange(128)).sum() / light.sum() - 9.5) / 1.5
    assert {0, 12, 21, 40, 59} <= set(shown)
    assert all(abs(seen - pts) < 6 for pts, seen in shown.items()), shown


def test_a_group_begins_after_a_pause_that_receivers_take_for_damage() -> None:
    video = VideoFormat(64, 48, time_base=Fraction(1, 25), frame_rate=Fraction(25))
    picture = np.full((48, 64, 3), 90, np.uint8)
    with Encoder(video, EncoderSettings(bitrate=20_000, low_delay=True, faces=False)) as encoder:
        encoder.keyframes_on_request = True
        packets = [
            p for pts in (*range(30), *range(90_000, 90_030)) for p in encoder.encode(picture, pts)
        ]
    assert 90_000 in [packet.pts for packet in packets if packet.is_intra]
