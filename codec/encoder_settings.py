"""`EncoderSettings`: what a user may ask of the encoder."""

from dataclasses import dataclass
from math import inf

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import VideoFormat
from gsvc.codec.scaffold.layers import LAYERS
from gsvc.codec.scaffold.layers.pose import POSE
from gsvc.codec.scaffold.layers.segmentation import SEGMENTATION
from gsvc.codec.scaffold.tools import Tools
from gsvc.encoders.tuning import DEFAULT_PRESET, LEVELS, PRESETS

_LEAST_PACKET = 64


@dataclass(frozen=True)
class EncoderSettings:
    """How to encode. Of `level`, the rates and `quality` at most one decides.

    Raises ConfigError for values out of range and for goals that exclude each other.
    """

    level: int | None = None
    """0-3; None lets the rate choose, or is 1 without a rate."""
    bpp: float | None = None
    """Bits per pixel of a frame to meet, headers included, audio not."""
    bitrate: float | None = None
    """Bits per second to meet, headers included, audio not; in place of `bpp`."""
    quality: float | None = None
    """ST-LPIPS AlexNet of the rendering to come near to, 0 to 1; in place of a rate."""
    max_bitrate: float | None = None
    """Bits that no second may exceed, headers included."""
    max_packet_bytes: int | None = None
    """Bytes that no packet may exceed, framing included: key pictures get coarser and smaller until
    they fit."""
    tools: Tools | None = None
    """Scaffold layers; None for texture and camera, at preset slow also flow, segmentation and
    pose, with `semantics` the last two at any preset."""
    preset: str = DEFAULT_PRESET
    """"fast", "medium" or "slow"."""
    semantics: bool = False
    """Send segmentation and pose even where they do not pay."""
    low_delay: bool = False
    """Without look-ahead: a frame waits for the next key picture only, at the price of more bits
    (see `Encoder.delay`)."""
    seed: int = 0
    """Of the decoder's refiner, 0-65535."""
    model_id: bytes = bytes(4)
    """Of the decoder's refiner, 4 bytes."""

    def __post_init__(self) -> None:
        if self.level is not None and not 0 <= self.level < len(LEVELS):
            raise ConfigError(f"level {self.level}: choose 0, 1, 2 or 3")
        if sum(goal is not None for goal in (self.bpp, self.bitrate, self.quality)) > 1:
            raise ConfigError("give bits per pixel, bits per second or a quality, only one of them")
        rates = self.bpp, self.bitrate, self.max_bitrate
        if any(rate is not None and not 0 < rate < inf for rate in rates):
            raise ConfigError("the rate must be a positive number")
        if self.quality is not None and not 0 < self.quality < 1:
            raise ConfigError("quality is a distance: choose one between 0.02 (good) and 0.4 (bad)")
        if self.low_delay and (self.quality is not None or self.max_bitrate is not None):
            raise ConfigError(
                "a quality or a cap needs look-ahead: leave low delay out, or give a bitrate"
            )
        if self.max_packet_bytes is not None and self.max_packet_bytes < _LEAST_PACKET:
            raise ConfigError(
                f"packets of {self.max_packet_bytes} bytes hold no picture: "
                f"allow {_LEAST_PACKET} or more"
            )
        if self.preset not in PRESETS:
            raise ConfigError(f"preset {self.preset!r}: choose one of {', '.join(PRESETS)}")

    def chosen_tools(self) -> Tools:
        """The layers: as set, or those worth their time at the preset."""
        if self.tools is not None:
            return self.tools
        asked = {SEGMENTATION.name, POSE.name} if self.semantics else set()
        return Tools(
            **{
                layer.name: layer.default or layer.name in asked or self.preset == "slow"
                for layer in LAYERS
            }
        )

    def target_bpp(self, video: VideoFormat) -> float | None:
        """The rate asked for, in bits per pixel."""
        if self.bitrate is None:
            return self.bpp
        return float(self.bitrate / (video.width * video.height * video.frame_rate))

    def target_bitrate(self, video: VideoFormat) -> float | None:
        """The rate asked for, in bits per second."""
        if self.bpp is None:
            return self.bitrate
        return float(self.bpp * video.width * video.height * video.frame_rate)

    def chosen_level(self, video: VideoFormat) -> int:
        """The level: as set, or the lowest whose usual rate reaches the target."""
        target = self.target_bpp(video)
        if self.level is not None:
            return self.level
        if target is None:
            return 1
        return sum(target > level.usual_bpp for level in LEVELS)
