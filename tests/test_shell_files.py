"""Completion and man page: what the parser has, and a shell that completes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import run_gsvc
from gsvc.codec.command.main import COMMANDS, command_parser
from needs import need_package

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "shell"

if not (ROOT / "tools" / "shell_files.py").exists():
    pytest.skip("runs in a checkout, not on an installed wheel", allow_module_level=True)
need_package("shtab")
need_package("argparse_manpage")
need_package("hatchling")


@pytest.fixture(scope="module", autouse=True)
def made() -> None:
    """What `make shell` writes. In a process of its own: it changes the parser."""
    subprocess.run([sys.executable, ROOT / "tools" / "shell_files.py"], check=True)


@pytest.mark.parametrize("name", ["gsvc.1", "gsvc.bash", "gsvc.zsh", "gsvc.fish"])
def test_every_command_and_option_is_there(name: str) -> None:
    from shell_files import parsers

    text = (FOLDER / name).read_text().replace("\\-", "-")
    for parser in parsers(command_parser()):
        for action in parser._actions:
            if name == "gsvc.1" and "--help" in action.option_strings:
                continue  # whoever reads the page needs it not
            for option in action.option_strings:
                plain = option.lstrip("-") if name == "gsvc.fish" else option
                assert plain in text, f"{parser.prog} {option}"
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("gsvc e", {"encode"}),
        ("gsvc encode --pre", {"--preset"}),
        ("gsvc encode --preset ", {"fast", "medium", "slow"}),
        ("gsvc decode cl", {"clip.gsv"}),
        ("gsvc bench st", {"study"}),
        ("gsvc bench study s", {"score"}),
    ],
)
def test_bash_completes(typed: str, offered: set[str], tmp_path: Path) -> None:
    (tmp_path / "clip.gsv").touch()
    (tmp_path / "script").write_bytes(run_gsvc("completion", "bash").stdout)
    *words, last = typed.split(" ")
    quoted = " ".join(f"'{word}'" for word in [*words, last])
    asked = (
        f"source ./script; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; COMP_LINE='{typed}'; "
        f"COMP_POINT={len(typed)}; $(complete -p gsvc | sed 's/.*-F \\([^ ]*\\) .*/\\1/') gsvc "
        f"'{last}' '{words[-1]}'; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["bash", "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert offered <= {line.strip() for line in done.stdout.splitlines()}, done.stdout + done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_prints_what_the_shell_reads(shell: str) -> None:
    script = run_gsvc("completion", shell).stdout
    assert script == (FOLDER / f"gsvc.{shell}").read_bytes()
    if shutil.which(shell):  # else nobody here can say
        subprocess.run([shell, "-n"], input=script, check=True)


def test_the_man_page_has_no_mistake_in_its_markup() -> None:
    if shutil.which("man") is None:
        pytest.skip("no man here")
    done = subprocess.run(
        ["man", "--warnings", "-l", str(FOLDER / "gsvc.1")], capture_output=True, check=True
    )
    assert not done.stderr
    assert b"gsvc bench study" in done.stdout
