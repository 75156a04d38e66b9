"""Makes what shells read, from the parser: completion for bash, zsh and fish, and the man page.

A wheel gets them when it is built (`ShellFiles`, a hook of hatch); `make shell` writes them to
build/shell, where `gsvc completion` of a checkout finds them.
"""

import os
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shtab
from argparse_manpage.manpage import Manpage
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "shell"
SHARED = {
    "gsvc.1": "share/man/man1/gsvc.1",
    "gsvc.bash": "share/bash-completion/completions/gsvc",
    "gsvc.zsh": "share/zsh/site-functions/_gsvc",
    "gsvc.fish": "share/fish/vendor_completions.d/gsvc.fish",
}
"""Where man and the shells look when the environment is in their paths."""

_FILES = {"IN", "OUT", "FILE", "A", "B", "CLIP", "VIDEO", "NAME|FILE|CLASS", "WHEEL", "VOTES"}
_FOLDERS = {"FOLDER", "RUN", "RUN_A", "RUN_B", "STUDY", "DIR"}
_EXIT_STATUS = """0 success; 1 failure; 2 wrong usage; 129 the terminal closed; 130 Ctrl\\-C;
143 SIGTERM. An interrupted command leaves no partial file."""
_DATE = "2026"  # not of the day: the same parser makes the same page


class ShellFiles(BuildHookInterface[Any]):
    """Puts the files into a wheel. An editable install does without them."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the files, and name their places in the wheel."""
        if version == "editable":
            return
        sys.path.insert(0, str(ROOT / "src"))
        import gsvc

        gsvc.__path__.append(str(ROOT))  # a source distribution has no links in src
        write_shell_files()
        for name, place in SHARED.items():
            build_data["shared_data"][str(FOLDER / name)] = place
            build_data["force_include"][str(FOLDER / name)] = f"gsvc/codec/command/shell/{name}"


def parsers(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """A parser and all those of its commands and actions, filled."""
    from gsvc.codec.command.main import CommandParser

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


def write_shell_files() -> None:
    """Write the files to build/shell."""
    import gsvc
    from gsvc.codec.command.main import command_parser

    os.environ["COLUMNS"] = "9999"  # who reads it breaks its lines
    parser = command_parser()
    every = list(parsers(parser))
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
    for one in every:
        _complete_values(one)
    made |= {f"gsvc.{shell}": shtab.complete(parser, shell) for shell in ("bash", "zsh", "fish")}
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (FOLDER / name).write_text(text.rstrip("\n") + "\n")


if __name__ == "__main__":
    write_shell_files()
