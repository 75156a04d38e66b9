"""Configuration shared by the search, the extractors and the group coders; an unnumbered packet."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from gsvc.codec.bitstream.container import PacketType
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, MissingDependencyError, MissingModelError
from gsvc.codec.bitstream.header import Header
from gsvc.codec.weights.hub import BY_HINT
from gsvc.encoders import svt_av1, tuning
from gsvc.encoders.distortion import Distortion
from gsvc.encoders.face_landmarks import FaceMesh, FaceWeights

_log = logging.getLogger(__name__)

FRAMING_BYTES = 8
"""Most bytes of a packet beside its payload: type, length, frames and CRC-32C."""
PACKET_SECONDS, PACKET_BYTES = 1.0, 1100
"""A packet with look-ahead takes no further interval that would bring it beyond either: a receiver
waits for it, and a datagram of 1200 bytes holds it."""
_PACKET_BITS, _PICTURE_BITS = 80, 4
"""Bits of a packet beside its pictures and scaffold, with the length of the scaffold and the end of
the range coder's run; bits of the layout and flags of a picture. Both measured."""
_SMALLEST_SCALE = 4


@dataclass(frozen=True)
class CodedPacket:
    """A picture packet before it is numbered."""

    frames: int
    """Frames that it completes."""
    ticks: int
    """Duration of those frames in units of the time base."""
    payload: bytes
    """The bytes that `GroupWriter` writes."""
    type: PacketType = PacketType.INTER
    """INTRA, INTER or SHOT."""

    @property
    def bits(self) -> int:
        """Size of the packet, framing included."""
        return 8 * (len(self.payload) + FRAMING_BYTES)

    @property
    def is_intra(self) -> bool:
        """Whether it opens a group."""
        return self.type == PacketType.INTRA


@dataclass(frozen=True)
class CodingConfig:
    """Settings of a group coder."""

    header: Header
    """The stream's header: format and tools."""
    level: tuning.Level
    """The level, suited to the format."""
    effort: tuning.Effort
    """The preset's effort."""
    bpp: float
    """Bits per pixel of the stream; infinite where a quality decides."""
    exact: bool
    """Whether `bpp` is to be met, or only a limit."""
    tune: tuning.Tune = tuning.TUNES[tuning.DEFAULT_TUNE]
    """The tune: what bits go to."""
    face_weight: float = 1.0
    """Weight of faces in the distortion, where all else weighs 1."""
    faces: bool = False
    """Send the motion of faces where it pays."""
    semantics: bool = False
    """Send people and regions whether they pay or not."""
    quality: float | None = None
    """ST-LPIPS AlexNet of the rendering to come to, in place of the level's lambda."""
    low_memory: bool = False
    """Hold less memory, for more time: frames wait packed, one probe is made at a time."""
    max_bitrate: float | None = None
    """Bits that any second may take."""
    packet_bytes: int | None = None
    """Bytes that any packet may take, framing included."""
    gop: float = tuning.FILE_GOP
    """Seconds from one intra picture to the next, at most; infinite for no limit."""
    is_gop_asked: bool = True
    """Whether `gop` holds; else without look-ahead it may take three times as long."""
    lookahead: float = inf
    """Seconds for which look-ahead may hold a frame back, at most."""

    @property
    def grid(self) -> int:
        """Frames from place to place where pictures are to lie, as the header's model has it."""
        named = BY_HINT.get(self.header.model_id)
        return named.grid if named else 1

    @property
    def longest_interval(self) -> int:
        """Frames that a packet may complete."""
        return DEFAULT_LIMITS.longest_interval(self.header.format.width, self.header.format.height)

    @property
    def longest_group(self) -> int:
        """Frames of a group with look-ahead, at most: as `gop`, `lookahead` and memory allow."""
        form = self.header.format
        held = tuning.MOST_GROUP_PIXELS // (form.width * form.height)
        # A frame waits for the rest of its group and, after its last coded picture, for the next.
        seconds = min(self.gop, self.lookahead / 2)
        frames = max(1, round(min(held, seconds * float(form.frame_rate))))
        # Groups begin on the grid, where one goes on from another.
        return max(1, frames - frames % self.grid)

    def can_scale(self, scale: int) -> bool:
        """Whether coded pictures may be coded at `scale` eighths of the side."""
        return scale >= _SMALLEST_SCALE and svt_av1.can_code(self.header.geometry.coded_size(scale))

    def framing_bits(self, frames: int, pictures: int, bits: float) -> float:
        """Likely framing bits of `pictures` pictures of `bits` bits in `frames` frames."""
        seconds = frames / float(self.header.format.frame_rate)
        packets = max(1.0, seconds / PACKET_SECONDS, bits / 8 / PACKET_BYTES)
        return _PACKET_BITS * min(packets, pictures) + _PICTURE_BITS * pictures

    def distortion(self) -> Distortion:
        """The distortion of renderings; faces weigh no more without the model that finds them.

        Raises MissingModelError and MissingDependencyError if people are to be sent.
        """
        if self.face_weight == 1:
            return Distortion(self.tune.structure_weight)
        try:
            return Distortion(self.tune.structure_weight, FaceWeights(self.face_weight))
        except (MissingModelError, MissingDependencyError) as cause:
            if self.semantics:
                raise
            _log.warning("faces weigh no more than the rest: %s", cause)
            return Distortion(self.tune.structure_weight)

    def face_points(self, distortion: Distortion) -> FaceMesh | None:
        """The finder of face points; None if faces are not to be sent, or a model is missing.
        `distortion`: the result of `distortion()`, which may have warned of that."""
        if not self.faces:
            return None
        try:
            return FaceMesh()
        except (MissingModelError, MissingDependencyError) as cause:
            if self.face_weight == 1 or distortion.faces:
                _log.warning("faces are drawn without their own motion: %s", cause)
            return None

    def packet_excess(self, coded: Sequence[CodedPacket]) -> float:
        """Size of the largest packet in proportion to `packet_bytes`; 0 without a limit."""
        # Framing takes a byte more where a large packet completes 128 frames.
        largest = max(len(packet.payload) for packet in coded) + FRAMING_BYTES + 1
        return largest / self.packet_bytes if self.packet_bytes else 0.0

    @property
    def packet_advice(self) -> str:
        """The message for a limit on packets that cannot be kept."""
        return (
            f"no key picture of this video keeps within max_packet_bytes={self.packet_bytes}: "
            "raise the limit or shrink the video"
        )
