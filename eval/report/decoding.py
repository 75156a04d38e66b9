"""What a run's streams decode to, and their source: both must be what the run measured."""

from collections.abc import Sequence
from pathlib import Path

from gsvc.codec.errors import InputError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip, frames_sha256
from gsvc.datasets.sets import SETS, find_clips
from gsvc.eval.bench.record import CellRecord
from gsvc.eval.bench.store import Damaged, RunFolder
from gsvc.eval.report.choice import Choice


def source_of(cell: CellRecord, places: Sequence[str] = ()) -> TestClip:
    """The clip that a cell coded; `places`: files and folders to find it in, beside the known sets.

    Raises InputError when it is not here, or is another one now.
    """
    there = [place for place in places if Path(place).exists()]
    named = (one for one in find_clips([*there, *SETS]) if one.name == cell.clip)
    if (found := next(named, None)) is None:
        raise InputError(f"{cell.clip} is in no set that is known here: bring the clip back")
    clip = found.load(cell.size, cell.frames)
    if clip.sha256 != cell.source_sha256:
        raise InputError(f"{cell.clip} is another clip now than the run measured: run it again")
    return clip


def decoded(folder: Path, choice: Choice, source: TestClip) -> tuple[Sequence[Picture], str]:
    """The pictures of a stream in the run's folder, and what is wrong with them or "".

    Raises InputError when the stream is damaged, and as its codec does.
    """
    import torch

    from gsvc.eval.codecs import find_codec

    # A network's last bits depend on the number of threads; a run gives its workers one each.
    torch.set_num_threads(1)
    cell, decode = choice.cell, choice.decode
    codec = find_codec(cell.codec)
    data = _stream(folder, cell)
    frames = codec.decode(data, source.format, cell.settings, decode.way).frames
    if frames_sha256(frames) == decode.frames_sha256:
        return frames, ""
    return frames, f"{choice.curve} decodes here to other pictures than were measured"


def _stream(folder: Path, cell: CellRecord) -> bytes:
    try:
        return RunFolder(folder).stream(cell)
    except Damaged as error:
        text = str(error).replace("its stream", f"the stream {cell.key}")
        raise InputError(f"{text}: run the benchmark again") from error
