"""Objects and people at every frame as the stream sends them: no picture is decoded.

Objects come in OBJECTS packets, people as key points in the scaffold.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream import objects as coded_objects, scaffold
from gsvc.codec.bitstream.container import Packet, PacketType
from gsvc.codec.bitstream.errors import BitstreamError, LimitError, Limits
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layers.pose import POSE, Person, pose_unit
from gsvc.decoders.detection import findings
from gsvc.decoders.detection.findings import KeyPoints
from gsvc.decoders.detection.tracker import Draft, StreamPiece, Tracker, TrackStep, decided

REACH = 0.08
"""Share of their extent that a body reaches beyond its key points."""


class SentPeople:
    """Follows people from sample to sample. `take` the pieces in order, then `finish`."""

    def __init__(self, geometry: scaffold.Geometry) -> None:
        """`geometry`: of the stream."""
        self._size, self._unit = (geometry.width, geometry.height), pose_unit(geometry)
        self._tracker = Tracker(self._size)
        self._waiting: list[list[Draft]] = []
        self._gap: list[Draft] = []
        self._last: list[TrackStep] = []

    def take(self, piece: StreamPiece, drafts: list[Draft]) -> list[Draft]:
        """The frames that are decided now, after one more piece."""
        ended = self.finish() if piece.begins else []
        drafts[0].is_cut = piece.begins and bool(drafts[0].frame)
        after = 0
        for sample in piece.interval.samples:
            if sample[POSE] is not None and sample.offset > after:
                self._gap += drafts[after : sample.offset]
                after = sample.offset
                self._step(sample)
        self._gap += drafts[after:]
        return [*ended, *decided(self._waiting)]

    def finish(self) -> list[Draft]:
        """All other frames of a scene: people stay where they were sent last."""
        for draft in self._gap:
            draft.objects = [(one.track, one.end) for one in self._last]
        left = [*chain(*self._waiting), *self._gap]
        self._tracker.restart()
        self._gap, self._last, self._waiting = [], [], []
        return left

    def _step(self, sample: scaffold.Sample) -> None:
        found = [one for person in sample[POSE] or () if (one := self._detection(person))]
        self._last = self._tracker.step(lambda box: box, found)
        for number, draft in enumerate(self._gap, 1):
            share = number / len(self._gap)
            for track, start, end in self._last:
                way = end - (end if start is None else start)
                draft.objects.append((track, end - (1 - share) * way))
        self._waiting.append(self._gap)
        self._gap = []

    def _detection(self, person: Person) -> findings.Detection | None:
        points = person.points[person.visible].astype(np.float64) * self._unit
        if len(points) < 2:
            return None
        low, high = points.min(axis=0), points.max(axis=0)
        reach = REACH * (high - low)
        box = findings.clipped(np.concatenate([low - reach, high + reach]), self._size)
        if findings.area(box) < 1:
            return None
        return findings.Detection(coded_objects.PERSON, box, float(person.visible.mean()))


_VISIBLE = 0.3  # share of an object within the picture, below which it is not shown


class Content(NamedTuple):
    """What a stream has for an analysis."""

    objects: bool
    pictures: bool


PICTURES_ALONE = Content(objects=False, pictures=True)


def find_content(
    header: Header, packets: Iterable[Packet], limits: Limits
) -> tuple[Content, Iterator[Packet]]:
    """What a stream has, from its first packets, and all of its packets."""
    rest = iter(packets)
    try:
        for packet in rest:
            if packet.is_picture:
                return PICTURES_ALONE, chain([packet], rest)
            if packet.type == PacketType.OBJECTS:
                is_alone = coded_objects.ObjectReader(header, limits).read(packet).is_alone
                return Content(objects=True, pictures=not is_alone), chain([packet], rest)
    except BitstreamError as error:
        return PICTURES_ALONE, _raising(error)
    return PICTURES_ALONE, iter(())


def _raising(error: BitstreamError) -> Iterator[Packet]:
    raise error
    yield


class SentFrame(NamedTuple):
    """A frame as it was sent."""

    frame: findings.FrameAnalysis
    is_cut: bool
    ticks: int
    """Its pts."""


@dataclass
class _SentTrack:
    number: int
    """Its own, which never comes again."""
    at: coded_objects.ObjectBox
    way: NDArray[np.float64] = field(default_factory=lambda: np.zeros(4))
    """What its edges moved in each frame to the last anchor, in units."""


class _SentSpan(NamedTuple):
    """An object over some of the frames between two anchors."""

    known: _SentTrack
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    first: int
    last: int


class SentObjects:
    """What OBJECTS packets say, frame by frame; `frames` takes the packets in order."""

    def __init__(self, header: Header, limits: Limits) -> None:
        self._header, self._limits = header, limits
        self._reader = coded_objects.ObjectReader(header, limits)
        self._size = np.tile(np.array([header.format.width, header.format.height], float), 2)
        self._known: dict[int, _SentTrack] = {}
        self._people: dict[int, KeyPoints] = {}
        """At the last anchor, by identity."""
        self._numbers = self._frame = 0
        self._base = header.format.time_base.as_integer_ratio()
        # The first frame, one nominal step later, is at 0.
        self._clock = -scaffold.nominal_time(1, header.frame_ticks)
        self._first: int | None = None

    def frames(self, packet: Packet) -> Iterator[SentFrame]:
        """The frames of one packet; none of other types. Exhaust it before the next packet.

        Raises BitstreamError where the packet is damaged, or builds on one that is missing.
        """
        if packet.type != PacketType.OBJECTS:
            return
        run = self._reader.read(packet)
        if self._frame + len(run.ticks) > self._limits.frames:
            raise LimitError(f"objects of more than {self._limits.frames} frames")
        ticks = iter(run.ticks)
        for number, anchor in enumerate(run.anchors):
            spans = self._spans(anchor, anew=run.begins and not number)
            if anchor.is_cut or (run.begins and not number):
                self._people = {}
            unit = pose_unit(self._header.geometry)
            posed = [key_points(one, unit) for one in anchor.people or ()]
            for offset, objects in enumerate(self._objects(spans, anchor.gap, run), 1):
                people = tuple(self._between(posed, offset / anchor.gap))
                frame = self._told(anchor, tuple(objects), people, next(ticks))
                yield SentFrame(frame, anchor.is_cut and offset == anchor.gap, self._clock)
            self._people = {one.person: one for one in posed}

    def _told(
        self,
        anchor: coded_objects.Anchor,
        objects: tuple[findings.TrackedObject, ...],
        people: tuple[KeyPoints, ...],
        ticks: int,
    ) -> findings.FrameAnalysis:
        self._clock += ticks
        if self._first is None:
            self._first = self._clock
        number, self._frame = self._frame, self._frame + 1
        seconds = (self._clock - self._first) * self._base[0] / self._base[1]
        activity = camera = None
        if anchor.motion is not None:
            pairs = zip(anchor.motion.camera, coded_objects.CAMERA_SCALES, strict=True)
            dx, dy, zoom, turn = (value / scale for value, scale in pairs)
            activity = anchor.motion.activity / coded_objects.ACTIVITY_STEPS
            camera = findings.CameraStep(dx, dy, 1 + zoom, turn)
        return findings.FrameAnalysis(number, seconds, objects, people, activity, camera)

    def _spans(self, anchor: coded_objects.Anchor, *, anew: bool) -> list[_SentSpan]:
        """The objects between the last anchor and this one, which is the last one from here on."""
        last, self._known = ({} if anchor.is_cut else self._known), {}
        gap, spans = anchor.gap, list[_SentSpan]()
        for one in anchor.objects:
            end, old = _edges(one), last.pop(one.track, None)
            if old is None:
                self._numbers += 1
                known = _SentTrack(self._numbers, one)
                spans.append(_SentSpan(known, end, end, gap - one.early, gap))
            else:
                start = _edges(old.at)
                known = _SentTrack(old.number, one, (end - start) / gap)
                spans.append(_SentSpan(known, start, end, 1, gap))
            self._known[one.track] = known
        for track, old in last.items():
            start = _edges(old.at)
            late = 0 if anew else anchor.late.get(track, 0)
            if late:
                spans.append(_SentSpan(old, start, start + gap * old.way, 1, late))
        return sorted(spans, key=lambda span: span.known.number)

    def _objects(
        self, spans: list[_SentSpan], gap: int, run: coded_objects.ObjectRun
    ) -> Iterator[list[findings.TrackedObject]]:
        if not spans:
            yield from ([] for _ in range(gap))
            return
        unit = coded_objects.object_unit(self._header.geometry, run.parts.unit_log2)
        start, end = np.stack([(span.start, span.end) for span in spans], axis=1) * unit
        share = np.arange(1, gap + 1)[:, None, None] / gap
        boxes = np.clip(start + share * (end - start), 0, self._size)
        sides = boxes[..., 2:] - boxes[..., :2]
        first, last = np.array([(span.first, span.last) for span in spans]).T
        offsets = np.arange(1, gap + 1)[:, None]
        shown = (first <= offsets) & (offsets <= last) & (sides > 0).all(axis=2)
        shown &= sides.prod(axis=2) > _VISIBLE * (end[:, 2:] - end[:, :2]).prod(axis=1)
        known = [(span.known.at.kind, span.known.number) for span in spans]
        scores = [(span.known.at.score + 0.5) / (coded_objects.MAX_SCORE + 1) for span in spans]
        for row, is_shown in zip(boxes, shown.tolist(), strict=True):
            yield [
                findings.TrackedObject(*one, box, score)
                for one, box, score, is_seen in zip(known, row, scores, is_shown, strict=True)
                if is_seen
            ]

    def _between(self, posed: list[KeyPoints], share: float) -> Iterator[KeyPoints]:
        """Those of an anchor, on their way there from the last one."""
        for now in posed:
            before = self._people.get(now.person)
            if share == 1:
                yield now
            elif before is not None:
                visible = before.visible & now.visible
                points = before.points + share * (now.points - before.points)
                yield KeyPoints(now.person, points * visible[:, None], visible)


def key_points(person: Person, unit: float) -> KeyPoints:
    """Those that were sent, in units of so many pixels."""
    return KeyPoints(person.identity, person.points.astype(np.float64) * unit, person.visible)


def _edges(box: coded_objects.ObjectBox) -> NDArray[np.float64]:
    right, bottom = box.left + box.width, box.top + box.height
    return np.array([box.left, box.top, right, bottom], np.float64)
