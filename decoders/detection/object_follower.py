"""Objects at every frame, from keyframes some frames apart.

Some of the keyframes are anchors: there objects are found and joined with those of the anchor
before. The frames between have them where motion linear in time and the scaffold place them.
"""

from dataclasses import dataclass, field, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.camera import CAMERA
from gsvc.codec.bitstream.scaffold import Geometry, Place
from gsvc.decoders.detection.detectors import Finder
from gsvc.decoders.detection.findings import AnalysisCost, Box, Detection, area, clipped
from gsvc.decoders.detection.motion_detection import AHEAD, SURE, Background, Movement, SmallPicture
from gsvc.decoders.detection.pieces import Draft, Queue, StreamPiece
from gsvc.decoders.detection.tracker import Tracker, TrackStep
from gsvc.decoders.interpolation.optical_flow import FloatImage, Flow, MotionSource
from gsvc.decoders.interpolation.scaffold_motion import SOURCES, camera_field, total_bend


class ScaffoldMotion:
    """The displacement of places in the frames of one piece after the other."""

    def __init__(self, size: tuple[int, int]) -> None:
        """`size`: width and height of the frames."""
        self._geometry = Geometry(*size)
        self._piece: StreamPiece | None = None
        self._sources: list[MotionSource] = []
        self._field: tuple[int, Flow | None] = (0, None)

    def shift(
        self, piece: StreamPiece, offset: int, at: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """x and y in pixels, float64 (2,), in the frame `offset` (from 1) of a piece; None: none.

        `at`: x and y of the place, in pixels.
        """
        if piece is not self._piece:
            self._piece, self._field = piece, (0, None)
            self._sources = [
                make(piece.interval, piece.closing, self._geometry) for make in SOURCES
            ]
        if self._field[0] != offset:
            self._field = offset, self._found(piece, offset)
        field = self._field[1]
        if field is None:
            return None
        x, y = np.clip(at, 0, (field.shape[1] - 1, field.shape[0] - 1)).astype(int)
        return np.asarray(-field[y, x], np.float64)  # it points from the frame to the pictures

    def _found(self, piece: StreamPiece, offset: int) -> Flow | None:
        interval = piece.interval
        if interval.place is Place.BETWEEN:
            if interval.dissolves or offset == interval.length:
                return None
            bend = total_bend(self._sources, offset)
            return None if bend is None else bend.vectors
        camera, time = interval[CAMERA], offset
        if interval.place is Place.BEFORE:
            time = interval.length - offset
        if camera is None or not time:
            return None
        return camera_field(camera, interval.place, interval.length, time, self._geometry)


LEAST_GAP = 3
"""Frames between anchors, where pictures are dense."""
_SIDE = 512
"""Pixels, the longer side of pictures in which what moves is cut out."""
_THUMBNAIL = (32, 18)
_CUT, _SURE_CUT, _CUT_SPREAD = 12.0, 45.0, 8.0
"""Levels of 0-255 in the mean by which the picture, and its histogram, change at a cut."""


@dataclass(eq=False)
class _Anchor:
    """A coded picture where objects are looked for."""

    picture: Picture
    small: SmallPicture
    arrival: Movement | None
    """Motion from the anchor before; None where a scene begins."""
    drafts: list[Draft]
    """The frames since that one, the picture's own included."""
    held: list[Draft] = field(default_factory=list)
    """Frames after it that show it."""


class ObjectFollower:
    """Follows objects through the pieces of a stream. `take` them in order, then `finish`."""

    def __init__(
        self,
        size: tuple[int, int],
        finder: Finder | None,
        cost: AnalysisCost,
        *,
        every: int,
        moving: bool,
        least_gap: int = LEAST_GAP,
    ) -> None:
        """`every`: least frames between runs of the finder; `moving`: whether what it does not
        name counts too; `cost` counts its runs; `least_gap`: frames between anchors."""
        self._finder, self._every, self._moving, self._cost = finder, every, moving, cost
        self._least_gap = least_gap
        self._tracker = Tracker(size)
        self._motion = ScaffoldMotion(size)
        self._gap: list[Draft] = []
        self._next: Picture | None = None
        self._end_scene()

    def take(self, piece: StreamPiece, drafts: list[Draft]) -> list[Draft]:
        """The frames that are decided now, after one more piece."""
        if piece.picture is None:  # AFTER
            self._close()
            self._waiting[-1].held += drafts
        elif self._begins(piece):
            ended = self.finish()
            drafts[0].is_cut = bool(drafts[0].frame)
            self._gap, self._next = drafts, piece.picture
            self._close()
            return ended
        else:
            self._gap += drafts
            self._next = piece.picture
            if len(self._gap) >= self._least_gap:
                self._close()
        return list(self._queue.decided())

    def finish(self) -> list[Draft]:
        """All other frames of a scene."""
        self._close()
        while self._waiting:
            self._step()
        self._tracker.restart()
        left = list(self._queue.all())
        self._end_scene()
        return left

    def _end_scene(self) -> None:
        self._background = Background()
        self._last: SmallPicture | None = None
        self._waiting: list[_Anchor] = []
        self._queue = Queue()
        self._looked: int | None = None

    def _begins(self, piece: StreamPiece) -> bool:
        """Whether a piece shows another scene than the one before."""
        if piece.begins:
            self._close()
        if self._last is None or piece.picture is None or not piece.begins:
            return self._last is None
        return _differ(self._last.luma, SmallPicture(piece.picture).luma)

    def _close(self) -> None:
        """Make the last picture an anchor; go on where enough is known of those after one."""
        if self._next is None:
            return
        small = SmallPicture(self._next)
        arrival = None if self._last is None else Movement(self._last, small)
        self._background.add(SmallPicture(self._next, _SIDE), arrival)
        self._waiting.append(_Anchor(self._next, small, arrival, self._gap))
        self._gap, self._next, self._last = [], None, small
        if len(self._waiting) > AHEAD:
            self._step()

    def _step(self) -> None:
        """Follow the objects to the next anchor, and through the frames before it."""
        anchor = self._waiting.pop(0)
        speed, arrival = self._speed(anchor), anchor.arrival
        moving, activity = self._background.places(speed)
        found = self._found(anchor, [one for one in moving if one.score >= SURE])
        carry = (lambda box: box) if arrival is None else arrival.forward
        steps = self._tracker.step(carry, found, moving if self._moving else ())
        for number, draft in enumerate(anchor.drafts, 1):
            share = number / len(anchor.drafts)
            draft.activity = activity
            draft.camera = arrival.camera(len(anchor.drafts)) if arrival else None
            draft.objects = [(one.track, self._box(draft, one, arrival, share)) for one in steps]
        for draft in anchor.held:
            draft.objects = [(one.track, self._bent(draft, one.end)) for one in steps]
        self._queue.put(anchor.drafts + anchor.held)

    def _speed(self, anchor: _Anchor) -> FloatImage:
        """Motion beside the camera's at an anchor, to it or from it, whichever is faster."""
        leaving = self._waiting[0].arrival if self._waiting else None
        speeds = [anchor.arrival.speed_now] if anchor.arrival else []
        speeds += [leaving.speed_before] if leaving else []
        still = np.zeros(anchor.small.luma.shape, np.float32)
        return np.asarray(np.maximum.reduce([still, *speeds]), np.float32)

    def _found(self, anchor: _Anchor, moving: list[Detection]) -> list[Detection] | None:
        """What the finder sees at an anchor; None where it does not look."""
        frame, looked = anchor.drafts[-1].frame, self._looked
        if self._finder is None or (looked is not None and frame - looked < self._every):
            return None
        self._looked = frame
        self._cost.detector_runs += 1
        height, width = anchor.picture.shape[:2]
        found = self._finder(anchor.picture, moving)
        inside = [replace(one, box=clipped(one.box, (width, height))) for one in found]
        return [one for one in inside if area(one.box) >= 1]

    def _box(self, draft: Draft, one: TrackStep, arrival: Movement | None, share: float) -> Box:
        if arrival is None:
            return self._bent(draft, one.end)
        start = arrival.backward(one.end) if one.start is None else one.start
        return self._bent(draft, start + share * (one.end - start))

    def _bent(self, draft: Draft, box: Box) -> Box:
        shift = self._motion.shift(draft.piece, draft.offset, (box[:2] + box[2:]) / 2)
        return box if shift is None else box + np.tile(shift, 2)


def _differ(before: Picture, now: Picture) -> bool:
    """Whether two pictures, luma, are of different scenes: structure and histogram change."""
    pair = [
        cv2.resize(one, _THUMBNAIL, interpolation=cv2.INTER_AREA).astype(np.float32)
        for one in (before, now)
    ]
    change = float(np.abs(pair[0] - pair[1]).mean())
    ordered = [np.sort(one, axis=None) for one in pair]
    spread = float(np.abs(ordered[0] - ordered[1]).mean())
    return change > _SURE_CUT or (change > _CUT and spread > _CUT_SPREAD)
