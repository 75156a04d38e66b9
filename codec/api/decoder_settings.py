"""`DecoderSettings`: what a user may ask of the decoder."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsvc import __version__
from gsvc.codec.bitstream.errors import ConfigError, typed
from gsvc.codec.bitstream.layers.guide import LOOKS

if TYPE_CHECKING:
    from gsvc.codec.media.marks import Mark

STEPS = (0, 1, 2, 4, 8)
"""Steps of gsvc's own refiners; others may take any number up to `MOST_STEPS`."""
MOST_STEPS = 100
_OWN = "restorer", "compact", "windowed"
MOTIONS = "dis", "rife"


@typed
@dataclass(frozen=True)
class DecoderSettings:
    """How much compute to spend. Raises ConfigError for values out of range."""

    steps: int = 1
    """Steps of the refiner: the restorer takes 1, compact refiners 1, 2, 4 or 8, pretrained ones 1
    to 100; 0 shows the rendering and needs no refiner."""
    backend: str = "restorer"
    """Which refiner: "restorer", which every installation has; "compact:nano", "compact:small" or
    "compact:base" ("compact" is nano), the `.safetensors` file of a `gsvc train` run, a pretrained
    model as `gsvc models pull` brings it ("ltx", "wan-vace" ...), or `module:Class`."""
    look: str = "balanced"
    """How the restorer draws: "faithful" (less texture), "balanced", as guided, "sharp" (more)."""
    device: str = "cpu"
    """Where the refiner and RIFE run: "cpu", "cuda" or "cuda:N"."""
    seed: int | None = None
    """Seed of the refiner's noise, 0-65535; None takes the stream's."""
    motion: str = "dis"
    """What finds the motion between pictures: "dis", fast, or "rife", a network: it needs torch,
    and weights by `gsvc models pull rife`. Any stream can be decoded with either."""
    cache: str | None = None
    """What a pretrained model keeps from step to step: "first-block", "mag", "faster" or
    "taylorseer", with a number behind a colon."""
    latent_cache: str | None = None
    """Folder of latents of similar windows, with a capacity behind a colon: "latents:2G"."""
    vram: str | None = None
    """How a pretrained model uses a GPU's memory: at most "8G", or whole, offload, groups, fp8."""
    quantize: str | None = None
    """"int8": a pretrained model's weights in 8 bits, which needs torchao and changes pictures."""
    paste_keys: bool = False
    """Show key pictures as they were decoded where windows are restored."""
    resume: str | None = None
    """Folder of restored windows: another decode of the same stream takes them from there."""
    conceal: bool = False
    """Conceal frames of damaged and missing packets, and flag them, instead of raising."""

    def __post_init__(self) -> None:
        own = self.backend.partition(":")[0] in _OWN or self.backend.endswith(".safetensors")
        if self.steps not in STEPS and (own or not 0 < self.steps <= MOST_STEPS):
            raise ConfigError(f"steps {self.steps}: choose one of {', '.join(map(str, STEPS))}")
        if self.look not in LOOKS:
            raise ConfigError(f"look {self.look!r}: choose one of {', '.join(LOOKS)}")
        if self.motion not in MOTIONS:
            raise ConfigError(f"motion {self.motion!r}: choose one of {', '.join(MOTIONS)}")
        if self.quantize not in (None, "int8"):
            raise ConfigError(f"quantize {self.quantize!r}: int8 is what there is")
        if self.seed is not None and not 0 <= self.seed < 1 << 16:
            raise ConfigError(f"seed {self.seed} is out of range: 0 to 65535")


def mark_of(settings: DecoderSettings) -> "Mark | None":
    """The mark of what a decoder with these settings makes; None where nothing is generated."""
    if not settings.steps and settings.motion == "dis":
        return None
    from gsvc.codec.media.marks import Mark  # late: most decoding generates nothing

    # The name alone of a file of weights: its folder is nobody's business.
    name = re.sub(r"[^\w.:-]", "-", re.split(r"[/\\]", settings.backend)[-1], flags=re.ASCII)
    backend = name[-80:] if settings.steps else "none"
    return Mark(__version__, settings.steps, backend, settings.motion)
