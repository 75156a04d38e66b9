"""Rate and accuracy of codecs on one clip: the same detector on what each of them leaves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from gsvc.codec.errors import ConfigError, GsvcError
from gsvc.datasets.annotated.boxes import NO_ID, Boxes
from gsvc.datasets.clips import TestClip
from gsvc.decoders.analysis.rules_text import Regions
from gsvc.eval.analysis.accuracy import EVENTS, POINTS, accuracies, judged
from gsvc.eval.analysis.detectors import Detector
from gsvc.eval.analysis.events import event_scores
from gsvc.eval.analysis.followed import look, with_tracks
from gsvc.eval.analysis.iou_tracker import tracked
from gsvc.eval.analysis.key_points import oks_ap
from gsvc.eval.analysis.rule_events import rule_events
from gsvc.eval.analysis.seen import Seen, as_seen
from gsvc.eval.codecs.base import Codec, Settings

Analyser = Callable[[bytes], Boxes | Seen]
"""From a stream's bytes to boxes, in pixels of the clip; ids may be missing."""

Failed = Callable[[str, GsvcError], None]
"""Called with the name and the error of what cannot be done on this machine; the rest goes on."""

SOURCE = "source"
"""The curve of the clip as it is."""
FROM_STREAM = "from the stream"
"""After a codec's name: the curve of its analyser."""


@dataclass(frozen=True)
class Point:
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
    detector: Detector
    analysers: Mapping[str, Analyser] = field(default_factory=dict)
    """By the name of the codec whose streams they read."""
    rules: Regions | None = None
    """What makes events, in pixels of each clip; None: events are not judged."""


def measure(
    clip: TestClip,
    truth: Boxes | None,
    subject: Subject,
    failed: Failed,
) -> Iterator[Point]:
    """The source's point, then those of each codec, rate and way to decode.

    Without truth what the detector finds in the source stands for it. `failed` gets the name and
    the error of what cannot be done on this machine; the rest goes on.
    """
    judge = _Judge(clip, truth, subject)
    yield judge.source()
    for codec in subject.codecs:
        try:
            for settings in codec.rate_points():
                yield from _of_stream(judge, codec, settings, subject.analysers)
        except GsvcError as error:
            failed(f"{clip.name}, {codec.name}", error)


def _of_stream(
    judge: "_Judge", codec: Codec, settings: Settings, analysers: Mapping[str, Analyser]
) -> Iterator[Point]:
    data = codec.encode(judge.clip, settings).data
    for way in codec.ways_to_decode(settings):
        frames = codec.decode(data, judge.clip.format, settings, way).frames
        curve = ", ".join([codec.name, *told(way)])
        yield judge.point(curve, settings, len(data), partial(look, judge.detector, frames))
    if codec.name in analysers:
        analyse = analysers[codec.name]
        curve = f"{codec.name}, {FROM_STREAM}"
        yield judge.point(curve, settings, len(data), lambda: _with_ids(analyse(data)))


class _Judge:
    """Compares with the truth of one clip."""

    def __init__(self, clip: TestClip, truth: Boxes | None, subject: Subject) -> None:
        self.clip, self.detector, self._rules = clip, subject.detector, subject.rules
        start = perf_counter()
        seen = as_seen(self.detector(clip.frames))
        self._found = with_tracks(seen, clip.frames)
        self._seconds = perf_counter() - start
        self._pseudo = truth is None
        # Pseudo-truth is what is seen in each frame alone; only its identities are a tracker's.
        known = _with_ids(seen).boxes if truth is None else truth
        self._truth = judged(known, self.detector.labels)

    def source(self) -> Point:
        return self._point(SOURCE, {}, 0, self._found, self._seconds)

    def point(self, curve: str, settings: Settings, size: int, find: Callable[[], Seen]) -> Point:
        start = perf_counter()
        found = find()
        return self._point(curve, settings, size, found, perf_counter() - start)

    def _point(
        self, curve: str, settings: Settings, size: int, seen: Seen, seconds: float
    ) -> Point:
        form, found = self.clip.format, seen.boxes
        if found.frame.min(initial=0) < 0 or found.frame.max(initial=0) >= form.frames:
            raise ConfigError(f"{curve}: boxes in frames outside 0 to {form.frames - 1}")
        rate = 8 * size * float(form.frame_rate) / form.frames
        sure = judged(found.chosen(~found.ignored), self.detector.labels)
        scores = {
            **accuracies(self._truth, sure),
            POINTS: self._points(seen),
            EVENTS: self._events(sure),
        }
        name, text = self.clip.name, ", ".join(told(settings))
        return Point(name, curve, text, size, rate, seconds, self._pseudo, scores)

    def _points(self, seen: Seen) -> float | None:
        """Truth of boxes has no key points: against those that were found in the source alone."""
        truth = self._found.poses
        if not self._pseudo or truth is None or seen.poses is None:
            return None
        scores = oks_ap(truth, seen.poses)
        return scores and scores.mean

    def _events(self, found: Boxes) -> float | None:
        if self._rules is None or (self._truth.id == NO_ID).any():
            return None
        truth = self._truth.chosen(~self._truth.ignored)
        happened, told = (
            rule_events(boxes, self._rules, self.clip.format) for boxes in (truth, found)
        )
        scores = event_scores(happened, told)
        return scores and scores.f1


def _with_ids(found: object) -> Seen:
    seen = as_seen(found)
    if (seen.boxes.id == NO_ID).any():
        return seen._replace(boxes=tracked(seen.boxes))
    return seen


def told(settings: Settings) -> list[str]:
    """Settings in words."""
    return [f"{name} {value}" for name, value in settings.items()]
