"""Which detector looks at coded pictures, by name."""

import logging
from collections.abc import Callable, Sequence

import numpy as np

from gsvc.codec.errors import ConfigError, MissingDependencyError, MissingModelError
from gsvc.codec.frames import Picture
from gsvc.codec.plugins import find_class
from gsvc.decoders.analysis.adapters import from_file, from_torchvision
from gsvc.decoders.analysis.background import MOVING
from gsvc.decoders.analysis.people import PeopleFinder
from gsvc.decoders.analysis.types import Detection, Detector

AUTO, PEOPLE, NONE, OBJECTS = "auto", "people", "none", "objects"
TORCHVISION = "torchvision:"
FILES = ".onnx", ".pt"

Finder = Callable[[Picture, Sequence[Detection]], list[Detection]]
"""Finds things in a picture; told what moves there."""

_log = logging.getLogger(__name__)


def find_finder(name: str, least_score: float) -> Finder | None:
    """What looks at coded pictures; None where nothing does.

    Raises ConfigError for an unknown name, MissingModelError, MissingDependencyError.
    """
    if name in (MOVING, NONE):
        return None
    if name == AUTO:
        return _people_if_there()
    if name == PEOPLE:
        return PeopleFinder()
    if name.startswith(TORCHVISION):
        return checked(from_torchvision(name.removeprefix(TORCHVISION)), least_score)
    if name.endswith(FILES):
        return checked(from_file(name), least_score)
    if ":" in name:
        return checked(_own(name), least_score)
    raise ConfigError(
        f"detector {name}: choose {AUTO}, {OBJECTS}, {PEOPLE}, {MOVING}, {NONE}, {TORCHVISION}"
        "NAME, "
        "a file .onnx or .pt, or module:Class"
    )


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


def _own(name: str) -> Detector:
    try:
        detector: Detector = find_class(name)()
    except TypeError as error:
        raise ConfigError(f"{name}: {error}: write a class that is made without values") from error
    if not callable(detector):
        raise ConfigError(f"{name} is no detector: it must be called with a picture")
    return detector


def _people_if_there() -> Finder | None:
    try:
        return PeopleFinder()
    except (MissingModelError, MissingDependencyError) as error:
        _log.warning("people are not recognised, only what moves is found: %s", error)
        return None
