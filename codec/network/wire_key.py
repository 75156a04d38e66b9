"""The key that sender and receiver share, and the keys of single sessions made from it."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.media.places import read_secret
from gsvc.codec.weights.extras import need

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
VARIABLE = "GSVC_KEY"
"""Environment variable that holds a key where no file is given."""
TAG_BYTES = 16
"""What the cipher, AES-256-GCM, adds to a message."""

_HOW = f"a key is {2 * KEY_BYTES} hexadecimal digits; make one with: openssl rand -hex {KEY_BYTES}"


@dataclass(frozen=True)
class WireKey:
    """A key for a wire, the same on both sides, in no message and no `repr`.

    Raises ConfigError for another length than 32 bytes and for a key of equal bytes,
    MissingDependencyError without the extra.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise ConfigError(f"a key of {len(self.secret)} bytes: {_HOW}")
        if len(set(self.secret)) == 1:
            raise ConfigError(f"a key of equal bytes protects nothing: {_HOW}")
        need("secure", "a key")

    def cipher(self, salt: bytes, use: bytes) -> "AESGCM":
        """The cipher of one session and direction: keys by HKDF-SHA256."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        derived = HKDF(SHA256(), KEY_BYTES, salt, b"gsvc wire 1 " + use).derive(self.secret)
        return AESGCM(derived)


def find_key(
    path: str | Path | None, environment: Mapping[str, str] = os.environ
) -> WireKey | None:
    """The key in a file, else that in the environment variable GSVC_KEY, else None.

    Raises ConfigError for what is no key, and for a file that others than its owner can read.
    """
    if path is not None:
        return _parsed(read_secret(path), str(path))
    if VARIABLE in environment:
        return _parsed(environment[VARIABLE].encode(), VARIABLE)
    return None


def _parsed(text: bytes, where: str) -> WireKey:
    digits = text.strip()
    if re.fullmatch(rb"(?:[0-9a-fA-F]{2})+", digits) is None:
        raise ConfigError(f"{where} holds no key: {_HOW}")  # without a word of what it holds
    try:
        return WireKey(bytes.fromhex(digits.decode()))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
