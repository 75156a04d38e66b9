"""Objects at every frame, from coded pictures some frames apart.

Some of the coded pictures are anchors: there objects are found and joined with those of the anchor
before. The frames between have them where motion linear in time and the scaffold place them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import cv2
import numpy as np

from gsvc.codec.frames import Picture
from gsvc.decoders.analysis.detectors import Finder
from gsvc.decoders.analysis.movement import Movement, SmallPicture
from gsvc.decoders.analysis.pieces import Piece
from gsvc.decoders.analysis.scaffold_motion import ScaffoldMotion
from gsvc.decoders.analysis.tracker import Step, Track, Tracker
from gsvc.decoders.analysis.types import Box, CameraStep, Cost, Detection

_LEAST_GAP = 3
"""Frames between anchors, where pictures are dense."""
_THUMBNAIL = (32, 18)
_CUT, _SURE_CUT, _CUT_SPREAD = 12.0, 45.0, 8.0
"""Levels of 0-255 in the mean by which the picture, and its histogram, change at a cut."""


@dataclass(eq=False)
class Draft:
    """A frame while it is not yet known which tracks are objects."""

    frame: int
    ticks: int
    piece: Piece
    offset: int
    """Frames since the piece's begin, from 1."""
    objects: list[tuple[Track, Box]] = field(default_factory=list)
    activity: float | None = None
    camera: CameraStep | None = None
    is_cut: bool = False

    @property
    def is_decided(self) -> bool:
        """Whether all of its tracks are known to be objects or not."""
        return all(track.confirmed or track.ended for track, _ in self.objects)


class _Anchor(NamedTuple):
    picture: Picture
    small: SmallPicture


class Following:
    """Follows objects through the pieces of a stream. `take` them in order, then `finish`."""

    def __init__(
        self, size: tuple[int, int], finder: Finder | None, cost: Cost, *, every: int, moving: bool
    ) -> None:
        """`every`: least frames between runs of the finder; `moving`: whether what it does not
        name counts too; `cost` counts its runs."""
        self._finder, self._every, self._moving, self._cost = finder, every, moving, cost
        self._tracker = Tracker(size)
        self._motion = ScaffoldMotion(size)
        self._anchor: SmallPicture | None = None
        self._gap: list[Draft] = []
        self._next: Picture | None = None
        self._shown: list[Step] = []
        self._looked = -every
        self._held: list[list[Draft]] = []
        self._is_head = False

    def take(self, piece: Piece, drafts: list[Draft]) -> list[Draft]:
        """The frames that are decided now, after one more piece."""
        if piece.picture is None:  # AFTER
            self._close()
            self._hold(drafts)
        elif self._begins(piece):
            ended = self.finish()
            drafts[0].is_cut = bool(drafts[0].frame)
            self._open(piece.picture, drafts)
            return ended
        else:
            self._gap += drafts
            self._next = piece.picture
            if len(self._gap) >= _LEAST_GAP:
                self._close()
        return self._decided()

    def finish(self) -> list[Draft]:
        """All other frames of a scene."""
        self._close()
        self._tracker.restart()
        self._anchor, held, self._held = None, self._held, []
        return [draft for drafts in held for draft in drafts]

    def _begins(self, piece: Piece) -> bool:
        """Whether a piece shows another scene than the one before."""
        if self._anchor is None or not piece.begins:
            return self._anchor is None
        self._close()
        assert piece.picture is not None
        return _differ(self._anchor.luma, SmallPicture(piece.picture).luma)

    def _open(self, picture: Picture, drafts: list[Draft]) -> None:
        """The first picture of a scene."""
        self._anchor, self._is_head = SmallPicture(picture), True
        self._looked = drafts[-1].frame - self._every
        found = self._found(picture, (), drafts[-1].frame)
        self._shown = self._tracker.step(lambda box: box, found)
        self._held.append([])
        self._hold(drafts)

    def _hold(self, drafts: list[Draft]) -> None:
        """Frames that show the last anchor."""
        for draft in drafts:
            draft.objects = [(one.track, self._bent(draft, one.end)) for one in self._shown]
        self._held[-1] += drafts

    def _close(self) -> None:
        """Make the last picture an anchor, and place objects in the frames before it."""
        drafts, picture, anchor = self._gap, self._next, self._anchor
        if not drafts or picture is None or anchor is None:
            return
        now = SmallPicture(picture)
        movement = Movement(anchor, now)
        moving = movement.moving()
        found = self._found(picture, moving, drafts[-1].frame)
        steps = self._tracker.step(movement.forward, found, moving if self._moving else ())
        ways = [(one.track, _start(one, movement.backward), one.end) for one in steps]
        if self._is_head:
            for draft in self._held[-1]:
                new = zip(steps, ways, strict=True)
                draft.objects += [(way[0], way[1]) for one, way in new if one.start is None]
        camera, activity = movement.camera(len(drafts)), movement.activity
        for number, draft in enumerate(drafts, 1):
            share = number / len(drafts)
            draft.camera, draft.activity = camera, activity
            draft.objects = [
                (track, self._bent(draft, start + share * (end - start)))
                for track, start, end in ways
            ]
        self._held.append(drafts)
        self._anchor, self._shown, self._is_head = now, steps, False
        self._gap, self._next = [], None

    def _found(
        self, picture: Picture, moving: Sequence[Detection], frame: int
    ) -> list[Detection] | None:
        """What the finder sees in a picture; None where it does not look."""
        if self._finder is None or frame - self._looked < self._every:
            return None
        self._looked = frame
        self._cost.detector_runs += 1
        return self._finder(picture, moving)

    def _bent(self, draft: Draft, box: Box) -> Box:
        shift = self._motion.shift(draft.piece, draft.offset, (box[:2] + box[2:]) / 2)
        return box if shift is None else box + np.tile(shift, 2)

    def _decided(self) -> list[Draft]:
        done: list[Draft] = []
        while len(self._held) > 2 and all(draft.is_decided for draft in self._held[0]):
            done += self._held.pop(0)
        return done


def _start(step: Step, backward: Callable[[Box], Box]) -> Box:
    return backward(step.end) if step.start is None else step.start


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
