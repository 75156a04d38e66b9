"""Limits on untrusted input, checked by the parser before anything is allocated."""

from dataclasses import dataclass
from typing import Self

from gsvc.codec.errors import LimitError


@dataclass(frozen=True)
class Limits:
    """What a stream may ask of its decoder.

    Together they bound the memory that decoding holds and the time that one packet takes. The defaults fit anything
    that this version encodes; `Limits.restrictive()` is for senders that nobody vouches for; set larger ones for a source
    that you trust.
    """

    pixels: int = 8192 * 4352
    """Pixels of a picture: those of AV1's highest level."""
    side: int = 1 << 14
    """Pixels of a picture's longer side: as of AV1's highest level."""
    frames: int = 1 << 24
    """Frames of a stream."""
    interval: int = 2048
    """Frames that one packet completes."""
    interval_pixels: int = 1 << 33
    """Pixels of all the frames that one packet completes: four seconds at the largest size, 60 a second."""
    packet_bytes: int = 1 << 24
    """Payload of one packet."""
    scaffold_bits: int = 1 << 20
    """Coded bits of one scaffold: entropy coding turns few bytes into very many. A core reads some 500,000 a second."""
    held_bytes: int = 1 << 30
    """Memory for what a whole file has to be held for: its sound, the packets of a pipe, a list of its packets."""

    @classmethod
    def restrictive(cls) -> Self:
        """For untrusted senders: 1080p, four seconds at 60 frames a second, packets of 1 MiB."""
        return cls(
            pixels=1920 * 1088,
            side=4096,
            interval=256,
            interval_pixels=1 << 29,
            packet_bytes=1 << 20,
            scaffold_bits=1 << 17,
            held_bytes=1 << 26,
        )

    def longest_interval(self, width: int, height: int) -> int:
        """Frames of this size that one packet may complete."""
        return min(self.interval, self.interval_pixels // (width * height))


DEFAULT_LIMITS = Limits()
MAX_UNIT_FRAMES = 9
"""AV1 frames of one key picture's temporal unit: the one that is shown, and one hidden for each of AV1's references."""
MAX_UNIT_OBUS = 64
"""Open bitstream units of one temporal unit."""
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


class Held:
    """Counts the memory that a whole stream is held in, where one has to be."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.held_bytes
        self._size = 0

    def add(self, size: int) -> None:
        """Before `size` more bytes are kept. Raises LimitError beyond `Limits.held_bytes`."""
        self._size += size
        if self._size > self._most:
            raise LimitError(
                f"the stream would take more than {self._most} bytes of memory to hold: split it"
            )
