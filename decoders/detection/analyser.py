"""`Analyser`: packets in, what each frame shows out, without drawing one."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np

from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, BitstreamError, ConfigError, Limits, typed
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layers.pose import POSE, Person, pose_unit
from gsvc.codec.bitstream.objects import MOVING
from gsvc.decoders.detection.detectors import NONE, OBJECTS, Finder, checked, find_finder
from gsvc.decoders.detection.findings import (
    AUTO,
    AnalysisCost,
    Detector,
    Event,
    FrameAnalysis,
    KeyPoints,
    Totals,
    TrackedObject,
)
from gsvc.decoders.detection.object_follower import ObjectFollower
from gsvc.decoders.detection.pieces import DecodedPieces, Draft, ScaffoldPieces, StreamPiece
from gsvc.decoders.detection.rules import (
    Line,
    Rule,
    RuleWatcher,
    Watcher,
    Zone,
    check_regions,
    check_rules,
)
from gsvc.decoders.detection.sent_objects import PICTURES_ALONE, Content, SentObjects, SentPeople

_log = logging.getLogger(__name__)

GONE_SECONDS = 1.0
"""Without an object, after which it has left a zone."""


@typed
@dataclass(frozen=True)
class AnalysisSettings:
    """What to look for in a stream."""

    detector: str | Detector = AUTO
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

    cost: AnalysisCost
    """What it took so far."""

    def __init__(
        self,
        header: Header,
        settings: AnalysisSettings | None = None,
        limits: Limits = DEFAULT_LIMITS,
        content: Content = PICTURES_ALONE,
    ) -> None:
        """`content`: what the stream has, as `find_content` says."""
        began = monotonic()
        self._header, self._limits = header, limits
        self._settings = settings = settings or AnalysisSettings()
        size = header.format.width, header.format.height
        check_regions(settings.lines, settings.zones, size)
        check_rules(settings.rules, [zone.name for zone in settings.zones])
        self._size, self.cost = size, AnalysisCost()
        self._rules = RuleWatcher(settings.rules, GONE_SECONDS)
        self._watcher = Watcher(settings.lines, settings.zones, size[1], GONE_SECONDS)
        self._sent = self._sent_objects(content)
        self._follows = settings.detector != NONE
        read = DecodedPieces if self._follows else ScaffoldPieces
        self._pieces: DecodedPieces | ScaffoldPieces = read(header, limits)
        self._first: int | None = None
        self._last: FrameAnalysis | None = None
        self._following = None if self._sent else self._follower()
        self._spend(began)

    def _sent_objects(self, content: Content) -> SentObjects | None:
        """What reads the stream's own objects, where they are what is asked for."""
        detector = self._settings.detector
        if content.objects and detector in (AUTO, NONE, OBJECTS):
            return SentObjects(self._header, self._limits)
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

    def _follower(self) -> ObjectFollower | SentPeople:
        settings = self._settings
        if self._follows:
            moving, finder = settings.detector in (AUTO, MOVING), _finder(settings)
            return ObjectFollower(
                self._size, finder, self.cost, every=settings.every, moving=moving
            )
        if POSE.name not in self._header.tools:
            if settings.lines or settings.zones:
                raise ConfigError(
                    "lines and zones need objects, and this stream has neither them nor pose: "
                    "choose another detector than none, or encode with objects=True"
                )
            _log.warning("this stream has neither objects nor pose: encode it with objects=True")
        return SentPeople(self._header.geometry)

    @property
    def totals(self) -> Totals:
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
        damage = None
        try:
            for packet in packets:
                yield from self._delayed(self._told(packet))
        except BitstreamError as error:
            damage = error
        yield from self.finish()
        if damage is not None:
            raise damage

    def _delayed(self, frames: Iterable[FrameAnalysis]) -> Iterator[FrameAnalysis]:
        """Each frame when the next one comes: the last one says what happens at the end."""
        for frame in frames:
            last, self._last = self._last, frame
            if last is not None:
                yield last

    def _timed(self, frames: Iterator[FrameAnalysis]) -> Iterator[FrameAnalysis]:
        """The same; adds up how long they took."""
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

    def _taken(self, piece: StreamPiece) -> list[Draft]:
        drafts = [
            Draft(self.cost.frames + offset - 1, ticks, piece, offset)
            for offset, ticks in enumerate(piece.ticks, 1)
        ]
        if self._first is None:
            self._first = piece.ticks[0]
        self.cost.frames += len(drafts)
        self.cost.pictures += piece.picture is not None
        return drafts

    def _frame(self, draft: Draft) -> FrameAnalysis:
        seconds = float((draft.ticks - (self._first or 0)) * self._header.format.time_base)
        frame = FrameAnalysis(
            frame=draft.frame,
            seconds=seconds,
            objects=tuple(self._objects(draft)),
            people=tuple(self._people(draft)),
            activity=draft.activity,
            camera=draft.camera,
        )
        return self._with_events(frame, is_cut=draft.is_cut)

    def _with_events(self, frame: FrameAnalysis, *, is_cut: bool) -> FrameAnalysis:
        events = self._watcher.events(frame)
        events += self._rules.events(frame, self._watcher.visits())
        if is_cut:
            self.totals.cuts += 1
            events.insert(0, Event("cut", frame.frame, frame.seconds))
        return replace(frame, events=tuple(events)) if events else frame

    def _objects(self, draft: Draft) -> Iterator[TrackedObject]:
        for track, box in draft.shown(self._size):
            yield TrackedObject(track.kind, track.number, box, track.score)

    def _people(self, draft: Draft) -> Iterator[KeyPoints]:
        for sample in draft.piece.interval.samples:
            if sample.offset == draft.offset:
                unit = pose_unit(self._header.geometry)
                yield from (_points(person, unit) for person in sample[POSE] or ())


def _finder(settings: AnalysisSettings) -> Finder | None:
    if isinstance(settings.detector, str):
        return find_finder(settings.detector, settings.least_score)
    return checked(settings.detector, settings.least_score)


def _points(person: Person, unit: float) -> KeyPoints:
    return KeyPoints(person.identity, person.points.astype(np.float64) * unit, person.visible)
