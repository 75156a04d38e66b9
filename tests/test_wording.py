"""One line for each failure: in the words of its reader, soon, and once."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

import gsvc
from commands import run_gsvc
from gsvc.codec.api.inspection import info_lines
from gsvc.codec.api.playing import play_file
from gsvc.codec.command.main import as_options, main
from gsvc.codec.planning.machine_profile import BEGINNING, Profile
from needs import need_package


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("a.mp4 already exists: overwrite=True replaces it", "already exists: -y replaces it"),
        ("refining needs more packages, or take steps=0", "or take --steps 0"),
        ('or take backend="compact:nano"', "or take --backend compact:nano"),
        ("encode it with objects=True, or", "encode it with --objects, or"),
        ("cache='mag:2': after the colon", "--cache mag:2: after the colon"),
        ("wss:// needs certificate= and private_key=", "needs --tls-cert and --tls-key"),
        ("x: cannot be read: [Errno 21] Is a directory: 'x'", "x: cannot be read: Is a directory"),
        ("folder/steps=0/a.gsv: no such file", "folder/steps=0/a.gsv: no such file"),
        ("frames=100.mp4: no such file", "frames=100.mp4: no such file"),
        ("ffmpeg -i INPUT -vf scale=8:6 OUTPUT, steps=0", "-vf scale=8:6 OUTPUT, --steps 0"),
    ],
)
def test_the_command_line_names_its_own_options(python: str, shell: str) -> None:
    assert as_options(python).endswith(shell)


def test_one_line_stays_one_whatever_a_file_is_called(stream: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "a\n b\x1b[2J  c.gsv", tmp_path / "x\ny.docx"
    source.write_bytes(stream.read_bytes())
    told = run_gsvc("decode", source, target, "--steps", "0").stderr.decode()
    assert told.count("\n") == 1 and "/x y.docx: .docx names no video format" in told
    told = run_gsvc("info", source, source).stdout.decode()
    assert told.splitlines()[0].endswith("/a  b\\x1b[2J  c.gsv:")


def test_python_is_told_of_arguments_and_a_shell_of_options(
    stream: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "there.y4m"
    target.write_bytes(b"mine")
    settings = gsvc.DecoderSettings(steps=0)
    with pytest.raises(gsvc.OutputError, match="already exists: overwrite=True replaces it"):
        gsvc.decode(stream, target, settings=settings)
    assert main(["decode", str(stream), str(target), "--steps", "0"]) == 1
    assert "already exists: -y replaces it" in capsys.readouterr().err
    assert target.read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["cache", "latent_cache", "vram", "resume", "paste_keys"])
def test_what_only_a_refiner_does_is_refused_without_one(
    name: str, stream: Path, tmp_path: Path
) -> None:
    value = name == "paste_keys" or str(tmp_path / "x")
    settings = replace(gsvc.DecoderSettings(steps=0), **{name: value})  # type: ignore[arg-type]
    with pytest.raises(gsvc.ConfigError, match=f"{name} is for a refiner, and with steps=0"):
        gsvc.decode(stream, tmp_path / "a.y4m", settings=settings)
    assert not list(tmp_path.iterdir())


def test_a_folder_in_place_of_a_file_is_told_of_without_numbers(
    stream: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [str(stream), str(stream)]
    assert main(["analyse", *both, "--homography", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "Is a directory" in told and "Errno" not in told


@pytest.mark.parametrize("command", ["surface", "plan"])
def test_a_folder_that_cannot_be_made_is_told_of_at_once(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_package("stlpips_pytorch")
    summary = Path(__file__).parents[1] / "eval" / "results" / "packaged" / "summary.csv"
    (there := tmp_path / "notes.txt").write_text("mine")
    assert main(["bench", command, str(summary), "--out", str(there)]) == 1
    told = capsys.readouterr().err
    assert f"cannot write {there} (File exists)" in told and there.read_text() == "mine"


def test_a_profile_replaces_nothing_else_and_fails_before_it_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = Profile({"cpu": "x", "cores": 1}, gsvc.__version__, {}, {})
    monkeypatch.setattr("gsvc.codec.planning.machine_profile.load_profile", lambda: profile)
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    for target in (other, tmp_path / "none" / "p.json"):
        assert main(["profile", "-q", "-o", str(target)]) == 1  # at once: nothing is measured
    assert "holds something else" in (told := capsys.readouterr().err)
    assert "create it first" in told and other.read_text() == "mine"
    for _ in range(2):  # its own file is replaced
        assert main(["profile", "--show", "-q", "-o", str(tmp_path / "p.json")]) == 0
    assert (tmp_path / "p.json").read_bytes().startswith(BEGINNING)


def test_a_task_has_no_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "a.gsv"
    assert main(["encode", "a.mp4", str(target), "--task", "motion", "--score"]) == 2
    assert "--task sends no pictures" in capsys.readouterr().err and not target.exists()


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("udp://@:5004", "gsvc recv udp://@:5004 -o - | mpv -"),
        ("https://x.org/a.gsv", "curl https://x.org/a.gsv | gsvc play -"),
    ],
)
def test_play_says_how_addresses_are_played(source: str, advice: str) -> None:
    with pytest.raises(gsvc.ConfigError) as caught:
        play_file(source, settings=gsvc.DecoderSettings(steps=0))
    assert str(caught.value).endswith(advice)


def test_warnings_are_one_line_and_nothing_of_torch(clip: Path) -> None:
    shown = run_gsvc("encode", clip, "-n", "--max-bitrate", "1k", "--level", "0")
    assert b"Level" not in shown.stderr
    levels = {logging.getLevelName(level) for level in (logging.WARNING, logging.INFO)}
    assert levels == {"WARNING", "INFO"}  # as other packages' formats expect them


def test_info_names_faces_among_the_layers(stream: Path) -> None:
    told = gsvc.info(stream)
    assert "faces" not in "\n".join(info_lines(told)).split("ledger")[0]
    seen = replace(told, bits={**told.bits, "faces": 80})
    assert "faces (in some groups)" in "\n".join(info_lines(seen)).split("ledger")[0]
