"""Anchors of objects: which frames, and which boxes there are worth their bits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gsvc.codec.scaffold.coder import Coder
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.objects import (
    ACTIVITY_STEPS,
    CAMERA_SCALES,
    MAX_CAMERA,
    MAX_OBJECTS,
    MAX_SCORE,
    MAX_TRACK,
    Anchor,
    AnchorCoder,
    KnownObject,
    Motion,
    ObjectBox,
    Parts,
    object_unit,
)
from gsvc.codec.scaffold.layers.pose import People
from gsvc.codec.stream.objects import ObjectRun
from gsvc.decoders.analysis.boxes import overlap
from gsvc.decoders.analysis.types import Box, CameraStep


class _Close(NamedTuple):
    """When a box is where a reader expects it."""

    near: float
    """Intersection over union with the true box, from which the expected one is good enough."""
    same_size: float
    """Share of its sides by which a box may change and keep its size."""


_ALONE, _BESIDE_PICTURES = _Close(0.8, 0.12), _Close(0.9, 0.06)
"""Of objects alone, and beside pictures, where their bits are small change."""


@dataclass(frozen=True, eq=False)
class SeenObject:
    """An object in a frame of the source."""

    kind: str
    box: Box
    score: float


@dataclass(frozen=True, eq=False)
class SeenFrame:
    """What was seen in a frame of the source."""

    ticks: int
    """Time from the frame before."""
    objects: Mapping[int, SeenObject]
    """By the number of the track."""
    activity: float
    camera: CameraStep | None
    is_cut: bool


class AnchorMaker:
    """Makes the runs of one stream, in order."""

    def __init__(self, geometry: Geometry, parts: Parts, gap: int, *, is_alone: bool) -> None:
        """`gap`: frames between anchors."""
        self._geometry, self._parts, self._gap, self._is_alone = geometry, parts, gap, is_alone
        self._close = _ALONE if is_alone else _BESIDE_PICTURES
        self._unit = object_unit(geometry, parts.unit_log2)
        self._begin()

    def _begin(self) -> None:
        # What a reader knows: the coder's own state, not a copy of its rules.
        self._shadow = AnchorCoder(Coder(), self._geometry)

    def run(
        self, frames: Sequence[SeenFrame], people: Mapping[int, People], *, begins: bool
    ) -> ObjectRun:
        """The run of some frames; `people`: key points by index of the frame."""
        if begins:
            self._begin()
        anchors: list[Anchor] = []
        last = -1
        for at in self._places(frames, begins=begins):
            anchor = self._anchor(frames, last, at)
            if self._parts.people:
                anchor = replace(anchor, people=people.get(at, ()))
            anchors.append(self._shadow.code(len(frames) - 1 - last, self._parts, anchor))
            last = at
        ticks = tuple(frame.ticks for frame in frames)
        return ObjectRun(ticks, tuple(anchors), self._parts, begins, self._is_alone)

    def _places(self, frames: Sequence[SeenFrame], *, begins: bool) -> list[int]:
        """Indices of the frames with anchors: regular ones, and those around cuts."""
        places = {*range(self._gap - 1, len(frames), self._gap), len(frames) - 1}
        places |= {0} if begins else set()
        cuts = {at for at, frame in enumerate(frames) if frame.is_cut}
        return sorted(place for place in places | cuts | {at - 1 for at in cuts} if place >= 0)

    def _anchor(self, frames: Sequence[SeenFrame], last: int, at: int) -> Anchor:
        gap, is_cut = at - last, frames[at].is_cut
        known = {} if is_cut else self._shadow.known
        boxes: list[ObjectBox] = []
        present = frames[at].objects
        for track, old in known.items():
            if (seen := _find(present, track)) is not None:
                boxes.append(self._moved(old, gap, seen, _steady(frames, track, at)))
            elif any(_find(frame.objects, track) for frame in frames[at + 1 :]):
                boxes.append(self._gone_on(old, gap))
        for number, seen in sorted(present.items(), key=lambda pair: -pair[1].score):
            if number & MAX_TRACK not in known and len(boxes) < MAX_OBJECTS:
                early = 0 if is_cut else _count(frames, number, range(at - 1, last, -1))
                boxes.append(self._new(number & MAX_TRACK, seen, early))
        late = {
            track: _count(frames, track, range(last + 1, at))
            for track in set(known) - {one.track for one in boxes}
        }
        motion = _motion(frames[last + 1 : at + 1]) if self._parts.motion else None
        return Anchor(gap, tuple(boxes), is_cut, late, None, motion)

    def _new(self, track: int, seen: SeenObject, early: int) -> ObjectBox:
        left, top, right, bottom = np.rint(seen.box / self._unit).astype(int).tolist()
        score = min(int(seen.score * (MAX_SCORE + 1)), MAX_SCORE)
        return ObjectBox(track, seen.kind, left, top, right - left, bottom - top, score, early)

    def _moved(self, old: KnownObject, gap: int, seen: SeenObject, box: Box) -> ObjectBox:
        """Where it is said to be: where a reader expects it, if that is near enough."""
        expected = self._gone_on(old, gap)
        sides = box[2:] - box[:2]
        there = np.array([expected.left, expected.top, 0, 0]) * self._unit
        size = np.array([old.at.width, old.at.height]) * self._unit
        there[2:] = there[:2] + size
        if overlap([there], [box])[0, 0] < self._close.near:
            if (np.abs(size - sides) > self._close.same_size * sides).any():
                size = np.maximum(np.rint(sides / self._unit), 1) * self._unit
            left, top = np.rint(((box[:2] + box[2:]) - size) / 2 / self._unit).astype(int).tolist()
            width, height = np.rint(size / self._unit).astype(int).tolist()
            expected = replace(expected, left=left, top=top, width=width, height=height)
        return replace(expected, kind=seen.kind)

    def _gone_on(self, old: KnownObject, gap: int) -> ObjectBox:
        left, top = old.predicted(gap)
        return replace(old.at, left=left, top=top, early=0)


def _find(objects: Mapping[int, SeenObject], track: int) -> SeenObject | None:
    """The object of a track's number as the stream has it."""
    if track in objects:
        return objects[track]
    return next((one for number, one in objects.items() if number & MAX_TRACK == track), None)


def _count(frames: Sequence[SeenFrame], track: int, places: range) -> int:
    """How many frames in a row have a track."""
    count = 0
    for place in places:
        if _find(frames[place].objects, track & MAX_TRACK) is None:
            break
        count += 1
    return count


def _steady(frames: Sequence[SeenFrame], track: int, at: int) -> Box:
    """The mean box over frames on both sides, as many before as after: noise cancels out."""
    boxes: list[Box] = []
    for reach in range(min(at, len(frames) - 1 - at, 5) + 1):
        pair = [_find(frames[place].objects, track) for place in (at - reach, at + reach)]
        if None in pair or (reach and any(frames[at + k].is_cut for k in range(-reach, reach + 1))):
            break
        boxes += [one.box for one in pair if one is not None]
    return np.asarray(np.mean(boxes, axis=0), np.float64)


def _motion(frames: Sequence[SeenFrame]) -> Motion:
    """The mean over some frames."""
    activity = float(np.mean([frame.activity for frame in frames]))
    steps = [
        (one.camera.dx, one.camera.dy, one.camera.zoom - 1, one.camera.turn)
        for one in frames
        if one.camera is not None
    ]
    mean = np.mean(steps, axis=0) if steps else np.zeros(4)
    camera = np.clip(np.rint(mean * CAMERA_SCALES), -MAX_CAMERA, MAX_CAMERA).astype(int).tolist()
    return Motion(round(activity * ACTIVITY_STEPS), (camera[0], camera[1], camera[2], camera[3]))
