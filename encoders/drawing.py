"""How frames between key pictures are drawn in a trial: plainly, along a path, or dissolving."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property

import cv2
import numpy as np

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layer import Site
from gsvc.codec.scaffold.layers.camera import CAMERA, Camera
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval
from gsvc.decoders.drawn_pair import DrawnPair
from gsvc.decoders.motion.bend import Bend
from gsvc.decoders.motion.between import MotionBetween
from gsvc.decoders.motion.camera import camera_field
from gsvc.decoders.rendering import dissolved, held_picture
from gsvc.encoders.distortion import FloatMap, Reference
from gsvc.encoders.layers.camera import CameraPath
from gsvc.encoders.plan import PLAIN, Drawing, PlannedInterval
from gsvc.encoders.tuning import FADED, MIXED, SHORTEST_FADE

Parts = list[tuple[float, float]]
"""Distortion of frames, as of `Reference.totals`."""


class TrialRenderer:
    """Luma of an interval's frames, about as the decoder draws them, without samples.

    Motion and look-ups are rougher, and faster: detail is raised in any case.
    """

    def __init__(self, planned: PlannedInterval, decoded: Mapping[int, Picture]) -> None:
        """`decoded`: luma of the key pictures by index, uint8 (H, W)."""
        self._planned, self._decoded = planned, decoded
        self._motion_at = cache(lambda share: self._motion.at(share))  # with and without a path

    @property
    def _ends(self) -> tuple[Picture, Picture]:
        return self._decoded[self._planned.start], self._decoded[self._planned.end]

    @cached_property
    def _motion(self) -> MotionBetween:
        return MotionBetween(*self._ends, cv2.DISOPTICAL_FLOW_PRESET_FAST)

    @cached_property
    def _pair(self) -> DrawnPair:
        return DrawnPair(*self._ends, cv2.INTER_LINEAR)

    def dissolved(self, index: int) -> Picture:
        """One frame, the key pictures fading into each other."""
        share = (index - self._planned.start) / self._planned.length
        return dissolved(*self._ends, share)

    def frame(self, index: int, camera: Camera | None) -> Picture:
        """One frame, moved along the camera's path if there is one."""
        planned, time = self._planned, self._planned.time(index)
        if planned.place is not Place.BETWEEN:
            key = planned.end if planned.place is Place.BEFORE else planned.start
            held = Interval((1,) * planned.length, values={CAMERA: camera}, place=planned.place)
            return held_picture(self._decoded[key], held, time)
        share = (index - planned.start) / planned.length
        bend = None
        if camera is not None:
            height, width = self._decoded[planned.start].shape
            geometry = Geometry(width, height)
            path = camera_field(camera, planned.place, planned.length, time, geometry)
            bend = None if path is None else Bend(path)
        return self._pair.frame(self._motion_at(share), share, bend)


class Drawer:
    """Chooses how the intervals of a group are drawn."""

    def __init__(
        self,
        thumbnails: Sequence[FloatMap],
        samples: Mapping[int, Reference],
        reference: Callable[[int], Reference],
        path: CameraPath | None,
    ) -> None:
        """`thumbnails`: luma of every frame at a quarter of the size; `samples`: frames, by index,
        that distortion is measured on; `reference`: gives any frame; `path`: the camera's, where it
        may be sent."""
        self._thumbnails, self._samples = thumbnails, samples
        self._reference, self._path = reference, path

    def choose(
        self, planned: PlannedInterval, decoded: Mapping[int, Picture], lmbda: float
    ) -> tuple[Drawing, Parts, float]:
        """How an interval is drawn best, the distortion of the samples in it, and the bits of the
        camera's path, which is sent if it pays. `decoded`: luma of the key pictures by index."""
        renderer = TrialRenderer(planned, decoded)
        judged = {i: one for i, one in self._samples.items() if i in planned.frames}
        plain = [one.totals(renderer.frame(i, None)) for i, one in judged.items()]
        if self._fades(planned):
            faded = [one.totals(renderer.dissolved(i)) for i, one in judged.items()]
            if _sum(faded) <= _sum(plain):
                return Drawing(dissolves=True), faded, 0.0
        camera = None if self._path is None else self._path.over(planned)
        if camera is None:
            return PLAIN, plain, 0.0
        still = plain
        if not judged:
            # Where no sample falls into an interval, a frame in its middle decides.
            middle = planned.frames[len(planned.frames) // 2]
            judged = {middle: self._reference(middle)}
            still = [judged[middle].totals(renderer.frame(middle, None))]
        moved = [one.totals(renderer.frame(i, camera)) for i, one in judged.items()]
        saved = _sum(still) - _sum(moved)
        # The bits of a path do not depend on the grids.
        site = Site(Geometry(1, 1), planned.place, planned.length)
        bits = CAMERA.bits(site, None, camera)
        if saved * len(planned.frames) / len(judged) <= lmbda * bits:
            return PLAIN, plain, 0.0
        return Drawing(camera), moved if plain else [], bits

    def _fades(self, planned: PlannedInterval) -> bool:
        """Whether the frame in the middle is much nearer to the mean of those at the ends than to
        either of them."""
        if planned.place is not Place.BETWEEN or planned.length < SHORTEST_FADE:
            return False
        middle = (planned.start + planned.end) // 2
        left, now, right = (self._thumbnails[k] for k in (planned.start, middle, planned.end))
        share = np.float32((middle - planned.start) / planned.length)
        error = np.abs(now - (left + share * (right - left))).mean()
        apart = min(np.abs(now - left).mean(), np.abs(now - right).mean())
        return bool(apart > FADED and error < MIXED * apart)


def _sum(parts: Parts) -> float:
    return sum(map(sum, parts))
