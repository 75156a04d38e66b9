"""`encode_pieces`: a picture or a few seconds of video in so many messages of so many bytes."""

import logging
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from time import monotonic

from gsvc.codec.api.encode_job import AUTO_SIZE, SMALLEST_STILL, EncodeJob, suited
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.api.reports import EncodeReport, PiecesReport, Report
from gsvc.codec.api.target_size import SOUND, nearest_stream
from gsvc.codec.bitstream.erasure import MOST_ROWS, enough_parity
from gsvc.codec.bitstream.errors import NOTE, ConfigError, OutputError, typed
from gsvc.codec.bitstream.header import HEADER_BYTES
from gsvc.codec.bitstream.pieces import MOST_PIECES, carried_bytes, head_bytes, preview_bytes, split
from gsvc.codec.media import output, places
from gsvc.codec.media.video_reader import Size
from gsvc.encoders.tuning import PREVIEW_BPP, shape_of_still

_log = logging.getLogger(__name__)
_LEAST_RATE = 1000
"""Bits per second beside sound below which a video says nothing: fewer seconds of it are sent."""
_PREVIEWED = 4
"""Pieces from which the first one is a preview: of fewer it would take too large a part."""
SUFFIX = ".piece"


@typed
def encode_pieces(
    source: places.PathOrFile,
    folder: str | Path,
    *,
    packets: int,
    packet_bytes: int,
    parity: int | None = None,
    loss: float = 0.0,
    settings: EncoderSettings | None = None,
    start: float = 0.0,
    frames: int | None = None,
    fps: float | None = None,
    audio: bool = False,
    audio_bitrate: int | None = None,
    deinterlace: bool = False,
    size: Size | str | None = None,
    overwrite: bool = False,
    progress: Report | None = None,
) -> PiecesReport:
    """Encode an image or a video to numbered pieces, which `decode` takes in any order.

    Of four pieces or more the first is a preview, shown until the first picture is whole.

    Args:
        source: As of `encode`, but no pipe.
        folder: Where the pieces go; made where it is missing.
        packets: Most pieces, up to 4096.
        packet_bytes: Most bytes of a piece, all headers included.
        parity: So many pieces more: of all, any so many may be lost. 256 in all at most. None: as
            few as let at most 1 transfer in 100 fail at `loss`.
        loss: Share of pieces that the link loses, 0 to below 1, one independent of the other.
        settings: How to encode, without a rate or a quality.
        start, fps, audio_bitrate, deinterlace, progress: As of `encode`.
        frames: Most frames; 1 makes a still.
        audio: Whether to carry the sound.
        size: As of `encode`. None is "auto" for video; a still is shrunk where its bytes are far
            too few. Of a long video only so many seconds are sent as leave 1 kbit/s.
        overwrite: Replace pieces that are in the folder.

    Returns:
        Size of the pieces together, and of what is in them.

    Raises:
        ConfigError: The budget is too small, which names what would do; else as `encode`.
        InputError: The source cannot be read.
        OutputError: The folder cannot be written, or has pieces already.
    """
    began = monotonic()
    settings = settings or EncoderSettings()
    parity = enough_parity(packets, loss) if parity is None else parity
    _check(packets, packet_bytes, parity, settings)
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file: name a folder for the pieces")
    if not overwrite and _pieces_in(folder):
        raise OutputError(f"{folder} has pieces already: overwrite=True replaces them")
    if isinstance(source, str | Path) and places.is_read_once(source):
        raise ConfigError("a pipe can be read but once: make pieces of a file")
    _log.log(NOTE, "%s: fitted by several encodings", places.display_name(source))
    with places.local_path(source) as path:
        job = EncodeJob(
            path, settings, start, frames, fps, audio, audio_bitrate, False, progress, deinterlace,
            size,
        )  # fmt: skip
        pieces, report, preview = _pieces(job, packets, packet_bytes, parity, str(folder))
    with output.atomic_folder(folder) as temporary:
        digits = len(str(len(pieces) - 1))
        for number, piece in enumerate(pieces):
            Path(temporary, f"{number:0{digits}}{SUFFIX}").write_bytes(piece)
        for old in _pieces_in(folder):
            old.unlink()
    whole = replace(report, size=sum(map(len, pieces)), elapsed=monotonic() - began)
    own = len(pieces) - parity
    return PiecesReport(**vars(whole), pieces=own, parity=parity, preview=preview, loss=loss)


def _check(packets: int, packet_bytes: int, parity: int, settings: EncoderSettings) -> None:
    if not 1 <= packets <= MOST_PIECES:
        raise ConfigError(f"{packets} packets: 1 to {MOST_PIECES}")
    if not 0 <= parity <= (most := max(0, MOST_ROWS - packets)):
        raise ConfigError(f"{parity} packets of parity beside {packets}: 0 to {most}")
    if packet_bytes <= 2 * head_bytes(packets, parity):
        least = 4 * head_bytes(packets, parity)
        raise ConfigError(f"packets of {packet_bytes} bytes: allow {least}")
    if settings.low_delay or settings.task is not None:
        raise ConfigError("pieces are made of pictures with look-ahead: leave the option out")


def _pieces_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [Path(path) for path in places.piece_paths(folder) if path.endswith(SUFFIX)]


def _pieces(
    job: EncodeJob, count: int, size: int, parity: int, target: str
) -> tuple[list[bytes], EncodeReport, tuple[int, int] | None]:
    """The pieces, what is in them, and the size of the preview if there is one."""
    room = size - head_bytes(count, parity)
    is_previewed = count >= _PREVIEWED
    rest = room * (count - is_previewed)
    # What the pieces carry is a stream with a shorter header.
    stream, report, job = _fitting(job, rest + HEADER_BYTES - _HEADER, target)
    if (carried := carried_bytes(stream)) > rest:
        least = -(-carried // room)
        raise ConfigError(
            f"{places.display_name(job.source)}: {count} x {size} bytes are too few: about the "
            f"least is {least + (least + 1 >= _PREVIEWED)} x {size}"
        )
    preview = _preview(job, report, room) if is_previewed else None
    pieces = split(stream, preview and preview[0], count, size, parity)
    return pieces, report, preview and (preview[1].width, preview[1].height)


_HEADER = 20  # approximate bytes of a shortened header
_SHRINKS = 0.7  # factor by which a preview's sides shrink if it does not fit
_FEWER = 0.9
"""Share of the frames kept at a rate too high: the first picture takes most, and stays."""


def _fitting(job: EncodeJob, size: int, target: str) -> tuple[bytes, EncodeReport, EncodeJob]:
    """The stream of as many seconds, at most, as fit `size` bytes; a warning tells."""
    cut = _cut(job, size)
    stream, report, _ = nearest_stream(cut, size, target)
    while len(stream) > size and report.frames > 1:
        fewer = max(1, int(_FEWER * report.frames * size / len(stream)))
        cut = replace(cut, frames=fewer, size=cut.size if fewer > 1 else job.size)
        stream, report, _ = nearest_stream(cut, size, target)
    if not job.is_still and (whole := float(job.seconds)) - report.duration > _SHORT:
        name = places.display_name(job.source)
        _log.warning("%s: the first %.1f of %.1f s are sent", name, report.duration, whole)
    return stream, report, cut


_SHORT = 0.5  # seconds left out of which a user is told


def _cut(job: EncodeJob, size: int) -> EncodeJob:
    """The job at a size, a rate and for as long as `size` bytes allow at the least rate."""
    with job.open() as video:
        rate, sound, has_sound = video.format.frame_rate, 0, video.has_sound
        if job.sound and has_sound:
            sound = job.audio_bitrate or SOUND[0]
    seconds = Fraction(0) if job.is_still else job.seconds
    seconds = min(seconds, Fraction(8 * size, _LEAST_RATE + sound))
    if seconds * rate <= 1:
        return replace(job, frames=1)
    if has_sound and not job.sound:
        _log.log(NOTE, "%s: pieces without its sound", places.display_name(job.source))
    if job.size is None:
        job = suited(replace(job, size=AUTO_SIZE), 8 * size / float(seconds))
    with job.open() as video:
        rate = video.format.frame_rate
    return replace(job, frames=max(1, min(job.frames or 1 << 40, round(seconds * rate))))


def _preview(job: EncodeJob, report: EncodeReport, room: int) -> tuple[bytes, EncodeReport] | None:
    """The first picture as a stream of its own that fits a piece; None where none does."""
    if room <= _HEADER:
        return None
    own, bits = (report.width, report.height), 8 * (room - _HEADER)
    shorter = max(shape_of_still(bits, *own, PREVIEW_BPP) or min(own), min(SMALLEST_STILL, *own))
    settings = replace(job.settings, level=report.level)
    while shorter >= SMALLEST_STILL:
        still = replace(job, frames=1, size=shorter, settings=settings, sound=False, progress=None)
        found = nearest_stream(still, room + HEADER_BYTES - _HEADER, report.target)
        if preview_bytes(found[0]) <= room:
            return found[:2]
        shorter = int(_SHRINKS * shorter)
    return None
