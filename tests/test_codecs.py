"""Each codec of the benchmark: what it counts, what comes back, what it refuses."""

import csv
import io
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from demo import nearest_rate
from gsvc import (
    BitstreamError,
    ConfigError,
    InputError,
    MissingDependencyError,
    MissingModelError,
    Picture,
)
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.datasets.clips.packaged import packaged_clip
from gsvc.decoders.interpolation.rife import loaded_rife
from gsvc.encoders.svt_av1 import quiet_and_ordinary
from gsvc.eval.baselines import DEFAULT_CODECS, SHORT_SPECS, codecs, find_codec
from gsvc.eval.baselines.base import Codec, Encoded, Settings, Value
from gsvc.eval.baselines.conventional import X264, X265, ConventionalCodec
from gsvc.eval.baselines.ffmpeg_encoders import VVenC
from gsvc.eval.baselines.svtav1 import SvtAv1
from gsvc.eval.bench.cells import CONDITIONS, codec_spec, under
from gsvc.eval.metrics.fidelity import psnr_y
from needs import need, need_clip, need_package

CONVENTIONAL = ("x264", "x265", "svtav1", "vp9", "vvenc", "libaom")
QUICK: dict[str, Value] = {"vvenc": "faster", "libaom": 8}


def moving(count: int = 12, height: int = 192, width: int = 256) -> list[Picture]:
    """Soft shapes and saturated colours that move by two pixels a frame."""
    y, x = np.mgrid[0:height, 0:width]
    frames = []
    for index in range(count):
        along = x + 2 * index
        planes = [
            128 + 100 * np.sin(along / 17) * np.cos(y / 11),
            60 + 60 * np.cos((along + y) / 23),
            200 - 40 * np.sin(y / 9),
        ]
        frames.append(np.stack(planes, axis=2).clip(0, 255).astype(np.uint8))
    return frames


def clip(count: int = 12, rate: Fraction = Fraction(25), **size: int) -> TestClip:
    return TestClip("moving", moving(count, **size), rate)


def real_or_moving() -> TestClip:
    """The start of a packaged clip where it is in the cache."""
    try:
        return TestClip("city", *load_clip(packaged_clip("city", download=False), 9, 192))
    except InputError:
        return clip(9)


def conventional(name: str) -> ConventionalCodec:
    codec = find_codec(name, **({"preset": QUICK[name]} if name in QUICK else {}))
    assert isinstance(codec, ConventionalCodec)
    with need(name):
        codec.version()
    return codec


def at(codec: ConventionalCodec, quality: int, scale: Value = "1") -> Settings:
    return {**codec.rate_points()[0], codec.quality: quality, "scale": scale}


def round_trip(codec: Codec, source: TestClip, settings: Settings) -> Sequence[Picture]:
    data = codec.encode(source, settings).data
    way = codec.ways_to_decode(settings)[0]
    return codec.decode(data, source.format, settings, way).frames


ALIKE = {"gsvc-layers", "svtav1+rife", "svtav1+sr", "x265+rife"}
"""Codecs that are made of others, which are tried quickly."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in ALIKE else n for n in codecs()],
)
def test_bytes_alone_give_every_frame_and_the_ledger_is_their_size(
    name: str, tmp_path: Path
) -> None:
    source, codec = real_or_moving(), find_codec(name)
    settings = codec.rate_points()[-1]
    with need(name):
        assert codec.version()
        encoded = codec.encode(source, settings)
    path = tmp_path / f"stream{codec.suffix}"
    path.write_bytes(encoded.data)
    assert sum(encoded.ledger.values()) == 8 * path.stat().st_size
    assert encoded.seconds > 0
    way = codec.ways_to_decode(settings)[0]
    decoded = codec.decode(path.read_bytes(), source.format, settings, way)
    assert [frame.shape for frame in decoded.frames] == [frame.shape for frame in source.frames]
    assert psnr_y(source.frames, decoded.frames)[0] > 15
    assert decoded.seconds > 0


@pytest.mark.parametrize("name", CONVENTIONAL)
@pytest.mark.parametrize("scale", ["1", "1/2", "1/3"])
def test_frames_come_back_in_order_and_at_full_size(name: str, scale: str) -> None:
    source, codec = clip(), conventional(name)
    decoded = round_trip(codec, source, at(codec, 20, scale))
    assert [frame.shape for frame in decoded] == [frame.shape for frame in source.frames]
    right = psnr_y(source.frames, decoded)
    assert right.min() > (36 if scale == "1" else 30)
    # A neighbouring frame is always further away: nothing is mis-paired by B-frames.
    assert (right[1:] > psnr_y(source.frames[:-1], decoded[1:])).all()


@pytest.mark.parametrize("name", CONVENTIONAL)
def test_colours_survive(name: str) -> None:
    source, codec = clip(4), conventional(name)
    decoded = round_trip(codec, source, at(codec, 5))
    pairs = zip(source.frames, decoded, strict=True)
    shift = np.mean([b.astype(float) - a for a, b in pairs], axis=(0, 1, 2))
    assert np.abs(shift).max() < 0.7


@pytest.mark.parametrize("name", ["x265", "svtav1"])
def test_same_frames_give_the_same_bytes(name: str) -> None:
    codec = conventional(name)
    settings = at(codec, 45)
    assert codec.encode(clip(), settings).data == codec.encode(clip(), settings).data


@pytest.mark.parametrize("name", CONVENTIONAL)
@pytest.mark.parametrize("count", [1, 2])
def test_very_short_clips_and_odd_sizes(name: str, count: int) -> None:
    source = clip(count, Fraction(30000, 1001), height=75, width=99)
    codec = conventional(name)
    assert psnr_y(source.frames, round_trip(codec, source, at(codec, 20))).min() > 36


def hevc_types(stream: bytes) -> list[int]:
    """Types of the NAL units (ITU-T H.265, 7.3.1.2)."""
    return [part[0] >> 1 & 63 for part in stream.split(b"\0\0\1")[1:]]


def h264_types(stream: bytes) -> list[int]:
    """Types of the NAL units (ITU-T H.264, 7.3.1)."""
    return [part[0] & 31 for part in stream.split(b"\0\0\1")[1:]]


def vvc_types(stream: bytes) -> list[int]:
    """Types of the NAL units (ITU-T H.266, 7.3.1.2)."""
    return [part[1] >> 3 for part in stream.split(b"\0\0\1")[1:]]


def test_x265_stream_holds_no_info_and_its_parameter_sets_once() -> None:
    video, sequence, picture, sei = 32, 33, 34, 39
    codec = X265()
    types = hevc_types(codec.encode(clip(20, Fraction(4)), at(codec, 40)).data)
    assert [types.count(kind) for kind in (video, sequence, picture, sei)] == [1, 1, 1, 0]
    random_access = [kind for kind in types if 16 <= kind <= 21]
    assert len(random_access) == 2, "one every four seconds, 16 frames at this frame rate"


def test_x264_stream_says_nothing_of_x264_and_its_parameter_sets_once() -> None:
    codec = X264()
    data = codec.encode(clip(20, Fraction(4)), at(codec, 40)).data
    types = h264_types(data)
    assert b"x264" not in data
    assert [types.count(kind) for kind in (6, 7, 8)] == [0, 1, 1]
    assert types.count(5) == 2, "one instantaneous refresh every four seconds"


def av1_in(container: str) -> bytes:
    data = io.BytesIO()
    with av.open(data, "w", format=container) as file, quiet_and_ordinary():
        stream = file.add_stream("libsvtav1", rate=10, options={"preset": "10"})
        stream.width, stream.height, stream.pix_fmt = 256, 192, "yuv420p"
        for picture in moving():
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        file.mux(stream.encode(None))
    return data.getvalue()


def test_delimiters_of_vvenc_do_not_count() -> None:
    codec = conventional("vvenc")
    coded = codec.encode(clip(), at(codec, 46))
    assert coded.bits == 8 * (len(coded.data) - 7 * len(moving()))


@pytest.mark.parametrize("container", ("obu", "ivf", "mp4", "matroska"))
def test_av1_counts_in_every_container_without_temporal_delimiters(container: str) -> None:
    units = len(av1_in("obu")) - 2 * len(moving())
    assert Encoded(av1_in(container), 0, {}).bits == 8 * units


def test_svtav1_has_a_random_access_point_every_four_seconds() -> None:
    sequence_header = bytes([1 << 3 | 2])
    delimiter = bytes([2 << 3 | 2, 0])
    codec = SvtAv1()
    stream = codec.encode(clip(20, Fraction(4)), at(codec, 40)).data
    assert stream.count(delimiter + sequence_header) == 2


@pytest.mark.parametrize("preset", ("10", "10-vq-qsc"))
def test_without_a_limit_svtav1_has_one_random_access_point(preset: str) -> None:
    codec = find_codec("svtav1", gop=0, preset=preset, crf=40, scale="1")
    (point,) = codec.rate_points()
    stream = codec.encode(clip(70, Fraction(4)), point).data
    assert stream.count(bytes([2 << 3 | 2, 0, 1 << 3 | 2])) == 1


@pytest.mark.parametrize("name", ("x264", "x265"))
def test_random_access_is_as_often_as_asked(name: str) -> None:
    """Bits of an intra picture show at 2 s and not without a limit."""
    sizes = {}
    for gop in (2, 0):
        codec = find_codec(name, gop=gop, crf=30, scale="1")
        (point,) = codec.rate_points()
        sizes[gop] = len(codec.encode(clip(40, Fraction(4)), point).data)
    assert sizes[0] < sizes[2]
    with pytest.raises(ConfigError, match="gop -1"):
        find_codec(name, gop=-1)


def test_the_whole_condition_limits_length_and_not_random_access() -> None:
    specs = [codec_spec(text) for text in ("svtav1:crf=40", "gsvc:gop=8", "svtav1-best:crf=63")]
    whole = [str(under(CONDITIONS["whole"], spec)) for spec in specs]
    best = "svtav1:preset=2-qsc+2-vq-qsc,crf=63,scale=1+1/2,gop=0"
    assert whole == ["svtav1:crf=40,gop=0", "gsvc:gop=8", best]


def test_vvenc_has_a_random_access_point_every_four_seconds() -> None:
    codec = conventional("vvenc")
    types = vvc_types(codec.encode(clip(33, Fraction(4)), at(codec, 40)).data)
    pictures = [kind for kind in types if kind < 12]
    assert [n for n, kind in enumerate(pictures) if kind in (7, 8, 9)] == [0, 16]


def test_vvenc_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from gsvc.eval.late_loading import ffmpeg_path

    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    ffmpeg_path.cache_clear()
    with pytest.raises(MissingDependencyError, match=r"pip install .*gsvc\[bench\]"):
        VVenC().version()


def test_vp9_counts_frames_and_their_lengths_apart() -> None:
    codec = conventional("vp9")
    ledger = codec.encode(clip(), at(codec, 30)).ledger
    assert 8 * 12 <= ledger["framing"] <= 8 * 2 * 13
    assert ledger["video"] > ledger["framing"]


class _Reporting(X265):
    """x265 that also writes down the PSNR that it computes."""

    report: Path

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        options = super().options(preset, quality, interval)
        # Without a log x265 does not compute it.
        quiet = options["x265-params"].replace("log-level=none", "log-level=info")
        options["x265-params"] = f"{quiet}:psnr=1:csv={self.report}:csv-log-level=1"
        return options


def test_x265_reports_the_psnr_that_we_measure(tmp_path: Path) -> None:
    """x265 compares limited-range YUV; an error in our full-range RGB is 255/219 times as large."""
    source, codec = real_or_moving(), _Reporting()
    codec.report = tmp_path / "x265.csv"
    decoded = round_trip(codec, source, at(codec, 38))
    rows = list(csv.DictReader(codec.report.read_text().splitlines(), skipinitialspace=True))
    reported = [float(row["Y PSNR"]) for row in rows if (row["POC"] or "").strip().isdigit()]
    assert len(reported) == len(source.frames)
    ours = psnr_y(source.frames, decoded).mean() + 20 * np.log10(255 / 219)
    assert ours == pytest.approx(np.mean(reported), abs=0.05)


@pytest.mark.parametrize("name", [*CONVENTIONAL, "hold", "motion"])
def test_another_number_of_frames_is_refused(name: str) -> None:
    codec, source = find_codec(name), clip(4)
    with need(name):
        codec.version()
    settings = codec.rate_points()[0]
    data = codec.encode(source, settings).data
    way = codec.ways_to_decode(settings)[0]
    with pytest.raises(BitstreamError, match="4 of 5 frames"):
        codec.decode(data, clip(5).format, settings, way)
    with pytest.raises(BitstreamError):
        codec.decode(b"no stream at all", source.format, settings, way)


@pytest.mark.parametrize("name", CONVENTIONAL)
def test_settings_out_of_range_are_refused(name: str) -> None:
    codec = conventional(name)
    for settings, words in (
        (at(codec, 71), f"{codec.quality} 71"),
        (at(codec, 40, "2"), "scale 2"),
        (at(codec, 40, "half"), "scale 'half'"),
        (at(codec, 40, "1/5"), "64 pixels a side"),
        ({**at(codec, 40), "colour": 1}, "colour"),
        ({"crf": 40}, "takes the settings"),
    ):
        with pytest.raises(ConfigError, match=words):
            codec.encode(clip(1), settings)
    with pytest.raises(InputError, match="at least one"):
        codec.encode(TestClip("none", [], Fraction(25)), at(codec, 40))


@pytest.mark.parametrize("name", ["x264", "x265", "vvenc", "libaom"])
def test_an_unknown_preset_is_refused(name: str) -> None:
    codec = conventional(name)
    with pytest.raises(ConfigError, match="preset zealous"):
        codec.encode(clip(1), {**at(codec, 40), "preset": "zealous"})


def test_codecs_are_found_by_name_with_options() -> None:
    assert set(DEFAULT_CODECS) < {*codecs(), *SHORT_SPECS}
    points = find_codec("x265", crf=(30, 40), scale=("1", "1/3")).rate_points()
    assert points[1] == {"preset": "slow", "crf": 40, "scale": "1"} and len(points) == 4
    assert find_codec("svtav1", scale=1).rate_points()[0]["scale"] == "1"
    for name, options, words in (
        ("h261", {}, "unknown codec 'h261'"),
        ("x264", {"qp": 3}, "no option qp"),
        ("x265", {"crf": 99}, "crf 99"),
        ("gsvc", {"levels": 3}, "levels"),
        ("gsvc", {"level": 4}, "level 4"),
        ("gsvc", {"steps": 3}, "steps 3"),
        ("gsvc", {"level": 1, "bpp": 0.1}, "not both"),
        ("gsvc", {"tools": "hammer"}, "hammer"),
        ("gsvc", {"tune": "banjo"}, "banjo"),
    ):
        with pytest.raises(ConfigError, match=words):
            find_codec(name, **options)


class _Mpeg2(ConventionalCodec):
    """A codec is one small class."""

    name, suffix, library, demuxer = "mpeg2", ".m2v", "mpeg2video", "mpegvideo"
    pixel_format, preset, max_crf = "yuv420p", "", 31
    points = {"1": (8,)}  # noqa: RUF012

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        return {"qmin": str(quality), "qmax": str(quality), "b": "20000000"}


def test_adding_a_codec_takes_one_small_class() -> None:
    source, codec = clip(), _Mpeg2()
    decoded = round_trip(codec, source, codec.rate_points()[0])
    assert psnr_y(source.frames, decoded).min() > 28


def test_nearest_rate_finds_what_a_full_search_finds() -> None:
    source, codec = clip(), X265()

    def one(crf: int) -> float:
        return nearest_rate(codec, source, 1, lowest=crf, highest=crf, preset="ultrafast").bpp

    rates = {crf: one(crf) for crf in range(30, 45)}
    target = 1.02 * rates[37]
    found = nearest_rate(codec, source, target, lowest=30, highest=44, preset="ultrafast")
    assert abs(np.log(found.bpp / target)) == min(
        abs(np.log(rate / target)) for rate in rates.values()
    )


def test_nearest_rate_outside_the_range_gives_its_end() -> None:
    def crf(target: float) -> Value:
        found = nearest_rate(X265(), clip(3), target, lowest=30, highest=51, preset="ultrafast")
        return found.settings["crf"]

    assert (crf(1e-6), crf(1e6)) == (51, 30)
    with pytest.raises(ConfigError, match="positive target"):
        nearest_rate(X265(), clip(1), 0, lowest=30, highest=51)


OPPONENTS = ("svtav1+sr", "svtav1+dis", "svtav1+rife", "x265+dis", "x265+rife")


def cut_clip() -> TestClip:
    """17 frames of 192 lines: nine of one real clip, then eight of another."""
    (first, rate), (second, _) = (load_clip(need_clip(name), 9, 192) for name in ("bikes", "city"))
    width = min(first[0].shape[1], second[0].shape[1])
    frames = [np.ascontiguousarray(frame[:, :width]) for frame in [*first, *second[1:]]]
    return TestClip("cut", frames, rate)


@pytest.mark.parametrize("name", OPPONENTS)
def test_opponents_spend_the_bits_of_their_elementary_stream(name: str, tmp_path: Path) -> None:
    source, codec = real_or_moving(), find_codec(name)
    with need(name):
        codec.version()
    settings = codec.rate_points()[0]
    encoded = codec.encode(source, settings)
    path = tmp_path / f"it{codec.suffix}"
    path.write_bytes(encoded.data)
    kind = "hevc" if name.startswith("x265") else "obu"
    with av.open(str(path), format=kind) as container:
        shown = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    step = Fraction(1) / Fraction(str(settings.get("rate", 1)))
    assert len(shown) == len(source.frames[:: int(step)])
    assert sum(encoded.ledger.values()) == 8 * path.stat().st_size


@pytest.mark.parametrize(
    "name",
    [
        *("svtav1+dis", "x265+dis"),
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("svtav1+rife", "x265+rife")),
    ],
)
@pytest.mark.parametrize("rate", ["1/2", "1/4"])
def test_frames_between_lie_between_and_cuts_are_held(name: str, rate: str) -> None:
    source = cut_clip()
    fine = {"crf": 12 if name.startswith("x265") else 20}
    codec = find_codec(name, rate=rate, **fine)
    with need(name):
        codec.version()
    (settings,) = codec.rate_points()
    decoded = round_trip(codec, source, settings)
    right = psnr_y(source.frames, decoded)
    step = Fraction(1) / Fraction(rate)
    coded = range(0, 17, int(step))
    assert right[coded].min() > 35
    # Every frame is at its own place: nearer to its source than the coded one before would be.
    drawn = [i for i in range(1, 17) if i not in coded and not 8 < i < 8 + step]
    held = [source.frames[i - i % int(step)] for i in drawn]
    assert (right[drawn] > psnr_y(held, [source.frames[i] for i in drawn])).all()
    # Between the cut's two sides every frame is one of them, not a mix.
    for index in range(9, 8 + int(step)):
        sides = psnr_y([decoded[8], decoded[8 + int(step)]], [decoded[index]] * 2)
        assert sides.max() > 60


def test_a_tail_that_is_not_coded_holds_the_last_frame() -> None:
    codec = find_codec("svtav1+dis", rate="1/4", crf=20)
    (settings,) = codec.rate_points()
    decoded = round_trip(codec, clip(11), settings)
    assert len(decoded) == 11
    assert (decoded[8] == decoded[9]).all() and (decoded[8] == decoded[10]).all()


@pytest.mark.parametrize("rate", ["2/3", "x", "0"])
def test_only_one_frame_in_so_many_can_be_coded(rate: str) -> None:
    with pytest.raises(ConfigError, match="rate"):
        find_codec("svtav1+dis", rate=rate)


def test_an_enlarging_network_is_mixed_and_counted() -> None:
    source = clip(2)
    codec = find_codec("svtav1+sr", crf=20, mix=(0, 0.5, 1))
    with need("svtav1+sr"):
        codec.version()
    (settings,) = codec.rate_points()
    data = codec.encode(source, settings).data
    ways = codec.ways_to_decode(settings)
    plain, mixed, drawn = (
        codec.decode(data, source.format, settings, way).frames[1].astype(int) for way in ways
    )
    same = find_codec("svtav1", preset="4-vq", scale="1/2", crf=20)
    assert (plain == same.decode(data, source.format, same.rate_points()[0], {}).frames[1]).all()
    assert np.abs(mixed - (plain + drawn) / 2).max() <= 1
    assert 0.5 < np.abs(drawn - plain).mean() < 20
    assert psnr_y(source.frames[1:], [drawn.astype(np.uint8)])[0] > 25
    compute = codec.compute(data, source.format, settings, ways[0])
    # 16 convolutions of 64 to 64 channels, one from 3 and one to 48, at a quarter of the pixels.
    assert compute is not None
    assert compute.flops_per_pixel == 2 * 9 * (3 * 64 + 16 * 64 * 64 + 64 * 48) / 4
    assert compute.model_bytes > 1e6


def test_without_its_network_an_opponent_is_missing_and_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_package("torch")
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    loaded_rife.cache_clear()
    with pytest.raises(MissingModelError, match="gsvc models pull rife"):
        find_codec("svtav1+rife").version()
    assert find_codec("svtav1+dis").version()
