"""How much a refiner improves key pictures of clips that it was not trained on."""

from collections.abc import Iterator, Sequence
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


def assess(clips: Sequence[Path], weights: Path, steps: Sequence[int]) -> dict[str, list[Quality]]:
    """Mean quality of key pictures at each number of steps, by clip and coding: "name crf/scale".

    Clips without a run of frames that is long enough are left out.
    """
    backend = CompactBackend(str(weights))

    def shown(key: KeyPicture, count: int) -> Picture:
        return backend.refine(key, steps=count, seed=1) if count else key.picture

    scores = {}
    for name, pairs in coded_pictures(clips):
        tests = [[shown(key, count) for _, key in pairs] for count in steps]
        scores[name] = measure([source for source, _ in pairs], tests)
    return scores


def coded_pictures(
    clips: Sequence[Path],
) -> Iterator[tuple[str, list[tuple[Picture, KeyPicture]]]]:
    """What `assess` scores: its name, and pairs of source and key picture."""
    for clip in clips:
        for coding in CODINGS:
            run = read_run(clip, 0.3, coding.frames, _LINES)
            if run is not None:
                pairs = list(coded_keys(run.__getitem__, coding, with_texture=True))
                yield f"{clip.name} {coding.crf}/{coding.scale}", pairs


def means(scores: dict[str, list[Quality]]) -> list[Quality]:
    """Over clips and codings, for each number of steps."""
    values = [[(q.st_lpips_alex, q.st_lpips_vgg, q.psnr_y) for q in row] for row in scores.values()]
    return [Quality(*(float(v) for v in row)) for row in np.mean(values, axis=0)]
