"""Strips of a run on people: the mouth where it speaks most, source, AV1 at our bits, and ours."""

import logging
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path

from gsvc.codec.errors import InputError
from gsvc.eval.bench.record import CellRecord
from gsvc.eval.bench.store import load_run
from gsvc.eval.report.choice import Choice
from gsvc.eval.report.exhibits import load_exhibit
from gsvc.eval.report.mouths import speaking_place
from gsvc.eval.report.sheet_file import strip_rows, write_sheet
from gsvc.eval.summary.curves import OURS, clip_label
from gsvc.eval.summary.people_table import ANCHOR
from gsvc.eval.summary.summarise import summarise

_JUDGE = "face_cvvdp"
"""What says which of AV1's streams of about our bits is its best."""
_CLOSE = 0.1
"""Log ratio of bits that count as equal."""

_log = logging.getLogger(__name__)


def write_people_strips(folder: Path) -> list[Path]:
    """Draw `strips/CLIP-RATE.png` in the run's folder, for each clip whose mouth moves.

    Rows: the source, AV1's best near our bits, ours without the layer of faces and with it.
    Returns the paths. Raises InputError when the folder holds no run, or a clip or stream of it is
    missing; OutputError, MissingModelError and MissingDependencyError.
    """
    run = load_run(folder)
    summary = summarise(run.settings, run.cells)
    written, places = [], run.settings.get("places", ())
    for clip, rate, choices in _chosen(run.cells):
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


def _chosen(cells: Sequence[CellRecord]) -> Iterator[tuple[str, float, list[Choice]]]:
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
        choices = [Choice(_name(one), one, one.decodes[0]) for one in best]
        for layer, name in ((False, "gsvc without faces"), (True, "gsvc with faces")):
            if layer in ours:
                choices.append(Choice(name, ours[layer], ours[layer].decodes[0]))
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
