"""Streams in .mp4, .mkv and .webm: players show the pictures, gsvc gets the stream back."""

import base64
import re
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

import gsvc
from browsing import chromium, new_page
from commands import FAILED, USAGE, assert_one_line, run_gsvc
from gsvc import StreamReader
from gsvc.codec.bitstream.group import GroupReader

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.gsv"))
MAPPED = [path for path in GOLDEN if path.stem != "returning_shots"]
SOUND = next(path for path in GOLDEN if path.stem == "sound_and_the_unknown")
HELD = next(path for path in GOLDEN if path.stem == "held_and_moved")
SUFFIXES = ".mp4", ".mkv", ".webm"


def remuxed(source: Path, target: Path, wanted: str = "va") -> Path:
    """As `ffmpeg -c copy` does it; "v" leaves the sound out."""
    with av.open(str(source)) as old, av.open(str(target), "w") as new:
        streams = {
            stream.index: new.add_stream_from_template(stream, opaque=True)
            for stream in old.streams
            if stream.type[0] in wanted
        }
        for packet in old.demux():
            if packet.size and packet.stream.index in streams:
                packet.stream = streams[packet.stream.index]
                new.mux(packet)
    return target


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("source", MAPPED, ids=lambda path: path.stem)
def test_the_stream_comes_back_byte_for_byte(source: Path, suffix: str, tmp_path: Path) -> None:
    mapped, back = tmp_path / f"it{suffix}", tmp_path / "back.gsv"
    report = gsvc.mux(source, mapped)
    assert (report.stream_size, report.size) == (source.stat().st_size, mapped.stat().st_size)
    assert gsvc.demux(mapped, back) == report.stream_size
    assert back.read_bytes() == source.read_bytes()
    for other in SUFFIXES:
        again = remuxed(mapped, tmp_path / f"again{other}")
        gsvc.demux(again, back, overwrite=True)
        assert back.read_bytes() == source.read_bytes(), other


def test_a_warning_is_told_unless_quiet(tmp_path: Path) -> None:
    speaking = next(path for path in GOLDEN if path.stem == "speaking")
    told = run_gsvc("mux", speaking, tmp_path / "told.mp4")
    assert told.returncode == 0 and b"3 sizes" in told.stderr
    quiet = run_gsvc("mux", "--quiet", speaking, tmp_path / "quiet.mp4")
    assert (quiet.returncode, quiet.stderr) == (0, b"")


def test_a_stream_is_no_video(tmp_path: Path) -> None:
    told = run_gsvc("encode", SOUND, tmp_path / "again.gsv")
    assert_one_line(told, FAILED, "run gsvc decode first")


def shown(path: Path) -> list[tuple[Fraction, gsvc.Picture]]:
    """What a player shows: times in seconds and pictures."""
    found = []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            assert frame.pts is not None and frame.time_base is not None
            pixels = frame.to_ndarray(format="rgb24").astype(np.uint8)
            found.append((frame.pts * frame.time_base, pixels))
    return found


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_player_shows_the_pictures_at_their_times(suffix: str, tmp_path: Path) -> None:
    mapped = tmp_path / f"it{suffix}"
    report = gsvc.mux(HELD, mapped)
    pictures = shown(mapped)
    with open(HELD, "rb") as file:
        reader = StreamReader(file)
        packets = [packet for packet in reader if packet.is_picture]
    groups = GroupReader(reader.header)
    lengths = [(i.length, i.place) for p in packets for i in groups.read(p).intervals]
    tick, frame, expected = reader.header.format.time_base, 0, []
    for length, place in lengths:
        if place.name != "AFTER":
            expected.append(frame if place.name == "BEFORE" else frame + length - 1)
        frame += length
    step = reader.header.frame_ticks * tick
    assert [round(time / step) for time, _ in pictures] == expected
    assert report.pictures == len(pictures) and report.frames == frame


def test_a_player_shows_what_gsvc_decodes(stream: Path, tmp_path: Path) -> None:
    mapped, decoded = tmp_path / "it.mp4", tmp_path / "frames.y4m"
    gsvc.mux(stream, mapped)
    gsvc.decode(stream, decoded, settings=gsvc.DecoderSettings(steps=0))
    frames = dict(shown(decoded))
    pictures = shown(mapped)
    assert len(pictures) > 3
    for time, picture in pictures:
        height, width = frames[time].shape[:2]
        scaled = cv2.resize(picture, (width, height), interpolation=cv2.INTER_LANCZOS4)
        assert np.abs(scaled.astype(int) - frames[time]).mean() < 5


def test_sound_and_texts_are_tracks_of_their_own(clip: Path, stream: Path, tmp_path: Path) -> None:
    mapped = tmp_path / "it.mp4"
    gsvc.mux(stream, mapped)
    with av.open(str(mapped)) as container:
        kinds = {one.type: one.codec_context.codec.canonical_name for one in container.streams}
        assert kinds == {"video": "av1", "audio": "opus"}
        heard = sum(frame.samples for frame in container.decode(audio=0))
        assert abs(heard / 48_000 - 0.8) < 0.1


def test_a_mapped_file_decodes_as_its_stream(stream: Path, tmp_path: Path) -> None:
    mapped = tmp_path / "it.mkv"
    assert run_gsvc("mux", stream, mapped).returncode == 0
    plain = gsvc.DecoderSettings(steps=0)
    for source, target in ((stream, "a.y4m"), (mapped, "b.y4m")):
        gsvc.decode(source, tmp_path / target, settings=plain, start=0.2, frames=8)
    assert (tmp_path / "a.y4m").read_bytes() == (tmp_path / "b.y4m").read_bytes()
    texts = [run_gsvc("info", source).stdout for source in (stream, mapped)]
    assert texts[0] == texts[1] and b"Opus" in texts[0]
    assert len(gsvc.analyse(mapped).frames) == 20


def test_what_is_no_whole_mapped_stream_is_refused(
    stream: Path, clip: Path, tmp_path: Path
) -> None:
    mapped, bad, out = tmp_path / "it.mkv", tmp_path / "bad.mkv", tmp_path / "back.gsv"
    gsvc.mux(stream, mapped)
    data = mapped.read_bytes()

    def refused(path: Path, *parts: str) -> None:
        assert_one_line(run_gsvc("demux", path, out), FAILED, path.name, *parts)
        assert not out.exists()

    refused(clip, "no gsvc stream in this video")
    told = run_gsvc("info", clip)
    assert told.returncode == 0  # as ffprobe does
    assert re.search(
        rb": no gsvc stream, no mark; \d+x\d+, [\d.]+ frames/s, .*, with sound\n", told.stdout
    ), told.stdout
    refused(remuxed(mapped, bad, "v"), "sound was taken out")
    bad.write_bytes(data[: len(data) // 2])
    refused(bad, "ends early")
    bad.write_bytes(data[:300])
    refused(bad, "FFmpeg")
    with open(stream, "rb") as file:
        reader = StreamReader(file)
        first = next(packet for packet in reader if packet.is_picture)
    place = data.index(max(GroupReader(reader.header).read(first).units, key=len)[-9:])
    bad.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    refused(bad, "encoded again")
    refused(stream, "not a video file")
    assert_one_line(run_gsvc("mux", stream, tmp_path / "it.avi"), USAGE, ".mp4, .mkv, .webm")
    bad.write_bytes(stream.read_bytes()[:900])
    assert_one_line(run_gsvc("mux", bad, tmp_path / "cut.mp4"), FAILED, "ends early")
    assert not (tmp_path / "cut.mp4").exists()
    assert_one_line(run_gsvc("info", "--untrusted", mapped), FAILED, "not a gsvc stream")
    told = run_gsvc("decode", "--untrusted", mapped, tmp_path / "it.y4m")
    assert_one_line(told, USAGE, "gsvc demux in a sandbox")


def test_a_browser_plays_it(stream: Path, tmp_path: Path) -> None:
    mapped = tmp_path / "it.mp4"
    report = gsvc.mux(stream, mapped)
    source = "data:video/mp4;base64," + base64.b64encode(mapped.read_bytes()).decode()
    *_, (time, picture) = shown(mapped)
    with chromium() as browser:
        page = new_page(browser)
        page.set_content(f'<video src="{source}" muted></video>')
        seen = page.evaluate(
            """async (time) => {
                const video = document.querySelector("video");
                const failed = new Promise((_, no) => (video.onerror = () => no(video.error)));
                const sought = new Promise((yes) => (video.onseeked = yes));
                video.currentTime = time;
                await Promise.race([sought, failed]);
                const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
                const context = canvas.getContext("2d");
                let data;
                // A busy browser says "seeked" before it has the picture, and draws black.
                for (let tries = 0; tries < 200; tries++) {
                    context.drawImage(video, 0, 0);
                    data = context.getImageData(0, 0, canvas.width, canvas.height).data;
                    if (data.some((value, place) => place % 4 < 3 && value)) break;
                    await new Promise((done) => setTimeout(done, 50));
                }
                return [video.duration, canvas.height, canvas.width, Array.from(data)];
            }""",
            float(time) + 0.001,
        )
    duration, height, width, pixels = seen
    drawn = np.array(pixels).reshape(height, width, 4)[..., :3]
    assert abs(duration - report.duration) < 0.1
    assert np.abs(drawn - picture.astype(int)).mean() < 4
