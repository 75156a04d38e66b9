"""Limits on untrusted input, checked by the parser before anything is allocated."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a stream may ask of its decoder; pass larger ones to `Decoder` if you trust the source."""

    pixels: int = 1 << 26
    """Pixels of a picture (8192 x 8192)."""
    frames: int = 1 << 24
    """Frames of a stream."""
    interval: int = 2048
    """Frames between two key pictures."""
    packet_bytes: int = 1 << 24
    """Payload of one packet."""


DEFAULT_LIMITS = Limits()
MAX_PEOPLE = 16
MAX_SAMPLES = 15
