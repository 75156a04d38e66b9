"""Before/after sheets: every clip beside AV1 at our rate, and its worst moment frame by frame.

Two pictures per level. One has a row per clip with its worst frame in every version. The other has
strips: successive frames of every version, where and when the motion of our last version differs
most from the source's. On request a third has strips of speaking mouths.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from gsvc.codec.errors import InputError
from gsvc.codec.frames import Picture
from gsvc.eval.bench.record import CellRecord
from gsvc.eval.bench.store import load_run
from gsvc.eval.pictures import captioned
from gsvc.eval.report.choice import Choice, few, near_rate
from gsvc.eval.report.exhibits import Exhibit, exhibits
from gsvc.eval.report.mouths import speaking_place
from gsvc.eval.report.sheet_file import strip_rows, write_sheet
from gsvc.eval.report.strips import worst_place
from gsvc.eval.summary.curves import OURS
from gsvc.eval.summary.summarise import Summary, summarise

_LEVELS = 0, 1, 2
_PANE = 480
"""Width of a frame on a sheet, in pixels."""
_FACES = "-faces"

_log = logging.getLogger(__name__)


def write_sheets(folder: Path, *, faces: bool = False) -> list[Path]:
    """Draw `sheets/level0.jpg`, `sheets/level0-strips.jpg` and so on in the run's folder.

    `faces`: also `sheets/level0-faces.jpg`, of the clips whose mouths move. Returns the paths.
    Raises InputError when the folder holds no run, no stream of ours at these
    levels, or one that does not decode to what was measured; OutputError.
    """
    run = load_run(folder)
    summary = summarise(run.settings, run.cells)
    written: list[Path] = []
    for level in _LEVELS:
        rows, strips, mouths = [], [], []
        chosen = _chosen(summary, run.cells, level)
        for exhibit in exhibits(folder, summary, chosen, run.settings.get("places", ())):
            if exhibit.troubles:
                raise InputError(f"{exhibit.clip}: {exhibit.troubles[0]}")
            rows.append(_row(exhibit))
            place = worst_place(exhibit.panes[-1].frames, exhibit.panes[0].frames)
            strips.append(strip_rows(exhibit, place))
            if faces and exhibit.source and (mouth := speaking_place(exhibit.source)):
                mouths.append(strip_rows(exhibit, mouth))
        path = folder / "sheets" / f"level{level}.jpg"
        kinds = (path.stem, rows), (f"{path.stem}-strips", strips), (path.stem + _FACES, mouths)
        written += [write_sheet(path.with_stem(stem), shown) for stem, shown in kinds if shown]
    if not written:
        raise InputError(f"{folder} has no stream of gsvc at level 0, 1 or 2: run the benchmark")
    if faces and not any(path.stem.endswith(_FACES) for path in written):
        _log.warning("no clip of %s shows a mouth that moves", folder)
    return written


def _chosen(summary: Summary, cells: Sequence[CellRecord], level: int) -> dict[str, list[Choice]]:
    """By clip: AV1 or another anchor, then ours at the level with least and most compute."""
    used = [
        cell
        for cell in cells
        if summary.codecs[cell.codec].is_anchor
        or summary.codecs[cell.codec].family
        or (cell.codec == OURS and cell.settings.get("level") == level)
    ]
    return {
        clip: few(choices, summary)
        for clip, choices in near_rate(summary, used, level).items()
        if any(one.cell.codec == OURS for one in choices)
    }


def _row(exhibit: Exhibit) -> Picture:
    """The clip's worst frame in every version."""
    shown = []
    for pane in exhibit.panes:
        frame = pane.frames[exhibit.worst]
        height, width = frame.shape[:2]
        size = _PANE, round(height * _PANE / width)
        resized = cv2.resize(frame, size, interpolation=cv2.INTER_AREA)
        shown.append(captioned(resized, f"{pane.name}: {pane.facts}"))
    return np.hstack(shown)
