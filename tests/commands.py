"""`gsvc` as a shell runs it, in this process: a process of its own pays a second of imports.

What a test says of the process itself (signals, limits, threads, imports) needs a real one.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, CompletedProcess
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any
from unittest.mock import patch

from gsvc.codec.command.main import main

Result = CompletedProcess[bytes]
SCRIPT = Path(sys.executable).with_name("gsvc")
FAILED, USAGE = 1, 2


def run_gsvc(
    *arguments: object,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    input: bytes | None = None,
    stdin: IO[bytes] | int = DEVNULL,
    stdout: IO[bytes] | int = PIPE,
    stderr: IO[bytes] | int = PIPE,
) -> Result:
    """Run `gsvc`; keywords are those of `subprocess.run`, except that `env` adds variables."""
    words = list(map(str, arguments))
    with TemporaryFile() as out, TemporaryFile() as err, _pipe_with(input or b"") as pipe:
        with ExitStack() as held:
            held.enter_context(patch.dict(os.environ, env or {}))
            held.enter_context(patch.object(sys, "path", sys.path.copy()))
            held.enter_context(chdir(cwd or "."))
            held.enter_context(_redirected(0, pipe if stdin == DEVNULL else stdin))
            held.enter_context(_redirected(1, out if stdout == PIPE else stdout))
            held.enter_context(_redirected(2, err if stderr == PIPE else stderr))
            try:
                code = main(words)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
        out.seek(0)
        err.seek(0)
        return Result(words, code, out.read(), err.read())


def run_process(*arguments: object, env: dict[str, str] | None = None, **options: Any) -> Result:
    """Run `gsvc` in a process of its own; keywords are those of `subprocess.run`, as above."""
    command = [str(SCRIPT), *map(str, arguments)]
    usual = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE, "timeout": 300}
    environment = {**os.environ, **(env or {})}
    return subprocess.run(command, check=False, env=environment, **{**usual, **options})


@contextmanager
def _redirected(number: int, file: IO[bytes] | int) -> Iterator[None]:
    """A standard descriptor, and Python's own file of it, are `file` meanwhile."""
    name = ("stdin", "stdout", "stderr")[number]
    before, kept = getattr(sys, name), os.dup(number)
    os.dup2(file if isinstance(file, int) else file.fileno(), number)
    try:
        with open(number, "w" if number else "r", closefd=False) as own:
            setattr(sys, name, own)
            yield
    finally:
        setattr(sys, name, before)
        os.dup2(kept, number)
        os.close(kept)


@contextmanager
def _pipe_with(data: bytes) -> Iterator[IO[bytes]]:
    """The end to read of a pipe that `data` are written into."""
    source, target = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), open(target, "wb") as file:
            file.write(data)

    writer = Thread(target=write)
    writer.start()
    with open(source, "rb") as file:
        yield file
    writer.join()


def assert_one_line(result: Result, code: int, *parts: str) -> None:
    """A code, and one line on standard error that has these parts in it."""
    text = result.stderr.decode()
    assert result.returncode == code, text
    assert text.startswith("gsvc: error: ") and text.count("\n") == 1 and text.endswith("\n"), text
    assert "Traceback" not in text and "internal error" not in text
    for part in parts:
        assert part in text
