"""How much a refiner improves key pictures of clips that it was not trained on."""

from collections.abc import Sequence
from dataclasses import astuple
from itertools import product
from pathlib import Path

import numpy as np

from gsvc.codec.frames import Picture
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.refiners.compact.backend import CompactBackend
from gsvc.decoders.training.footage import read_run
from gsvc.decoders.training.pairs import KeyCoding, coded_keys
from gsvc.eval.metrics.quality import Quality, measure

CODINGS = (
    KeyCoding(12, 3, crf=50, scale=8, preset=4, lmbda=30.0, block_log2=2),
    KeyCoding(16, 3, crf=58, scale=8, preset=4, lmbda=90.0, block_log2=2),
    KeyCoding(16, 3, crf=66, scale=8, preset=4, lmbda=300.0, block_log2=3),
    KeyCoding(16, 3, crf=60, scale=6, preset=4, lmbda=300.0, block_log2=3),
)
"""About levels 2, 1 and 0, and level 0 at three quarters of the size."""
_LINES = 256


def assess(clips: Sequence[Path], weights: Path, steps: Sequence[int]) -> dict[int, Quality]:
    """Mean quality of key pictures over clips and codings, by number of steps.

    Clips without a run of frames that is long enough are left out; empty where all are.
    """
    backend = CompactBackend(str(weights))

    def shown(key: KeyPicture, count: int) -> Picture:
        return backend.refine(key, steps=count, seed=1) if count else key.picture

    scores = []
    for clip, coding in product(clips, CODINGS):
        run = read_run(clip, 0.3, coding.frames, _LINES)
        if run is not None:
            sources, keys = zip(
                *coded_keys(run.__getitem__, coding, with_texture=True), strict=True
            )
            tests = [[shown(key, count) for key in keys] for count in steps]
            scores.append([astuple(quality) for quality in measure(sources, tests)])
    means = np.mean(scores, axis=0) if scores else ()
    return {count: Quality(*map(float, mean)) for count, mean in zip(steps, means, strict=False)}
