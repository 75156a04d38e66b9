"""The point of a conventional codec that is nearest to a rate."""

from dataclasses import dataclass
from math import log

from gsvc.codec.errors import ConfigError
from gsvc.datasets.clips import TestClip
from gsvc.eval.codecs.base import Encoded, Settings, Value
from gsvc.eval.codecs.conventional import ConventionalCodec


@dataclass(frozen=True)
class CodedClip:
    """A clip coded with `settings`; `bpp` is bits a pixel of the frames as shown."""

    settings: Settings
    encoded: Encoded
    bpp: float


def nearest_rate(
    codec: ConventionalCodec,
    clip: TestClip,
    target_bpp: float,
    *,
    lowest: int,
    highest: int,
    scale: str = "1",
    preset: Value | None = None,
) -> CodedClip:
    """The clip coded at the quality whose bpp is nearest to the target, by ratio.

    `lowest` and `highest` bound the codec's crf or qp (rate falls as it rises). Takes about four encodes.
    Nearest says nothing of the picture: to compare scales, call once for each. Raises ConfigError when
    there is nothing to choose from; else as `ConventionalCodec.encode`.
    """
    if target_bpp <= 0 or lowest > highest:
        raise ConfigError(
            f"no rate can be searched with target {target_bpp} bpp from {lowest} to {highest}: "
            "give a positive target and the lower bound first"
        )
    pixels = len(clip.frames) * clip.format.width * clip.format.height
    tried: dict[int, CodedClip] = {}

    def excess(quality: int) -> float:
        if quality not in tried:
            settings = {
                "preset": codec.preset if preset is None else preset,
                codec.quality: quality,
                "scale": scale,
            }
            encoded = codec.encode(clip, settings)
            tried[quality] = CodedClip(settings, encoded, 8 * len(encoded.data) / pixels)
        return log(tried[quality].bpp / target_bpp)

    low, high = lowest, highest
    if excess(high) < 0 and low < high and excess(low) > 0:
        while high - low > 1:
            # Each guess assumes the log of the rate linear in the quality.
            share = excess(low) / (excess(low) - excess(high))
            guess = min(max(round(low + share * (high - low)), low + 1), high - 1)
            if excess(guess) > 0:
                low = guess
            else:
                high = guess
    return min(tried.values(), key=lambda coded: abs(log(coded.bpp / target_bpp)))
