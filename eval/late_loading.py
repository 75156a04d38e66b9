"""How baselines and metrics are found by name, and what is known of them without loading them.

Some of them need torch or a package that is not installed: they are loaded when they run.
"""

import re
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from gsvc.codec.bitstream.errors import GsvcError, MissingDependencyError, MissingModelError
from gsvc.codec.weights.extras import Late
from gsvc.codec.weights.model_files import sha256_of

if TYPE_CHECKING:
    import torch as torch  # noqa: PLC0414 - others import it from here
else:
    torch = Late("torch")


@contextmanager
def optional(message: str) -> Iterator[None]:
    """For imports: raises MissingDependencyError(`message`), {error} in it being why one fails."""
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(message.format(error=error)) from error


def reason(error: BaseException) -> str:
    """One line for a failure."""
    if isinstance(error, GsvcError):
        return " ".join(str(error).split())
    last = extract_tb(error.__traceback__)[-1]
    place = users_line(error) or f"{Path(last.filename).name}, line {last.lineno}: "
    text = " ".join(str(error).split()).removeprefix(f"[Errno {getattr(error, 'errno', '')}] ")
    return f"{place}{type(error).__name__}: {text}"


def users_line(error: BaseException) -> str:
    """ "my_codecs.py, line 12: ", where a user's code failed; empty if it was none of theirs."""
    places = extract_tb((error.__cause__ or error).__traceback__)
    own = [one for one in places if not one.filename.startswith(_NOT_THEIRS)]
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno}: " if own else ""


_NOT_THEIRS = "<", str(Path(__file__).parents[1]), *sysconfig.get_paths().values()


@cache
def ffmpeg_path() -> str:
    """The program of the package imageio-ffmpeg: what a machine's own `ffmpeg` can is unknown."""
    with optional("VMAF, VVenC and libaom need imageio-ffmpeg: pip install 'gsvc[bench]'"):
        import imageio_ffmpeg
    return str(imageio_ffmpeg.get_ffmpeg_exe())


def bundled_ffmpeg(question: str) -> str:
    """What that program says to "-version", "-filters"... Raises MissingDependencyError."""
    command = [ffmpeg_path(), "-hide_banner", question]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        why = f"the ffmpeg of imageio-ffmpeg does not run ({error}): reinstall imageio-ffmpeg"
        raise MissingDependencyError(why) from error


kept_sha256 = cache(sha256_of)


def hub_file(path: Path, name: str, remedy: str) -> Path:
    """The path of a file of weights, whose name ends with the first digits of its SHA-256.

    Raises MissingModelError where it is missing or another one; `name` is what that calls it.
    """
    if not path.is_file():
        raise MissingModelError(f"{name} is not on this machine: {remedy}")
    if not kept_sha256(path).startswith(path.name.partition(".")[0].rpartition("-")[2]):
        raise MissingModelError(f"{name} is damaged or another one: {remedy}")
    return path


def declared(package: str, table: str) -> Iterator[Any]:
    """The entries of `table`, a tuple that any module directly in `package` may have.

    Modules without it are not imported: some load torch, which takes seconds.
    """
    (folder,) = import_module(package).__path__
    has_table = re.compile(rf"^{table}\b.*=", re.MULTILINE)
    for module in iter_modules([folder]):
        if has_table.search(Path(folder, f"{module.name}.py").read_text(encoding="utf-8")):
            yield from getattr(import_module(f"{package}.{module.name}"), table)


@dataclass(frozen=True)
class CodecFacts:
    """What tables and plots have to know of a codec."""

    family: str = ""
    """Codecs of one family also have a joint hull, which tables call by this name; empty: none."""
    is_anchor: bool = False
    """Its hull is what the others are measured against: true of the conventional codecs."""
    colour: str = ""
    """Of its curves, "#rrggbb"; empty: the next free one of the palette."""
    marker: str = "o"
    """Shape of its points, as matplotlib names it."""
