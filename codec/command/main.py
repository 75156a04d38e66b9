"""The command `gsvc`: its commands, its exit codes, and one line for whatever goes wrong.

Exit codes: 0 done; 1 failed; 2 usage; 129 hung up, 130 interrupted, 143 terminated (they leave
no partial file).
"""

import errno
import logging
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import NoReturn

from gsvc import __version__
from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.codec.command.parser import FAILED, USAGE, Parser, add_modules, as_options, complain

COMMANDS = {
    "encode": "video to stream",
    "decode": "stream to video",
    "play": "stream to a player",
    "info": "what is in a stream",
    "mux": "stream to a file that any player shows",
    "demux": "and back",
    "sign": "content credentials for what was decoded",
    "analyse": "what a stream shows, without decoding it",
    "analyze": "the same",
    "send": "video to network",
    "recv": "network to video",
    "serve": "stream to browsers",
    "score": "two videos compared",
    "plan": "settings for a budget",
    "profile": "what coding takes on this machine",
    "models": "models of others",
    "bench": "compare codecs",
    "data": "video made ready for training",
    "train": "make a refiner",
    "doctor": "is everything here?",
    "completion": "for bash, zsh or fish",
}
"""Command → its line in `gsvc --help`. The module of that name in this folder holds the rest:
`DESCRIPTION`, `add_arguments(parser)` and `run(options)`, which returns the exit code."""

_MODULES = f"{__package__}."
_ALIASES = {"analyze": "analyse"}
"""Other spellings of commands."""
_INTERRUPTED = 130
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_SIGNALLED = 128
"""Plus the signal's number: 129 hung up, 143 terminated."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (default: the process's own); returns the exit code."""
    prepare_process()
    options = Namespace(json=False)
    try:
        command_parser().parse_args(arguments, options)
        name = _ALIASES.get(options.command, options.command)
        code: int = import_module(_MODULES + name).run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except GsvcError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            return _leave_quietly()
        return _fail(options, error, USAGE if isinstance(error, ConfigError) else FAILED)
    except BrokenPipeError:
        return _leave_quietly()
    except KeyboardInterrupt:
        complain("interrupted: nothing was written")
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - said in one line, with the way to the traceback
        return _fail(options, error, FAILED, _unexpected(error))


def command_parser() -> Parser:
    """The parser of `gsvc`; those of its commands are filled when they are used."""
    parser = Parser(prog="gsvc", description="Generative semantic video codec.")
    parser.add_argument("--version", action="version", version=f"gsvc {__version__}")
    add_modules(parser, "command", COMMANDS, _MODULES, _ALIASES)
    return parser


def _unexpected(error: Exception) -> str:
    if os.environ.get("GSVC_DEBUG"):
        raise error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        # Every file names its own failures: what is left is what was printed.
        from gsvc.codec.media.output import STANDARD_OUTPUT, failure_text

        return failure_text(STANDARD_OUTPUT, error.errno, error.strerror)
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}: check the name and its folder"
    return (
        f"internal error: {type(error).__name__}: {error}; please report it, "
        "run with GSVC_DEBUG=1 for the traceback"
    )


def _fail(options: Namespace, error: Exception, code: int, message: str | None = None) -> int:
    line = as_options(" ".join((message or str(error)).split()))
    if options.json:
        from gsvc.codec.command.progress import json_lines

        lines = json_lines(options)
        try:
            lines.put("error", error=type(error).__name__, message=line, exit=code)
        except OSError:
            pass
        if lines.is_stderr:
            return code
    complain(line)
    _drop_output()
    return code


def _leave_quietly() -> int:
    _drop_output()
    return FAILED


def _drop_output() -> None:
    """Give up what standard output could not take: Python would try it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare_process() -> None:
    """Warnings go to standard error; SIGTERM and SIGHUP end the work in good order."""
    _log_to_stderr()
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP for us
            signal.signal(number, _terminate)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(_SIGNALLED + number)


class _OneLine(logging.Formatter):
    """ "gsvc: warning: ..." """

    def format(self, record: logging.LogRecord) -> str:
        return f"gsvc: {record.levelname.lower()}: {as_options(record.getMessage())}"


class _Once(logging.Filter):
    """Keeps back a warning that was given before: a video may be read more than once."""

    def __init__(self) -> None:
        super().__init__()
        self._given: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        is_new = record.levelno != logging.WARNING or line not in self._given
        self._given.add(line)
        return is_new


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    handler.addFilter(_Once())
    # What torch says when it looks for a compiler, that there is no GPU here, is no warning.
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
    logging.getLogger("gsvc").handlers = [handler]  # one, however many commands a process runs
    logging.getLogger("gsvc").propagate = False
