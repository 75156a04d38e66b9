"""Rows of a sheet: strips of successive frames, and the file that rows are written to."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from gsvc.codec.frames import Picture
from gsvc.eval.files import write_bytes
from gsvc.eval.pictures import captioned, image_file
from gsvc.eval.report.exhibits import Exhibit
from gsvc.eval.report.strips import Place

_PAPER = 255
_JPEG_QUALITY = 85


def strip_rows(exhibit: Exhibit, place: Place, *, facts: bool = False) -> Picture:
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
