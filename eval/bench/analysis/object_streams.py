"""gsvc's streams that say what is where, as codecs of the benchmark: read, never decoded."""

import io
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from importlib.metadata import version

from gsvc.codec.api.analysis import AnalysisReader
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, BitstreamError, ConfigError
from gsvc.codec.bitstream.frames import VideoFormat
from gsvc.codec.bitstream.objects import MOVING
from gsvc.datasets.annotated.truth import make_boxes
from gsvc.datasets.clips.clip import ClipFormat, TestClip
from gsvc.decoders.detection.analyser import AnalysisSettings
from gsvc.decoders.detection.detectors import OBJECTS
from gsvc.decoders.detection.findings import COCO_DETECTOR, PEOPLE_DETECTOR
from gsvc.encoders.tuning import DETECT, KEY_POINTS, MOTION
from gsvc.eval.baselines.base import Codec, Decoded, Encoded, Settings
from gsvc.eval.baselines.gsvc import coded
from gsvc.eval.bench.analysis import box_detectors
from gsvc.eval.bench.analysis.accuracy import Pose
from gsvc.eval.late_loading import CodecFacts

_LEVELS = 1, 2
_SAME = {
    box_detectors.MotionDetector.name: (MOTION, MOVING),
    box_detectors.PeopleDetector.name: (KEY_POINTS, PEOPLE_DETECTOR),
    box_detectors.CocoThings.name: (DETECT, COCO_DETECTOR),
}
"""Task and detector of the encoder that find what a detector of the benchmark finds."""


class _ObjectCodec(Codec):
    """Raises ConfigError for a user's own detector."""

    suffix = ".gsv"

    def __init__(self, detector: str) -> None:
        """`detector`: of the benchmark, by name."""
        if detector not in _SAME:
            raise ConfigError(f"{self.name} sends no {detector}: choose {', '.join(_SAME)}")
        self._task, self._detector = _SAME[detector]

    def version(self) -> str:
        """Of gsvc."""
        return f"gsvc {version('gsvc')}"

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        """None: what is measured is what the stream says."""
        return []

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        """See `Codec.encode`."""
        form = clip.format
        video = VideoFormat(form.width, form.height, 1 / form.frame_rate, form.frame_rate)
        start = time.perf_counter()
        data = coded(clip.frames, video, self._encoder_settings(settings))
        return Encoded(data, time.perf_counter() - start, {"objects": 8 * len(data)})

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """Raises BitstreamError: there is no way to decode here."""
        raise BitstreamError(f"{self.name} is for analysis: take gsvc to decode")

    @abstractmethod
    def _encoder_settings(self, settings: Settings) -> EncoderSettings:
        """How to encode for these settings."""


class TaskCodec(_ObjectCodec):
    """`gsvc encode --task`: objects and no pictures."""

    name = "gsvc-task"
    facts = CodecFacts(colour="#dd3c2a", marker="*")

    def rate_points(self) -> Sequence[Settings]:
        """One: a task has no levels."""
        return [{"task": self._task}]

    def _encoder_settings(self, settings: Settings) -> EncoderSettings:
        # What moves is what that task is about; it looks with no other detector.
        if self._task == MOTION:
            return EncoderSettings(task=self._task)
        return EncoderSettings(task=self._task, detector=self._detector)


class ObjectsCodec(_ObjectCodec):
    """`gsvc encode --objects`: pictures, and the objects in them."""

    name = "gsvc-objects"
    facts = CodecFacts(colour="#a8175a", marker="D")

    def rate_points(self) -> Sequence[Settings]:
        """Those of the levels that are meant for analysis."""
        return [{"level": level} for level in _LEVELS]

    def _encoder_settings(self, settings: Settings) -> EncoderSettings:
        level = int(settings["level"])
        return EncoderSettings(level=level, objects=True, detector=self._detector)


OBJECT_CODECS = {kind.name: kind for kind in (TaskCodec, ObjectsCodec)}
"""By name."""


def stream_analyser(detector: str) -> Callable[[bytes], box_detectors.SeenClip] | None:
    """What reads streams in place of a detector of the benchmark; None for a user's own."""
    if detector not in _SAME:
        return None
    settings = AnalysisSettings(_SAME[detector][1])
    return lambda stream: _read(stream, settings)


def read_objects(stream: bytes) -> box_detectors.SeenClip:
    """The objects that a stream carries, and people's key points."""
    return _read(stream, AnalysisSettings(OBJECTS))


def _read(stream: bytes, settings: AnalysisSettings) -> box_detectors.SeenClip:
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
    return box_detectors.SeenClip(
        boxes, [Pose(frame, one.points, one.visible) for frame, one in people]
    )
