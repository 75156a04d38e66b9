"""What `gsvc.analyse` reads from gsvc's streams, for the detectors that it has too."""

import io
from collections.abc import Callable

from gsvc.codec.analysis import AnalysisReader
from gsvc.codec.limits import DEFAULT_LIMITS
from gsvc.codec.scaffold.layers.object_kinds import MOVING
from gsvc.datasets.annotated.boxes import make_boxes
from gsvc.decoders.analysis.analyser import AnalysisSettings
from gsvc.decoders.analysis.detectors import OBJECTS
from gsvc.decoders.analysis.finders import COCO, PEOPLE
from gsvc.eval.analysis.detectors import CocoThings, MotionDetector, PeopleDetector
from gsvc.eval.analysis.key_points import Pose
from gsvc.eval.analysis.seen import Seen

_SAME = {MotionDetector.name: MOVING, PeopleDetector.name: PEOPLE, CocoThings.name: COCO}
"""The benchmark's detectors, and what finds the same in streams."""


def stream_analyser(detector: str) -> Callable[[bytes], Seen] | None:
    """What reads streams in place of a detector of the benchmark; None for a user's own."""
    if detector not in _SAME:
        return None
    settings = AnalysisSettings(_SAME[detector])
    return lambda stream: _read(stream, settings)


def read_objects(stream: bytes) -> Seen:
    """The objects that a stream carries, and people's key points."""
    return _read(stream, AnalysisSettings(OBJECTS))


def _read(stream: bytes, settings: AnalysisSettings) -> Seen:
    frames = list(AnalysisReader(io.BytesIO(stream), settings, DEFAULT_LIMITS).frames())
    found = [(frame.frame, one) for frame in frames for one in frame.objects]
    boxes = make_boxes(
        [frame for frame, _ in found],
        [one.box for _, one in found],
        label=[one.kind for _, one in found],
        id=[one.track for _, one in found],
        score=[one.score for _, one in found],
    )
    people = [(frame.frame, one) for frame in frames for one in frame.people]
    return Seen(boxes, [Pose(frame, one.points, one.visible) for frame, one in people])
