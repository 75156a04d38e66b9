"""Parsers of the command line: one line for an error; a command is imported when it is named."""

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

_NAMES = (
    *("audio", "backend", "cache", "detector", "device", "frames", "latent_cache", "motion"),
    *("objects", "paste_keys", "quantize", "resume", "scale", "start", "steps", "task", "vram"),
)
"""Arguments and settings of Python that messages name; their options are called the same."""
_OTHERS = {
    "overwrite": "-y",
    "certificate": "--tls-cert",
    "private_key": "--tls-key",
    "authorities": "--tls-ca",
}
_NAMED = re.compile(
    rf"(?<![\w./=:,-])({'|'.join((*_NAMES, *_OTHERS))})=(\"[^\"]*\"|'[^']*'|\w+(?:\.\w+)?)?"
)
_NUMBERED = re.compile(r"\[Errno -?\d+\] ([^:'\[\]]+)(?:: '[^']*')?")


def as_options(text: str) -> str:
    """A message with steps=0 as --steps 0, and an error of the system without its number."""
    return _NUMBERED.sub(r"\1", _NAMED.sub(_option, text))


def _option(match: re.Match[str]) -> str:
    name, value = match.group(1), (match.group(2) or "").strip("\"'")
    option = _OTHERS.get(name, f"--{name.replace('_', '-')}")
    return option if value in ("", "True") else f"{option} {value}"


FAILED = 1
"""Exit code of a failure."""
USAGE = 2
"""Exit code of a wrong request."""


def complain(line: str) -> None:
    """Say on standard error what went wrong."""
    if sys.stderr is not None:
        print(f"gsvc: error: {as_options(line)}", file=sys.stderr)


class Parser(ArgumentParser):
    """Reports a wrong request in one line."""

    def error(self, message: str) -> NoReturn:
        """Report `message` and exit."""
        complain(f"{message} (see {self.prog} --help)")
        raise SystemExit(USAGE)


class CommandParser(Parser):
    """Takes options between the input and the output too, which argparse by itself does not."""

    def __init__(self, *, module: str | None = None, **options: Any) -> None:
        """Make a parser; `options` are argparse's.

        Args:
            module: The module that describes the command, imported when the parser is first used:
                `DESCRIPTION`, `add_arguments(parser)` and, where options had other names once,
                `RENAMED`: old name → new one.
        """
        super().__init__(**options)
        self._module = module
        self._is_mixing = False
        self._renamed: Mapping[str, str] = {}

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """See argparse; what has actions of its own cannot mix options and positions."""
        self.ask_module()
        if self._is_mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        given = sys.argv[1:] if args is None else args
        try:
            return self.parse_known_intermixed_args([*map(self._current, given)], namespace)
        finally:
            self._is_mixing = False

    def ask_module(self) -> None:
        """Take description and arguments from the command's module, if that is still to do."""
        if self._module is not None:
            command, self._module = import_module(self._module), None
            self.description = command.DESCRIPTION
            self._renamed = getattr(command, "RENAMED", {})
            command.add_arguments(self)

    def _current(self, argument: str) -> str:
        """An option by its name of today, with a note where that is not the one given."""
        name, equals, value = argument.partition("=")
        if name not in self._renamed:
            return argument
        if sys.stderr is not None:
            print(f"gsvc: note: {name} is called {self._renamed[name]} now", file=sys.stderr)
        return f"{self._renamed[name]}{equals}{value}"


def add_modules(
    parser: ArgumentParser,
    dest: str,
    lines: Mapping[str, str],
    prefix: str,
    aliases: Mapping[str, str] | None = None,
) -> None:
    """Add a command of its own for each name in `lines`, where its line of help is.

    Args:
        dest: The option that will hold the name.
        prefix: With the name behind it, the module that has the rest (`CommandParser`).
        aliases: Names that are others' too: their modules are the others'.
    """
    commands = parser.add_subparsers(
        dest=dest, required=True, metavar=dest.upper(), parser_class=CommandParser
    )
    for name, line in lines.items():
        commands.add_parser(name, help=line, module=prefix + (aliases or {}).get(name, name))
