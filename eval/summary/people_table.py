"""People: what is left of faces that speak and of bodies, with and without the layer of faces."""

from gsvc.eval.summary.beside import BesideRow
from gsvc.eval.summary.curves import OURS
from gsvc.eval.summary.points import PointRow
from gsvc.eval.summary.summarise import Summary
from gsvc.eval.summary.table import NONE, Table, protocol

TITLE = "People"
_COLUMNS = {
    "NME": ("face_nme", 4),
    "mouth": ("mouth_opening", 2),
    "CVVDP, face": ("face_cvvdp", 2),
    "VGG, face": ("face_st_lpips_vgg", 3),
    "OKS": ("pose_oks", 3),
    "motion on people": ("person_motion_error", 3),
}
"""Metrics with their digits, by heading."""
ANCHOR, LAYER = "svtav1", "faces"
METRICS = tuple(name for name, _ in _COLUMNS.values())

_Point = tuple[str, float]
"""A clip, and bits per pixel asked for."""
_Rows = dict[bool, BesideRow]
"""Ours of one metric at a point: by whether faces are sent."""


def people_table(summary: Summary) -> Table:
    """Clip by clip and rate by rate; no rows for a run without these metrics or such rates."""
    found: dict[_Point, dict[str, _Rows]] = {}
    for row in summary.beside:
        if row.metric in METRICS and "bpp" in row.settings:
            here = found.setdefault(_point(row), {}).setdefault(row.metric, {})
            here[bool(row.settings.get("faces", 1))] = row
    layer = _layer_bits(summary)
    rows = [
        [
            f"{point[0]} {point[1]:g}",
            *(_cell(mine.get(name, {}), digits) for name, digits in _COLUMNS.values()),
            layer.get(point, NONE),
        ]
        for point, mine in found.items()
    ]
    note = (
        f"In each cell: {ANCHOR} at our bits / gsvc without the layer of faces / with it; {NONE}: "
        "it does not reach these bits, or there is no value. NME: landmarks' normalised mean "
        "error, lower is better. Mouth: correlation of its opening. OKS: of bodies' key points. "
        "Motion on people: its error in the person mask, lower is better. Layer: its bits a frame. "
        f"{protocol(summary)}"
    )
    return Table(TITLE, note, ["clip, bpp", *_COLUMNS, "layer"], rows)


def _point(row: BesideRow | PointRow) -> _Point:
    return row.clip, float(row.settings["bpp"])


def _cell(rows: _Rows, digits: int) -> str:
    there = [row.hulls.get(ANCHOR) for row in rows.values()]
    ours = [rows[sent].value if sent in rows else None for sent in (False, True)]
    values = [there[0] if there else None, *ours]
    if all(value is None for value in values):
        return NONE
    return " / ".join(NONE if one is None else f"{one:.{digits}f}" for one in values)


def _layer_bits(summary: Summary) -> dict[_Point, str]:
    """What the layer takes, a frame."""
    return {
        _point(row): f"{row.ledger.get(LAYER, 0) / row.frames:.1f}"
        for row in summary.points
        if row.codec == OURS and row.settings.get("faces", 1) and "bpp" in row.settings
    }
