"""Limits on untrusted input, checked by the parser before anything is allocated."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a stream may ask of its decoder; pass larger ones to `Decoder` if you trust the source."""

    pixels: int = 8192 * 4352
    """Pixels of a picture: those of AV1's highest level."""
    side: int = 1 << 14
    """Pixels of a picture's longer side: as of AV1's highest level."""
    frames: int = 1 << 24
    """Frames of a stream."""
    interval: int = 2048
    """Frames between two key pictures."""
    packet_bytes: int = 1 << 24
    """Payload of one packet."""


DEFAULT_LIMITS = Limits()
MAX_PEOPLE = 16
"""People in one sample."""
MAX_SAMPLES = 15
"""Scaffold samples of an interval."""
MAX_GAIN = 7
"""Largest texture gain."""
MAX_VECTOR = 1023
"""Magnitude of a motion vector's component, in motion units."""
MAX_CAMERA = 1 << 14
"""Magnitude of a corner's displacement on the camera's path, in camera units."""
MAX_POINT = 1 << 13
"""Magnitude of a key point's coordinate, in pose units."""
