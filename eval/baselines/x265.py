"""x265 at its best: preset slow, 10 bits, B-frames."""

from typing import ClassVar

from gsvc.eval.baselines.base import Value
from gsvc.eval.baselines.conventional import THREADS, ConventionalCodec, Points
from gsvc.eval.late_loading import CodecFacts


class X265(ConventionalCodec):
    """HEVC in Annex B, parameter sets once, no info SEI (it alone is 2.3 kB)."""

    name = "x265"
    suffix = ".265"
    facts = CodecFacts(is_anchor=True, colour="#2f8f5b", marker="s")
    library = "libx265"
    demuxer = "hevc"
    pixel_format = "yuv420p10le"
    preset = "slow"
    max_crf = 51
    points: ClassVar[Points] = {"1": (50, 45, 40, 34), "1/2": (46, 38), "1/3": (44,)}
    headers_once = True

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        """See `ConventionalCodec.options`."""
        parameters = (
            f"info=0:keyint={interval}:pools={THREADS}:frame-threads={THREADS}:log-level=none"
        )
        return {"preset": str(preset), "crf": str(quality), "x265-params": parameters}


CODECS = (X265,)
