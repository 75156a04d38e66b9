"""Files that the evaluation writes: whole or not at all, in place of what was there."""

from pathlib import Path

from gsvc.codec.output import atomic_output, explain_failure, make_folder


def write_text(target: Path, text: str) -> None:
    """Replace a file. Raises OutputError."""
    write_bytes(target, text.encode())


def write_bytes(target: Path, data: bytes) -> None:
    """Replace a file, in a folder that is made where it is missing. Raises OutputError."""
    make_folder(target.parent)
    with atomic_output(target, overwrite=True) as partial, explain_failure(target):
        partial.write_bytes(data)
