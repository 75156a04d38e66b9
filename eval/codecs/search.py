"""The rate point of a conventional codec that is nearest to a given rate."""

from dataclasses import dataclass, field
from math import log

from gsvc.codec.errors import ConfigError
from gsvc.datasets.clips import TestClip
from gsvc.eval.codecs.base import Encoded, Settings, Value
from gsvc.eval.codecs.conventional import ConventionalCodec


@dataclass(frozen=True)
class CodedClip:
    """A clip coded with `settings`."""

    settings: Settings
    encoded: Encoded
    bpp: float
    """Bits per pixel of the frames as shown."""


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
    """The clip coded at the quality whose rate is nearest to the target, by ratio.

    `lowest` and `highest` bound the codec's crf or qp; the rate falls as it rises. About four
    encodes. To compare scales by quality, call it once for each. Raises ConfigError for bounds or a
    target that leave no choice, otherwise as `ConventionalCodec.encode`.
    """
    if target_bpp <= 0 or lowest > highest:
        raise ConfigError(
            f"no rate can be searched with target {target_bpp} bpp from {lowest} to {highest}: "
            "give a positive target and the lower bound first"
        )
    fixed = {"preset": codec.preset if preset is None else preset, "scale": scale}
    return _Search(codec, clip, target_bpp, fixed).nearest(lowest, highest)


@dataclass
class _Search:
    codec: ConventionalCodec
    clip: TestClip
    target_bpp: float
    fixed: Settings
    tried: dict[int, CodedClip] = field(default_factory=dict)

    def nearest(self, low: int, high: int) -> CodedClip:
        if self._excess(high) < 0 and low < high and self._excess(low) > 0:
            while high - low > 1:
                # Each guess takes the log of the rate as linear in the quality.
                share = self._excess(low) / (self._excess(low) - self._excess(high))
                guess = min(max(round(low + share * (high - low)), low + 1), high - 1)
                if self._excess(guess) > 0:
                    low = guess
                else:
                    high = guess
        return min(self.tried.values(), key=lambda coded: abs(log(coded.bpp / self.target_bpp)))

    def _excess(self, quality: int) -> float:
        """Log of the rate at this quality over the target."""
        if quality not in self.tried:
            settings = {**self.fixed, self.codec.quality: quality}
            encoded = self.codec.encode(self.clip, settings)
            size = self.clip.format
            pixels = len(self.clip.frames) * size.width * size.height
            self.tried[quality] = CodedClip(settings, encoded, 8 * len(encoded.data) / pixels)
        return log(self.tried[quality].bpp / self.target_bpp)
