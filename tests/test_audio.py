"""Sound: Opus packets stay with the pictures, through the stream's payload and any container."""

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream
from av.video.stream import VideoStream
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from gsvc import (
    AudioChunk,
    BitstreamError,
    ConfigError,
    Frame,
    InputError,
    LimitError,
    MissingDependencyError,
    OutputError,
    VideoFormat,
)
from gsvc.codec.api.inspection import info
from gsvc.codec.bitstream.audio_and_text import (
    SAMPLE_RATE,
    pack_audio,
    packet_samples,
    unpack_audio,
)
from gsvc.codec.bitstream.container import PacketType
from gsvc.codec.command.main import main
from gsvc.codec.media.muxer import OPUS_ENCODER
from gsvc.codec.media.track_source import encode_audio, read_audio
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.media.video_writer import open_writer
from video_clips import SAME

RATE = 44_100
TICK = Fraction(1, RATE)
SILK_60_MS = bytes([11 << 3])  # RFC 6716, table 2: configuration 11, one frame


# The payload


def chunk(*packets: bytes, pts: int = -312) -> AudioChunk:
    return AudioChunk(pts, 1, 2880, 312, packets)


@pytest.mark.parametrize(
    ("first", "samples"),
    [
        (b"\x00", 480),
        (b"\x18", 2880),
        (b"\x58", 2880),
        (b"\x60", 480),
        (b"\x68", 960),
        (b"\x80", 120),
        (b"\xf8", 960),
        (b"\xf9", 1920),
        (b"\xfa", 1920),
        (b"\xfb\x03", 2880),
    ],
)
def test_duration_of_an_opus_packet(first: bytes, samples: int) -> None:
    assert packet_samples(first) == samples


def test_the_payload_is_what_the_format_says() -> None:
    data = pack_audio(chunk(SILK_60_MS + b"ab", SILK_60_MS))
    assert data == bytes([1, 24, 0xB8, 2, 0xEF, 4, 2, 3, 1]) + b"\x58ab\x58"


@given(
    st.integers(-(1 << 34) + 1, (1 << 34) - 1),
    st.integers(1, 2),
    st.integers(0, 65_535),
    st.lists(st.binary(max_size=300), max_size=40),
)
def test_any_chunk_comes_back(pts: int, channels: int, skip: int, tails: Sequence[bytes]) -> None:
    packets = tuple(SILK_60_MS + tail for tail in tails)
    original = AudioChunk(pts, channels, 2880, skip, packets)
    assert unpack_audio(pack_audio(original)) == original


@given(st.binary(max_size=200))
def test_any_bytes_are_a_chunk_or_a_bitstream_error(data: bytes) -> None:
    try:
        chunk = unpack_audio(data)
    except BitstreamError as error:
        assert "\n" not in str(error)
    else:
        assert unpack_audio(pack_audio(chunk)) == chunk


def test_every_cut_and_every_extra_byte_is_noticed() -> None:
    data = pack_audio(chunk(SILK_60_MS + b"abc", SILK_60_MS + bytes(200)))
    for size in range(len(data)):
        with pytest.raises(BitstreamError):
            unpack_audio(data[:size])
    with pytest.raises(BitstreamError):
        unpack_audio(data + b"x")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([0, 24, 0, 0, 0], LimitError),
        ([3, 24, 0, 0, 0], LimitError),
        ([1, 0, 0, 0, 0], LimitError),
        ([1, 49, 0, 0, 0], LimitError),
        ([1, 24, 0x80, 0x80, 4, 0, 0], LimitError),
        ([1, 24, 0, 0, 0x81, 0x20], LimitError),
        ([1, 24, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], LimitError),
        ([1, 24, 0, 0, 1, 0], BitstreamError),
        ([1, 24, 0, 0, 1, 1, 0xF8], BitstreamError),
    ],
)
def test_what_a_stream_may_not_ask_for(data: Sequence[int], error: type[BitstreamError]) -> None:
    with pytest.raises(error):
        unpack_audio(bytes(data))


def test_a_chunk_beyond_the_limits_is_not_packed() -> None:
    for bad in (
        replace(chunk(SILK_60_MS), channels=3),
        replace(chunk(SILK_60_MS), packet_samples=960),
        chunk(SILK_60_MS + bytes(1275 * 48)),
        chunk(*[SILK_60_MS] * 4097),
    ):
        with pytest.raises(ConfigError):
            pack_audio(bad)


# From files

Sound = NDArray[np.float32]
_LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1"}


def bursts(seconds: float, times: Sequence[float], channels: int = 1) -> Sound:
    """Silence with 0.1 s of noise at each time, shape (channels, samples)."""
    sound = np.zeros((channels, round(seconds * RATE)), np.float32)
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, RATE // 10).astype(np.float32)
    for time in times:
        begin = round(time * RATE)
        sound[:, begin : begin + len(noise)] = noise
    return sound


def clip(
    path: Path,
    pieces: Sequence[tuple[float, Sound]],
    *,
    seconds: float = 4,
    first_frame: float = 0,
    codec: str = "flac",
) -> Path:
    """A clip of 25 frames a second whose sound comes in pieces, each from a time in seconds on."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=25, options={"preset": "ultrafast", **SAME})
        assert isinstance(video, VideoStream)
        video.width = video.height = 16
        video.time_base = video.codec_context.time_base = Fraction(1, 1000)
        sound = container.add_stream(codec, rate=RATE)
        assert isinstance(sound, AudioStream)
        sound.codec_context.layout = _LAYOUTS[pieces[0][1].shape[0]]
        for index in range(round(25 * seconds)):
            frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), index, np.uint8), "rgb24")
            frame.pts = round(1000 * first_frame) + 40 * index
            frame.time_base = Fraction(1, 1000)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        for begin, samples in pieces:
            _encode(container, sound, begin, samples)
        container.mux(sound.encode(None))
    return path


def _encode(
    container: av.container.OutputContainer, stream: AudioStream, begin: float, samples: Sound
) -> None:
    layout = _LAYOUTS[samples.shape[0]]
    for at in range(0, samples.shape[1], 4410):
        piece = np.ascontiguousarray(samples[:, at : at + 4410])
        frame = av.AudioFrame.from_ndarray(piece, "fltp", layout)
        frame.sample_rate = RATE
        frame.pts, frame.time_base = round(begin * RATE) + at, TICK
        container.mux(stream.encode(frame))


def heard(path: Path) -> tuple[Sound, Fraction]:
    """What a player would play: mono samples at 48000 Hz, and the time of the first one."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        resampler = av.AudioResampler("fltp", "mono", SAMPLE_RATE)
        first: Fraction | None = None
        parts = []
        for frame in container.decode(stream):
            if first is None and frame.pts is not None and frame.time_base is not None:
                first = frame.pts * frame.time_base
            parts += [piece.to_ndarray() for piece in resampler.resample(frame)]
        parts += [piece.to_ndarray() for piece in resampler.resample(None)]
    with open_video(path, frames=1) as video:
        origin = video.origin
    return np.concatenate(parts, 1)[0], (first or Fraction(0)) - origin


def onsets(path: Path) -> list[float]:
    """When the bursts begin, in seconds after the first frame."""
    samples, first = heard(path)
    loud = np.convolve(np.abs(samples), np.ones(96) / 96, "same") > 0.06
    starts = np.flatnonzero(loud[1:] & ~loud[:-1])
    found: list[float] = []
    for start in starts:
        time = start / SAMPLE_RATE + float(first)
        if not found or time - found[-1] > 0.2:
            found.append(time)
    return found


def show(path: Path, chunks: Sequence[AudioChunk]) -> Path:
    """Write the chunks beside 4 s of video, each after a trip through its payload."""
    form = VideoFormat(16, 16, Fraction(1, 25), Fraction(25))
    back = [unpack_audio(pack_audio(item)) for item in chunks]
    with open_writer(path, form, audio=back) as writer:
        for index in range(100):
            writer.write(Frame(np.full((16, 16, 3), index, np.uint8), index))
    return path


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm", "ts", "mov", "avi", "flv", "nut"])
def test_sound_keeps_its_place_in_every_container(tmp_path: Path, suffix: str) -> None:
    times = [0.5, 1.0, 2.75]
    source = clip(tmp_path / "source.mkv", [(0, bursts(4, times))])
    path = show(tmp_path / f"a.{suffix}", list(read_audio(source, bitrate=24_000)))
    assert onsets(path) == pytest.approx(times, abs=0.01)
    with open_video(path) as video:
        assert len(list(video)) == 100


def test_sound_that_goes_back_is_told(tmp_path: Path) -> None:
    chunks = list(read_audio(clip(tmp_path / "source.mkv", [(0, bursts(4, [1]))])))
    with pytest.raises(OutputError, match="^the times of sound go back: to join streams"):
        show(tmp_path / "a.mp4", [*chunks, *chunks])


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm"])
def test_opus_is_copied_where_the_container_takes_it(tmp_path: Path, suffix: str) -> None:
    chunks = list(read_audio(clip(tmp_path / "source.mkv", [(0, bursts(4, [1]))])))
    path = show(tmp_path / f"a.{suffix}", chunks)
    with av.open(str(path)) as container:
        packets = [bytes(packet) for packet in container.demux(audio=0) if packet.size]
    assert packets == [packet for item in chunks for packet in item.packets]


@pytest.mark.parametrize("start", [0.6, 0.61, 2.0])
@pytest.mark.parametrize("codec", ["flac", "aac", "libmp3lame"])
def test_sound_begins_with_the_first_frame(tmp_path: Path, start: float, codec: str) -> None:
    """The frame shown at 0.61 s or later is that of 0.64 s."""
    source = clip(tmp_path / "source.mkv", [(0, bursts(4, [1.0, 2.5]))], codec=codec)
    path = show(tmp_path / "a.mkv", list(read_audio(source, start=start, bitrate=24_000)))
    origin = np.ceil(start * 25 - 1e-9) / 25
    wanted = [time - origin for time in (1.0, 2.5) if time >= origin]
    delay = (
        0.03 if codec == "libmp3lame" else 0.01
    )  # Matroska does not say how long MP3's run-in is
    assert onsets(path) == pytest.approx(wanted, abs=delay)


def test_pictures_that_begin_late_take_the_sound_with_them(tmp_path: Path) -> None:
    source = clip(tmp_path / "source.mkv", [(0, bursts(4, [1.0, 2.0]))], first_frame=0.4)
    path = show(tmp_path / "a.mkv", list(read_audio(source, bitrate=24_000)))
    assert onsets(path) == pytest.approx([0.6, 1.6], abs=0.01)


def test_sound_that_begins_late_stays_late(tmp_path: Path) -> None:
    source = clip(tmp_path / "source.mkv", [(1.5, bursts(2, [0.5]))])
    chunks = list(read_audio(source, bitrate=24_000))
    assert chunks[0].pts + chunks[0].pre_skip == pytest.approx(1.5 * SAMPLE_RATE, abs=50)
    assert onsets(show(tmp_path / "a.mp4", chunks)) == pytest.approx([2.0], abs=0.01)


def test_a_gap_becomes_silence(tmp_path: Path) -> None:
    pieces = [(0, bursts(1, [0.5])), (2.5, bursts(1, [0.25]))]
    source = clip(tmp_path / "source.mkv", pieces, codec="pcm_f32le")
    path = show(tmp_path / "a.mkv", list(read_audio(source, bitrate=24_000)))
    assert onsets(path) == pytest.approx([0.5, 2.75], abs=0.01)


def test_chunks_are_contiguous_and_about_a_second_long(tmp_path: Path) -> None:
    chunks = list(read_audio(clip(tmp_path / "source.mkv", [(0, bursts(4, [1]))])))
    assert chunks[0].pts == -chunks[0].pre_skip
    assert chunks[0].packet_samples == 2880
    for one, two in pairwise(chunks):
        assert two.pts == one.pts + len(one.packets) * one.packet_samples
        assert 1 <= len(one.packets) * one.packet_samples / SAMPLE_RATE < 1.1


@pytest.mark.parametrize(
    ("bitrate", "channels"), [(6_000, 1), (12_000, 1), (18_000, 2), (64_000, 2)]
)
def test_bitrate_and_channels(tmp_path: Path, bitrate: int, channels: int) -> None:
    noise = np.random.default_rng(0).uniform(-0.3, 0.3, (2, 4 * RATE)).astype(np.float32)
    source = clip(tmp_path / "source.mkv", [(0, noise)])
    chunks = list(read_audio(source, bitrate=bitrate))
    assert {item.channels for item in chunks} == {channels}
    size = sum(len(packet) for item in chunks for packet in item.packets)
    assert 0.5 * bitrate < size * 8 / 4 < 1.1 * bitrate
    assert heard(show(tmp_path / "a.mkv", chunks))[0].std() > 0.02


@pytest.mark.parametrize("layout", ["stereo", "5.1"])
def test_sides_stay_apart(tmp_path: Path, layout: str) -> None:
    """A tone on the left alone, at the usual bit rate."""
    noise = np.random.default_rng(0).uniform(-0.3, 0.3, 4 * RATE).astype(np.float32)
    sound = np.zeros((len(av.AudioLayout(layout).channels), 4 * RATE), np.float32)
    sound[0] = noise
    source = clip(tmp_path / "source.mkv", [(0, sound)])
    path = show(tmp_path / "a.mkv", list(read_audio(source)))
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        parts = [frame.to_ndarray() for frame in container.decode(stream)]
        assert stream.codec_context.layout.name == "stereo"
    left, right = np.concatenate(parts, 1).std(1)
    assert left > 0.05 and right < left / 10


@pytest.mark.parametrize(
    ("layout", "name", "codec", "options"),
    [
        ("ambisonic 1", "a.ogg", "libopus", {"mapping_family": "2"}),
        ("2 channels (FL+TFL)", "a.wav", "pcm_f32le", {}),
        ("9 channels", "a.wav", "pcm_f32le", {}),
    ],
)
def test_of_channels_that_nothing_mixes_the_first_is_heard(
    layout: str, name: str, codec: str, options: dict[str, str], tmp_path: Path
) -> None:
    count = av.AudioLayout(layout).nb_channels
    samples = np.zeros((2 * SAMPLE_RATE, count), np.float32)
    samples[:, 0] = np.random.default_rng(0).uniform(-0.3, 0.3, 2 * SAMPLE_RATE)
    with av.open(str(tmp_path / name), "w") as container:
        stream = container.add_stream(codec, rate=SAMPLE_RATE, layout=layout, options=options)
        assert isinstance(stream, AudioStream)
        for at in range(0, len(samples), 960):
            piece = np.ascontiguousarray(samples[at : at + 960]).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(piece, "flt", layout)
            frame.sample_rate, frame.pts = SAMPLE_RATE, at
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    chunks = list(encode_audio(tmp_path / name, Fraction(0), None))
    assert {chunk.channels for chunk in chunks} == {1}
    assert heard(show(tmp_path / "b.mkv", chunks))[0].std() > 0.1


def test_without_libopus_sound_is_not_coded_but_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = clip(tmp_path / "source.mkv", [(0, bursts(4, [0.5, 2.0]))])
    chunks = list(read_audio(source, bitrate=24_000))
    monkeypatch.setattr(av, "codecs_available", av.codecs_available - {OPUS_ENCODER})
    with pytest.raises(MissingDependencyError, match='audio="none"'):
        list(read_audio(source))
    assert onsets(show(tmp_path / "a.mp4", chunks)) == pytest.approx([0.5, 2.0], abs=0.01)


def test_sound_that_is_silent_all_the_time_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    quiet = np.zeros((1, RATE), np.float32)
    for samples, told in ((bursts(1, [0.5]), False), (quiet, True)):
        list(read_audio(clip(tmp_path / "source.mkv", [(0, samples)])))
        assert ("silent from beginning to end" in caplog.text) is told


def test_no_sound_is_no_chunk(tmp_path: Path) -> None:
    form = VideoFormat(16, 16, Fraction(1, 25), Fraction(25))
    with open_writer(tmp_path / "silent.mp4", form) as writer:
        writer.write(Frame(np.zeros((16, 16, 3), np.uint8), 0))
    assert list(read_audio(tmp_path / "silent.mp4")) == []
    assert list(read_audio("-")) == []
    assert list(read_audio(str(tmp_path / "*.png"))) == []
    with pytest.raises(InputError):
        list(read_audio(tmp_path / "missing.mp4"))


@pytest.mark.parametrize("bitrate", [0, 5_999, 510_001])
def test_a_bitrate_opus_has_not_is_a_settings_error(tmp_path: Path, bitrate: int) -> None:
    with pytest.raises(ConfigError, match="6000 to 510000"):
        read_audio(tmp_path / "a.mp4", bitrate=bitrate)


def test_the_rate_of_pictures_is_not_called_the_link_where_there_is_sound(
    clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["encode", clip, "-o", tmp_path / "out.gsv", "--bitrate", "20k", "--preset", "fast"]
    assert main([*map(str, words)]) == 0
    found = info(tmp_path / "out.gsv")
    beside = (
        8 * sum(one.size for one in found.packets if one.type is PacketType.AUDIO) / found.duration
    )
    (told,) = re.findall(r"to send at ([\d.]+) kbit/s", capsys.readouterr().err)
    assert float(told) == pytest.approx((20_000 + beside) / 1000, rel=0.02) and beside > 5_000
