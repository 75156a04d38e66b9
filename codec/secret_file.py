"""Files that hold secrets: read only where nobody else can read them."""

import os
import stat
from pathlib import Path

from gsvc.codec.errors import ConfigError

_MOST_BYTES = 1 << 16


def read_secret(path: str | Path) -> bytes:
    """What a file holds that only its owner can read, at most 64 KiB.

    Raises ConfigError for a file that is missing, too long, or open to its group or to others.
    """
    try:
        with open(path, "rb") as file:
            # Of the file that is open: a path could lead to another one by now.
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & 0o077:
                raise ConfigError(f"{path} can be read or changed by others: chmod 600 {path}")
            secret = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: no key can be read there: {error.strerror}") from error
    if len(secret) > _MOST_BYTES:
        raise ConfigError(f"{path} is longer than any key: is it the right file?")
    return secret
