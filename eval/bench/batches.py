"""Which cells a worker completes together: their scores share the features of the source."""

from collections.abc import Iterator, Sequence

from gsvc.datasets.clips import ClipFormat
from gsvc.eval.bench.cells import Job
from gsvc.eval.bench.named import CodecSpec

_BATCH_DECODES = 6
"""Decoded clips that are scored together."""
_BATCH_BYTES = 2**30
"""Of decoded pictures held at once."""


def batches(jobs: Sequence[Job], most: int | None = None) -> Iterator[list[Job]]:
    """Jobs of one clip, size and codec, a few at a time; codecs with many decodes come first.

    `most`: decodes of a batch of several jobs, None for `batch_limit`.
    """
    groups: dict[tuple[str, str, CodecSpec], list[Job]] = {}
    for job in jobs:
        clip = job.cell.clip
        groups.setdefault((clip.name, clip.size, job.cell.codec), []).append(job)
    clips = list(dict.fromkeys(group[:2] for group in groups))
    heaviest = sorted(
        groups, key=lambda g: (clips.index(g[:2]), -max(j.decodes for j in groups[g]))
    )
    for group in heaviest:
        yield from _cut(groups[group], most)


def batch_limit(clip: ClipFormat) -> int:
    """How many decoded clips are held and scored together."""
    fit = _BATCH_BYTES // (3 * clip.width * clip.height * clip.frames)
    return max(1, min(_BATCH_DECODES, fit))


def _cut(jobs: Sequence[Job], most: int | None) -> Iterator[list[Job]]:
    fit = batch_limit(jobs[0].cell.clip.format)
    most = fit if most is None else min(fit, most)
    batch: list[Job] = []
    for job in jobs:
        if batch and sum(one.decodes for one in [*batch, job]) > most:
            yield batch
            batch = []
        batch.append(job)
    yield batch
