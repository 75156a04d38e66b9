"""SVT-AV1 at its best: preset 4, random access, long groups; tuned for PSNR and for the eye."""

import re
from typing import ClassVar

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.eval.baselines.base import Value
from gsvc.eval.baselines.conventional import NO_LIMIT, THREADS, ConventionalCodec, Points
from gsvc.eval.late_loading import CodecFacts

AV1_FAMILY = "AV1, all that one can do"
"""The joint hull of SVT-AV1 and of what can be done before and after it."""
VISUAL_TUNING = ":tune=0:sharpness=7"
_VISUAL, _FLATTER = "-vq", "-qsc"
_PRESET = re.compile(f"(-?[0-9]+)({_VISUAL})?({_FLATTER})?")
_LIBAV_MOST = 63
"""FFmpeg's own option ends here; SVT-AV1 goes on to 70 since 3.1, with coarser rate decisions."""


class SvtAv1(ConventionalCodec):
    """AV1, 8 bits, the encoder's bytes with the temporal delimiter of two bytes in every frame.

    Preset "4-vq" is preset 4 with the library's visual tuning and its greatest sharpness. On
    development clips it saves 10 to 20 % of the bits at equal ST-LPIPS and costs PSNR, so both are
    run and the hull has the better one for each metric. Other sharpness, or no CDEF, did no better.
    "4-qsc" and "4-vq-qsc" spread quantisers less between temporal layers
    (qp-scale-compress-strength=1), which saves 2.5 to 4 % at equal PSNR.
    """

    name = "svtav1"
    suffix = ".obu"
    facts = CodecFacts(family=AV1_FAMILY, is_anchor=True, colour="#2b7bd6", marker="D")
    library = "libsvtav1"
    demuxer = "obu"
    pixel_format = "yuv420p"
    preset: ClassVar[Value] = 4
    tuned: ClassVar[tuple[Value, ...]] = (f"4{_VISUAL}",)
    max_crf = 70
    points: ClassVar[Points] = {
        "1": (70, 63, 60, 56, 50),
        "1/2": (70, 63, 56, 48),
        "1/3": (63, 52),
    }

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        """See `ConventionalCodec.options`."""
        known = _PRESET.fullmatch(str(preset))
        if known is None:
            raise ConfigError(f"preset {preset!r} is not known: write 4, 4{_VISUAL} or 4{_FLATTER}")
        speed, visual, flatter = known.groups()
        params = f"lp={THREADS}{VISUAL_TUNING if visual else ''}"
        params += ":qp-scale-compress-strength=1" if flatter else ""
        params += ":keyint=-1" if interval == NO_LIMIT else ""
        if quality > _LIBAV_MOST:
            return {"preset": speed, "svtav1-params": f"crf={quality}:{params}"}
        return {"preset": speed, "crf": str(quality), "svtav1-params": params}


CODECS = (SvtAv1,)
