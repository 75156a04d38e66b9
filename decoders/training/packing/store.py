"""The folder in which the parts of a pack are kept until it is complete."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TypeVar

from gsvc import __version__
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.media.output import explain_failure
from gsvc.decoders.training.packing.kinds import Sample
from gsvc.decoders.training.packing.parts import (
    PartFacts,
    PartMaker,
    read_facts,
    read_sample,
    write_part,
)

_SETTINGS = "parts.json"
_T = TypeVar("_T")


class PartFolder:
    """Parts of one maker, by number; each is written whole or not at all."""

    def __init__(self, path: Path, maker: PartMaker) -> None:
        """Open the folder, or make it.

        Raises ConfigError where it holds parts that another maker made, OutputError where it cannot
        be made.
        """
        self.path, self.maker = path, maker
        self._facts: dict[int, PartFacts] = {}
        settings, file = _settings(maker), path / _SETTINGS
        if file.exists():
            found = json.loads(file.read_text())
            if other := [name for name in settings if found.get(name) != settings[name]]:
                raise ConfigError(
                    f"{path} holds parts of another {', '.join(other)}: remove it, or name another "
                    "pack"
                )
        else:
            with explain_failure(path):
                path.mkdir(exist_ok=True)
                part = file.with_suffix(".part")
                part.write_text(json.dumps(settings))
                part.replace(file)

    def facts(self) -> dict[int, PartFacts]:
        """What is known of the parts that are there, by number."""
        for number in self._numbers():
            if number not in self._facts:
                self._facts[number] = self._read(read_facts, number)
        return self._facts

    def sample(self, number: int, row: int) -> Sample:
        """A sample of a part."""
        return self._read(read_sample, number, row)

    def _read(self, read: Callable[..., _T], number: int, *more: int) -> _T:
        """Raises InputError where the part is damaged."""
        file = self._file(number)
        try:
            return read(file, *more)
        except ValueError as error:
            raise InputError(f"{file} is damaged: remove it, and it is made again") from error

    def make(self, jobs: int) -> Iterator[PartFacts]:
        """Make parts that are missing, the first ones first, without end, in `jobs` processes."""
        there = set(self._numbers())
        missing = (number for number in count() if number not in there)
        if jobs == 1:
            for number in missing:
                yield self._make(number)
            return
        context = get_context("spawn")
        with ProcessPoolExecutor(jobs, context, _end_with_parent) as pool:
            try:
                running = {pool.submit(self._make, next(missing)) for _ in range(jobs)}
                while True:
                    done: set[Future[PartFacts]]
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    running |= {pool.submit(self._make, next(missing)) for _ in done}
                    for future in done:
                        yield future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _make(self, number: int) -> PartFacts:
        part = self.maker.make(number)
        with explain_failure(self.path):
            write_part(self._file(number), part)
        return part.facts

    def _file(self, number: int) -> Path:
        return self.path / f"{number:06d}.safetensors"

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob("*.safetensors"))


def _settings(maker: PartMaker) -> dict[str, object]:
    return {
        "kind": maker.kind,
        "seed": maker.seed,
        "version": __version__,
        "footage": _fingerprint(maker.folder, maker.files),
        "held-out footage": _fingerprint(maker.folder, maker.held),
    }


def _fingerprint(folder: Path, files: Sequence[Path]) -> str:
    """Of the names and sizes of files."""
    rows = [f"{path.relative_to(folder)} {path.stat().st_size}" for path in files]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _end_with_parent() -> None:
    """Of a worker: end when the process that started it ends, however it does."""

    def watch() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()
