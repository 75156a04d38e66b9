"""Before/after sheets: every clip beside AV1 at our rate, and its worst moment frame by frame.

For runs on people there are strips of the mouth where it speaks most.
"""

import logging
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path

import cv2
import numpy as np

from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.eval.bench.store import CellRecord
from gsvc.eval.layout import write_bytes
from gsvc.eval.report.differences import StripPlace, speaking_place, worst_place
from gsvc.eval.report.exhibits import Exhibit, VersionChoice, exhibits, few, load_exhibit, near_rate
from gsvc.eval.report.media import captioned, image_file
from gsvc.eval.summary.curves import OURS, clip_label
from gsvc.eval.summary.rate_tables import ANCHOR
from gsvc.eval.summary.summarise import Summary, load_summary

_PAPER = 255
_JPEG_QUALITY = 85


def strip_rows(exhibit: Exhibit, place: StripPlace, *, facts: bool = False) -> Picture:
    """Successive frames of a part of the clip, a row a version; `facts`: with rate and quality."""
    rows = []
    for pane in exhibit.panes:
        parts = place.cut(pane.frames)
        span = f"frames {place.first + 1} to {place.first + len(parts)}"
        text = f"{exhibit.clip}, {span}: {pane.name}" + (f", {pane.facts}" if facts else "")
        rows.append(captioned(np.hstack(parts), text))
    return np.vstack(rows)


def write_sheet(path: Path, rows: Sequence[Picture]) -> Path:
    """The rows under each other, as a JPEG or, lossless, as a PNG. Raises OutputError."""
    width = max(row.shape[1] for row in rows)
    padded = [
        np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)), constant_values=_PAPER)
        for row in rows
    ]
    options = (cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY) if path.suffix == ".jpg" else ()
    write_bytes(path, image_file(np.vstack(padded), path.suffix, *options))
    return path


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
    run, summary = load_summary(folder)
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


def _chosen(
    summary: Summary, cells: Sequence[CellRecord], level: int
) -> dict[str, list[VersionChoice]]:
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


_JUDGE = "face_cvvdp"
"""What says which of AV1's streams of about our bits is its best."""
_CLOSE = 0.1
"""Log ratio of bits that count as equal."""


def write_people_strips(folder: Path) -> list[Path]:
    """Draw `strips/CLIP-RATE.png` in the run's folder, for each clip whose mouth moves.

    Rows: the source, AV1's best near our bits, ours without the layer of faces and with it.
    Returns the paths. Raises InputError when the folder holds no run, or a clip or stream of it is
    missing; OutputError, MissingModelError and MissingDependencyError.
    """
    run, summary = load_summary(folder)
    written, places = [], run.settings.get("places", ())
    for clip, rate, choices in _chosen_mouths(run.cells):
        # The first row's facts are those of the first choice.
        exhibit = load_exhibit(folder, clip, choices, summary, places)
        if exhibit.troubles or exhibit.source is None:
            raise InputError(f"{clip}: {exhibit.troubles[0]}")
        place = speaking_place(exhibit.source)
        if place is None:
            _log.warning("%s shows no mouth that moves", clip)
            continue
        name = f"{clip.replace('/', '-').replace(' ', '-')}-{rate:g}.png"
        shown = [strip_rows(exhibit, place, facts=True)]
        written.append(write_sheet(folder / "strips" / name, shown))
    return written


def _chosen_mouths(cells: Sequence[CellRecord]) -> Iterator[tuple[str, float, list[VersionChoice]]]:
    """Each clip and rate: AV1 if it is there, ours without the layer, ours with it."""
    done = [cell for cell in cells if cell.bits and cell.decodes]
    points: dict[tuple[str, float], dict[bool, CellRecord]] = {}
    for cell in done:
        if cell.codec == OURS and "bpp" in cell.settings:
            point = clip_label(cell), float(cell.settings["bpp"])
            points.setdefault(point, {})[bool(cell.settings.get("faces", 1))] = cell
    for (clip, rate), ours in points.items():
        there = [one for one in done if one.codec == ANCHOR and clip_label(one) == clip]
        bits = next(iter(ours.values())).bits
        best = sorted(there, key=lambda one: _rank(one, bits))[:1]
        choices = [VersionChoice(_name(one), one, one.decodes[0]) for one in best]
        for layer, name in ((False, "gsvc without faces"), (True, "gsvc with faces")):
            if layer in ours:
                choices.append(VersionChoice(name, ours[layer], ours[layer].decodes[0]))
        yield clip, rate, choices


def _rank(cell: CellRecord, bits: int) -> tuple[float, float]:
    """The nearer to these bits the better; where they count as equal, by quality."""
    apart = abs(log(cell.bits / bits))
    scores = cell.decodes[0].scores.get(_JUDGE)
    quality = scores.mean if scores and scores.mean is not None else 0.0
    return (0.0 if apart <= _CLOSE else apart), -quality


def _name(cell: CellRecord) -> str:
    """ "svtav1 crf 63, size 1/2"."""
    size = f", size {cell.settings['scale']}" if cell.settings.get("scale", "1") != "1" else ""
    return f"{cell.codec} crf {cell.settings.get('crf')}{size}"
