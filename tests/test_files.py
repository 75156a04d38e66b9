"""Whole files there and back: frames, times and sound, and the ledger of what is in between."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from google_crc32c import value as crc32c

import gsvc
from gsvc import PacketType
from gsvc.codec.api.analysis import open_drawing
from gsvc.codec.bitstream.audio_and_text import unpack_audio
from gsvc.codec.bitstream.stream_info import read_info, whole_bits
from gsvc.codec.media.track_source import read_audio
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.media.video_writer import open_writer
from needs import need_models

Make = Callable[..., list[gsvc.Picture]]
Write = Callable[..., Path]
RoundTrip = Callable[[list[gsvc.Picture], gsvc.EncoderSettings], list[gsvc.Frame]]

RATE = 25
SIZE = 64, 48
FAST = gsvc.DecoderSettings(steps=0)


def frames_of(path: Path) -> list[gsvc.Frame]:
    with open_video(path) as video:
        return list(video)


def times_of(path: Path) -> list[Fraction]:
    with open_video(path) as video:
        return [frame.pts * video.format.time_base for frame in video]


def psnr(a: gsvc.Picture, b: gsvc.Picture) -> float:
    return float(10 * np.log10(255**2 / np.mean((a.astype(float) - b) ** 2)))


@pytest.fixture
def round_trip(tmp_path: Path, write_video: Write) -> RoundTrip:
    """Codes pictures to it.gsv in `tmp_path`; gives the frames that come back."""

    def there_and_back(
        pictures: list[gsvc.Picture], settings: gsvc.EncoderSettings
    ) -> list[gsvc.Frame]:
        source = write_video(tmp_path / "in.mkv", pictures)
        report = gsvc.encode(source, tmp_path / "it.gsv", settings=settings)
        assert report.frames == len(pictures)
        gsvc.decode(tmp_path / "it.gsv", tmp_path / "out.nut", settings=FAST)  # lossless
        return frames_of(tmp_path / "out.nut")

    return there_and_back


def test_a_video_comes_back_with_its_times_and_its_sound(
    clip: Path, stream: Path, tmp_path: Path
) -> None:
    report = gsvc.decode(stream, tmp_path / "back.mp4", settings=FAST)
    source, back = frames_of(clip), frames_of(tmp_path / "back.mp4")
    assert report.frames == len(back) == len(source)
    assert [frame.pts for frame in back] == [frame.pts for frame in source]
    assert np.mean([psnr(a.pixels, b.pixels) for a, b in zip(source, back, strict=True)]) > 15
    sound = sum(
        len(chunk.packets) * chunk.packet_samples for chunk in read_audio(tmp_path / "back.mp4")
    )
    assert 0.8 <= sound / 48_000 < 1.0


def test_encoding_twice_gives_the_same_bytes(
    clip: Path, stream: Path, bare_settings: gsvc.EncoderSettings, tmp_path: Path
) -> None:
    gsvc.encode(clip, tmp_path / "again.gsv", settings=bare_settings)
    assert (tmp_path / "again.gsv").read_bytes() == stream.read_bytes()


def test_the_ledger_sums_to_the_file(stream: Path) -> None:
    info = gsvc.info(stream)
    size = stream.stat().st_size
    assert sum(info.bits.values()) == 8 * size == 8 * info.size
    assert sum(packet.size for packet in info.packets) + 32 == size
    assert all(sum(packet.bits.values()) == 8 * packet.size for packet in info.packets)
    assert all(bits >= 0 for packet in info.packets for bits in packet.bits.values())
    assert info.bits["segmentation"] == info.bits["pose"] == 0
    assert info.bits["key pictures"] > info.bits["timing"] > 0
    assert info.bits["audio"] > 0


def test_info_gives_the_facts_of_the_video(clip: Path, stream: Path) -> None:
    info = gsvc.info(stream, elements=True)
    assert (info.frames, info.duration) == (20, 0.8)
    assert (info.header.format.width, info.header.format.height) == SIZE
    assert info.packets[0].name == "intra" and info.packets[-1].name == "end"
    assert [name for name, _ in info.packets[0].elements[:2]] == ["picture.crf", "picture.eighths"]
    sound = sum(packet.size for packet in info.packets if packet.name == "audio")
    assert info.bpp == pytest.approx(8 * (info.size - sound) / (64 * 48 * 20))
    assert info.bitrate == pytest.approx(8 * (info.size - sound) / 0.8)


def test_info_reads_a_stream_whose_numbers_are_longer_than_need_be(stream: Path) -> None:
    data = bytearray(stream.read_bytes())
    with io.BytesIO(data) as file:
        packets = list(gsvc.StreamReader(file))
    end = packets[-1].to_bytes()
    assert data.endswith(end)
    body = bytes([end[0] | 128, 0, *end[1:-4]])
    crc = crc32c(body).to_bytes(4, "little")
    longer = bytes(data[: -len(end)]) + body + crc
    info = read_info(io.BytesIO(longer))
    assert sum(info.bits.values()) == 8 * len(longer)


@pytest.mark.parametrize("available", [0, 3, 10, 100])
def test_fractional_bits_become_whole_ones_within_what_there_is(available: int) -> None:
    whole = whole_bits({"pose": 3.3, "flow": 3.3, "timing": 3.3}, available)
    assert sum(whole.values()) == min(10, available)
    assert max(whole.values()) - min(whole.values()) <= 1


@pytest.mark.parametrize("count", [1, 2])
def test_the_shortest_videos(
    count: int,
    tmp_path: Path,
    bare_settings: gsvc.EncoderSettings,
    round_trip: RoundTrip,
    moving_pictures: Make,
) -> None:
    pictures = moving_pictures(count)
    back = round_trip(pictures, bare_settings)
    assert times_of(tmp_path / "out.nut") == [Fraction(index, RATE) for index in range(count)]
    assert all(psnr(a, b.pixels) > 20 for a, b in zip(pictures, back, strict=True))


def test_a_still_costs_next_to_nothing_after_its_picture(
    tmp_path: Path,
    bare_settings: gsvc.EncoderSettings,
    round_trip: RoundTrip,
    moving_pictures: Make,
) -> None:
    pictures = moving_pictures(1) * 30
    back = round_trip(pictures, bare_settings)
    assert len(back) == 30
    first, *rest = [p for p in gsvc.info(tmp_path / "it.gsv").packets if p.name != "end"]
    assert sum(packet.size for packet in rest) < first.size


def test_a_cut_on_every_frame(
    tmp_path: Path, bare_settings: gsvc.EncoderSettings, round_trip: RoundTrip
) -> None:
    rng = np.random.default_rng(3)
    pictures = []
    for index in range(8):
        coarse = rng.integers(0, 120, (6, 8, 3)) + (130 if index % 2 else 0)
        pictures.append(np.kron(coarse, np.ones((8, 8, 1))).astype(np.uint8))
    back = round_trip(pictures, bare_settings)
    info = gsvc.info(tmp_path / "it.gsv")
    assert [packet.name for packet in info.packets] == ["intra"] * 8 + ["end"]
    assert all(psnr(a, b.pixels) > 18 for a, b in zip(pictures, back, strict=True))


@pytest.mark.parametrize("size", [(16, 16), (4, 4), (17, 33), (201, 45)])
@pytest.mark.parametrize("level", [0, 3])
def test_small_and_odd_sizes(
    size: tuple[int, int],
    level: int,
    tmp_path: Path,
    bare_settings: gsvc.EncoderSettings,
    round_trip: RoundTrip,
    moving_pictures: Make,
) -> None:
    pictures = moving_pictures(4, size)
    back = round_trip(pictures, replace(bare_settings, level=level))
    assert [frame.pixels.shape for frame in back] == [(size[1], size[0], 3)] * 4


@pytest.mark.parametrize("size", [(2, 2), (200, 9)])
def test_pictures_too_small_or_thin_are_refused(
    size: tuple[int, int],
    tmp_path: Path,
    bare_settings: gsvc.EncoderSettings,
    moving_pictures: Make,
    write_video: Write,
) -> None:
    source = write_video(tmp_path / "in.mkv", moving_pictures(2, size))
    with pytest.raises(gsvc.InputError, match="too small or thin"):
        gsvc.encode(source, tmp_path / "it.gsv", settings=bare_settings)
    assert not (tmp_path / "it.gsv").exists()


@pytest.mark.slow
def test_full_hd(
    tmp_path: Path,
    bare_settings: gsvc.EncoderSettings,
    round_trip: RoundTrip,
    moving_pictures: Make,
) -> None:
    pictures = moving_pictures(5, (1920, 1080))
    back = round_trip(pictures, bare_settings)
    assert all(psnr(a, b.pixels) > 25 for a, b in zip(pictures, back, strict=True))


def test_every_layer_with_the_real_models(clip: Path, tmp_path: Path) -> None:
    need_models()
    settings = gsvc.EncoderSettings(preset="fast", tools=gsvc.Tools(), semantics=True)
    gsvc.encode(clip, tmp_path / "all.gsv", settings=settings)
    info = gsvc.info(tmp_path / "all.gsv", elements=True)
    assert info.header.tools == gsvc.Tools()
    assert gsvc.decode(tmp_path / "all.gsv", tmp_path / "all.nut", settings=FAST).frames == 20


def test_start_and_frames_choose_a_part(
    clip: Path, tmp_path: Path, bare_settings: gsvc.EncoderSettings
) -> None:
    target = tmp_path / "part.gsv"
    report = gsvc.encode(clip, target, settings=bare_settings, start=0.2, frames=6)
    assert report.frames == 6 and report.duration == pytest.approx(6 / RATE)
    with open(target, "rb") as file:
        chunks = [
            unpack_audio(p.payload) for p in gsvc.StreamReader(file) if p.type == PacketType.AUDIO
        ]
    sound = sum(len(chunk.packets) * chunk.packet_samples for chunk in chunks) / 48_000
    assert 6 / RATE <= sound < 6 / RATE + 0.12


def test_sound_can_be_left_out(
    clip: Path, tmp_path: Path, bare_settings: gsvc.EncoderSettings
) -> None:
    report = gsvc.encode(clip, tmp_path / "mute.gsv", settings=bare_settings, audio="none")
    info = gsvc.info(tmp_path / "mute.gsv")
    assert not info.header.audio and info.bits["audio"] == report.audio_size == 0
    with pytest.raises(gsvc.ConfigError, match="opus, none"):
        gsvc.encode(clip, tmp_path / "no.gsv", audio="mp3")


def test_sound_that_the_target_cannot_carry_is_told_of(
    stream: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a.y4m", "a/%05d.png", "a.mp4"):
        caplog.clear()
        gsvc.decode(stream, tmp_path / name, settings=FAST)
        assert ("carries no sound" in caplog.text) == (name != "a.mp4")


def test_sound_comes_before_the_pictures_it_goes_with(
    tmp_path: Path, bare_settings: gsvc.EncoderSettings, moving_pictures: Make, write_video: Write
) -> None:
    source = write_video(tmp_path / "long.mp4", moving_pictures(40), sound=40 / RATE)
    gsvc.encode(source, tmp_path / "long.gsv", settings=replace(bare_settings, gop=0.6))
    names = [packet.name for packet in gsvc.info(tmp_path / "long.gsv").packets]
    pictures = [number for number, name in enumerate(names) if name in ("intra", "inter")]
    assert pictures[0] < names.index("audio") < pictures[-1]


def test_uneven_times_survive(
    tmp_path: Path, bare_settings: gsvc.EncoderSettings, moving_pictures: Make
) -> None:
    times = [0, 40, 50, 200, 230, 1000]
    form = gsvc.VideoFormat(*SIZE, Fraction(1, 1000), Fraction(25))
    with open_writer(tmp_path / "vfr.mkv", form) as writer:
        for pts, picture in zip(times, moving_pictures(6), strict=True):
            writer.write(gsvc.Frame(picture, pts))
    gsvc.encode(tmp_path / "vfr.mkv", tmp_path / "vfr.gsv", settings=bare_settings)
    gsvc.decode(tmp_path / "vfr.gsv", tmp_path / "back.mkv", settings=FAST)
    assert [frame.pts for frame in frames_of(tmp_path / "back.mkv")] == times


@pytest.mark.parametrize("conceals", [False, True])
def test_a_stream_that_begins_before_time_0_keeps_its_frames(
    tmp_path: Path, moving_pictures: Make, *, conceals: bool
) -> None:
    with gsvc.Encoder(gsvc.VideoFormat(*SIZE, Fraction(1, 1000), Fraction(RATE))) as encoder:
        encoder._clock = encoder._sent = -1  # as another encoder may: not a whole frame before 0
        packets = [
            p for n, rgb in enumerate(moving_pictures(6)) for p in encoder.encode(rgb, 15 * n)
        ]
        packets += encoder.flush()
    with open(tmp_path / "early.gsv", "wb") as file:
        writer = gsvc.StreamWriter(file, encoder.header)
        for packet in packets:
            writer.write(packet)
    how = replace(FAST, conceal=conceals)
    assert gsvc.decode(tmp_path / "early.gsv", tmp_path / "a.mp4", settings=how).frames == 6
    with open_drawing(
        tmp_path / "early.gsv", tmp_path / "drawn.mp4", gsvc.AnalysisSettings()
    ) as draw:
        for frame in gsvc.analyse(tmp_path / "early.gsv").frames:
            draw(frame)
    expected = [Fraction(n, 1000) for n in (0, 1, 2, 6, 21, 36)]
    assert times_of(tmp_path / "a.mp4") == times_of(tmp_path / "drawn.mp4") == expected


def test_images_in_and_out(
    tmp_path: Path, bare_settings: gsvc.EncoderSettings, moving_pictures: Make
) -> None:
    form = gsvc.VideoFormat(*SIZE, Fraction(1, RATE), Fraction(RATE))
    folder = tmp_path / "in [1]"  # brackets are a pattern to no one
    with open_writer(folder / "%03d.png", form) as writer:
        for index, picture in enumerate(moving_pictures(3)):
            writer.write(gsvc.Frame(picture, index))
    for name in ("*.png", "%03d.png"):
        gsvc.encode(folder / name, tmp_path / "it.gsv", settings=bare_settings, overwrite=True)
    gsvc.decode(tmp_path / "it.gsv", tmp_path / "out" / "%03d.png", settings=FAST)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "001.png",
        "002.png",
        "003.png",
    ]


def test_a_rate_chooses_the_level_and_is_come_near_to(
    tmp_path: Path, bare_settings: gsvc.EncoderSettings, write_video: Write
) -> None:
    rng = np.random.default_rng(5)
    texture = rng.integers(0, 255, (48, 200, 3)).astype(np.uint8)
    source = write_video(tmp_path / "in.mkv", [texture[:, k : k + 64] for k in range(30)])
    settings = replace(bare_settings, level=None, bitrate=20_000)
    report = gsvc.encode(source, tmp_path / "it.gsv", settings=settings)
    assert report.level == 3
    assert 0.7 < report.bitrate / 20_000 < 1.3


def test_progress_counts_every_frame(
    clip: Path, stream: Path, tmp_path: Path, bare_settings: gsvc.EncoderSettings
) -> None:
    seen: list[gsvc.Progress] = []
    gsvc.encode(clip, tmp_path / "it.gsv", settings=bare_settings, progress=seen.append)
    assert [p.frames for p in seen] == sorted(p.frames for p in seen)
    assert (seen[-1].frames, seen[-1].total) == (20, 20)
    within = [p.under_way for p in seen if p.frames == 0]
    assert len(within) > 3 and within == sorted(within) and 0 < within[-1] < 20
    seen.clear()
    gsvc.decode(stream, tmp_path / "back.mkv", settings=FAST, progress=seen.append)
    assert [p.frames for p in seen] == list(range(1, 21))
    assert seen[0].total == 20


def test_nothing_is_replaced_unasked(
    clip: Path, stream: Path, tmp_path: Path, bare_settings: gsvc.EncoderSettings
) -> None:
    target = tmp_path / "there.gsv"
    target.write_text("mine")
    with pytest.raises(gsvc.OutputError, match="already exists"):
        gsvc.encode(clip, target, settings=bare_settings)
    assert target.read_text() == "mine"
    gsvc.encode(clip, target, settings=bare_settings, overwrite=True)
    assert target.read_bytes() == stream.read_bytes()
    with pytest.raises(gsvc.ConfigError, match="is the source itself"):
        gsvc.decode(target, target, settings=FAST, overwrite=True)


def test_other_weights_are_told_of_and_no_error(
    clip: Path,
    tmp_path: Path,
    bare_settings: gsvc.EncoderSettings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = replace(bare_settings, model_id=b"\x01\x02\x03\x04")
    gsvc.encode(clip, tmp_path / "it.gsv", settings=settings, frames=2)
    gsvc.decode(tmp_path / "it.gsv", tmp_path / "a.mkv", settings=gsvc.DecoderSettings(steps=1))
    assert "01020304" in caplog.text
    caplog.clear()
    gsvc.decode(tmp_path / "it.gsv", tmp_path / "b.mkv", settings=FAST)
    assert not caplog.text


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ({"bitrate": 100.0}, "asked for 0.1 kbit/s, got .*the least .*shrink"),
        ({"bpp": 20.0}, "asked for 20 bits per pixel, got .*the most"),
        ({"bpp": 20.0, "max_packet_bytes": 400}, "asked for 20 .*max_packet_bytes=400, raise"),
        ({"quality": 0.9}, "asked for a distance of 0.9, got .*estimate"),
    ],
)
def test_a_goal_that_is_missed_is_told(
    clip: Path,
    bare_settings: gsvc.EncoderSettings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    goal: dict[str, float],
    words: str,
) -> None:
    settings = replace(bare_settings, level=None, **goal)  # type: ignore[arg-type]
    report = gsvc.encode(clip, tmp_path / "it.gsv", settings=settings, size="source")
    (line,) = [record.getMessage() for record in caplog.records]
    assert re.search(words, line)
    assert (report.estimated_quality is None) == ("quality" not in goal)
