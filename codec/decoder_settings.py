"""`DecoderSettings`: what a user may ask of the decoder."""

from dataclasses import dataclass

from gsvc.codec.errors import ConfigError

STEPS = (0, 1, 2, 4, 8)
MOTIONS = "dis", "rife"


@dataclass(frozen=True)
class DecoderSettings:
    """How much compute to spend. Raises ConfigError for values out of range."""

    steps: int = 1
    """Steps of the refiner: 1, 2, 4 or 8; 0 shows the rendering and needs no refiner."""
    backend: str = "compact"
    """Which refiner: "compact:nano", "compact:small" or "compact:base" ("compact" is nano), the
    `.safetensors` file of a `gsvc train` run, or `module:Class`."""
    device: str = "cpu"
    """Where the refiner and RIFE run: "cpu", "cuda" or "cuda:N"."""
    seed: int | None = None
    """Seed of the refiner's noise, 0-65535; None takes the stream's."""
    motion: str = "dis"
    """What finds the motion between pictures: "dis", fast, or "rife", a network: it needs torch,
    and weights by `gsvc models pull rife`. Any stream can be decoded with either."""
    conceal: bool = False
    """Conceal frames of damaged and missing packets, and flag them, instead of raising."""

    def __post_init__(self) -> None:
        if self.steps not in STEPS:
            raise ConfigError(f"steps {self.steps}: choose one of {', '.join(map(str, STEPS))}")
        if self.motion not in MOTIONS:
            raise ConfigError(f"motion {self.motion!r}: choose one of {', '.join(MOTIONS)}")
        if self.seed is not None and not 0 <= self.seed < 1 << 16:
            raise ConfigError(f"seed {self.seed} is out of range: 0 to 65535")
