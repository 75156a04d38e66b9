"""`gsvc bench files`: a copy of a set is the one that was measured, or the file that is not."""

from pathlib import Path

import pytest

from gsvc.codec.command.main import main


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "MOT17-02"
    (folder / "gt").mkdir(parents=True)
    (folder / "gt" / "gt.txt").write_text("1,1,1,1,1,1,1,1,1\n")
    (folder / "seqinfo.ini").write_text("[Sequence]\n")
    (folder / ".cache").write_text("not a part of the set")
    assert main(["bench", "files", str(folder), "--write", str(folder / "m.csv")]) == 0
    return folder


def _check(folder: Path) -> int:
    return main(["bench", "files", str(folder), "--check", str(folder / "m.csv")])


def test_a_copy_agrees_with_its_manifest(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = (copy / "m.csv").read_text().splitlines()
    assert rows[0] == "path,bytes,sha256" and rows[1].startswith("gt/gt.txt,18,")
    (copy / "more.txt").write_text("not in the manifest")
    assert _check(copy) == 0
    assert "2 of 2 files as in" in (out := capsys.readouterr().out) and "1 more" in out


def test_each_wrong_or_missing_file_is_one_line(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "gt" / "gt.txt").write_text("2,1,1,1,1,1,1,1,1\n")
    (copy / "seqinfo.ini").unlink()
    assert _check(copy) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "gt.txt: another content" in lines[0] and "missing" in lines[1]
    (copy / "gt" / "gt.txt").write_text("")
    assert _check(copy) == 1
    assert "has 0 bytes, the manifest says 18" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "m.csv:1: its first line must be path,bytes,sha256"),
        ("path,bytes,sha256\n", "lists no file"),
        ("path,bytes,sha256\n../a,1," + 64 * "0", "m.csv:2: '../a' is no path below the folder"),
        ("path,bytes,sha256\n/a,1," + 64 * "0", "m.csv:2: '/a' is no path"),
        ("path,bytes,sha256\na,-1," + 64 * "0", "'-1' is no number of bytes"),
        ("path,bytes,sha256\na,1,00", "'00' is no SHA-256"),
        ("path,bytes,sha256\na,1", "m.csv:2: 2 columns"),
        ("path,bytes,sha256\n" + 2 * ("a,1," + 64 * "0" + "\n"), "m.csv:3: a is listed twice"),
    ],
)
def test_what_is_no_manifest_is_told_with_its_line(
    copy: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "m.csv").write_text(text)
    assert _check(copy) > 0
    assert says in capsys.readouterr().err
