"""A run's folder: run.json, one JSON record and one stream a cell. What is read back is verified.

Files appear by rename, complete or not at all. A record carries a digest of itself, its stream's
hash and size stand in it, and both carry the cell's key: a file that was damaged, cut off or
swapped with another is not taken for a result.
"""

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gsvc.codec.errors import ConfigError, InputError
from gsvc.codec.output import explain_failure
from gsvc.eval.bench.record import SCHEMA, CellRecord, from_json
from gsvc.eval.files import write_bytes

_log = logging.getLogger(__name__)

_DIGEST = "record_sha256"


@dataclass(frozen=True)
class Run:
    """A run's folder as read: run.json, and the records of its cells that are there, in its order.

    `settings` has "schema", "clips", "places" (clips as asked for), "sizes", "specs" (codecs as
    asked for), "codecs" (name: version), "metrics" (name: version, unit, direction), "frames",
    "stride", "moving" (clip: share of pixels that move), "gaps" (what could not run: reason),
    "anchors" (codecs that the others are measured against; none: the conventional ones),
    "cells" (of each: key, clip, size, codec, settings), "versions", "machine", "commit", "seconds".
    """

    settings: dict[str, Any]
    cells: list[CellRecord]


class Damaged(Exception):
    """What is kept of a cell is no result of it; the text says what is wrong."""


class RunFolder:
    """Reads and writes a run's folder. Raises OutputError when that cannot be done."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Create the folders, and take away what a killed run left half-written."""
        for folder in (self.path / "cells", self.path / "streams"):
            with explain_failure(folder):
                folder.mkdir(parents=True, exist_ok=True)
                for rest in folder.glob(".*"):
                    rest.unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the folder for this process. Raises ConfigError while another run has it."""
        with explain_failure(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise ConfigError(
                f"{self.path}: another gsvc bench is writing here: wait for it, "
                "or choose another folder"
            ) from error
        finally:
            os.close(handle)

    def settings(self) -> dict[str, Any] | None:
        """run.json, None when there is none. Raises InputError when it is none of ours."""
        file = self.path / "run.json"
        try:
            values = json.loads(file.read_bytes())
            schema = values["schema"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{file} is damaged ({error}): delete it and run again; the cells are kept"
            ) from error
        if schema != SCHEMA:
            raise InputError(f"{file} has schema {schema}, not {SCHEMA}: choose another folder")
        assert isinstance(values, dict)
        return values

    def write_settings(self, values: Mapping[str, Any]) -> None:
        """Replace run.json."""
        write_bytes(self.path / "run.json", _json_text(values).encode())

    def read(self, key: str) -> CellRecord | None:
        """The record of a cell, verified with its stream; None without one. Raises Damaged."""
        try:
            text = self._record_file(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Damaged(f"its record cannot be read ({error.strerror})") from error
        record = _parse(text)
        if record.key != key:
            raise Damaged("its record is another cell's")
        if record.bits:
            self.stream(record)
            if sum(record.ledger.values()) != record.bits:
                raise Damaged("its ledger does not sum to its bits")
        elif not record.error:
            raise Damaged("its record has no bits")
        return record

    def stream(self, record: CellRecord) -> bytes:
        """The bytes of a cell's stream. Raises Damaged when they are missing or not its own."""
        try:
            data = next((self.path / "streams").glob(f"{record.key}.*")).read_bytes()
        except StopIteration:
            raise Damaged("its stream is missing") from None
        except OSError as error:
            raise Damaged(f"its stream cannot be read ({error.strerror})") from error
        if 8 * len(data) != record.bits:
            raise Damaged(f"its stream has {len(data)} bytes instead of {record.bits // 8}")
        if hashlib.sha256(data).hexdigest() != record.stream_sha256:
            raise Damaged("its stream was changed")
        return data

    def write(self, record: CellRecord, stream: bytes | None, suffix: str) -> None:
        """Keep a cell: first the stream, when it is new, then the record that vouches for it."""
        if stream is not None:
            write_bytes(self.path / "streams" / f"{record.key}{suffix}", stream)
        values = asdict(record)
        values[_DIGEST] = _digest(values)
        write_bytes(self._record_file(record.key), _json_text(values).encode())
        if record.traceback:
            write_bytes(self.traceback_file(record.key), record.traceback.encode())

    def traceback_file(self, key: str) -> Path:
        """Where the traceback of a cell that failed is kept for people."""
        return self.path / "errors" / f"{key}.txt"

    def _record_file(self, key: str) -> Path:
        return self.path / "cells" / f"{key}.json"


def load_run(folder: str | Path) -> Run:
    """What a folder has: its settings and the verified records of its cells.

    Cells that are not done are left out, damaged ones too, with a warning.
    Raises InputError when the folder holds no run.
    """
    run = RunFolder(Path(folder))
    settings = run.settings()
    if settings is None:
        raise InputError(f"{folder} holds no run: make one with gsvc bench run --out {folder}")
    cells = []
    for cell in settings["cells"]:
        try:
            record = run.read(cell["key"])
        except Damaged as error:
            _log.warning("cell %s left out, %s: gsvc bench run makes it again", cell["key"], error)
            continue
        if record is not None:
            cells.append(record)
    return Run(settings, cells)


def _parse(text: bytes) -> CellRecord:
    try:
        values = json.loads(text)
        digest = values.pop(_DIGEST)
        record = from_json(values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"its record is damaged ({' '.join(str(error).split())})") from error
    if digest != _digest(values):
        raise Damaged("its record was changed")
    return record


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _json_text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=1, allow_nan=False) + "\n"
