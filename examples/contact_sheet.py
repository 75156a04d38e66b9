"""One picture that shows what is in a stream: frames at even times, side by side.

    python contact_sheet.py STREAM.gsv SHEET.jpg [COUNT]

Only the groups of these frames are decoded, so a long stream takes no longer than a short one.
"""

import sys
from math import ceil, sqrt

import cv2
import numpy as np

import gsvc


def contact_sheet(stream: str, count: int) -> gsvc.Picture:
    """`count` frames of a stream in rows: RGB uint8 (H, W, 3)."""
    with open(stream, "rb") as file:
        index = gsvc.StreamIndex(file)
        with gsvc.Decoder(index.header, gsvc.DecoderSettings(steps=0)) as decoder:
            chosen = np.linspace(0, index.frames - 1, count).round().astype(int).tolist()
            frames = [next(iter(index.decode(decoder, first, 1))).pixels for first in chosen]
    columns = ceil(sqrt(count))
    blank = [np.zeros_like(frames[0])] * (-count % columns)
    cells = [*frames, *blank]
    rows = [np.hstack(cells[at : at + columns]) for at in range(0, len(cells), columns)]
    return np.vstack(rows)


if __name__ == "__main__":
    source, target, *rest = sys.argv[1:]
    sheet = contact_sheet(source, int(rest[0]) if rest else 9)
    cv2.imwrite(target, cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR))
