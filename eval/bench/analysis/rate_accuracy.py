"""Rate and accuracy of codecs on one clip, or on several cameras of one place.

The same detector looks at what each codec leaves; gsvc's streams that say what is where are read,
never decoded. Several cameras are judged by MODA on the ground that they share; lines, zones and
rules make the same events of truth and of what was found.
"""

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from time import perf_counter
from typing import Any, ClassVar, TypeVar

import numpy as np

from gsvc.codec.api import analysis, encoder_settings
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, BitstreamError, ConfigError, GsvcError
from gsvc.codec.bitstream.frames import VideoFormat
from gsvc.codec.bitstream.objects import MOVING
from gsvc.datasets.annotated.truth import NO_ID, Boxes, Floats, Places, make_boxes, make_places
from gsvc.datasets.clips.clip_reader import ClipFormat, TestClip
from gsvc.decoders.detection import detectors, findings, rules
from gsvc.decoders.detection.analyser import AnalysisSettings
from gsvc.decoders.detection.rules import Regions
from gsvc.encoders.tuning import DETECT, KEY_POINTS, MOTION
from gsvc.eval.baselines.base import Codec, Decoded, Encoded, Settings
from gsvc.eval.baselines.gsvc import coded
from gsvc.eval.bench.analysis import accuracy, box_detectors
from gsvc.eval.bench.analysis.accuracy import Pose, TimedEvent, accuracies
from gsvc.eval.bench.analysis.box_detectors import SeenClip, look
from gsvc.eval.late_loading import CodecFacts

APART = 0.75
"""Metres within which places that two cameras see are one."""
_MARGIN = 2.0  # pixels: a box that ends so near the picture's lower edge hides its feet


def standing(boxes: Boxes, homographies: Floats, height: int) -> Places:
    """Where things stand whose boxes a camera sees: under the middle of the lower edge.

    `homographies`: for each frame from (x, y, 1) in metres to pixels, float64 (frames, 3, 3);
    `height`: of the picture, in pixels. Boxes cut off below or above the horizon have no place.
    """
    boxes = boxes.chosen(boxes.box[:, 3] < height - _MARGIN)
    middle = (boxes.box[:, 0] + boxes.box[:, 2]) / 2
    feet = np.stack([middle, boxes.box[:, 3], np.ones(len(boxes))], axis=-1)
    ground = np.einsum("nij,nj->ni", np.linalg.inv(homographies[boxes.frame]), feet)
    # Depth: of the point found, in the camera; below 0 beyond the horizon.
    ahead = ground[:, 2] > 0
    return make_places(boxes.frame[ahead], ground[ahead, :2] / ground[ahead, 2:], boxes.id[ahead])


def merged(views: Sequence[Places]) -> Places:
    """Places of several cameras as one list, near ones averaged, without ids. It needs scipy."""
    last = max((view.frame.max(initial=-1) for view in views), default=-1)
    frames: list[int] = []
    places: list[Floats] = []
    for frame in range(last + 1):
        found = _one_frame([view.place[view.frame == frame] for view in views])
        frames += [frame] * len(found)
        places.append(found)
    joined = np.concatenate([np.empty((0, 2)), *places])
    return make_places(frames, joined, np.full(len(frames), NO_ID))


def _one_frame(views: Sequence[Floats]) -> Floats:
    sums, counts = np.empty((0, 2)), np.empty(0)
    for places in views:
        means = sums / counts[:, None]
        old, new = accuracy.pairs(np.linalg.norm(means[:, None] - places[None], axis=-1), APART)
        sums[old] += places[new]
        counts[old] += 1
        others = np.delete(places, new, axis=0)
        sums, counts = np.concatenate([sums, others]), np.append(counts, np.ones(len(others)))
    return np.asarray(sums / counts[:, None])


def check_events(regions: Regions, labels: frozenset[str] | None) -> None:
    """Raises ConfigError for rules that boxes of a detector of these classes cannot fulfil."""
    rules.check_rules(regions.rules, [zone.name for zone in regions.zones])
    for rule in regions.rules:
        for one in rule.conditions:
            if isinstance(one, rules.Activity):
                raise ConfigError(f"rule {rule.name!r}: boxes have no activity: leave it out")
            if labels is None and one.kind != rules.ANYTHING:
                raise ConfigError(
                    f"rule {rule.name!r}: the detector knows no {one.kind}: write {rules.ANYTHING}"
                )
            if labels is not None and one.kind != rules.ANYTHING and one.kind not in labels:
                raise ConfigError(f"rule {rule.name!r}: the detector finds no {one.kind}")


def rule_events(boxes: Boxes, regions: Regions, form: ClipFormat) -> list[TimedEvent]:
    """Visits to zones, crossings of lines and events of rules, in seconds.

    `boxes` have ids. They are watched as by `gsvc analyse`. Raises ConfigError for regions outside.
    """
    rules.check_regions(regions.lines, regions.zones, (form.width, form.height))
    watcher = rules.Watcher(regions.lines, regions.zones, form.height)
    by_rule = rules.RuleWatcher(regions.rules)
    told: list[findings.Event] = []
    for frame in _frames(boxes, form):
        told += watcher.events(frame)
        told += by_rule.events(frame, watcher.visits())
    return [*_events([*told, *watcher.finish(), *by_rule.finish()])]


def _frames(boxes: Boxes, form: ClipFormat) -> Iterator[findings.FrameAnalysis]:
    order = np.argsort(boxes.frame, kind="stable")
    rows = np.split(order, np.searchsorted(boxes.frame[order], np.arange(1, form.frame_count)))
    for number, here in enumerate(rows):
        objects = tuple(
            findings.TrackedObject(
                str(boxes.label[n]), int(boxes.id[n]), boxes.box[n], boxes.score[n]
            )
            for n in here
        )
        yield findings.FrameAnalysis(number, number / float(form.frame_rate), objects)


def _events(told: Sequence[findings.Event]) -> Iterator[TimedEvent]:
    """With start and end; those of a line are instants."""
    entered: dict[tuple[str, int], float] = {}
    for one in told:
        if one.kind == "line":
            name = f"{one.object} at {one.name}, {one.direction}"
            yield TimedEvent(name, one.seconds, one.seconds)
        elif one.kind == "enter":
            entered[one.name, one.track] = one.seconds
        elif one.kind == "leave":  # told when it is sure, which may be later than it happened
            start = entered.pop((one.name, one.track))
            yield TimedEvent(f"{one.object} in {one.name}", start, start + (one.dwell or 0.0))
        elif one.kind == "end":
            yield TimedEvent(one.name, one.seconds - (one.dwell or 0.0), one.seconds)


Analyser = Callable[[bytes], Boxes | SeenClip]
"""From a stream's bytes to boxes, in pixels of the clip; ids may be missing."""

Failed = Callable[[str, GsvcError], None]
"""Called with the name and the error of what cannot be done on this machine; the rest goes on."""

SOURCE = "source"
"""The curve of the clip as it is."""
FROM_STREAM = "from the stream"
"""After a codec's name: the curve of its analyser."""


@dataclass(frozen=True)
class AccuracyPoint:
    """One stream of one clip, analysed."""

    clip: str
    curve: str
    """The codec, and how its stream was decoded or analysed."""
    settings: str
    """Of the codec, "crf 40, preset slow, scale 1"."""
    bytes: int
    """Of the stream; 0 for the source."""
    bits_per_second: float
    seconds: float
    """From pictures, or from the stream's bytes, to boxes with identities."""
    pseudo: bool
    """Whether the truth is what the detector found in the source."""
    accuracies: Mapping[str, float | None] = field(repr=False)
    """Of `ACCURACIES`, by name."""


@dataclass(frozen=True)
class Subject:
    """What is measured: codecs, and who looks."""

    codecs: Sequence[Codec]
    detector: box_detectors.BoxDetector
    analysers: Mapping[str, Analyser] = field(default_factory=dict)
    """By the name of the codec whose streams they read."""
    rules: Regions | None = None
    """What makes events, in pixels of each clip; None: events are not judged."""


_View = TypeVar("_View")
Find = Callable[[], list[SeenClip]]
"""Looks at what a codec left, in each view."""


def measure(
    clip: TestClip, truth: Boxes | None, subject: Subject, failed: Failed
) -> Iterator[AccuracyPoint]:
    """The source's point, then those of each codec, rate and way to decode.

    Without truth what the detector finds in the source stands for it.
    """
    judge = _Judge(clip, truth, subject)
    yield judge.source()
    yield from _points(clip.name, [clip], subject, failed, judge.point)


def _points(
    name: str,
    views: Sequence[TestClip],
    subject: Subject,
    failed: Failed,
    point: Callable[[str, Settings, int, Find], AccuracyPoint],
) -> Iterator[AccuracyPoint]:
    for codec in subject.codecs:
        try:
            for settings in codec.rate_points():
                for curve, size, find in _curves(views, subject, codec, settings):
                    yield point(curve, settings, size, find)
        except GsvcError as error:
            failed(f"{name}, {codec.name}", error)


def _curves(
    views: Sequence[TestClip], subject: Subject, codec: Codec, settings: Settings
) -> Iterator[tuple[str, int, Find]]:
    """The views coded: each way to look at them with the name of its curve, and bytes in all."""
    streams = [codec.encode(view, settings).data for view in views]
    size = sum(map(len, streams))
    for way in codec.ways_to_decode(settings):
        decoded = [
            codec.decode(data, view.format, settings, way).frames
            for data, view in zip(streams, views, strict=True)
        ]
        curve = ", ".join([codec.name, *told(way)])
        yield curve, size, partial(_each, partial(look, subject.detector), decoded)
    if codec.name in subject.analysers:
        analyse = subject.analysers[codec.name]
        yield f"{codec.name}, {FROM_STREAM}", size, partial(_each, analyse, streams)


def _each(find: Callable[[_View], Boxes | SeenClip], views: Sequence[_View]) -> list[SeenClip]:
    return [box_detectors.as_seen(find(view)) for view in views]


class _Judge:
    """Compares with the truth of one clip."""

    def __init__(self, clip: TestClip, truth: Boxes | None, subject: Subject) -> None:
        self.clip, self.detector, self._rules = clip, subject.detector, subject.rules
        start = perf_counter()
        seen = box_detectors.as_seen(self.detector(clip.frames))
        self._found = box_detectors.with_tracks(seen, clip.frames)
        self._seconds = perf_counter() - start
        self._pseudo = truth is None
        # Pseudo-truth is what is seen in each frame alone; only its identities are a tracker's.
        known = _with_ids(seen).boxes if truth is None else truth
        self._truth = accuracy.judged(known, self.detector.labels)

    def source(self) -> AccuracyPoint:
        return self._point(SOURCE, {}, 0, self._found, self._seconds)

    def point(self, curve: str, settings: Settings, size: int, find: Find) -> AccuracyPoint:
        start = perf_counter()
        return self._point(curve, settings, size, _with_ids(find()[0]), perf_counter() - start)

    def _point(
        self, curve: str, settings: Settings, size: int, seen: SeenClip, seconds: float
    ) -> AccuracyPoint:
        form, found = self.clip.format, seen.boxes
        if found.frame.min(initial=0) < 0 or found.frame.max(initial=0) >= form.frame_count:
            raise ConfigError(f"{curve}: boxes in frames outside 0 to {form.frame_count - 1}")
        rate = 8 * size * float(form.frame_rate) / form.frame_count
        sure = accuracy.judged(found.chosen(~found.ignored), self.detector.labels)
        scores = {
            **accuracies(self._truth, sure),
            accuracy.POINTS: self._points(seen),
            accuracy.EVENTS: self._events(sure),
        }
        name, text = self.clip.name, ", ".join(told(settings))
        return AccuracyPoint(name, curve, text, size, rate, seconds, self._pseudo, scores)

    def _points(self, seen: SeenClip) -> float | None:
        """Truth of boxes has no key points: against those that were found in the source alone."""
        truth = self._found.poses
        if not self._pseudo or truth is None or seen.poses is None:
            return None
        scores = accuracy.oks_ap(truth, seen.poses)
        return scores and scores.mean

    def _events(self, found: Boxes) -> float | None:
        if self._rules is None or (self._truth.id == NO_ID).any():
            return None
        truth = self._truth.chosen(~self._truth.ignored)
        happened, told = (
            rule_events(boxes, self._rules, self.clip.format) for boxes in (truth, found)
        )
        return accuracy.event_f1(happened, told)


def _with_ids(seen: SeenClip) -> SeenClip:
    if (seen.boxes.id == NO_ID).any():
        return seen._replace(boxes=box_detectors.tracked(seen.boxes))
    return seen


def told(settings: Settings) -> list[str]:
    """Settings in words."""
    return [f"{name} {value}" for name, value in settings.items()]


@dataclass(frozen=True)
class GroundClip:
    """What several cameras show of one piece of ground, loaded."""

    name: str
    views: Sequence[TestClip]
    """One a camera, of equal length."""
    homographies: Sequence[Floats] = field(repr=False)
    """One array a camera, see `standing`."""
    places: Places = field(repr=False)
    """Of all that the detector should find."""


def measure_ground(ground: GroundClip, subject: Subject, failed: Failed) -> Iterator[AccuracyPoint]:
    """As `measure`; bytes are those of all cameras."""
    point = partial(_ground_point, ground)
    frames = [view.frames for view in ground.views]
    yield point(SOURCE, {}, 0, partial(_each, partial(look, subject.detector), frames))
    yield from _points(ground.name, ground.views, subject, failed, point)


def _ground_point(
    ground: GroundClip, curve: str, settings: Settings, size: int, find: Find
) -> AccuracyPoint:
    start = perf_counter()
    form = ground.views[0].format
    found = merged(
        [
            standing(seen.boxes, homographies, form.height)
            for seen, homographies in zip(find(), ground.homographies, strict=True)
        ]
    )
    seconds = perf_counter() - start
    moda = accuracy.ground_moda(ground.places, found)
    scores = dict.fromkeys(accuracy.ACCURACIES) | {accuracy.GROUND: moda}
    rate, text = 8 * size * float(form.frame_rate) / form.frame_count, ", ".join(told(settings))
    return AccuracyPoint(ground.name, curve, text, size, rate, seconds, False, scores)


_LEVELS = 1, 2
_SAME = {
    box_detectors.MotionDetector.name: (MOTION, MOVING),
    box_detectors.PeopleDetector.name: (KEY_POINTS, findings.PEOPLE_DETECTOR),
    box_detectors.CocoThings.name: (DETECT, findings.COCO_DETECTOR),
}
"""Task and detector of the encoder that find what a detector of the benchmark finds."""


class _ObjectCodec(Codec):
    """Raises ConfigError for a user's own detector."""

    suffix = ".gsv"
    given: ClassVar[Mapping[str, bool]] = {}
    """For the encoder, beside the settings and the detector."""

    def __init__(self, detector: str) -> None:
        """`detector`: of the benchmark, by name."""
        if detector not in _SAME:
            raise ConfigError(f"{self.name} sends no {detector}: choose {', '.join(_SAME)}")
        self._task, seeks = _SAME[detector]
        self._given: dict[str, Any] = {"detector": seeks, **self.given}

    def version(self) -> str:
        return f"gsvc {version('gsvc')}"

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        """None: what is measured is what the stream says."""
        return []

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        form = clip.format
        video = VideoFormat(form.width, form.height, 1 / form.frame_rate, form.frame_rate)
        start = time.perf_counter()
        given = {**settings, **self._given}
        if settings.get("task") == MOTION:
            del given["detector"]  # what moves is what the task is about: no other one looks
        data = coded(clip.frames, video, encoder_settings.EncoderSettings(**given))
        return Encoded(data, time.perf_counter() - start, {"objects": 8 * len(data)})

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """Raises BitstreamError: there is no way to decode here."""
        raise BitstreamError(f"{self.name} is for analysis: take gsvc to decode")


class TaskCodec(_ObjectCodec):
    """`gsvc encode --task`: objects and no pictures."""

    name = "gsvc-task"
    facts = CodecFacts(colour="#dd3c2a", marker="*")

    def rate_points(self) -> Sequence[Settings]:
        """One: a task has no levels."""
        return [{"task": self._task}]


class ObjectsCodec(_ObjectCodec):
    """`gsvc encode --objects`: pictures, and the objects in them."""

    name = "gsvc-objects"
    facts = CodecFacts(colour="#a8175a", marker="D")
    given: ClassVar[Mapping[str, bool]] = {"objects": True}

    def rate_points(self) -> Sequence[Settings]:
        """Those of the levels that are meant for analysis."""
        return [{"level": level} for level in _LEVELS]


OBJECT_CODECS = {kind.name: kind for kind in (TaskCodec, ObjectsCodec)}


def stream_analyser(detector: str) -> Callable[[bytes], SeenClip] | None:
    """What reads streams in place of a detector of the benchmark; None for a user's own."""
    if detector not in _SAME:
        return None
    return lambda stream: _read(stream, AnalysisSettings(_SAME[detector][1]))


def read_objects(stream: bytes) -> SeenClip:
    """The objects that a stream carries, and people's key points."""
    return _read(stream, AnalysisSettings(detectors.OBJECTS))


def _read(stream: bytes, settings: AnalysisSettings) -> SeenClip:
    frames = list(analysis.AnalysisReader(io.BytesIO(stream), settings, DEFAULT_LIMITS).frames())
    found = [(frame.frame, one) for frame in frames for one in frame.objects]
    boxes = make_boxes(
        [frame for frame, _ in found],
        [one.box for _, one in found],
        label=[one.kind for _, one in found],
        id=[one.track for _, one in found],
        score=[one.score for _, one in found],
    )
    people = [(frame.frame, one) for frame in frames for one in frame.people]
    return SeenClip(boxes, [Pose(frame, one.points, one.visible) for frame, one in people])
