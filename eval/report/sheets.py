"""Before/after sheets: every clip beside AV1 at our rate, and its worst moment frame by frame.

Two pictures per level. One has a row per clip with its worst frame in every version. The other has
strips: successive frames of every version, where and when the motion of our last version differs
most from the source's.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import InputError
from gsvc.codec.frames import Picture
from gsvc.decoders.motion.estimation import gray
from gsvc.eval.bench.record import CellRecord
from gsvc.eval.bench.store import load_run
from gsvc.eval.files import write_bytes
from gsvc.eval.pictures import captioned, image_file
from gsvc.eval.report.choice import Choice, near_rate
from gsvc.eval.report.exhibits import Exhibit, exhibits
from gsvc.eval.summary.curves import OURS
from gsvc.eval.summary.summarise import Summary, summarise

_LEVELS = 0, 1, 2
_BEST_KNOWN = "svtav1"
_PANE = 480
"""Width of a frame on a sheet, in pixels."""
_WINDOW, _LENGTH = 112, 8
"""Of a strip: side of the part of a frame that it shows, in pixels, and how many frames."""
_PAPER = 255
_JPEG_QUALITY = 85


def write_sheets(folder: Path) -> list[Path]:
    """Draw `sheets/level0.jpg`, `sheets/level0-strips.jpg` and so on in the run's folder.

    Returns their paths. Raises InputError when the folder holds no run, no stream of ours at these
    levels, or one that does not decode to what was measured; OutputError.
    """
    run = load_run(folder)
    summary = summarise(run.settings, run.cells)
    written: list[Path] = []
    for level in _LEVELS:
        rows, strips = [], []
        chosen = _chosen(summary, run.cells, level)
        for exhibit in exhibits(folder, summary, chosen, run.settings.get("asked", ())):
            if exhibit.troubles:
                raise InputError(f"{exhibit.clip}: {exhibit.troubles[0]}")
            rows.append(_row(exhibit))
            strips.append(_strips(exhibit))
        if rows:
            path = folder / "sheets" / f"level{level}.jpg"
            written += [
                _write(path, rows),
                _write(path.with_stem(f"{path.stem}-strips"), strips),
            ]
    if not written:
        raise InputError(f"{folder} has no stream of gsvc at level 0, 1 or 2: run the benchmark")
    return written


def _chosen(summary: Summary, cells: Sequence[CellRecord], level: int) -> dict[str, list[Choice]]:
    """By clip: AV1 or another anchor, then ours at the level with least and most compute."""
    used = [
        cell
        for cell in cells
        if summary.codecs[cell.codec].is_anchor
        or (cell.codec == OURS and cell.settings.get("level") == level)
    ]
    found = {}
    for clip, choices in near_rate(summary, used, level).items():
        ours = [one for one in choices if one.cell.codec == OURS]
        ours.sort(key=lambda one: one.decode.flops_per_pixel or 0.0)
        others = [one for one in choices if one.cell.codec != OURS]
        others.sort(key=lambda one: one.cell.codec != _BEST_KNOWN)
        if ours:
            found[clip] = [*others[:1], *ours[:1], *ours[1:][-1:]]
    return found


def _row(exhibit: Exhibit) -> Picture:
    """The clip's worst frame in every version."""
    index = exhibit.worst[0][0] if exhibit.worst else 0
    shown = []
    for pane in exhibit.panes:
        frame = pane.frames[index]
        height, width = frame.shape[:2]
        size = _PANE, round(height * _PANE / width)
        resized = cv2.resize(frame, size, interpolation=cv2.INTER_AREA)
        shown.append(captioned(resized, f"{pane.name}: {pane.facts}"))
    return np.hstack(shown)


def _strips(exhibit: Exhibit) -> Picture:
    """Successive frames of a part of the clip, a row a version."""
    first, y, x = _worst_moment(exhibit.panes[-1].frames, exhibit.panes[0].frames)
    rows = []
    for pane in exhibit.panes:
        frames = pane.frames[first : first + _LENGTH]
        parts = [frame[y : y + _WINDOW, x : x + _WINDOW] for frame in frames]
        text = f"{exhibit.clip}, frames {first + 1} to {first + len(parts)}: {pane.name}"
        rows.append(captioned(np.hstack(parts), text))
    return np.vstack(rows)


def _worst_moment(ours: Sequence[Picture], source: Sequence[Picture]) -> tuple[int, int, int]:
    """First frame, top and left of the strip where our changes differ most from the source's."""
    worst, place = -1.0, (0, 0, 0)
    height, width = source[0].shape[:2]
    window = min(_WINDOW, height), min(_WINDOW, width)
    both = zip(_changes(ours), _changes(source), strict=True)
    for index, (change, true_change) in enumerate(both, start=1):
        apart = cv2.absdiff(change, true_change)
        means = cv2.boxFilter(apart, -1, window[::-1], anchor=(0, 0))
        inside = means[: height - window[0] + 1, : width - window[1] + 1]
        _, value, _, (x, y) = cv2.minMaxLoc(inside)
        if value > worst:
            first = max(0, min(index - _LENGTH // 2, len(source) - _LENGTH))
            worst, place = value, (first, y, x)
    return place


def _changes(video: Sequence[Picture]) -> Iterator[NDArray[np.float32]]:
    """Of luma, from each frame to the next."""
    luma = (gray(frame).astype(np.float32) for frame in video)
    return (after - before for before, after in pairwise(luma))


def _write(path: Path, rows: Sequence[Picture]) -> Path:
    """The rows under each other as a JPEG."""
    width = max(row.shape[1] for row in rows)
    padded = [
        np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)), constant_values=_PAPER)
        for row in rows
    ]
    options = cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY
    write_bytes(path, image_file(np.vstack(padded), ".jpg", *options))
    return path
