"""Where video comes from: folders, lists, tar files, and whatever fsspec reaches.

An address is a path or a URL of fsspec; a member of a tar file is `tar://MEMBER::FILE`, as fsspec
chains them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import PurePosixPath
from typing import Any

import av
import fsspec
from av.container import InputContainer

from gsvc.codec.bitstream.errors import InputError
from gsvc.decoders.training.footage import CLIP_SUFFIXES

_LIST, _TAR = ".txt", ".tar"
_CHUNK = 1 << 20
_MOST_PIXELS = 1 << 26


def find_sources(given: Sequence[str]) -> list[str]:
    """Addresses of all videos that `given` names, sorted, each once.

    `given`: folders, videos, tar files and lists (.txt, an address a line), all of them local or
    URLs. Raises InputError for what is not there, and where no video is.
    """
    found = {address for one in given for address in _found(one)}
    if not found:
        raise InputError(f"no videos in {' '.join(given)}: name folders, lists or tar files")
    return sorted(found)


def _found(given: str) -> Iterator[str]:
    suffix = PurePosixPath(given).suffix.lower()
    try:
        system, path = fsspec.core.url_to_fs(given)
        if system.isdir(path):
            for each in system.find(path):
                if _is(each, CLIP_SUFFIXES):
                    yield _address(system, each)
                elif _is(each, {_TAR}):
                    yield from _members(_address(system, each))
        elif not system.exists(path):
            raise InputError(f"{given} is not there: name a folder, a video, a list or a tar file")
        elif suffix == _LIST:
            with system.open(path, "rt", encoding="utf-8") as file:
                for line in map(str.strip, file):
                    yield from _found(line) if line and not line.startswith("#") else ()
        elif suffix == _TAR:
            yield from _members(given)
        else:
            yield given
    except (ImportError, ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{given} cannot be looked into: {error}") from error


def _address(system: Any, path: str) -> str:
    return str(path if "file" in system.protocol else system.unstrip_protocol(path))


def _members(tar: str) -> Iterator[str]:
    """Videos in a tar file; a damaged one is a source that cannot be read."""
    try:
        names = fsspec.filesystem("tar", fo=tar).find("")
    except Exception:  # noqa: BLE001 - tarfile raises many; the survey says which
        yield tar
        return
    yield from (f"tar://{name}::{tar}" for name in names if _is(name, CLIP_SUFFIXES))


def _is(path: str, suffixes: set[str] | frozenset[str]) -> bool:
    return PurePosixPath(path).suffix.lower() in suffixes


def sha256_at(address: str) -> tuple[str, int]:
    """SHA-256 and bytes of a source."""
    digest, size = hashlib.sha256(), 0
    with fsspec.open(address, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


@contextmanager
def opened_video(address: str) -> Iterator[InputContainer]:
    """A source as video. Raises InputError where it is none, or of no sensible size."""
    with ExitStack() as stack:
        try:
            file = address if "://" not in address else stack.enter_context(fsspec.open(address))
            container = stack.enter_context(av.open(file))
            stream = container.streams.video[0]
        except (av.FFmpegError, IndexError, OSError) as error:
            raise InputError(f"cannot be read as video ({error})") from error
        if not 0 < stream.width * stream.height <= _MOST_PIXELS:
            raise InputError(f"frames of {stream.width}x{stream.height} are no video's")
        stream.thread_count = 1  # Ray spreads the work, and says on how many cores
        yield container
