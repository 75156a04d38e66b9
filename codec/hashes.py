"""SHA-256 of files."""

import hashlib
from pathlib import Path


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
