"""SVT-AV1 at its best: preset 4, random-access structure, long groups."""

import os
from typing import ClassVar

from gsvc.eval.codecs.base import Value
from gsvc.eval.codecs.conventional import THREADS, ConventionalCodec, Points

# SVT-AV1 reads this when it starts; without it every encode prints its settings.
os.environ.setdefault("SVT_LOG", "1")


class SvtAv1(ConventionalCodec):
    """AV1, 8 bits, the bytes as the encoder gives them: a temporal delimiter of two bytes a frame is in."""

    name = "svtav1"
    suffix = ".obu"
    library = "libsvtav1"
    demuxer = "obu"
    pixel_format = "yuv420p"
    preset = 4
    max_crf = 63
    points: ClassVar[Points] = {"1": (63, 60, 56, 50), "1/2": (63, 56, 48), "1/3": (63, 52)}

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        """See `ConventionalCodec.options`."""
        return {"preset": str(preset), "crf": str(quality), "svtav1-params": f"lp={THREADS}"}
