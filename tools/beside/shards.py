"""Shards of samples: a tar file each."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from gsvc.decoders.training.samples import (
    Sample,
    by_sample,
    read_files,
    sample_files,
    sample_of_files,
    write_files,
)


def write_shard(path: Path, samples: Iterable[Sample], quality: int = 92) -> int:
    """Write samples as one shard, whole or not at all; returns how many.

    `quality`: of WebP, as of `sample_files`. Raises OSError where the disk is full.
    """
    count = 0

    def files() -> Iterator[tuple[str, bytes]]:
        nonlocal count
        for sample in samples:
            for name, data in sample_files(sample, quality).items():
                yield f"{count:06d}.{name}", data
            count += 1

    write_files(path, files())
    return count


def read_shard(path: Path) -> list[Sample]:
    """The samples of a shard. Raises InputError where it is damaged or of a newer gsvc."""
    return [sample_of_files(files, str(path)) for files in by_sample(read_files(path))]
