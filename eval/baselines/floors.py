"""Floors: gsvc's coded pictures alone, with nothing sent for the frames between.

A third floor, a small picture scaled up, is what every conventional codec gives at scale 1/2 and
1/3.
"""

import io
import time
from collections.abc import Sequence

from gsvc.codec.bitstream.container import StreamReader
from gsvc.codec.bitstream.errors import BitstreamError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.scaffold import Geometry, Place
from gsvc.datasets.clips.clip import ClipFormat
from gsvc.decoders.keyframes.keyframe import KeyframeDecoder
from gsvc.encoders.tuning import DEFAULT_PRESET
from gsvc.eval.baselines.base import Compute, Decoded, Option, Settings, all_frames
from gsvc.eval.baselines.gsvc import NO_TOOLS, Gsvc
from gsvc.eval.late_loading import CodecFacts


class MotionFloor(Gsvc):
    """Coded pictures and the motion that the decoder finds between them; no scaffold or refiner."""

    name = "motion"
    facts = CodecFacts(colour="#a8794b")
    backends = ()

    def __init__(
        self,
        level: Option | None = None,
        bpp: Option | None = None,
        preset: Option = DEFAULT_PRESET,
        gop: Option | None = None,
    ) -> None:
        super().__init__(level=level, bpp=bpp, preset=preset, tools=NO_TOOLS, steps=0, gop=gop)


class HoldFloor(MotionFloor):
    """Frames show the latest coded picture, or the scene's first; `MotionFloor`'s stream."""

    name = "hold"
    facts = CodecFacts(colour="#b59a5b")

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        """One: holding has no choices."""
        return [{}]

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """See `Gsvc.decode`."""
        start = time.perf_counter()
        return Decoded(all_frames(self.name, _held(data), clip), time.perf_counter() - start)

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> Compute | None:
        """None: only pictures are decoded."""
        return None


def _held(data: bytes) -> list[Picture]:
    reader = StreamReader(io.BytesIO(data))
    video = reader.header.format
    size = video.width, video.height
    parser = GroupReader(reader.header)
    decoders: dict[int, KeyframeDecoder] = {}
    frames: list[Picture] = []
    for packet in reader:
        if not packet.is_picture:
            continue
        parsed = parser.read(packet)
        if parsed.begins:
            decoders[parsed.slot] = KeyframeDecoder(size, video.color)
        coded_size, units = Geometry(*size).coded_size(parsed.coding.scale), iter(parsed.units)
        for interval in parsed.intervals:
            if interval.place is Place.AFTER:
                frames += frames[-1:] * interval.length
                continue
            picture = decoders[parsed.slot].decode(next(units), coded_size)
            waiting = interval.length - 1
            if waiting and interval.place is Place.BETWEEN and not frames:
                raise BitstreamError(
                    "the stream does not begin with a coded picture: code the clip again"
                )
            held = picture if interval.place is Place.BEFORE else (frames or [picture])[-1]
            frames += [held] * waiting
            frames.append(picture)
    return frames


CODECS = (HoldFloor, MotionFloor)
