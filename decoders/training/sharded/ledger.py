"""What became of every job of a run: the account of all samples that it was given."""

from collections.abc import Sequence
from pathlib import Path

from gsvc.codec.media.output import atomic_output, explain_failure
from gsvc.decoders.training.sharded.jobs import Finished, Job

_HEAD = "epoch", "window", "clip", "lambda", "samples", "error"


class Ledger:
    """A table with a line for each job: its clip, how many samples it gave, or why none.

    A run that goes on makes its last window again: lines from there on are taken away first.
    """

    def __init__(self, path: Path, position: tuple[int, int, int]) -> None:
        """`position`: epoch, window and sample from which the run goes on."""
        self._path = path
        with explain_failure(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_text().splitlines() if path.exists() else []
            kept = ["\t".join(_HEAD), *(x for x in lines[1:] if _is_before(x, position))]
            with atomic_output(path, overwrite=True) as part:
                part.write_text("".join(f"{line}\n" for line in kept))

    def note(self, epoch: int, window: int, jobs: Sequence[Job], done: Sequence[Finished]) -> None:
        """What the jobs of a window came to."""
        rows = [
            (epoch, window, job.clip.key, job.lmbda, len(one.keys), " ".join(one.error.split()))
            for job, one in zip(jobs, done, strict=True)
        ]
        with explain_failure(self._path), self._path.open("a") as file:
            file.writelines("\t".join(map(str, row)) + "\n" for row in rows)


def _is_before(line: str, position: tuple[int, int, int]) -> bool:
    """Whether a line is whole, and of an earlier window."""
    fields = line.split("\t")
    if len(fields) != len(_HEAD) or not (fields[0].isdecimal() and fields[1].isdecimal()):
        return False
    return (int(fields[0]), int(fields[1])) < position[:2]
