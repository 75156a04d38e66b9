"""What analysis finds: in a picture, in a frame, over time, in the end; and what boxes share."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.objects import MOVING

Box = NDArray[np.float64]
"""Left, top, right, bottom in pixels of the display, float64 (4,)."""


@dataclass(frozen=True, eq=False)
class Detection:
    """One thing that a detector found in a picture."""

    kind: str
    """Its class: "person", "car" ..."""
    box: Box
    """Where it is; may reach beyond the picture."""
    score: float
    """How sure the detector is, 0 to 1."""
    begins: bool = True
    """Whether it may be something new; else it only goes on with what was found before."""


class Detector(Protocol):
    """Finds things in one picture; a class of your own needs no base class.

    It is made without arguments when it is named as `module:Class`.
    """

    def __call__(self, picture: Picture) -> list[Detection]:
        """What is in RGB uint8 (H, W, 3)."""


@dataclass(frozen=True, eq=False)
class TrackedObject:
    """One object in one frame."""

    kind: str
    """Its class, the same in all of its frames; "moving" where no detector named it."""
    track: int
    """Its number, from 1, the same in all of its frames."""
    box: Box
    """Where it is, within the picture."""
    score: float
    """How sure its class and place are, 0 to 1."""


@dataclass(frozen=True, eq=False)
class KeyPoints:
    """A person's key points as the scaffold sends them."""

    person: int
    """0 to 15, the same for one person within a group."""
    points: NDArray[np.float64]
    """x, y in pixels, float64 (17, 2), in COCO's order; 0 where not visible."""
    visible: NDArray[np.bool_]
    """(17,): whether each point is visible."""


@dataclass(frozen=True)
class CameraStep:
    """How the camera moves from one frame to the next."""

    dx: float
    """Pixels that the scene moves to the right."""
    dy: float
    """Pixels that it moves down."""
    zoom: float
    """Factor by which it grows."""
    turn: float
    """Degrees that it turns clockwise."""


@dataclass(frozen=True)
class Event:
    """Something that happened at one frame."""

    kind: str
    """"cut", "line", "enter" (a zone) or "leave", "begin" (of what a rule says) or "end"."""
    frame: int
    """Number of the frame, from 0."""
    seconds: float
    """Its time from frame 0 on."""
    name: str = ""
    """The line's, the zone's or the rule's."""
    track: int = 0
    """The object's; 0 where there is no single one."""
    object: str = ""
    """The object's class."""
    direction: str = ""
    """Of a line, seen along it: "left to right" or "right to left"."""
    dwell: float | None = None
    """Of "leave": the seconds that the object was in the zone; of "end": those that it held."""


@dataclass(frozen=True, eq=False)
class FrameAnalysis:
    """What is known of one frame."""

    frame: int
    """Its number, from 0."""
    seconds: float
    """Its time from frame 0 on."""
    objects: tuple[TrackedObject, ...] = ()
    """What is in it, by track."""
    people: tuple[KeyPoints, ...] = ()
    """Key points of people: at frames where the scaffold has them, or, where objects have them,
    linear in time from one anchor to the next."""
    activity: float | None = None
    """Share of the picture that moves by itself, 0 to 1; None where no motion was looked at."""
    camera: CameraStep | None = None
    """Motion of the camera from the frame before; None where it is not known."""
    events: tuple[Event, ...] = ()
    """What happens here."""


@dataclass
class AnalysisCost:
    """What an analysis took."""

    bytes_read: int = 0
    """Of the stream, sound and texts included."""
    milliseconds: float = 0.0
    """Wall-clock time, loading of models included."""
    frames: int = 0
    """Frames of the stream."""
    pictures: int = 0
    """Coded pictures that were decoded."""
    detector_runs: int = 0
    """Pictures that the detector looked at."""

    @property
    def not_decoded(self) -> int:
        """Frames that were neither decoded nor drawn."""
        return self.frames - self.pictures


@dataclass
class Totals:
    """Sums over a stream."""

    objects: dict[str, int] = field(default_factory=dict)
    """Tracks by class."""
    lines: dict[str, dict[str, int]] = field(default_factory=dict)
    """Crossings of each line by direction."""
    zones: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of each zone: `visits`, `seconds` of all of them and `longest` one."""
    cuts: int = 0
    """Scene cuts."""


def shared(a: Box, b: Box) -> NDArray[np.float64]:
    """Area of both, in square pixels; of boxes (..., 4), which are broadcast."""
    low, high = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    return np.asarray(np.prod(np.maximum(high - low, 0), axis=-1))


def area(box: Box) -> float:
    """In square pixels; 0 for a box without inside."""
    return shared(box, box).item()


def within(inner: Box, outer: Box) -> float:
    """Share of a box within another, 0 to 1."""
    return shared(inner, outer).item() / max(area(inner), 1e-9)


def clipped(box: Box, size: tuple[int, int]) -> Box:
    """What of a box lies within a picture of that width and height."""
    return np.clip(box, 0, np.tile(size, 2))


def overlap(ours: ArrayLike, others: ArrayLike) -> NDArray[np.float64]:
    """Intersection over union of every pair of boxes (n, 4) and (m, 4): (n, m)."""
    a, b = (np.asarray(boxes).reshape(-1, 4) for boxes in (ours, others))
    both = shared(a[:, None], b)
    return np.asarray(both / np.maximum(shared(a, a)[:, None] + shared(b, b) - both, 1e-9))


AUTO, COCO_DETECTOR, PEOPLE_DETECTOR = "auto", "coco", "people"

OWN = AUTO, COCO_DETECTOR, PEOPLE_DETECTOR, MOVING
"""Names of what gsvc brings."""
