"""VP9 by libvpx, as well as it does in one pass (PyAV hands no first-pass statistics over).

Good quality at cpu-used 1, 25 frames of look-ahead, alternate reference frames. A second pass would help
most where the content changes: take its numbers as VP9's upper bound.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import av

from gsvc.eval.codecs.base import Value
from gsvc.eval.codecs.conventional import THREADS, ConventionalCodec, Points
from gsvc.eval.codecs.framing import join_parts, split_parts


class Vp9(ConventionalCodec):
    """VP9 frames, each behind its length: what Annex B's start codes and AV1's sizes are to the others.

    VP9 has no stream format of its own (IVF spends 12 bytes a frame); the lengths, 1 or 2 bytes a frame,
    stand in the ledger as framing.
    """

    name = "vp9"
    suffix = ".vp9"
    library = "libvpx-vp9"
    pixel_format = "yuv420p"
    preset = 1
    max_crf = 63
    points: ClassVar[Points] = {"1": (63, 57, 48), "1/2": (63, 52), "1/3": (58,)}

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        """See `ConventionalCodec.options`."""
        return {
            "deadline": "good",
            "cpu-used": str(preset),
            "crf": str(quality),
            "b": "0",
            "auto-alt-ref": "1",
            "lag-in-frames": "25",
            "row-mt": "1",
            "threads": str(THREADS),
        }

    def _join(self, packets: Sequence[bytes]) -> bytes:
        return join_parts(packet for packet in packets if packet)

    def _ledger(self, data: bytes) -> dict[str, int]:
        video = sum(8 * len(packet) for packet in split_parts(data))
        return {"video": video, "framing": 8 * len(data) - video}

    def _pictures(self, data: bytes) -> Iterator[av.VideoFrame]:
        decoder = av.CodecContext.create("vp9", "r")
        assert isinstance(decoder, av.VideoCodecContext)
        decoder.thread_count = THREADS
        for packet in split_parts(data):
            yield from decoder.decode(av.Packet(packet))
        yield from decoder.decode(None)
