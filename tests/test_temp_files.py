"""What a killed process leaves is removed by the next writer of the target; nothing else is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gsvc import OutputError
from gsvc.codec.media.output import atomic_folder, atomic_output, held

posix = pytest.mark.skipif(sys.platform == "win32", reason="locks and signals are POSIX")


def _old(path: Path) -> Path:
    os.utime(path, (0, 0))
    return path


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@posix
def test_only_what_nobody_holds_is_removed(tmp_path: Path) -> None:
    kept = [".01234567.other.gsv", ".0123456x.it.gsv", ".01234567.it.gsv.bak", ".aaaaaaaa.it.gsv"]
    for name in (*kept, ".01234567.it.gsv"):
        (tmp_path / name).write_bytes(b"part")
        _old(tmp_path / name)
    (tmp_path / ".bbbbbbbb.it.gsv").write_bytes(b"just made")
    holding = held(tmp_path / ".aaaaaaaa.it.gsv")
    with holding, atomic_output(tmp_path / "it.gsv", False) as path:
        path.write_bytes(b"whole")
    assert _names(tmp_path) == sorted([*kept, ".bbbbbbbb.it.gsv", "it.gsv"])


@posix
def test_a_folder_that_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".01234567.out"
    left.mkdir()
    (left / "00001.png").write_bytes(b"part")
    _old(left)
    with atomic_folder(tmp_path / "out") as folder:
        (folder / "00001.png").write_bytes(b"whole")
    assert _names(tmp_path) == ["out"]


def test_of_two_writers_the_second_replaces_nothing_unasked(tmp_path: Path) -> None:
    target = tmp_path / "it.gsv"
    with pytest.raises(OutputError, match="exists"), atomic_output(target, False) as path:
        path.write_bytes(b"second")
        with atomic_output(target, False) as other:
            other.write_bytes(b"first")
    assert target.read_bytes() == b"first" and _names(tmp_path) == ["it.gsv"]


@posix
def test_who_may_read_a_file_stays_where_it_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "it.gsv"
    target.touch(0o600)
    with atomic_output(target, True) as path:
        path.write_bytes(b"private")
    assert target.stat().st_mode & 0o777 == 0o600


_WRITE = """
import sys, time
from gsvc.codec.command import main
from gsvc.codec.media.output import atomic_output

class Command:
    USAGE = ""

    def run(options):
        with atomic_output(sys.argv[1], False):
            print("writing", flush=True)
            time.sleep(60)

main.import_module = lambda name: Command
sys.exit(main.main(["doctor"]))
"""


@posix
@pytest.mark.parametrize("name", ["SIGHUP", "SIGTERM"])
def test_a_closed_terminal_leaves_nothing(tmp_path: Path, name: str) -> None:
    number = getattr(signal, name)
    usual = ["env", f"--default-signal={name[3:]}"]  # tests may run where it is ignored
    command = [*usual, sys.executable, "-c", _WRITE, str(tmp_path / "it.gsv")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"writing\n"
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    assert not _names(tmp_path)


@posix
def test_the_longest_names_and_pipes_without_a_name_are_written(tmp_path: Path) -> None:
    longest = tmp_path / ("é" * 125 + ".gsv")
    with atomic_output(longest, False) as path:
        path.write_bytes(b"whole")
    assert longest.read_bytes() == b"whole" and _names(tmp_path) == [longest.name]
    source, target = os.pipe()
    with atomic_output(f"/dev/fd/{target}", False) as path:
        path.write_bytes(b"whole")
    assert os.read(source, 99) == b"whole"
    os.close(source)
    os.close(target)
