"""A picture of what a network does: source, decoded and refined crops in rows."""

from pathlib import Path

import cv2
import numpy as np

from gsvc.decoders.key_picture import COARSEST_CRF, FINEST_SCALE, KeyPicture
from gsvc.decoders.refiners.compact.backend import CompactBackend
from gsvc.decoders.training.pairs import GAIN_UNIT

_ROWS = 6


def sample_sheet(weights: Path, pairs: Path, out: Path) -> None:
    """Write a PNG with a row for each of six crops: source, decoded, refined in 1 and 4 steps."""
    refiner, rows = CompactBackend(str(weights)), []
    for path in sorted(pairs.glob("*.npz"))[:_ROWS]:
        with np.load(path) as file:
            crop, (crf, scale) = file["crops"][0], file["scalars"]
        gain = crop[..., 6].astype(np.float32) / GAIN_UNIT
        shown = np.ascontiguousarray(crop[..., 3:6])
        quality = float(crf) / COARSEST_CRF, float(scale) / FINEST_SCALE
        key = KeyPicture(shown, gain, *quality)
        refined = [refiner.refine(key, steps=steps, seed=1) for steps in (1, 4)]
        rows.append(np.hstack([crop[..., :3], shown, *refined]))
    out.parent.mkdir(exist_ok=True)
    cv2.imwrite(str(out), cv2.cvtColor(np.vstack(rows), cv2.COLOR_RGB2BGR))
