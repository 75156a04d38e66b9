"""Limits on untrusted input, checked by the parser before anything is allocated."""

from dataclasses import dataclass
from typing import Self

from gsvc.codec.bitstream.errors import LimitError
from gsvc.codec.bitstream.typed import typed


@typed
@dataclass(frozen=True)
class Limits:
    """What a stream may ask of its decoder.

    Together they bound the memory that decoding holds and the time that one packet takes. The
    defaults admit all that this version encodes; use `Limits.restrictive()` for untrusted senders.
    """

    pixels: int = 8192 * 4352
    """Pixels of a picture: as in AV1's highest level."""
    side: int = 1 << 14
    """Pixels of a picture's longer side: as in AV1's highest level."""
    frames: int = 1 << 24
    """Frames of a stream."""
    interval: int = 2048
    """Frames that one packet completes."""
    interval_pixels: int = 1 << 33
    """Pixels of all frames that one packet completes: four seconds of the largest, at 60 fps."""
    packet_bytes: int = 1 << 24
    """Bytes of one packet's payload."""
    scaffold_bits: int = 1 << 20
    """Coded bits of one scaffold: entropy coding turns few bytes into very many, and a CPU core
    reads some 500,000 bits a second."""
    held_bytes: int = 1 << 30
    """Bytes held of a whole file: its sound, the packets of a pipe, a list of its packets."""

    @classmethod
    def restrictive(cls) -> Self:
        """For untrusted senders: 1080p, four seconds at 60 fps, packets of 1 MiB."""
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
"""AV1 frames in a coded picture's temporal unit: the shown one, and a hidden one a reference."""
MAX_UNIT_OBUS = 64
"""Open bitstream units of one temporal unit."""


class HeldBytes:
    """Counts the bytes that are held of a whole stream."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.held_bytes
        self._size = 0

    def add(self, size: int) -> None:
        """Count `size` bytes before they are kept. Raises LimitError beyond `Limits.held_bytes`."""
        self._size += size
        if self._size > self._most:
            raise LimitError(
                f"the stream would take more than {self._most} bytes of memory to hold: split it"
            )
