"""What looks for things in pictures: what gsvc brings, and a user's detector, checked."""

import logging
from collections.abc import Callable, Sequence

import numpy as np

from gsvc.codec.errors import ConfigError, MissingDependencyError, MissingModelError
from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.object_kinds import MOVING
from gsvc.decoders.analysis.coco import CocoDetector
from gsvc.decoders.analysis.people import PeopleFinder
from gsvc.decoders.analysis.types import Detection, Detector

AUTO, COCO, PEOPLE = "auto", "coco", "people"
OWN = AUTO, COCO, PEOPLE, MOVING
"""Names of what gsvc brings."""

Finder = Callable[[Picture, Sequence[Detection]], list[Detection]]
"""Finds things in a picture; told what moves there."""

_log = logging.getLogger(__name__)


def own_finder(name: str) -> Finder | None:
    """One of `OWN`; None where what moves is all that is found.

    Raises MissingModelError, MissingDependencyError.
    """
    return _MAKERS[name]()


def checked(detector: Detector, least_score: float) -> Finder:
    """A user's detector; raises ConfigError where it gives what is no list of detections."""
    name = type(detector).__name__

    def find(picture: Picture, _moving: Sequence[Detection]) -> list[Detection]:
        found = detector(picture)
        for one in found:
            box = np.asarray(getattr(one, "box", None), np.float64)
            if box.shape != (4,) or not np.isfinite(box).all() or (box[2:] <= box[:2]).any():
                raise ConfigError(
                    f"detector {name} gave {one!r}: it must give gsvc.Detection with a box of "
                    "left, top, right, bottom"
                )
        return [
            Detection(str(o.kind), np.asarray(o.box, np.float64), float(o.score))
            for o in found
            if o.score >= least_score
        ]

    return find


def _coco() -> Finder:
    detector = CocoDetector()
    return lambda picture, _moving: detector(picture)


def _what_is_there() -> Finder | None:
    """The best whose models and packages are on this machine."""
    lacks = ""
    for make in (_coco, PeopleFinder):
        try:
            return make()
        except (MissingModelError, MissingDependencyError) as error:
            lacks = lacks or str(error)
    _log.warning("nothing is recognised, only what moves is found: %s", lacks)
    return None


_MAKERS: dict[str, Callable[[], Finder | None]] = {
    AUTO: _what_is_there,
    COCO: _coco,
    PEOPLE: PeopleFinder,
    MOVING: lambda: None,
}
