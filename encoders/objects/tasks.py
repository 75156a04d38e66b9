"""What a stream's objects are for, and what is therefore found and sent."""

from gsvc.codec.scaffold.layers.object_kinds import MOVING
from gsvc.codec.scaffold.layers.objects import Parts
from gsvc.codec.stream.header import Header
from gsvc.decoders.analysis.finders import COCO, PEOPLE, Finder, checked, own_finder
from gsvc.decoders.analysis.types import Detector
from gsvc.encoders.objects.coder import ObjectCoder, ObjectRecipe

DETECT, KEY_POINTS, MOTION = TASKS = "detect", "people", "motion"
"""Boxes of everything; of people, with key points; of what moves, with activity and camera."""
LEAST_SCORE = 0.5
"""Of detections that count."""
_SECONDS, _ALONE_SECONDS, _LIVE_SECONDS = 4.0, 8.0, 1.2
"""Video that a packet of objects describes: beside pictures, without, and with low delay."""


def object_coder(
    header: Header, task: str | None, detector: str | Detector, *, low_delay: bool
) -> ObjectCoder:
    """What codes the objects of a stream; `task` None: beside pictures.

    Raises ConfigError for an unknown detector, MissingModelError for a model that is missing.
    """
    if task is None:
        parts = Parts(0, motion=True)
    else:
        parts = Parts(1, people=task == KEY_POINTS, motion=task == MOTION)
    seconds = _SECONDS if task is None else _ALONE_SECONDS
    recipe = ObjectRecipe(
        finder=_finder(task, detector),
        moving=task != KEY_POINTS and detector not in (COCO, PEOPLE),
        parts=parts,
        is_alone=task is not None,
        packet_seconds=_LIVE_SECONDS if low_delay else seconds,
    )
    return ObjectCoder(header, recipe)


def _finder(task: str | None, detector: str | Detector) -> Finder | None:
    if task == MOTION:
        return own_finder(MOVING)
    if not isinstance(detector, str):
        return checked(detector, LEAST_SCORE)
    return own_finder(PEOPLE if task == KEY_POINTS else detector)
