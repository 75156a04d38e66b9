"""A run's folder: run.json, and one JSON record and one stream for each cell.

A cell is a clip coded once; every number of every table is made from its record. What is read back
is verified: a record carries its own digest, its stream's hash and size, and the cell's key. So no
damaged, cut or swapped file is taken for a result. Files appear by rename, whole or not at all.
"""

import fcntl
import hashlib
import json
import logging
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import gsvc
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.media.output import explain_failure
from gsvc.eval.layout import write_bytes

SCHEMA = 1


@dataclass(frozen=True)
class MetricScores:
    """One metric of one decoded clip."""

    mean: float | None
    """None without a number."""
    values: list[float | None] = field(default_factory=list)
    """In the order of the run's frame indices; one for a metric of whole clips."""
    version: str = ""
    gap: str = ""
    """Why there is no number."""
    traceback: str = field(default="", compare=False)
    """Of an error that is none of gsvc's, such as one in a user's own metric."""
    seconds: float = field(default=0.0, compare=False)
    """Wall-clock time of measuring; its share, where several were measured at once."""


@dataclass(frozen=True)
class DecodeRecord:
    """One way a cell's stream was decoded."""

    way: dict[str, int | float | str]
    seconds: float
    """Wall-clock."""
    frames_sha256: str
    scores: dict[str, MetricScores]
    flops_per_pixel: float | None = None
    """Per pixel of a frame."""
    model_bytes: int | None = None
    peak_memory: int | None = None
    """Bytes of resident memory at the peak, over those before decoding began."""
    joules: float | None = None
    """Of the processor while decoding; None where it was not measured."""
    cpu_seconds: float | None = field(default=None, compare=False)
    """Processor time of decoding, all cores together; None where it was not measured."""


@dataclass(frozen=True)
class CellRecord:
    """A cell that was run."""

    key: str
    clip: str
    size: str
    """"288", "480" or "native"."""
    width: int
    height: int
    frame_rate: str
    """A fraction: "30000/1001"."""
    frames: int
    source_sha256: str
    codec: str
    codec_version: str
    settings: dict[str, int | float | str]
    bits: int = 0
    stream_sha256: str = ""
    ledger: dict[str, int] = field(default_factory=dict)
    """Bits by layer."""
    encode_seconds: float = 0.0
    encode_joules: float | None = None
    """Of the processor while encoding; None where it was not measured."""
    encode_cpu_seconds: float | None = field(default=None, compare=False)
    """As `DecodeRecord.cpu_seconds`."""
    decodes: list[DecodeRecord] = field(default_factory=list)
    error: str = ""
    """Why it, or a part of it, failed; the rest of the record stays valid."""
    traceback: str = field(default="", compare=False)
    """Of that failure, unless gsvc itself says what is wrong."""
    schema: int = SCHEMA

    @property
    def bpp(self) -> float:
        """Bits per pixel of a frame as shown."""
        return self.bits / (self.frames * self.width * self.height)

    @property
    def bitrate(self) -> float:
        """Bits per second."""
        numerator, _, denominator = self.frame_rate.partition("/")
        return self.bits * int(numerator) / int(denominator or 1) / self.frames


_log = logging.getLogger(__name__)

_DIGEST = "record_sha256"


@dataclass(frozen=True)
class BenchRun:
    """A run's folder as read: run.json, and the records of its cells that are there, in its order.

    `settings` has "schema", "clips", "places" (clips as asked for), "sizes", "specs" (codecs as
    asked for), "codecs" (name: version), "metrics" (name: version, unit, direction), "condition",
    "frames", "stride", "moving" (clip: share of pixels that move), "gaps" (what could not run:
    reason), "anchors" (codecs that the others are measured against; none: the conventional ones),
    "cells" (of each: key, clip, size, codec, settings), "versions", "machine", "commit", "seconds".
    """

    settings: dict[str, Any]
    cells: list[CellRecord]


class Damaged(Exception):
    """What is kept of a cell is no result of it; the text says what is wrong."""


class BenchFolder:
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

    def check_own(self) -> None:
        """Raise ConfigError for a folder of other files, which a run would mix with or replace."""
        names = {file.name for file in self.path.glob("[!.]*")}
        if names and not names & {"run.json", "cells", "backend.json"}:
            what = "the tables of a run alone" if "summary.csv" in names else "no run, but files"
            raise ConfigError(f"{self.path} holds {what}: choose another folder for --out")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the folder for this process. Raises ConfigError while another run has it."""
        is_new = not self.path.exists()
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
            if is_new:
                with suppress(OSError):  # which says that something is in it
                    self.path.rmdir()

    def settings(self) -> dict[str, Any] | None:
        """run.json, None when there is none. Raises InputError when it is none of ours."""
        file = self.path / "run.json"
        try:
            values = json.loads(file.read_bytes())
            schema = values["schema"]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = f"{file} is damaged ({error}): delete it and run again; the cells are kept"
            raise InputError(why) from error
        if schema != SCHEMA:
            raise InputError(f"{file} has schema {schema}, not {SCHEMA}: choose another folder")
        assert isinstance(values, dict)
        return values

    def write_settings(self, values: Mapping[str, Any]) -> None:
        """Replace run.json; tracebacks of cells that it does not have any more go."""
        known = {cell["key"] for cell in values["cells"]}
        for file in (self.path / "errors").glob("*.txt"):
            if file.stem not in known:
                file.unlink()
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
        self.traceback_file(record.key).unlink(missing_ok=True)
        if record.traceback:
            write_bytes(self.traceback_file(record.key), record.traceback.encode())

    def traceback_file(self, key: str) -> Path:
        """Where the traceback of a cell that failed is kept for people."""
        return self.path / "errors" / f"{key}.txt"

    def _record_file(self, key: str) -> Path:
        return self.path / "cells" / f"{key}.json"


def load_run(folder: str | Path) -> BenchRun:
    """What a folder has: its settings and the verified records of its cells.

    Cells that are not done are left out, damaged ones too, with a warning.
    Raises InputError when the folder holds no run.
    """
    run = BenchFolder(Path(folder))
    settings = run.settings()
    if settings is None:
        if (run.path / "summary.csv").exists():
            raise InputError(
                f"{folder} holds the tables of a run alone: gsvc bench table and compare read them"
            )
        raise InputError(f"{folder} holds no run: make one with gsvc bench run --out {folder}")
    cells = []
    for cell in settings["cells"]:
        try:
            record = run.read(cell["key"])
        except Damaged as error:
            _log.warning("cell %s left out, %s: gsvc bench run makes it again", cell["key"], error)
            continue
        if record is not None and (record.decodes or record.error):
            cells.append(record)
    return BenchRun(settings, cells)


def _parse(text: bytes) -> CellRecord:
    try:
        values = json.loads(text)
        digest = values.pop(_DIGEST)
        if values["schema"] != SCHEMA:
            raise ValueError(f"schema {values['schema']} instead of {SCHEMA}")
        decodes = []
        for one in values["decodes"]:
            scores = {name: MetricScores(**score) for name, score in one["scores"].items()}
            known = {name: value for name, value in one.items() if name != "not_counted"}  # once
            decodes.append(DecodeRecord(**{**known, "scores": scores}))
        record = CellRecord(**{**values, "decodes": decodes})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"its record is damaged ({' '.join(str(error).split())})") from error
    if digest != _digest(values):
        raise Damaged("its record was changed")
    return record


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _json_text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


_PACKAGES = ("av", "numpy", "opencv-python-headless", "torch", "diffusers", "stlpips-pytorch")


def versions() -> dict[str, str]:
    """Of gsvc, Python and the packages that the numbers depend on; a missing one is left out."""
    found = {"gsvc": gsvc.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def commit() -> str | None:
    """Of the checkout that gsvc runs from, with "+" when files differ from it; None elsewhere."""
    file = Path(gsvc.__file__).resolve()
    if _git(file, "ls-files", "--error-unmatch", file.name) is None:
        return None
    changed = _git(file, "status", "--porcelain", "--untracked-files=no")
    found = _git(file, "rev-parse", "HEAD")
    return f"{found}{'+' if changed else ''}" if found else None


def _git(file: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=file.parent, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
