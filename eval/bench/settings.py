"""What a run is asked for."""

from dataclasses import dataclass

from gsvc.codec.errors import ConfigError
from gsvc.eval.bench.named import CodecSpec

SIZES = ("288", "480", "native")


@dataclass(frozen=True)
class RunSettings:
    """What was asked for. Raises ConfigError for what no run can do."""

    clips: tuple[str, ...]
    """Clips, sets and folders by name."""
    codecs: tuple[CodecSpec, ...]
    metrics: tuple[str, ...]
    sizes: tuple[str, ...] = ("288",)
    """Of `SIZES`: lines of the clips as coded."""
    anchors: tuple[str, ...] = ()
    """Codecs that the others are measured against; none: the conventional ones."""
    frames: int | None = 97
    """Frames from the start of each clip, None for all."""
    stride: int = 7
    """Quality is measured on one frame in so many."""
    kept_together: int | None = None
    """Decodes of a cell or of several that are done before any is kept; None: as many as are scored
    together, which is fastest."""

    def __post_init__(self) -> None:
        if not (self.clips and self.codecs and self.sizes):
            raise ConfigError("a run needs at least one clip, one codec and one size")
        if unknown := set(self.sizes) - set(SIZES):
            raise ConfigError(f"size {min(unknown)!r}: take one of {', '.join(SIZES)}")
        if self.frames is not None and self.frames < 1:
            raise ConfigError(f"frames {self.frames}: at least 1")
        if self.stride < 1:
            raise ConfigError(f"stride {self.stride}: at least 1")
