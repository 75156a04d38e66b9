"""Rate of several cameras together, and MODA on the ground that they share.

The experiment of T. Chavdarova et al., "WILDTRACK", CVPR 2018, over rate, as task-oriented
transmission is measured (J. Shao, X. Zhang, J. Zhang, "Task-Oriented Communication for Edge Video
Analytics", 2022, arXiv:2211.14049).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TypeVar

from gsvc.codec.errors import GsvcError
from gsvc.datasets.annotated.boxes import Boxes, Floats, Places
from gsvc.datasets.clips import TestClip
from gsvc.eval.analysis.accuracy import ACCURACIES, GROUND
from gsvc.eval.analysis.followed import look
from gsvc.eval.analysis.ground import merged, standing
from gsvc.eval.analysis.measure import FROM_STREAM, SOURCE, Failed, Point, Subject, told
from gsvc.eval.analysis.occupancy import ground_moda
from gsvc.eval.analysis.seen import Seen, as_seen
from gsvc.eval.codecs.base import Codec, Settings

_View = TypeVar("_View")


@dataclass(frozen=True)
class GroundClip:
    """What several cameras show of one piece of ground, loaded."""

    name: str
    views: Sequence[TestClip]
    """One a camera, of equal length."""
    homographies: Sequence[Floats] = field(repr=False)
    """One array a camera, see `ground.standing`."""
    places: Places = field(repr=False)
    """Of all that the detector should find."""


def measure_ground(ground: GroundClip, subject: Subject, failed: Failed) -> Iterator[Point]:
    """The source's point, then those of each codec; bytes are those of all cameras.

    See `measure`.
    """
    frames = [view.frames for view in ground.views]
    seen = partial(look, subject.detector)
    yield _point(ground, SOURCE, {}, 0, partial(_each, seen, frames))
    for codec in subject.codecs:
        try:
            for settings in codec.rate_points():
                yield from _of_streams(ground, subject, codec, settings)
        except GsvcError as error:
            failed(f"{ground.name}, {codec.name}", error)


def _of_streams(
    ground: GroundClip, subject: Subject, codec: Codec, settings: Settings
) -> Iterator[Point]:
    streams = [codec.encode(view, settings).data for view in ground.views]
    size = sum(map(len, streams))
    for way in codec.ways_to_decode(settings):
        decoded = [
            codec.decode(data, view.format, settings, way).frames
            for data, view in zip(streams, ground.views, strict=True)
        ]
        curve = ", ".join([codec.name, *told(way)])
        find = partial(_each, partial(look, subject.detector), decoded)
        yield _point(ground, curve, settings, size, find)
    if codec.name in subject.analysers:
        analyse = subject.analysers[codec.name]
        curve = f"{codec.name}, {FROM_STREAM}"
        yield _point(ground, curve, settings, size, partial(_each, analyse, streams))


def _each(find: Callable[[_View], Boxes | Seen], views: Sequence[_View]) -> list[Boxes]:
    return [as_seen(find(view)).boxes for view in views]


def _point(
    ground: GroundClip, curve: str, settings: Settings, size: int, find: Callable[[], list[Boxes]]
) -> Point:
    start = perf_counter()
    form = ground.views[0].format
    found = merged(
        [
            standing(boxes, homographies, form.height)
            for boxes, homographies in zip(find(), ground.homographies, strict=True)
        ]
    )
    seconds = perf_counter() - start
    scores = dict.fromkeys(ACCURACIES, None) | {GROUND: ground_moda(ground.places, found)}
    rate = 8 * size * float(form.frame_rate) / form.frames
    return Point(ground.name, curve, ", ".join(told(settings)), size, rate, seconds, False, scores)
