"""h(M): what a cache of latents saves of a diffusion loop, by the memory that it may take.

Windows of real video are looked up as `gsvc.decoders.caches.latents` does it: by the same
embedding, the same depths, what was used longest ago leaving first, and loops that began with
another's latents keeping none. What the pictures lose by it is not measured here.
"""

from collections.abc import Iterable, Sequence

from gsvc.codec.frames import Picture
from gsvc.decoders.caches.depths import DEPTHS, LOOP, reuse_depth
from gsvc.decoders.caches.embedding import Embedding, embedding, similarity

WINDOW = 33
"""Frames of a window: what the pretrained back ends take."""
LATENT_BYTES = 184_000
"""Of a window of 512x288 in LTX (docs/pretrained.md), at each depth."""


def windows(pictures: Sequence[Picture]) -> list[Embedding]:
    """Of consecutive windows, which share a frame."""
    import numpy as np

    starts = range(0, len(pictures) - WINDOW + 1, WINDOW - 1)
    return [embedding(np.stack(pictures[at : at + WINDOW])) for at in starts]


def saved(seen: Iterable[Embedding], capacity: int) -> float:
    """Share of all steps that a cache of `capacity` windows saves."""
    kept: list[Embedding] = []
    depths = []
    for wanted in seen:
        nearest = max(kept, key=lambda other: similarity(wanted, other), default=None)
        depth = reuse_depth(similarity(wanted, nearest)) if nearest is not None else 0
        depths.append(depth)
        if depth and nearest is not None:
            kept = [one for one in kept if one is not nearest] + [nearest]
        elif capacity:
            kept = [*kept, wanted][-capacity:]
    return sum(depths) / (LOOP * max(1, len(depths)))


def curve(clips: Sequence[Sequence[Picture]], capacities: Sequence[int]) -> list[tuple[int, float]]:
    """Bytes of the cache, and the share of steps saved over all windows, the clips in order."""
    seen = [one for pictures in clips for one in windows(pictures)]
    size = LATENT_BYTES * len(DEPTHS)
    return [(capacity * size, saved(seen, capacity)) for capacity in capacities]
