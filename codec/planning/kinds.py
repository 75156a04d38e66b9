"""Videos that are not there yet: a class of content, and what is known of them."""

from dataclasses import dataclass

from gsvc.codec.errors import ConfigError

CLASSES = "talking-head", "surveillance", "sport", "animation", "hand-held", "objects"
"""Names of the classes, each measured on a few development clips."""


@dataclass(frozen=True)
class Kind:
    """What a video will be. Raises ConfigError for what no video is."""

    name: str
    """Of `CLASSES`."""
    width: int = 512
    """Pixels."""
    height: int = 288
    """Pixels."""
    rate: float = 25.0
    """Frames per second."""
    seconds: float = 60.0
    """Its length."""

    def __post_init__(self) -> None:
        if self.name not in CLASSES:
            raise ConfigError(f"no class {self.name!r}: there are {', '.join(CLASSES)}")
        if min(self.width, self.height) < 1 or not 1 <= self.rate * self.seconds < float("inf"):
            raise ConfigError(
                f"a video of {self.width}x{self.height}, {self.rate:g} frames/s and "
                f"{self.seconds:g} s: give a size above 0 and a frame at least"
            )
