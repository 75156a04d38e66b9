"""What cannot be done is said in one line, with a code other than 0, and leaves nothing behind."""

import io
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from google_crc32c import value as crc32c

import gsvc
from commands import FAILED, USAGE, Result, assert_one_line, run_gsvc, run_process
from gsvc import PacketType
from gsvc.codec.weights.model_files import cache_dir

Make = Callable[..., list[gsvc.Picture]]
Write = Callable[..., Path]

BARE = ("--level", "3", "--preset", "fast", "--low-delay")
FAST = ("--steps", "0")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where outputs go; every test must leave it empty."""
    target = tmp_path / "out"
    target.mkdir()
    yield target
    assert not list(target.iterdir())


@pytest.fixture(scope="session")
def sources(
    clip: Path,
    tmp_path_factory: pytest.TempPathFactory,
    moving_pictures: Make,
    write_video: Write,
) -> Path:
    """A folder of files that are no good."""
    made = tmp_path_factory.mktemp("sources")
    (made / "noise.mp4").write_bytes(np.random.default_rng(1).bytes(5000))
    (made / "text.txt").write_text("not a video\n" * 100)
    (made / "empty.mp4").write_bytes(b"")
    (made / "cut.mp4").write_bytes(clip.read_bytes()[:3000])
    whole = write_video(made / "whole.mkv", moving_pictures(100)).read_bytes()
    (made / "cut.mkv").write_bytes(whole[: len(whole) // 2])
    (made / "none.y4m").write_bytes(b"YUV4MPEG2 W16 H16 F25:1 C420jpeg\n")
    tone = b"\0\0\xff\x3f" * 4000
    (made / "sound.wav").write_bytes(
        b"RIFF" + (36 + len(tone)).to_bytes(4, "little") + b"WAVEfmt \x10\0\0\0\x01\0\x01\0"
        b"\x80\xbb\0\0\0\x77\x01\0\x02\0\x10\0data" + len(tone).to_bytes(4, "little") + tone
    )
    return made


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("missing.mp4", "no such file"),
        ("noise.mp4", "not a video"),
        ("text.txt", "not a video"),
        ("empty.mp4", "empty"),
        ("cut.mp4", "whole"),
        ("cut.mkv", "truncated"),
        ("none.y4m", "not one frame"),
        ("sound.wav", "no video stream"),
        ("nothing/*.png", "no image matches"),
        (".", "folder"),
    ],
)
def test_sources_that_are_no_video(name: str, what: str, sources: Path, folder: Path) -> None:
    result = run_gsvc("encode", sources / name, folder / "it.gsv", *BARE)
    assert_one_line(result, USAGE if name == "." else FAILED, what)


def test_pipes_that_carry_no_video(folder: Path) -> None:
    for data in (b"", b"not y4m", b"YUV4MPEG2 W16 H16 F25:1 C420jpeg\n"):
        result = run_gsvc("encode", "-", folder / "it.gsv", *BARE, input=data)
        assert_one_line(result, FAILED, "standard input")


@pytest.mark.parametrize("command", ["decode", "info"])
def test_damaged_streams(command: str, stream: Path, tmp_path: Path, folder: Path) -> None:
    data = stream.read_bytes()
    other_version = bytes([*data[:3], 9, *data[4:]])
    cases = {
        "empty": b"",
        "not a gsvc stream": b"neither stream nor video",
        "after frame 0, a packet is damaged": bytes([*data[:60], data[60] ^ 4, *data[61:]]),
        "header is damaged": bytes([*data[:10], data[10] ^ 1, *data[11:]]),
        "inside its header": data[:20],
        "version 9": other_version,
    }
    for what, bad in cases.items():
        path = tmp_path / "bad.gsv"
        path.write_bytes(bad)
        output = (folder / "back.mp4", *FAST) if command == "decode" else ()
        assert_one_line(run_gsvc(command, path, *output), FAILED, what, "bad.gsv")
    output = (folder / "back.mp4", *FAST) if command == "decode" else ()
    assert_one_line(run_gsvc(command, tmp_path / "no.gsv", *output), FAILED, "no such file")


def test_a_damaged_pipe_fails_after_the_frames_before(stream: Path) -> None:
    result = run_gsvc("decode", "-", "-o", "-", *FAST, input=stream.read_bytes()[:-3])
    assert_one_line(result, FAILED, "standard input", "tail is missing")
    assert result.stdout.count(b"FRAME\n") == 20


def read_whole(data: bytes) -> None:
    reader = gsvc.StreamReader(io.BytesIO(data))
    decoder = gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=0))
    for packet in reader:
        for _ in decoder.decode(packet):
            pass


def test_no_flipped_bit_goes_unnoticed(stream: Path) -> None:
    data = stream.read_bytes()
    read_whole(data)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(gsvc.BitstreamError):
            list(gsvc.StreamReader(io.BytesIO(damaged)))


def test_no_missing_tail_goes_unnoticed(stream: Path) -> None:
    data = stream.read_bytes()
    for length in range(len(data)):
        with pytest.raises(gsvc.TruncatedStreamError):
            list(gsvc.StreamReader(io.BytesIO(data[:length])))


def test_a_forged_checksum_gives_pictures_or_our_error(stream: Path) -> None:
    """Damage that the CRC cannot tell, as an attacker would make it."""
    data = stream.read_bytes()
    header, packets = data[:32], list(gsvc.StreamReader(io.BytesIO(data)))
    rng = np.random.default_rng(11)
    for _ in range(60):
        forged = [header]
        victim = rng.integers(0, len(packets))
        for index, packet in enumerate(packets):
            payload = bytearray(packet.payload)
            if index == victim:
                start = 0 if rng.random() < 0.5 else rng.integers(0, len(payload))
                for offset in rng.integers(start, min(len(payload), start + 40), 2):
                    payload[offset] = rng.integers(0, 256)
            forged.append(replace(packet, payload=bytes(payload)).to_bytes())
        try:
            read_whole(b"".join(forged))
        except gsvc.BitstreamError as error:
            assert "\n" not in str(error)


def test_a_header_that_asks_for_too_much_is_refused_before_memory_is_taken(stream: Path) -> None:
    data = stream.read_bytes()
    body = data[:4] + b"\xff\xff\xff\xff" + data[8:28]
    huge = body + crc32c(body).to_bytes(4, "little") + data[32:]
    with pytest.raises(gsvc.LimitError):
        gsvc.StreamReader(io.BytesIO(huge))


def test_a_packet_from_a_later_version(stream: Path) -> None:
    packets = list(gsvc.StreamReader(io.BytesIO(stream.read_bytes())))
    header = stream.read_bytes()[:32]
    required, optional = (gsvc.Packet(kind, 0, b"new").to_bytes() for kind in (5, 13))
    rest = [packet.to_bytes() for packet in packets]
    with pytest.raises(gsvc.VersionError, match="newer gsvc"):
        list(gsvc.StreamReader(io.BytesIO(b"".join((header, required, *rest)))))
    kept = list(gsvc.StreamReader(io.BytesIO(b"".join((header, optional, *rest)))))
    assert kept[0].type == 13 and kept[-1].type == PacketType.END


def test_little_memory(stream: Path) -> None:
    """Less than libraries need to load: they would crash."""

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))

    result = run_process("decode", stream, "-o", "-", preexec_fn=little)
    assert_one_line(result, FAILED, "out of memory")


def test_a_full_disk(clip: Path, stream: Path, folder: Path) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

    encode, decode = ("encode", clip), ("decode", stream, *FAST)
    with open("/dev/full", "wb") as full:
        assert_one_line(
            run_process(*encode, "-o", "-", *BARE, stdout=full), FAILED, "no space left"
        )
        assert_one_line(run_process(*decode, "-o", "-", stdout=full), FAILED, "no space left")
        assert_one_line(run_process("info", stream, stdout=full), FAILED, "no space left")
    for command in ((*encode, folder / "it.gsv", *BARE), (*decode, folder / "it.mp4")):
        # Measuring coverage would need a larger file.
        result = run_process(*command, preexec_fn=small_files, env={"COVERAGE_PROCESS_CONFIG": ""})
        assert_one_line(result, FAILED, "largest file")


def test_what_cannot_be_told_stops_no_work(clip: Path, folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = run_process("encode", clip, folder / "it.gsv", *BARE, stderr=full)
        assert result.returncode == 0
        (folder / "it.gsv").unlink()
        result = run_process("encode", clip, folder / "b.gsv", *BARE, "--json", stdout=full)
        assert_one_line(result, FAILED, "no space left to write standard output")


def test_outputs_that_cannot_be(clip: Path, stream: Path, folder: Path) -> None:
    assert_one_line(run_gsvc("encode", clip, folder / "no" / "it.gsv", *BARE), FAILED, "folder")
    assert_one_line(run_gsvc("decode", stream, folder / "no" / "it.mp4", *FAST), FAILED, "folder")
    assert_one_line(run_gsvc("encode", clip, stream, *BARE), FAILED, "already exists", "-y")
    assert_one_line(run_gsvc("decode", stream, folder / "it.docx", *FAST), USAGE, ".docx")
    assert_one_line(run_gsvc("decode", stream, stream, "-y", *FAST), USAGE, "source itself")


def test_no_stream_replaces_a_video_that_a_shell_named(
    clip: Path, stream: Path, folder: Path, tmp_path: Path
) -> None:
    video = tmp_path / "b.mp4"
    video.write_bytes(clip.read_bytes())
    for asked in ((video, "-y"), ("-o", video, "-y"), ("-o", folder / "new.mkv")):
        assert_one_line(run_gsvc("encode", clip, *asked, *BARE), USAGE, "does not end in .gsv")
    result = run_gsvc("encode", clip, video, video, "-y", *BARE)
    assert_one_line(result, USAGE, "3 names", "quote a pattern")
    assert video.read_bytes() == clip.read_bytes()
    other = tmp_path / "d.gsv"
    other.write_bytes(stream.read_bytes())
    result = run_gsvc("decode", stream, other, "-y", *FAST)
    assert_one_line(result, USAGE, ".gsv names no video format")
    for several in ("a.m3u8", "a.mpd"):
        result = run_gsvc("decode", stream, tmp_path / several, *FAST)
        assert_one_line(result, USAGE, "names no video format")
    assert_one_line(run_gsvc("decode", stream, other, other, "-y", *FAST), USAGE, "3 names")
    assert other.read_bytes() == stream.read_bytes()


def test_models_that_are_missing(clip: Path, folder: Path, tmp_path: Path) -> None:
    result = run_gsvc(
        "encode", clip, folder / "it.gsv", "--semantics", env={"GSVC_CACHE": str(tmp_path / "none")}
    )
    assert_one_line(result, FAILED, "gsvc models pull")


@pytest.mark.parametrize("steps", ["0", "1"])
def test_a_gpu_that_is_not_there(steps: str, stream: Path, folder: Path) -> None:
    asked = "--device", "cuda", "--steps", steps
    no_gpu = {"CUDA_VISIBLE_DEVICES": ""}
    result = run_gsvc("decode", stream, folder / "it.mp4", *asked, env=no_gpu)
    assert_one_line(result, FAILED, "cuda")


@pytest.mark.parametrize(
    "arguments",
    [
        ("encode",),
        ("transcode", "{clip}"),
        ("encode", "{clip}", "{out}", "--level", "7"),
        ("encode", "{clip}", "{out}", "--level", "high"),
        ("encode", "{clip}", "{out}", "--bitrate", "fast"),
        ("encode", "{clip}", "{out}", "--bitrate", "0"),
        ("encode", "{clip}", "{out}", "--bpp", "0.01", "--bitrate", "8k"),
        ("encode", "{clip}", "{out}", "--bpp", "nan"),
        ("encode", "{clip}", "{out}", "--preset", "quick"),
        ("encode", "{clip}", "{out}", "--seed", "70000"),
        ("encode", "{clip}", "{out}", "--start", "-1"),
        ("encode", "{clip}", "{out}", "--frames", "0"),
        ("encode", "{clip}", "{out}", "--audio", "mp3"),
        ("encode", "{clip}", "{out}", "-o", "{out}"),
        ("encode", "*.png"),
        ("decode", "{stream}", "{out}.mp4", "--steps", "3"),
        ("decode", "{stream}", "{out}.mp4", "--seed", "-1"),
        ("decode", "{stream}", "{out}.mp4", "--backend", "none"),
        ("decode", "{stream}", "{out}.mp4", "--device", "tpu"),
        ("decode", "{stream}", "{out}.png"),
        ("models", "list", "--source", "x.whl"),
        ("info", ""),
        ("encode", "{clip}", "{out}.gsv", "--quality", "1e-300"),
        ("decode", "."),
        ("encode", "{clip}", "-o", ""),
        ("encode", "{clip}", "{out}.gsv", "--preset="),
        ("encode", "{clip}", "{out}.gsv", "--start", "nan"),
        ("decode", "{stream}", "{out}.mp4", "--start", "inf"),
        ("plan", "--class", "sport", "--fps", "0"),
        ("plan", "--class", "sport", "--seconds", "1e300"),
    ],
)
def test_usage(arguments: tuple[str, ...], clip: Path, stream: Path, folder: Path) -> None:
    filled = [part.format(clip=clip, stream=stream, out=folder / "it") for part in arguments]
    assert_one_line(run_gsvc(*filled, cwd=folder), USAGE)


def test_a_start_after_the_end(clip: Path, folder: Path) -> None:
    for start in ("99", "1e300"):
        result = run_gsvc("encode", clip, folder / "it.gsv", "--start", start, *BARE)
        assert_one_line(result, FAILED, "choose an earlier start")


def test_numbers_beyond_all_bounds(clip: Path, folder: Path) -> None:
    for option in ("--fps", "--target-size", "--audio-bitrate"):
        result = run_gsvc("encode", clip, folder / "it.gsv", option, "9" * 400)
        assert_one_line(result, FAILED, "give a smaller one")


def test_names_that_begin_with_a_dash_stand_behind_two(folder: Path) -> None:
    for words in (("info", "--", "-x.gsv"), ("decode", "-o", "y.mp4", "--", "-x.gsv")):
        assert_one_line(run_gsvc(*words, cwd=folder), FAILED, "-x.gsv: no such file")


@pytest.mark.parametrize("number", [1, 2])
def test_standard_streams_that_are_closed(number: int, stream: Path, tmp_path: Path) -> None:
    def run(*words: object) -> Result:
        return run_process(*words, preexec_fn=lambda: os.close(number))

    assert run("info", stream).returncode == 0
    done = run("encode", "missing.mp4", "x.gsv")
    assert done.returncode == FAILED and done.stderr.count(b"\n") == (number == 1)
    assert run("decode", stream, "-o", "-", *FAST).returncode == (FAILED if number == 1 else 0)


def test_letters_that_standard_output_has_not(stream: Path, tmp_path: Path) -> None:
    names = [tmp_path / "\u4e2d.gsv", tmp_path / "b.gsv"]
    for name in names:
        name.write_bytes(stream.read_bytes())
    done = run_process("info", *names, env={"PYTHONIOENCODING": "latin-1"})
    assert (done.returncode, done.stderr) == (0, b"") and b"\\u4e2d.gsv:" in done.stdout


def test_little_memory_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for cause in (
        MemoryError(),
        RuntimeError("can't start new thread"),
        OSError(12, "Cannot allocate memory"),
        BlockingIOError(11, "Resource temporarily unavailable"),
    ):
        monkeypatch.setattr("gsvc.codec.command.info.run", Mock(side_effect=cause))
        assert_one_line(run_gsvc("info", "x.gsv"), FAILED, "out of memory: end other programs")
    files = OSError(24, "Too many open files", "module.py")
    monkeypatch.setattr("gsvc.codec.command.info.run", Mock(side_effect=files))
    assert_one_line(run_gsvc("info", "x.gsv"), FAILED, "too many open files: end other programs")


def test_an_interrupt_is_told_as_such_whatever_a_module_makes_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hide(options: object) -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ImportError("initialization failed")

    monkeypatch.setattr("gsvc.codec.command.info.run", hide)
    assert_one_line(run_gsvc("info", "x.gsv"), 130, "interrupted")


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GSVC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert cache_dir() == Path("/nonexistent/~/.cache/gsvc")
