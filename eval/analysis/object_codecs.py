"""gsvc's streams that say what is where, in the benchmark of analysis: read, never decoded."""

import time
from abc import abstractmethod
from collections.abc import Sequence
from importlib.metadata import version

from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.errors import BitstreamError, ConfigError
from gsvc.codec.frames import VideoFormat
from gsvc.codec.scaffold.layers.object_kinds import MOVING
from gsvc.datasets.clips import ClipFormat, TestClip
from gsvc.decoders.analysis.finders import COCO, PEOPLE
from gsvc.encoders.objects.tasks import DETECT, KEY_POINTS, MOTION
from gsvc.eval.analysis.detectors import CocoThings, MotionDetector, PeopleDetector
from gsvc.eval.codecs.base import Codec, Decoded, Encoded, Settings
from gsvc.eval.codecs.ours import coded
from gsvc.eval.facts import CodecFacts

_LEVELS = 1, 2
_SAME = {
    MotionDetector.name: (MOTION, MOVING),
    PeopleDetector.name: (KEY_POINTS, PEOPLE),
    CocoThings.name: (DETECT, COCO),
}
"""Task and detector of the encoder that send what a detector of the benchmark finds."""


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
