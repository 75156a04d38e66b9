"""Floors: gsvc's key pictures alone, with nothing sent for the frames between.

A third floor, a small picture scaled up, is what every conventional codec gives at scale 1/2 and
1/3.
"""

import io
import time
from collections.abc import Sequence

from gsvc.codec.errors import BitstreamError
from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.place import Place
from gsvc.codec.stream.container import StreamReader
from gsvc.codec.stream.group import GroupReader
from gsvc.datasets.clips import ClipFormat
from gsvc.decoders.pictures import PictureDecoder
from gsvc.encoders.tuning import DEFAULT_PRESET
from gsvc.eval.codecs.base import Compute, Decoded, Settings
from gsvc.eval.codecs.options import Option
from gsvc.eval.codecs.ours import NO_TOOLS, Gsvc, checked
from gsvc.eval.facts import CodecFacts


class Motion(Gsvc):
    """Key pictures and the motion that the decoder finds between them; no scaffold, no refiner."""

    name = "motion"
    facts = CodecFacts(colour="#a8794b")
    backends = ()

    def __init__(
        self,
        level: Option | None = None,
        bpp: Option | None = None,
        preset: Option = DEFAULT_PRESET,
    ) -> None:
        super().__init__(level=level, bpp=bpp, preset=preset, tools=NO_TOOLS, steps=0)


class Hold(Motion):
    """Frames show the latest key picture, or the scene's first; the stream is that of `Motion`."""

    name = "hold"
    facts = CodecFacts(colour="#b59a5b")

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        """One: holding has no choices."""
        return [{}]

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """See `Gsvc.decode`."""
        start = time.perf_counter()
        return Decoded(checked(_held(data), clip), time.perf_counter() - start)

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> Compute | None:
        """None: only pictures are decoded."""
        return None


def _held(data: bytes) -> list[Picture]:
    reader = StreamReader(io.BytesIO(data))
    video = reader.header.format
    size = video.width, video.height
    parser, decoder = GroupReader(reader.header), PictureDecoder(size, video.color)
    frames: list[Picture] = []
    for packet in reader:
        if not packet.is_picture:
            continue
        parsed = parser.read(packet)
        if parsed.is_intra:
            decoder = PictureDecoder(size, video.color)
        coded_size, units = Geometry(*size).coded_size(parsed.coding.scale), iter(parsed.units)
        for interval in parsed.intervals:
            if interval.place is Place.AFTER:
                frames += frames[-1:] * interval.length
                continue
            picture = decoder.decode(next(units), coded_size)
            waiting = interval.length - 1
            if waiting and interval.place is Place.BETWEEN and not frames:
                raise BitstreamError(
                    "the stream does not begin with a key picture: code the clip again"
                )
            held = picture if interval.place is Place.BEFORE else (frames or [picture])[-1]
            frames += [held] * waiting
            frames.append(picture)
    return frames


CODECS = (Hold, Motion)
