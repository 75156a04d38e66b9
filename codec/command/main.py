"""The command `gsvc`: its commands, their parsers, its exit codes, one line for what goes wrong.

A command's module is imported when it is named. Exit codes: 0 done; 1 failed; 2 usage; 129 hung up,
130 interrupted, 143 terminated (they leave no partial file; a live session ends well: 0).
"""

import errno
import logging
import os
import re
import signal
import sys
from argparse import Action, ArgumentError, ArgumentParser, HelpFormatter, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import BufferedWriter, FileIO, TextIOWrapper
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from gsvc import __version__
from gsvc.codec.bitstream import errors
from gsvc.codec.bitstream.errors import NOTE, OUT_OF_MEMORY, TOO_MANY_FILES, ConfigError, GsvcError

_NAMES = (
    *("audio", "backend", "cache", "deinterlace", "detector", "device", "fps", "frames"),
    *("latent_cache", "preset"),
    *("max_bitrate", "max_packet_bytes"),
    *("motion", "objects", "paste_keys", "quantize", "resume", "scale", "size", "start", "steps"),
    *("task", "vram"),
)
"""Arguments and settings of Python that messages name; their options are called the same."""
_OTHERS = {
    "overwrite": "-y",
    "certificate": "--tls-cert",
    "private_key": "--tls-key",
    "authorities": "--tls-ca",
}
_NAMED = re.compile(
    rf"ffmpeg -i .*?(?:OUTPUT|$)|(?<![\w./=:,-])({'|'.join((*_NAMES, *_OTHERS))})="
    r"(\"[^\"]*\"|'[^']*'|\d+\.\d+|\w+)?(?!\w|\.\w)"
)
"""Neither in the commands of others nor in the names of files."""
_NUMBERED = re.compile(r"\[Errno -?\d+\] ([^:'\[\]]+)(?:: '[^']*')?")


def as_options(text: str) -> str:
    """A message with steps=0 as --steps 0, and an error of the system without its number."""
    return errors.one_line(_NUMBERED.sub(r"\1", _NAMED.sub(_option, text)))


def _option(match: re.Match[str]) -> str:
    if match.group(1) is None:
        return match.group()
    name, value = match.group(1), (match.group(2) or "").strip("\"'")
    option = _OTHERS.get(name, f"--{name.replace('_', '-')}")
    return option if value in ("", "True") else f"{option} {value}"


FAILED = 1
"""Exit code of a failure."""
USAGE = 2
"""Exit code of a wrong request."""


def complain(line: str) -> None:
    """Say on standard error what went wrong."""
    with suppress(OSError):
        print(f"gsvc: error: {as_options(line)}", file=sys.stderr, flush=True)


class CommandParser(ArgumentParser):
    """Reports a wrong request in one line; takes options between input and output, too."""

    def __init__(self, *, module: str | None = None, **options: Any) -> None:
        """`module`: where the command is described, as of `find_verb`, imported when the parser is
        first used; `options`: argparse's."""
        super().__init__(allow_abbrev=False, **options)
        self._module = module
        self._is_mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """See argparse; what has actions of its own cannot mix options and positions."""
        self.ask_module()
        if self._is_mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        given = list(sys.argv[1:] if args is None else args)
        end = given.index("--") if "--" in given else len(given)
        # argparse would look for options behind "--" again.
        names = [f"./{name}" if re.match("-.", name) else name for name in given[end + 1 :]]
        if any(re.fullmatch("(--[a-z-]+=)?", word) for word in given[:end]) or "" in names:
            self.error('an argument is "": was a variable set?')
        words = [*given[: end + 1], *names]
        try:
            found, unknown = self.parse_known_intermixed_args(words, namespace)
        finally:
            self._is_mixing = False
        for word in sorted(unknown, key=lambda word: not word.startswith("-"))[:1]:
            meant = errors.nearest(word, self._option_string_actions)
            self.error(f"unrecognized argument {word}{meant}")
        return found, unknown

    def _check_value(self, action: Action, value: Any) -> None:
        """See argparse; of choices that value is near to, the nearest is told alone."""
        near = errors.nearest(str(value), map(str, action.choices or ()))
        if near and value not in (action.choices or ()):
            raise ArgumentError(action, f"invalid choice: {value!r}{near}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Report `message` and exit."""
        complain(f"{message} (see {self.prog} --help)")
        raise SystemExit(USAGE)

    def ask_module(self) -> None:
        """Take description and arguments from the command's module, if that is still to do."""
        if self._module is not None:
            from gsvc.codec.command.arguments import add_options

            command, self._module = find_verb(self._module), None
            self.description, _, table = command.USAGE.partition("\n\n")
            add_options(self, table, command.DEFAULTS, command.TYPES)
            if command.ACTIONS:
                add_verbs(self, ("action", "step")[self.prog.count(" ") - 1], command.ACTIONS)
            if command.add_arguments:
                command.add_arguments(self)


Verbs = Mapping[str, tuple[str, str]]
"""Verb → its line of help, and the module of this folder that describes it, or "module:NAME"."""


_NONE: Mapping[str, Any] = {}


class Verb(NamedTuple):
    """A command. A module that is one has attributes of these names."""

    USAGE: str
    """What it does; behind an empty line its options, as `arguments.py` reads them."""
    run: Callable[[Namespace], int]
    """Returns the exit code."""
    DEFAULTS: Sequence[object] = ()
    TYPES: Mapping[str, Callable[[str], object]] = _NONE
    """Of its options, see `add_options`."""
    ACTIONS: Verbs = _NONE
    """Commands of its own."""
    add_arguments: Callable[[ArgumentParser], None] | None = None
    """Adds arguments that are declared elsewhere."""


def find_verb(place: str) -> Verb:
    """What is at "module:NAME" of this folder, or the module that is a command of its own."""
    module, _, name = place.partition(":")
    found = import_module(f"{__package__}.{module}")
    if name:
        return getattr(found, name)  # type: ignore[no-any-return]
    return Verb(**{part: getattr(found, part) for part in Verb._fields if hasattr(found, part)})


def add_verbs(parser: ArgumentParser, dest: str, verbs: Verbs) -> None:
    """Add a command of its own for each verb; the option `dest` will hold its name."""
    commands = parser.add_subparsers(
        dest=dest, required=True, metavar=dest.upper(), parser_class=CommandParser
    )
    for name, (line, place) in verbs.items():
        commands.add_parser(name, help=line, module=place)


COMMANDS: Verbs = {
    "encode": ("encode a video to a stream", "encode"),
    "decode": ("decode a stream to a video", "decode"),
    "play": ("play a stream in a window", "decode:PLAY"),
    "info": ("show what a stream contains", "info"),
    "mux": ("put a stream into .mp4, .mkv or .webm", "info:MUX"),
    "demux": ("get the stream back from such a file", "info:DEMUX"),
    "sign": ("add content credentials to a decoded file", "info:SIGN"),
    "analyse": ("find objects and events in a stream", "analyse"),
    "analyze": ("same as analyse", "analyse"),
    "send": ("encode a video live and send it", "send"),
    "recv": ("receive a live stream", "recv"),
    "relay": ("link a camera and a player through gsvc", "relay"),
    "serve": ("serve a stream to browsers", "recv:SERVE"),
    "score": ("compare two videos by metrics", "score"),
    "plan": ("find the best settings for a budget", "plan"),
    "profile": ("measure this machine for gsvc plan", "plan:PROFILE"),
    "models": ("list, download and verify models", "doctor:MODELS"),
    "bench": ("compare codecs", "bench"),
    "data": ("prepare videos for training", "data"),
    "train": ("train a refiner", "train"),
    "doctor": ("check this machine", "doctor"),
    "completion": ("print completions for bash, zsh or fish", "doctor:COMPLETION"),
}

_GROUPS = {"encode": "code", "send": "live", "score": "measure and make"}
"""The first command of each group, and what `gsvc --help` calls the group."""


class _Grouped(HelpFormatter):
    def _format_action(self, action: Action) -> str:
        shown = super()._format_action(action)
        group = _GROUPS.get(action.dest)
        return shown if group is None else f"\n  {group}:\n{shown}"


_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_SIGNALLED = 128  # plus the signal's number: 129 hung up, 130 interrupted, 143 terminated


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (default: the process's own); returns the exit code."""
    prepare_process()
    options = Namespace(json=False)
    try:
        command_parser().parse_args(arguments, options)
        _refuse_little_memory()
        code = find_verb(COMMANDS[options.command][1]).run(options)
        sys.stdout.flush()
        return code
    except GsvcError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            return _leave_quietly()
        return _fail(options, error, USAGE if isinstance(error, ConfigError) else FAILED)
    except BrokenPipeError:
        return _leave_quietly()
    except KeyboardInterrupt:
        return _tell_interrupt()
    except Exception as error:  # noqa: BLE001 - said in one line, with the way to the traceback
        if signal.getsignal(signal.SIGINT) is _interrupted_before:
            return _tell_interrupt()
        return _fail(options, error, FAILED, _unexpected(error))


def command_parser() -> CommandParser:
    """The parser of `gsvc`; those of its commands are filled when they are used."""
    title = "Generative semantic video codec."
    parser = CommandParser(prog="gsvc", description=title, formatter_class=_Grouped)
    parser.add_argument("--version", action="version", version=f"gsvc {__version__}")
    add_verbs(parser, "command", COMMANDS)
    return parser


_LITTLE_MEMORY = re.compile(
    r"MemoryError|(out of|insufficient) memory|can(not|'t) (allocate memory|start new thread)"
    r"|failed to map segment|bad_alloc|Resource temporarily unavailable",
    re.IGNORECASE,
)
"""What libraries say where memory is short, each with an error of its own."""


def _unexpected(error: Exception) -> str:
    if os.environ.get("GSVC_DEBUG"):
        raise error
    if _LITTLE_MEMORY.search(f"{type(error).__name__}: {error}"):
        return OUT_OF_MEMORY
    if "Too many open files" in str(error):
        return TOO_MANY_FILES
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        # Every file names its own failures: what is left is what was printed.
        from gsvc.codec.media.output import STANDARD_OUTPUT, failure_text

        return failure_text(STANDARD_OUTPUT, error.errno, error.strerror)
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}: check the name and its folder"
    if isinstance(error, OverflowError):
        return "a number of the request is too large: give a smaller one"
    if isinstance(error, FileNotFoundError):  # without a name: of the folder one is in
        return "the working folder was removed: cd into another one"
    return (
        f"internal error: {type(error).__name__}: {error}; please report it, "
        "run with GSVC_DEBUG=1 for the traceback"
    )


def _fail(options: Namespace, error: Exception, code: int, message: str | None = None) -> int:
    line = as_options(message or str(error))
    if options.json:
        from gsvc.codec.command.arguments import json_lines

        lines = json_lines(options)
        with suppress(OSError):
            lines.put("error", error=type(error).__name__, message=line, exit=code)
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
    _open_streams()
    _log_to_stderr()
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP for us
            signal.signal(number, _terminate)


_LEAST_MEMORY = 500_000_000  # bytes below which libraries crash while they are loaded


def _refuse_little_memory() -> None:
    with suppress(ImportError):  # Windows
        from resource import RLIMIT_AS, getrlimit

        if 0 <= getrlimit(RLIMIT_AS)[0] < _LEAST_MEMORY:
            raise GsvcError(OUT_OF_MEMORY)


class _Told(FileIO):
    """Standard error. What a full disk cannot take stops no work."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            super().write(data)
        return len(data)


def _open_streams() -> None:
    """What is printed goes nowhere where a daemon has no output, and needs no letter of UTF-8. Else
    the next file to be opened would take the number, and what a library prints with it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number
    for name in ("stdout", "stderr"):
        file = getattr(sys, name)
        if file is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(file, TextIOWrapper):
            file.reconfigure(errors="backslashreplace")
    if isinstance(sys.stderr, TextIOWrapper) and sys.stderr is sys.__stderr__:
        how = sys.stderr.encoding, sys.stderr.errors
        file = BufferedWriter(_Told(2, "wb", closefd=False))
        sys.stderr = TextIOWrapper(file, *how, line_buffering=True)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """A module that is written in C and being imported makes another error of it."""
    signal.signal(number, _interrupted_before)
    raise KeyboardInterrupt


def _interrupted_before(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _tell_interrupt() -> int:
    complain("interrupted: no partial file is left")
    return _SIGNALLED + signal.SIGINT


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(_SIGNALLED + number)


class _OneLine(logging.Formatter):
    """ "gsvc: warning: ..." """

    def format(self, record: logging.LogRecord) -> str:
        return f"gsvc: {record.levelname.lower()}: {as_options(record.getMessage())}"


class _Once(logging.Filter):
    """Keeps back a warning or note that was given before: a video may be read more than once."""

    def __init__(self) -> None:
        super().__init__()
        self._given: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.getMessage()
        is_new = record.levelno not in (NOTE, logging.WARNING) or line not in self._given
        self._given.add(line)
        return is_new


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    handler.addFilter(_Once())
    logging.addLevelName(NOTE, "NOTE")
    logging.getLogger("gsvc").setLevel(NOTE)
    logging.getLogger("gsvc").handlers = [handler]  # one, however many commands a process runs
    logging.getLogger("gsvc").propagate = False
