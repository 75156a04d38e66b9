"""Files of a given size, and what is foretold before anything is written."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

import gsvc
from commands import run_gsvc
from gsvc import ConfigError, VideoFormat
from gsvc.codec.api.encode_job import EncodeJob, suited
from gsvc.codec.api.inspection import info_lines
from gsvc.codec.api.target_size import sized
from gsvc.codec.bitstream.errors import NOTE
from gsvc.codec.command.encode import as_line
from gsvc.codec.command.main import as_options
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.planning.video_trial import forecast, spans_of, take_samples
from gsvc.eval.bench.cells import make_metric
from gsvc.eval.bench.score import read_pair
from needs import need_package

Pictures = Callable[..., list[gsvc.Picture]]
FAST = gsvc.EncoderSettings(preset="fast", face_weight=1)
BARE = "--preset", "fast", "--face-weight", "1"


@pytest.fixture(scope="module")
def video(
    tmp_path_factory: pytest.TempPathFactory,
    moving_pictures: Pictures,
    write_video: Callable[..., Path],
) -> Path:
    """128x96, 30 frames, 1.2 s of sound."""
    path = tmp_path_factory.mktemp("video") / "video.mp4"
    return write_video(path, moving_pictures(30, (128, 96)), sound=1.2)


def test_a_size_is_met_from_below_with_the_sound_in_it(video: Path, tmp_path: Path) -> None:
    size = 3500
    report = gsvc.encode(video, tmp_path / "a.gsv", settings=FAST, target_size=size)
    assert report.size == (tmp_path / "a.gsv").stat().st_size
    assert 0.95 * size <= report.size <= size and report.audio_size > 1500
    assert gsvc.info(tmp_path / "a.gsv").frames == 30


@pytest.mark.parametrize("fits", [False, True])
def test_a_small_size_has_no_sound_unless_asked(
    video: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, fits: bool
) -> None:
    """Sound is offered where it can be had: the clip's lasts 1.2 s, which are 1050 bytes."""
    size = 1040 if fits else 600
    job = EncodeJob(video, FAST, sound_may_go=True)
    assert not sized(job, size)[0].sound
    assert "takes 6 kbit/s" in caplog.text and "from 7 in all, a file of 1050 bytes" in caplog.text
    assert ("carries it here too" in caplog.text) == fits
    asked = replace(job, sound_may_go=False)
    if fits:
        assert sized(asked, size)[0].sound
    else:
        with pytest.raises(ConfigError, match=r"of 600 bytes: leave it out \(--audio none\)"):
            sized(asked, size)


@pytest.mark.parametrize(("total", "sound"), [(10_000, 8000), (7_400, 6000)])
def test_a_total_rate_is_shared_by_sound_and_pictures(
    video: Path, tmp_path: Path, total: int, sound: int
) -> None:
    """The lower the rate, the less the sound takes of it: Opus' own tone and its framing aside."""
    target = tmp_path / "a.gsv"
    done = run_gsvc("encode", video, target, "--total-bitrate", total, "--json", *BARE)
    report = json.loads(done.stdout.splitlines()[-1])
    assert 0.95 * total <= 8 * report["size"] / report["duration"] <= total
    assert 0.7 * sound < 8 * report["audio_size"] / report["duration"] < 1.2 * sound
    with pytest.raises(ConfigError, match="give one of them"):
        gsvc.encode(video, target, target_size=9000, total_bitrate=9000, overwrite=True)


def test_rates_are_said_in_all_and_for_video(video: Path, tmp_path: Path) -> None:
    report = gsvc.encode(video, tmp_path / "a.gsv", settings=FAST)
    total, pictures = (8 * size / report.duration for size in (report.size, report.video_size))
    rate = f"{total / 1000:.2f} kbit/s in all, {pictures / 1000:.2f} for video ({report.bpp:.5f} "
    assert rate in as_line(report)
    assert any(rate in line for line in info_lines(gsvc.info(tmp_path / "a.gsv")))


def test_a_limit_that_keeps_a_stream_below_its_size_is_named(
    clip: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(FAST, max_packet_bytes=240, max_bitrate=64_000.0)
    gsvc.encode(
        clip, tmp_path / "a.gsv", settings=settings, target_size=50_000, audio="none", frames=8
    )
    told = as_options(caplog.text)
    assert "takes within --max-packet-bytes 240 and --max-bitrate 64000, raise" in told


@pytest.mark.slow
def test_a_size_that_cannot_be_is_told_of(
    video: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "a.gsv"
    with pytest.raises(ConfigError, match="sound and texts take .* of 450 bytes"):
        gsvc.encode(video, target, settings=FAST, target_size=450, audio="opus")
    assert not list(tmp_path.iterdir())
    gsvc.encode(video, target, settings=FAST, target_size=10**6)
    assert "about the most that this video takes" in caplog.text
    gsvc.encode(video, target, settings=FAST, target_size=60, audio="none", overwrite=True)
    assert "about the least that this video takes" in caplog.text
    for goal in ({"bitrate": 9000}, {"quality": 0.2}, {"task": "motion"}):
        with pytest.raises(ConfigError):
            settings = gsvc.EncoderSettings(**goal)
            gsvc.encode(video, tmp_path / "b.gsv", settings=settings, target_size=9000)


@pytest.mark.slow
def test_many_videos_share_a_budget(video: Path, tmp_path: Path) -> None:
    clips, out = tmp_path / "clips", tmp_path / "out"
    clips.mkdir()
    (clips / "one.mp4").write_bytes(video.read_bytes())
    (clips / "two.mp4").write_bytes(video.read_bytes())
    (clips / "bad.mp4").write_bytes(video.read_bytes()[:300])
    done = run_gsvc("encode", clips, "--out", out, "--total-size", "8kB", "-j", 2, *BARE)
    assert done.returncode == 1 and b"bad.mp4" in done.stderr  # the others are made
    sizes = [path.stat().st_size for path in sorted(out.iterdir())]
    assert len(sizes) == 2 and 0.9 * 8_000 <= sum(sizes) <= 8_000
    refused = run_gsvc("encode", video, "--total-size", "16kB")
    assert refused.returncode == 2 and b"--target-size" in refused.stderr


def test_a_dry_run_of_a_short_video_tells_what_comes_out(video: Path, tmp_path: Path) -> None:
    env = {"GSVC_CACHE": str(tmp_path / "cache")}
    told = run_gsvc("encode", video, "-n", "--json", "--no-texts", *BARE, cwd=tmp_path, env=env)
    assert told.returncode == 0, told.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "cache"]
    assert not video.with_suffix(".gsv").exists()
    made = gsvc.encode(video, tmp_path / "a.gsv", settings=FAST, texts=False)
    values = json.loads(told.stdout)
    assert (values["size"], values["frames"]) == (made.size, 30)
    assert values["bitrate"] == pytest.approx(made.bitrate)
    (kept,) = (tmp_path / "cache" / "dry-run").glob("*/*")  # no time is taken twice
    stream = kept.read_bytes().partition(b"\n")[2]
    kept.write_bytes(kept.read_bytes() + b"kept")
    run_gsvc("encode", video, tmp_path / "b.gsv", "--no-texts", *BARE, cwd=tmp_path, env=env)
    assert (tmp_path / "b.gsv").read_bytes() == stream + b"kept"
    assert stream == (tmp_path / "a.gsv").read_bytes()
    assert 0.5 < values["ssim"] <= 1


def test_a_dry_run_of_a_single_picture_tells_what_comes_out(
    tmp_path: Path, moving_pictures: Pictures
) -> None:
    path = tmp_path / "photo.png"
    Image.fromarray(moving_pictures(1)[0]).save(path)
    env = {"GSVC_CACHE": str(tmp_path / "cache")}
    told = run_gsvc("encode", path, "-n", *BARE, env=env)
    assert told.returncode == 0, told.stderr
    made = gsvc.encode(path, tmp_path / "a.gsv", settings=FAST)
    assert f": a still, about {made.size} bytes (all of it was tried".encode() in told.stdout


@pytest.mark.slow
def test_a_long_video_is_foretold_from_a_few_groups(
    tmp_path: Path, moving_pictures: Pictures, write_video: Callable[..., Path]
) -> None:
    path = write_video(tmp_path / "long.mp4", moving_pictures(160), rate=5)  # 32 s
    # Enough bytes for one choice of the search not to matter.
    settings = replace(FAST, level=3, gop=4.0)
    job = EncodeJob(path, settings)
    spans = spans_of(job)
    assert (len(spans.starts), spans.length, spans.frames) == (3, 11, 160)
    samples = list(take_samples(job, spans))
    made = forecast(spans, samples)
    endless = [replace(s, job=replace(job, settings=replace(settings, gop=0.0))) for s in samples]
    assert forecast(spans, endless).size < made.size, "it has fewer intra pictures"
    assert made.sampled == pytest.approx(6.6) and made.duration == pytest.approx(32)
    report = gsvc.encode(path, tmp_path / "a.gsv", settings=settings)
    assert made.size == pytest.approx(report.size, rel=0.15)


def test_score_tells_what_the_metrics_say(video: Path, tmp_path: Path) -> None:
    need_package("torch")
    target = tmp_path / "a.gsv"
    metric = "--score", "--metric", "psnr_y", "--json"
    scored = run_gsvc("encode", video, "-o", target, *metric, *BARE)
    assert scored.returncode == 0, scored.stderr
    told = json.loads(scored.stdout.splitlines()[-1])
    pair = read_pair(str(video), str(target))
    values = make_metric("psnr_y").measure(pair.source, [pair.test], range(30))
    assert told["type"] == "score" and told["value"] == pytest.approx(values.mean())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("-o", "-", "--score"), b"write it to a file"),
        (("--metric", "psnr_y"), b"add --score"),
        (("--score", "--out", "o"), b"use gsvc score"),
    ],
)
def test_score_without_a_file_to_read_is_refused(
    video: Path, arguments: tuple[str, ...], line: bytes
) -> None:
    done = run_gsvc("encode", video, *arguments)
    assert done.returncode == 2 and line in done.stderr and done.stderr.count(b"\n") == 1


def test_a_phones_video_gets_a_size_for_the_rate_of_a_thin_link(
    tmp_path: Path,
    moving_pictures: Pictures,
    write_video: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = write_video(tmp_path / "phone.mp4", moving_pictures(2, (540, 960)), rate=30)
    job = suited(EncodeJob(path, FAST), 7000)
    report = job.encode(nullcontext(BytesIO()), "", FAST)
    assert (report.width, report.height) == (180, 320)
    assert 'encoded at 180x320, 30 frames/s, for 7 kbit/s; size="source" keeps' in caplog.text
    assert suited(EncodeJob(path, FAST, size="source"), 7000).size == "source"
    with caplog.at_level(NOTE, "gsvc"):
        suited(EncodeJob(path, FAST, size="auto"), 7000, 12_000)
    assert "frames/s, for 12 kbit/s; " in caplog.text
    assert caplog.records[-1].levelno == NOTE
    for size, found in (((64, 48), (28, 48)), (48, (48, 86)), (720, (540, 960))):
        with open_video(path, size=size) as video:
            assert (video.format.width, video.format.height) == found
    with pytest.raises(ConfigError, match="follows from a rate"):
        suited(EncodeJob(path, FAST, size="auto"), None)


def test_a_still_that_fits_keeps_its_size_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Image.new("RGB", (128, 96)).save(tmp_path / "a.png")
    job = EncodeJob(tmp_path / "a.png", FAST, size="auto")
    with caplog.at_level(NOTE, "gsvc"):
        assert suited(job, 1e6) == job
    assert caplog.messages[-1].endswith('size="auto" changes nothing')


def test_fewer_frames_a_second_last_as_long(
    tmp_path: Path, moving_pictures: Pictures, write_video: Callable[..., Path]
) -> None:
    path = write_video(tmp_path / "long.mp4", moving_pictures(40, (96, 128)), rate=20)
    job = EncodeJob(path, FAST, size="auto", frames=20)
    sparse = suited(job, 300)
    assert sparse.fps is not None and sparse.fps < 20
    assert sparse.seconds == pytest.approx(1, abs=0.5 / sparse.fps) and job.seconds == 1


@pytest.mark.parametrize(
    ("seconds", "samples", "length"), [(2, 1, 2.0), (10, 1, 2.0), (20, 2, 2.0), (60, 3, 4.0)]
)
def test_a_dry_run_tries_a_fifth_of_a_video_at_most(
    seconds: int, samples: int, length: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = VideoFormat(64, 48, Fraction(1, 25), Fraction(25))
    video = SimpleNamespace(frame_count=25 * seconds, format=form)
    monkeypatch.setattr(EncodeJob, "open", lambda _: nullcontext(video))
    spans = spans_of(EncodeJob("a.mp4", FAST), whole=False)
    assert (spans_of(EncodeJob("a.mp4", FAST)).length == spans.frames) is (seconds < 24)
    assert len(spans.starts) == samples and spans.length == 25 * length
    assert all(0 <= start <= seconds - length for start in spans.starts)
