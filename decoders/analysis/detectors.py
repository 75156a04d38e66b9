"""Which detector looks at coded pictures, by name."""

from gsvc.codec.errors import ConfigError
from gsvc.codec.plugins import find_class
from gsvc.codec.scaffold.layers.object_kinds import MOVING
from gsvc.decoders.analysis.adapters import from_file, from_torchvision
from gsvc.decoders.analysis.finders import AUTO, COCO, OWN, PEOPLE, Finder, checked, own_finder
from gsvc.decoders.analysis.types import Detector

NONE, OBJECTS = "none", "objects"
TORCHVISION = "torchvision:"
FILES = ".onnx", ".pt"


def find_finder(name: str, least_score: float) -> Finder | None:
    """What looks at coded pictures; None where nothing does.

    Raises ConfigError for an unknown name, MissingModelError, MissingDependencyError.
    """
    if name == NONE:
        return None
    return own_finder(name) if name in OWN else checked(named_detector(name), least_score)


def named_detector(name: str) -> Detector:
    """A detector of others. Raises ConfigError for an unknown name, MissingModelError and
    MissingDependencyError for what it lacks."""
    if name.startswith(TORCHVISION):
        return from_torchvision(name.removeprefix(TORCHVISION))
    if name.endswith(FILES):
        return from_file(name)
    if ":" in name:
        return _made(name)
    raise ConfigError(
        f"detector {name}: choose {AUTO}, {OBJECTS}, {COCO}, {PEOPLE}, {MOVING}, {NONE}, "
        f"{TORCHVISION}NAME, a file .onnx or .pt, or module:Class"
    )


def _made(name: str) -> Detector:
    try:
        detector: Detector = find_class(name)()
    except TypeError as error:
        raise ConfigError(f"{name}: {error}: write a class that is made without values") from error
    if not callable(detector):
        raise ConfigError(f"{name} is no detector: it must be called with a picture")
    return detector
