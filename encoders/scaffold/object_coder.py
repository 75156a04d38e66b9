"""Objects: found and followed in the source as analysis does, and coded as OBJECTS payloads.

Which frames are anchors, and which boxes there are worth their bits; the key points of people; and
what a task needs of all that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gsvc.codec.bitstream import entropy_coding, errors
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layers.pose import MAX_PEOPLE, People, Person
from gsvc.codec.bitstream.objects import (
    ACTIVITY_STEPS,
    CAMERA_SCALES,
    MAX_CAMERA,
    MAX_OBJECTS,
    MAX_SCORE,
    MAX_TRACK,
    PERSON,
    Anchor,
    AnchorCoder,
    AnchorMotion,
    KnownObject,
    ObjectBox,
    ObjectRun,
    ObjectWriter,
    Parts,
    object_unit,
)
from gsvc.codec.bitstream.scaffold import Geometry, Interval
from gsvc.decoders.detection import analyser, detectors, findings, tracker
from gsvc.decoders.detection.people import DetectedPose, PoseEstimator
from gsvc.encoders.scaffold.pose_extractor import pose_integers, steady
from gsvc.encoders.tuning import KEY_POINTS, MOTION


class _Close(NamedTuple):
    """When a box is where a reader expects it."""

    near: float
    """Intersection over union with the true box, from which the expected one is good enough."""
    same_size: float
    """Share of its sides by which a box may change and keep its size."""


_ALONE, _BESIDE_PICTURES = _Close(0.8, 0.12), _Close(0.9, 0.06)
"""Tolerances for objects alone, and beside pictures, where their bits are small change."""


@dataclass(frozen=True, eq=False)
class SeenObject:
    """An object in a frame of the source."""

    kind: str
    box: findings.Box
    score: float


@dataclass(frozen=True, eq=False)
class SeenFrame:
    """The objects seen in a frame of the source."""

    ticks: int
    """Time from the frame before."""
    objects: Mapping[int, SeenObject]
    """Objects by the number of the track."""
    activity: float
    camera: findings.CameraStep | None
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
        self._shadow = AnchorCoder(entropy_coding.Coder(), self._geometry)

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

    def _moved(self, old: KnownObject, gap: int, seen: SeenObject, box: findings.Box) -> ObjectBox:
        """Where it is said to be: where a reader expects it, if that is near enough."""
        expected = self._gone_on(old, gap)
        sides = box[2:] - box[:2]
        there = np.array([expected.left, expected.top, 0, 0]) * self._unit
        size = np.array([old.at.width, old.at.height]) * self._unit
        there[2:] = there[:2] + size
        if findings.overlap([there], [box])[0, 0] < self._close.near:
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
    count = 0
    for place in places:
        if _find(frames[place].objects, track & MAX_TRACK) is None:
            break
        count += 1
    return count


def _steady(frames: Sequence[SeenFrame], track: int, at: int) -> findings.Box:
    """The mean box over frames on both sides, as many before as after: noise cancels out."""
    boxes: list[findings.Box] = []
    for reach in range(min(at, len(frames) - 1 - at, 5) + 1):
        pair = [_find(frames[place].objects, track) for place in (at - reach, at + reach)]
        if None in pair or (reach and any(frames[at + k].is_cut for k in range(-reach, reach + 1))):
            break
        boxes += [one.box for one in pair if one is not None]
    return np.asarray(np.mean(boxes, axis=0), np.float64)


def _motion(frames: Sequence[SeenFrame]) -> AnchorMotion:
    activity = float(np.mean([frame.activity for frame in frames]))
    steps = [
        (one.camera.dx, one.camera.dy, one.camera.zoom - 1, one.camera.turn)
        for one in frames
        if one.camera is not None
    ]
    mean = np.mean(steps, axis=0) if steps else np.zeros(4)
    camera = np.clip(np.rint(mean * CAMERA_SCALES), -MAX_CAMERA, MAX_CAMERA).astype(int).tolist()
    return AnchorMotion(
        round(activity * ACTIVITY_STEPS), (camera[0], camera[1], camera[2], camera[3])
    )


_AROUND = 1.5
"""How much larger the square that is looked at is than the longer side of a person."""


class KeyPointFinder:
    """Finds the key points of people. Raises MissingModelError without the models."""

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry
        self._estimate = PoseEstimator(1)
        self._people: dict[int, Person] = {}
        """People by track, at the last call."""

    def __call__(self, picture: Picture, objects: Mapping[int, SeenObject]) -> People:
        """The largest people of a picture, RGB uint8 (H, W, 3), where objects are seen."""
        found: dict[int, Person] = {}
        people = [(track, one) for track, one in objects.items() if one.kind == PERSON]
        people.sort(key=lambda pair: -float(np.prod(pair[1].box[2:] - pair[1].box[:2])))
        for track, one in people[:MAX_PEOPLE]:
            pose = self._pose(picture, one.box)
            if pose is None:
                continue
            person = pose_integers(pose, self._geometry)
            if person.visible.any():
                found[track] = person
        old, self._people = self._people, {}
        taken = {old[track].identity for track in found if track in old}
        free = [k for k in range(MAX_PEOPLE) if k not in taken]
        for track, person in found.items():
            fresh = Person(free.pop(0), person.points, person.visible) if track not in old else None
            self._people[track] = fresh or steady(old[track], person)
        return tuple(self._people.values())

    def _pose(self, picture: Picture, box: findings.Box) -> DetectedPose | None:
        centre = (box[:2] + box[2:]) / 2
        half = _AROUND * float(np.max(box[2:] - box[:2])) / 2
        left, top = np.maximum(centre - half, 0).astype(int).tolist()
        right, bottom = np.ceil(centre + half).astype(int).tolist()
        poses = self._estimate(np.ascontiguousarray(picture[top:bottom, left:right]))
        if not poses:
            return None
        pose = poses[0]
        moved = pose.points + np.array([left, top], np.float32)
        return DetectedPose(moved, pose.visibility, pose.box)


_LOOK_SECONDS = 0.2
"""Between pictures in which objects are looked for. Nearer ones show a slow thing in one place, and
it is taken for background."""
_OFTEN_SECONDS = 0.1
"""The same, where it is a detector alone that looks, as often as it helps."""


class SourceFollowing:
    """Gives what is in each frame, some frames later: `push` every frame, then `flush`."""

    def __init__(
        self,
        size: tuple[int, int],
        rate: float,
        finder: detectors.Finder | None,
        *,
        moving: bool,
        often: bool = False,
    ) -> None:
        """`size`: width and height; `rate`: frames a second; `often`: look twice as often, where
        what moves is not asked for; `finder`: names objects, None: every object is something that
        moves; `moving`: whether what it does not name counts too."""
        seconds = _OFTEN_SECONDS if often and not moving else _LOOK_SECONDS
        self._step = max(1, round(seconds * rate))
        self._following = analyser.ObjectFollower(
            size, finder, findings.AnalysisCost(), every=1, moving=moving, least_gap=1
        )
        self._waiting: list[int] = []
        self._picture: Picture | None = None
        self._frames = 0

    def push(self, picture: Picture, ticks: int, *, is_cut: bool) -> list[tracker.Draft]:
        """Take a frame, RGB uint8 (H, W, 3), `ticks` after the one before; give what is decided."""
        opens = is_cut or self._picture is None
        drafts = self._look(begins=False) if is_cut else []
        self._waiting.append(ticks)
        self._picture = picture
        self._frames += 1
        if opens or len(self._waiting) == self._step:
            drafts += self._look(begins=opens)
        return drafts

    def flush(self) -> list[tracker.Draft]:
        """All other frames."""
        return [*self._look(begins=False), *self._following.finish()]

    def _look(self, *, begins: bool) -> list[tracker.Draft]:
        ticks, self._waiting = self._waiting, []
        if not ticks:
            return []
        piece = tracker.StreamPiece(Interval(tuple(ticks)), None, ticks, begins, self._picture)
        first = self._frames - len(ticks)
        drafts = [tracker.Draft(first + k, tick, piece, k + 1) for k, tick in enumerate(ticks)]
        return self._following.take(piece, drafts)


_ANCHOR_SECONDS, _BESIDE_PICTURES_SECONDS = 0.4, 0.2
"""Seconds between anchors, alone and beside pictures, where their bits are small change."""
_MOST_FRAMES = 240  # most frames of a packet: tight limits of receivers permit a few more
_BEGIN_SECONDS = 20.0  # seconds between packets that can be read alone
_SECONDS, _ALONE_SECONDS, _LIVE_SECONDS = 4.0, 8.0, 1.2
"""Video that a packet of objects describes: beside pictures, without, and with low delay."""
_LEAST_SCORE = 0.5  # of detections that count
_NAMING = findings.COCO_DETECTOR, findings.PEOPLE_DETECTOR
"""Detectors beside which what merely moves does not count."""


class ObjectCoder:
    """Codes the objects of one stream: `push` every frame, then `flush`."""

    def __init__(
        self,
        header: Header,
        task: str | None,
        detector: str | findings.Detector,
        *,
        low_delay: bool,
    ) -> None:
        """`task` None: beside pictures.

        Raises ConfigError for an unknown detector, MissingModelError for a model that is missing.
        """
        rate, alone = float(header.format.frame_rate), task is not None
        parts = Parts(int(alone), task == KEY_POINTS, not alone or task == MOTION)
        self._size = header.format.width, header.format.height
        most = min(_MOST_FRAMES, errors.DEFAULT_LIMITS.longest_interval(*self._size))
        seconds = _ANCHOR_SECONDS if alone else _BESIDE_PICTURES_SECONDS
        self._gap = max(1, min(most, round(seconds * rate)))
        told = _LIVE_SECONDS if low_delay else _ALONE_SECONDS if alone else _SECONDS
        anchors = min(round(told / seconds), most // self._gap)
        self._chunk = self._gap * max(1, anchors)
        self._refresh = max(1, round(_BEGIN_SECONDS * rate / self._chunk))
        moving = task != KEY_POINTS and detector not in _NAMING
        self._following = SourceFollowing(
            self._size, rate, _finder(task, detector), moving=moving, often=not alone
        )
        self._maker = AnchorMaker(header.geometry, parts, self._gap, is_alone=alone)
        self._writer = ObjectWriter(header)
        self._points = KeyPointFinder(header.geometry) if parts.people else None
        self._picture: Picture | None = None
        self._seen: list[SeenFrame] = []
        self._kept: dict[int, Picture] = {}
        self._frames = self._told = self._runs = 0
        self._opened = ObjectRun((), (), parts, begins=True, is_alone=alone)

    def opening(self) -> bytes:
        """The payload that a stream begins with, and where a receiver may join: what follows can be
        read without what was before."""
        self._runs = 0
        return self._writer.write(self._opened)

    def push(self, picture: Picture, ticks: int, *, is_cut: bool) -> list[bytes]:
        """Take a frame, RGB uint8 (H, W, 3), `ticks` after the one before; give what is ready."""
        if is_cut:
            self._keep()
        self._picture = picture
        self._frames += 1
        at = (self._frames - 1) % self._chunk
        if is_cut or at == 0 or (at + 1) % self._gap == 0:
            self._keep()
        self._take(self._following.push(picture, ticks, is_cut=is_cut))
        return self._ready()

    def flush(self) -> list[bytes]:
        """What is left."""
        self._keep()
        self._take(self._following.flush())
        payloads = self._ready()
        return [*payloads, self._written(self._seen)] if self._seen else payloads

    def _keep(self) -> None:
        """Keep the last picture for its key points: its frame has an anchor."""
        if self._points is not None and self._picture is not None:
            self._kept[self._frames - 1] = self._picture

    def _take(self, drafts: Iterable[tracker.Draft]) -> None:
        for draft in drafts:
            objects = {
                track.number: SeenObject(track.kind, box, track.score)
                for track, box in draft.shown(self._size)
            }
            activity = draft.activity or 0.0
            self._seen.append(SeenFrame(draft.ticks, objects, activity, draft.camera, draft.is_cut))

    def _ready(self) -> list[bytes]:
        payloads: list[bytes] = []
        while len(self._seen) >= self._chunk:
            frames, self._seen = self._seen[: self._chunk], self._seen[self._chunk :]
            payloads.append(self._written(frames))
        return payloads

    def _written(self, frames: list[SeenFrame]) -> bytes:
        begins = self._runs % self._refresh == 0
        people: dict[int, People] = {}
        if self._points is not None:
            for at, frame in enumerate(frames):
                if (picture := self._kept.pop(self._told + at, None)) is not None:
                    people[at] = self._points(picture, frame.objects)
        self._runs += 1
        self._told += len(frames)
        return self._writer.write(self._maker.run(settled(frames), people, begins=begins))


def settled(frames: Sequence[SeenFrame]) -> list[SeenFrame]:
    """The same, each object with the class that it has at the end: a detector may name it late."""
    kinds = {number: one.kind for frame in frames for number, one in frame.objects.items()}
    return [
        replace(frame, objects={n: replace(one, kind=kinds[n]) for n, one in frame.objects.items()})
        for frame in frames
    ]


def _finder(task: str | None, detector: str | findings.Detector) -> detectors.Finder | None:
    if task == MOTION:
        return None
    if not isinstance(detector, str):
        return detectors.checked(detector, _LEAST_SCORE)
    return detectors.OWN_FINDERS[findings.PEOPLE_DETECTOR if task == KEY_POINTS else detector]()
