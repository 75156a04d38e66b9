"""Makes what shells read, from the parser: completion for bash, zsh and fish, and the man page.

`make shell` writes them to codec/command/shell, from which the wheel installs them; a test asks
that they be those of the parser.
"""

import os
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

import gsvc
from gsvc.codec.command.completion import SHELLS
from gsvc.codec.command.main import command_parser
from gsvc.codec.command.parser import CommandParser

FOLDER = Path(__file__).resolve().parent.parent / "codec" / "command" / "shell"

_FILES = {"IN", "OUT", "FILE", "A", "B", "CLIP", "VIDEO", "NAME|FILE|CLASS", "WHEEL", "VOTES"}
_FOLDERS = {"FOLDER", "RUN", "RUN_A", "RUN_B", "STUDY", "DIR"}
_EXIT_STATUS = """0 success; 1 failure; 2 wrong usage; 129 the terminal closed; 130 Ctrl\\-C;
143 SIGTERM. An interrupted command leaves no partial file."""
_DATE = "2026"  # not of the day: the same parser makes the same page


def parsers(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """A parser and all those of its commands and actions, filled."""
    if isinstance(parser, CommandParser):
        parser.ask_module()
    yield parser
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for below in action.choices.values():
                yield from parsers(below)


def _complete_values(parser: ArgumentParser) -> None:
    """What stands for a file completes as one; what names its values, such as a|b, has them."""
    for action in parser._actions:
        name = action.metavar
        if not isinstance(name, str):
            continue
        if name in _FILES | _FOLDERS:
            action.complete = shtab.FILE if name in _FILES else shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.choices is None and re.fullmatch(r"[a-z0-9]+(\|[a-z0-9]+)+", name):
            action.choices = name.split("|")


def shell_files() -> dict[str, str]:
    """Name → text of each file."""
    os.environ["COLUMNS"] = "9999"  # who reads it breaks its lines
    parser = command_parser()
    list(parsers(parser))
    about = {
        "description": "generative semantic video codec",
        "project_name": "gsvc",
        "version": gsvc.__version__,
        "manual_title": "gsvc",
        "date": _DATE,
    }
    page = Manpage(parser, about)
    page.add_section("EXIT STATUS", "=", _EXIT_STATUS)
    made = {"gsvc.1": str(page).replace("\nusage: ", "\n")}
    for one in parsers(parser):
        _complete_values(one)
    made |= {f"gsvc.{shell}": shtab.complete(parser, shell) for shell in SHELLS}
    return {name: text.rstrip("\n") + "\n" for name, text in made.items()}


def main() -> int:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in shell_files().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
