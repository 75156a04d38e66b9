"""What encoding and decoding a file tell: progress, and a report at the end."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TextIO

from gsvc.codec.media.output import STANDARD_OUTPUT, explain_failure


@dataclass(frozen=True)
class Progress:
    """How far encoding or decoding has come."""

    frames: int
    """Frames done."""
    total: int | None
    """Frames in all; None where the source does not tell."""
    size: int
    """Bytes of the stream so far."""
    under_way: float = 0.0
    """Further work, in frames, that is done on the group being coded; 0 in decoding."""


Report = Callable[[Progress], None]


@dataclass(frozen=True)
class FileReport:
    """The result of encoding or decoding a file."""

    target: str
    """Path of what was written, as given."""
    width: int
    """Pixels, as displayed."""
    height: int
    """Pixels, as displayed."""
    frames: int
    """Frames written."""
    duration: float
    """Seconds of video."""
    elapsed: float
    """Seconds that it took."""


@dataclass(frozen=True)
class EncodeReport(FileReport):
    """The result of `gsvc.encode`."""

    level: int
    """Level of the stream, 0-3."""
    size: int
    """Bytes of the stream."""
    audio_size: int
    """Bytes of the sound in it, with its framing."""
    text_size: int
    """Bytes of title, chapters and subtitles in it, with their framing."""
    estimated_quality: float | None = None
    """ST-LPIPS AlexNet that the encoder estimates, not measured; None without `quality`."""
    measured_quality: float | None = None
    """ST-LPIPS AlexNet of what `gsvc decode` shows; None where it was not measured."""

    @property
    def video_size(self) -> int:
        """Bytes of the pictures, with all headers."""
        return self.size - self.audio_size - self.text_size

    @property
    def total_bitrate(self) -> float:
        """Bits per second of the whole file."""
        return 8 * self.size / self.duration

    @property
    def bpp(self) -> float:
        """Bits per pixel of a frame, without sound and texts."""
        return 8 * self.video_size / (self.width * self.height * self.frames)

    @property
    def bitrate(self) -> float:
        """Bits per second, without sound and texts."""
        return 8 * self.video_size / self.duration


@dataclass(frozen=True)
class PiecesReport(EncodeReport):
    """The result of `gsvc.encode_pieces`; `size` is that of all pieces together."""

    pieces: int = 0
    """Number of pieces, without parity."""
    parity: int = 0
    """How many pieces of parity there are beside them."""
    preview: tuple[int, int] | None = None
    """Width and height of the small picture in piece 0; None without one."""
    loss: float = 0.0
    """Share of pieces that the link loses, as it was told."""


@dataclass(frozen=True)
class DecodeReport(FileReport):
    """The result of `gsvc.decode`."""

    steps: int
    """Steps of the refiner."""
    concealed: int
    """Frames made up in place of damaged or missing ones, where `DecoderSettings.conceal` is."""


def shown_rate(total: float, video: float, bpp: float, frames: int) -> str:
    """Bits per second of all and of the pictures, which `bpp` bits per pixel are of, for people; of
    a still, which lasts no time, the latter alone."""
    if frames == 1:
        return f"{bpp:.5f} bpp"
    return f"{total / 1000:.2f} kbit/s in all, {video / 1000:.2f} for video ({bpp:.5f} bpp)"


def shown_time(seconds: float) -> str:
    """Minutes and seconds, or hours too, with tenths where they are not 0: "0:07.6", "1:02:03"."""
    minutes, rest = divmod(round(10 * seconds), 600)
    hours, minutes = divmod(minutes, 60)
    begin = f"{hours}:{minutes:02d}" if hours else f"{minutes}"
    return f"{begin}:{rest // 10:02d}" + (f".{rest % 10}" if rest % 10 else "")


def parsed_time(text: str) -> float:
    """Seconds from 90, 1:30, 1:30.5 or 0:01:30. Raises ValueError for anything else."""
    *before, last = text.split(":")
    if len(before) > 2 or (before and (last[:1] in "+-" or float(last) >= 60)):
        raise ValueError(f"{text!r} is no time")
    seconds = float(last)
    if not abs(seconds) < float("inf"):
        raise ValueError(f"{text!r} is no time")
    for power, part in enumerate(reversed(before), 1):
        if not part.isdecimal():
            raise ValueError(f"{text!r} is no time")
        seconds += 60**power * int(part)
    return seconds


def write_over(file: TextIO, text: str = "") -> None:
    """Put `text` in place of the line that a terminal's cursor is in."""
    file.write(f"\r\x1b[K{text}")
    file.flush()


_JSON_SECONDS = 0.5


def seconds_left(done: int, total: int | None, elapsed: float) -> float | None:
    """Time left at the pace so far; None when it cannot be known."""
    if not done or total is None:
        return None
    return elapsed * max(0, total - done) / done


class JsonLines:
    """One JSON object a line, each written out at once."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._began = monotonic()
        self._shown: float | None = None
        self.is_stderr = file is sys.stderr

    def __call__(self, progress: "Progress") -> None:
        now = monotonic()
        if self._shown is not None and now - self._shown < _JSON_SECONDS:
            return
        self._shown = now
        elapsed = now - self._began
        self.put(
            "progress",
            frames=progress.frames,
            total=progress.total,
            size=progress.size,
            elapsed=round(elapsed, 3),
            left=seconds_left(progress.frames, progress.total, elapsed),
        )

    def put(self, kind: str, **values: object) -> None:
        """Write one object; `kind` becomes its "type"."""
        with explain_failure(STANDARD_OUTPUT):
            self._file.write(json.dumps({"type": kind, **values}) + "\n")
            self._file.flush()
