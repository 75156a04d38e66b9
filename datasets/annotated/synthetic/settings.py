"""What a synthetic scene is made of."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from gsvc.codec.errors import ConfigError

CLASSES = "person", "animal", "thing"
_RANGES = {
    "frames": (1, 100_000),
    "cameras": (1, 16),
    "people": (0, 200),
    "animals": (0, 200),
    "things": (0, 200),
    "pillars": (0, 50),
    "sway": (0, 20),
    "noise": (0, 50),
    "width": (64, 4096),
    "height": (64, 4096),
}


@dataclass(frozen=True)
class SceneSettings:
    """One scene. Raises ConfigError for a value out of range."""

    seed: int = 0
    """Decides all that is left open here."""
    frames: int = 75
    """1 to 100000."""
    frame_rate: Fraction = Fraction(25)
    """Frames per second."""
    width: int = 640
    """Pixels, 64 to 4096, even."""
    height: int = 360
    """Pixels, 64 to 4096, even."""
    cameras: int = 1
    """Around the ground, 1 to 16."""
    people: int = 4
    """0 to 200, as animals and things."""
    animals: int = 2
    """See `people`."""
    things: int = 2
    """See `people`."""
    pillars: int = 2
    """That stand on the ground and hide what is behind them, 0 to 50."""
    sway: float = 0.0
    """Degrees by which the cameras turn to and fro, 0 to 20."""
    noise: float = 1.5
    """Standard deviation in grey levels, 0 to 50."""
    background: Path | None = None
    """A photograph in place of the drawn ground."""
    cutouts: Path | None = None
    """A folder with pictures with alpha to move in place of drawn shapes: person/, animal/ and
    thing/, each as far as there is one; files beside the folders are things."""

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{name} {value}: must be {low} to {high}")
        if self.frame_rate <= 0:
            raise ConfigError(f"frame_rate {self.frame_rate}: must be above 0")
        if self.width % 2 or self.height % 2:
            raise ConfigError(f"size {self.width}x{self.height}: make both even")
