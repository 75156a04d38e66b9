"""SVT-AV1 with a fixed quantiser for each temporal layer: sharp base pictures, cheap ones above.

Its rate factor gives base pictures more bits as the rate falls, down to "crf 70, the lowest rate".
Fixed offsets go lower, and spend what there is where motion compensation carries it furthest.
"""

from collections.abc import Sequence
from typing import ClassVar

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.encoders.coding.svt_av1 import OFFSET_LAYERS, quantiser_offsets
from gsvc.eval.baselines.base import Value
from gsvc.eval.baselines.conventional import THREADS, Points
from gsvc.eval.baselines.svtav1 import AV1_FAMILY, VISUAL_TUNING, SvtAv1
from gsvc.eval.late_loading import CodecFacts

_MOST = 64


class SvtAv1Offsets(SvtAv1):
    """Preset "4/-60/-30/-10": preset 4 with visual tuning; quantiser offsets, -64 to 63 in AV1's
    index of 0 to 255, of key pictures and of temporal layers from the lowest, the last repeated.

    `qp`: 0 to 63, to which the offsets are added after it is turned into that index.
    """

    name = "svtav1+offsets"
    facts = CodecFacts(family=AV1_FAMILY, colour="#13a0d4", marker="D")
    quality = "qp"
    max_crf = 63
    preset: ClassVar[Value] = "4/0/0"
    tuned: ClassVar[tuple[Value, ...]] = ("4/-60/-30/-10",)
    points: ClassVar[Points] = {"1": (63, 57)}

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        """See `ConventionalCodec.options`."""
        speed, key, layers = _parsed(str(preset))
        offsets = quantiser_offsets(key, layers)
        params = f"rc=0:qp={quality}:{offsets}:lp={THREADS}{VISUAL_TUNING}"
        return {"preset": speed, "svtav1-params": params}


def _parsed(preset: str) -> tuple[str, int, Sequence[int]]:
    """Speed, the offset of key pictures, and those of layers. Raises ConfigError."""
    speed, *texts = preset.split("/")
    try:
        key, *layers = map(int, texts)
    except ValueError:
        layers = []
    are_as_many = 0 < len(layers) <= OFFSET_LAYERS
    if not are_as_many or not all(-_MOST <= one < _MOST for one in (key, *layers)):
        raise ConfigError(
            f"preset {preset!r}: write 4/-60/-30/-10, a preset and quantiser offsets from "
            f"-{_MOST} to {_MOST - 1} of key pictures and of up to {OFFSET_LAYERS} layers"
        )
    return speed, key, layers


CODECS = (SvtAv1Offsets,)
