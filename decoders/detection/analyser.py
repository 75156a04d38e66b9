"""`Analyser`: packets in, what each frame shows out, without drawing one.

Objects at every frame come from keyframes some frames apart. Some of these are anchors: there
objects are found and joined with those of the anchor before. The frames between have them where
motion linear in time and the scaffold place them.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, repeat, tee
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, BitstreamError, ConfigError, Limits, typed
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layers.camera import CAMERA
from gsvc.codec.bitstream.layers.pose import POSE, pose_unit
from gsvc.codec.bitstream.objects import MOVING
from gsvc.codec.bitstream.scaffold import Geometry, Place
from gsvc.decoders.detection import findings, rules as watching, sent_objects, tracker
from gsvc.decoders.detection.detectors import NONE, OBJECTS, Finder, checked, find_finder
from gsvc.decoders.detection.findings import Detection, FrameAnalysis
from gsvc.decoders.detection.motion_detection import AHEAD, SURE, Background, Movement, SmallPicture
from gsvc.decoders.detection.rules import Line, Rule, Zone
from gsvc.decoders.interpolation.optical_flow import FloatImage, Flow, MotionSource, shrunk
from gsvc.decoders.interpolation.scaffold_motion import SOURCES, camera_field, total_bend


class ScaffoldMotion:
    """The displacement of places in the frames of one piece after the other."""

    def __init__(self, size: tuple[int, int]) -> None:
        """`size`: width and height of the frames."""
        self._geometry = Geometry(*size)
        self._piece: tracker.StreamPiece | None = None
        self._sources: list[MotionSource] = []
        self._field: tuple[int, Flow | None] = (0, None)

    def shift(
        self, piece: tracker.StreamPiece, offset: int, at: NDArray[np.float64]
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

    def _found(self, piece: tracker.StreamPiece, offset: int) -> Flow | None:
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
_SIDE = 512  # pixels, the longer side of pictures in which what moves is cut out
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
    drafts: list[tracker.Draft]
    """The frames since that one, the picture's own included."""
    held: list[tracker.Draft] = field(default_factory=list)
    """Frames after it that show it."""


class ObjectFollower:
    """Follows objects through the pieces of a stream. `take` them in order, then `finish`."""

    def __init__(
        self,
        size: tuple[int, int],
        finder: Finder | None,
        cost: findings.AnalysisCost,
        *,
        every: int,
        moving: bool,
        least_gap: int = LEAST_GAP,
    ) -> None:
        """`every`: least frames between runs of the finder; `moving`: whether what it does not
        name counts too; `cost` counts its runs; `least_gap`: frames between anchors."""
        self._finder, self._every, self._moving, self._cost = finder, every, moving, cost
        self._least_gap = least_gap
        self._tracker = tracker.Tracker(size)
        self._motion = ScaffoldMotion(size)
        self._gap: list[tracker.Draft] = []
        self._next: Picture | None = None
        self._end_scene()

    def take(self, piece: tracker.StreamPiece, drafts: list[tracker.Draft]) -> list[tracker.Draft]:
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
        return list(tracker.decided(self._undecided))

    def finish(self) -> list[tracker.Draft]:
        """All other frames of a scene."""
        self._close()
        while self._waiting:
            self._step()
        self._tracker.restart()
        left = list(chain(*self._undecided))
        self._end_scene()
        return left

    def _end_scene(self) -> None:
        self._background = Background()
        self._last: SmallPicture | None = None
        self._waiting: list[_Anchor] = []
        self._undecided: list[list[tracker.Draft]] = []
        self._looked: int | None = None

    def _begins(self, piece: tracker.StreamPiece) -> bool:
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
        self._undecided.append(anchor.drafts + anchor.held)

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
        inside = [replace(one, box=findings.clipped(one.box, (width, height))) for one in found]
        return [one for one in inside if findings.area(one.box) >= 1]

    def _box(
        self, draft: tracker.Draft, one: tracker.TrackStep, arrival: Movement | None, share: float
    ) -> findings.Box:
        if arrival is None:
            return self._bent(draft, one.end)
        start = arrival.backward(one.end) if one.start is None else one.start
        return self._bent(draft, start + share * (one.end - start))

    def _bent(self, draft: tracker.Draft, box: findings.Box) -> findings.Box:
        shift = self._motion.shift(draft.piece, draft.offset, (box[:2] + box[2:]) / 2)
        return box if shift is None else box + np.tile(shift, 2)


def _differ(before: Picture, now: Picture) -> bool:
    """Whether two pictures, luma, are of different scenes: structure and histogram change."""
    pair = [shrunk(one, _THUMBNAIL).astype(np.float32) for one in (before, now)]
    change = float(np.abs(pair[0] - pair[1]).mean())
    ordered = [np.sort(one, axis=None) for one in pair]
    spread = float(np.abs(ordered[0] - ordered[1]).mean())
    return change > _SURE_CUT or (change > _CUT and spread > _CUT_SPREAD)


_log = logging.getLogger(__name__)


@typed
@dataclass(frozen=True)
class AnalysisSettings:
    """What to look for in a stream."""

    detector: str | findings.Detector = findings.AUTO
    """"auto" (the objects that the stream has; else what the best detector that is there finds,
    and what moves), "objects" (those alone), "coco", "people", "moving", "none" (what is sent, no
    picture is decoded), "torchvision:NAME", a file .onnx or .pt, "module:Class", or a detector."""
    every: int = 5
    """Least frames between the pictures that the detector looks at, from 1."""
    least_score: float = 0.5
    """Of detections that count, 0 to 1."""
    lines: tuple[Line, ...] = ()
    """Where crossings are counted."""
    zones: tuple[Zone, ...] = ()
    """Where visits are timed."""
    rules: tuple[Rule, ...] = ()
    """Events of your own; see `gsvc.decoders.detection.rules` for how to write them."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(f"every is {self.every}: choose 1 or more frames")
        if not 0 <= self.least_score <= 1:
            raise ConfigError(f"least_score is {self.least_score}: choose 0 to 1")


class Analyser:
    """Analyses one stream in the memory of some intervals.

    Raises ConfigError for regions that lie outside of the picture and unknown detectors,
    MissingModelError and MissingDependencyError for what a detector lacks.
    """

    cost: findings.AnalysisCost
    """What it took so far."""

    def __init__(
        self,
        header: Header,
        settings: AnalysisSettings | None = None,
        limits: Limits = DEFAULT_LIMITS,
        content: sent_objects.Content = sent_objects.PICTURES_ALONE,
    ) -> None:
        """`content`: what the stream has, as `find_content` says."""
        began = monotonic()
        self._header, self._limits = header, limits
        self._settings = settings = settings or AnalysisSettings()
        size = header.format.width, header.format.height
        watching.check_regions(settings.lines, settings.zones, size)
        watching.check_rules(settings.rules, [zone.name for zone in settings.zones])
        self._size, self.cost = size, findings.AnalysisCost()
        self._rules = watching.RuleWatcher(settings.rules)
        self._watcher = watching.Watcher(settings.lines, settings.zones, size[1])
        self._sent = self._sent_objects(content)
        self._has_pose = content.pictures and POSE.name in header.tools
        self._follows = settings.detector != NONE and self._sent is None
        read = tracker.DecodedPieces if self._follows else tracker.ScaffoldPieces
        self._pieces: tracker.DecodedPieces | tracker.ScaffoldPieces = read(header, limits)
        self._first: int | None = None
        self._last: FrameAnalysis | None = None
        self._following = None if self._sent else self._follower()
        self._spend(began)

    def _sent_objects(self, content: sent_objects.Content) -> sent_objects.SentObjects | None:
        detector = self._settings.detector
        if content.objects and detector in (findings.AUTO, NONE, OBJECTS):
            return sent_objects.SentObjects(self._header, self._limits)
        if detector == OBJECTS:
            raise ConfigError(
                "this stream has no objects: encode it with objects=True, "
                "or choose the detector auto"
            )
        if not content.pictures:
            raise ConfigError(
                "this stream has objects and no pictures for a detector to look at: choose auto, "
                "or encode it without a task"
            )
        return None

    def _follower(self) -> ObjectFollower | sent_objects.SentPeople:
        settings = self._settings
        if self._follows:
            detector, least = settings.detector, settings.least_score
            find = find_finder if isinstance(detector, str) else checked
            return ObjectFollower(
                self._size,
                find(detector, least),  # type: ignore[arg-type]
                self.cost,
                every=settings.every,
                moving=detector in (findings.AUTO, MOVING),
            )
        if POSE.name not in self._header.tools:
            if settings.lines or settings.zones:
                raise ConfigError(
                    "lines and zones need objects, and this stream has neither them nor pose: "
                    "choose another detector than none, or encode with objects=True"
                )
            _log.warning(
                "this stream has neither objects nor pose: encode it with objects=True or, for "
                "pose, semantics=True"
            )
        return sent_objects.SentPeople(self._header.geometry)

    @property
    def totals(self) -> findings.Totals:
        """Sums over the frames so far."""
        return self._watcher.totals

    def frames(self, packets: Iterable[Packet]) -> Iterator[FrameAnalysis]:
        """Every frame of a whole stream, in order.

        Raises BitstreamError where it is damaged, after the frames before that.
        """
        yield from self._timed(self._all(packets))

    def take(self, packet: Packet) -> Iterator[FrameAnalysis]:
        """The frames that are known after one more packet; exhaust it before the next one.

        Raises BitstreamError where the packet is damaged or builds on one that is missing; packets
        that do not may follow.
        """
        yield from self._timed(self._delayed(self._told(packet)))

    def finish(self) -> Iterator[FrameAnalysis]:
        """All other frames."""
        if self._following is not None:
            yield from self._delayed(map(self._frame, self._following.finish()))
        last, self._last = self._last, None
        if last is not None:
            ends = *self._watcher.finish(), *self._rules.finish()
            yield replace(last, events=(*last.events, *ends))

    def _all(self, packets: Iterable[Packet]) -> Iterator[FrameAnalysis]:
        people: Iterator[tuple[findings.KeyPoints, ...]] = repeat(())
        if self._sent and self._has_pose:  # objects may come long before their frames' scaffold
            packets, again = tee(packets)
            people = chain(self._posed(again), people)
        try:
            told = chain.from_iterable(map(self._told, packets))
            yield from self._delayed(map(_having, told, people))
        except BitstreamError:
            yield from self.finish()
            raise
        yield from self.finish()

    def _delayed(self, frames: Iterable[FrameAnalysis]) -> Iterator[FrameAnalysis]:
        """Each frame when the next one comes: the last one says what happens at the end."""
        for frame in frames:
            last, self._last = self._last, frame
            if last is not None:
                yield last

    def _timed(self, frames: Iterator[FrameAnalysis]) -> Iterator[FrameAnalysis]:
        began = monotonic()
        for frame in frames:
            self._spend(began)
            yield frame
            began = monotonic()
        self._spend(began)

    def _spend(self, began: float) -> None:
        self.cost.milliseconds += 1000 * (monotonic() - began)

    def _told(self, packet: Packet) -> Iterator[FrameAnalysis]:
        """The frames of a packet, without what happens when the stream ends."""
        if self._sent is not None:
            for frame, is_cut, _ in self._sent.frames(packet):
                self.cost.frames += 1
                yield self._with_events(frame, is_cut=is_cut)
            return
        assert self._following is not None
        for piece in self._pieces.of(packet):
            yield from map(self._frame, self._following.take(piece, self._taken(piece)))

    def _taken(self, piece: tracker.StreamPiece) -> list[tracker.Draft]:
        drafts = [
            tracker.Draft(self.cost.frames + offset - 1, ticks, piece, offset)
            for offset, ticks in enumerate(piece.ticks, 1)
        ]
        if self._first is None:
            self._first = piece.ticks[0]
        self.cost.frames += len(drafts)
        self.cost.pictures += piece.picture is not None
        return drafts

    def _frame(self, draft: tracker.Draft) -> FrameAnalysis:
        seconds = float((draft.ticks - (self._first or 0)) * self._header.format.time_base)
        frame = FrameAnalysis(
            frame=draft.frame,
            seconds=seconds,
            objects=tuple(
                findings.TrackedObject(track.kind, track.number, box, track.score)
                for track, box in draft.shown(self._size)
            ),
            people=self._people(draft.piece, draft.offset),
            activity=draft.activity,
            camera=draft.camera,
        )
        return self._with_events(frame, is_cut=draft.is_cut)

    def _with_events(self, frame: FrameAnalysis, *, is_cut: bool) -> FrameAnalysis:
        events = self._watcher.events(frame)
        events += self._rules.events(frame, self._watcher.visits())
        if is_cut:
            self.totals.cuts += 1
            events.insert(0, findings.Event("cut", frame.frame, frame.seconds))
        return replace(frame, events=tuple(events)) if events else frame

    def _posed(self, packets: Iterable[Packet]) -> Iterator[tuple[findings.KeyPoints, ...]]:
        for piece in chain.from_iterable(map(self._pieces.of, packets)):
            yield from (self._people(piece, offset) for offset, _ in enumerate(piece.ticks, 1))

    def _people(self, piece: tracker.StreamPiece, offset: int) -> tuple[findings.KeyPoints, ...]:
        unit = pose_unit(self._header.geometry)
        samples = (one for one in piece.interval.samples if one.offset == offset)
        found = (person for sample in samples for person in sample[POSE] or ())
        return tuple(sent_objects.key_points(person, unit) for person in found)


def _having(frame: FrameAnalysis, people: tuple[findings.KeyPoints, ...]) -> FrameAnalysis:
    """The frame with the scaffold's people, where its objects bring none."""
    return replace(frame, people=people) if people and not frame.people else frame
