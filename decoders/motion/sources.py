"""The sources of motion that the renderer sums: each layer that moves pixels is part of one."""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.decoders.motion.anchors import AnchoredMotion
from gsvc.decoders.motion.bend import Bend, MotionSource
from gsvc.decoders.motion.camera import CameraMotion
from gsvc.decoders.motion.faces import FaceMotion

SOURCES: tuple[Callable[[Interval, Sample | None, Geometry], MotionSource], ...] = (
    AnchoredMotion,
    CameraMotion,
    FaceMotion,
)
"""Made from an interval, the sample on the coded picture before it, and the grids."""
HELD_SOURCES = CameraMotion, FaceMotion
"""Those that also move frames that hold a coded picture."""


def total_bend(sources: Sequence[MotionSource], offset: int) -> Bend | None:
    """The sum of the motion that the sources add in a frame; None where none adds any."""
    bends = [bend for source in sources if (bend := source.bend(offset)) is not None]
    return reduce(add, bends) if bends else None
