"""The sources of motion that the renderer sums: each layer that moves pixels is part of one."""

from collections.abc import Callable

from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.types import Interval, Sample
from gsvc.decoders.motion.anchors import AnchoredMotion
from gsvc.decoders.motion.bend import Bend, MotionSource
from gsvc.decoders.motion.camera import CameraMotion

SOURCES: tuple[Callable[[Interval, Sample | None, Geometry], MotionSource], ...] = (
    AnchoredMotion,
    CameraMotion,
)
"""Made from an interval, the sample on the coded picture before it, and the grids."""


def total_bend(sources: list[MotionSource], offset: int) -> Bend | None:
    """The sum of the motion that the sources add in a frame; None where none adds any."""
    total: Bend | None = None
    for source in sources:
        bend = source.bend(offset)
        if total is None or bend is None:
            total = total or bend
            continue
        side = bend.side if total.side is None else total.side
        if total.side is not None and bend.side is not None:
            side = total.side + bend.side
        total = Bend(total.vectors + bend.vectors, side)
    return total
