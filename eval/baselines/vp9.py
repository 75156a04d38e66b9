"""VP9 by libvpx in one pass: PyAV does not pass first-pass statistics on.

Good quality at cpu-used 1, 25 frames of look-ahead, alternate reference frames. A second pass would
help most where the content changes: take these rates as an upper bound of VP9's.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import av

from gsvc.eval.baselines.base import Value, join_parts, split_parts
from gsvc.eval.baselines.conventional import THREADS, ConventionalCodec, Points
from gsvc.eval.late_loading import CodecFacts


class Vp9(ConventionalCodec):
    """VP9 frames, each after its length of 1 or 2 bytes, which the ledger calls framing.

    The lengths do what Annex B's start codes do for H.264 and HEVC; VP9 has no elementary stream
    format of its own, and IVF spends 12 bytes a frame.
    """

    name = "vp9"
    suffix = ".vp9"
    facts = CodecFacts(is_anchor=True, colour="#17a2b0", marker="^")
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


CODECS = (Vp9,)
