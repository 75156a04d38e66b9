"""Pose: the key points of people, each person predicted from the sample before."""

from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream import scaffold
from gsvc.codec.bitstream.entropy_coding import FLAG, SIGNED, UNSIGNED, Coder, Element
from gsvc.codec.bitstream.errors import BitstreamError, ConfigError, LimitError

POINTS = 17
"""Key points of a person in COCO's order: nose, eyes, ears, shoulders, elbows, wrists, hips, knees,
ankles; left before right."""
LIMBS = (
    *((5, 7), (7, 9), (6, 8), (8, 10), (5, 6), (5, 11), (6, 12), (11, 12)),
    *((11, 13), (13, 15), (12, 14), (14, 16), (0, 5), (0, 6)),
)
"""Pairs of key points that are joined by a limb."""
MAX_PEOPLE = 16
"""Most people in one sample."""
MAX_POINT = 1 << 13
"""Largest magnitude of a key point's coordinate, in pose units."""

_STAYS = Element("pose.stays", "pose", FLAG)
_MORE = Element("pose.more", "pose", FLAG)
_IDENTITY = Element("pose.identity", "pose", UNSIGNED, MAX_PEOPLE - 1)
_MOVES_PICTURE = Element("pose.moves_picture", "pose", FLAG)
_SHIFT = Element("pose.shift", "pose", SIGNED, 2 * MAX_POINT, contexts=2)
_VISIBLE = Element("pose.visible", "pose", FLAG, contexts=3)
_ORIGIN = Element("pose.origin", "pose", SIGNED, MAX_POINT, contexts=2)
_POINT = Element("pose.point", "pose", SIGNED, 4 * MAX_POINT, contexts=2)


@dataclass(frozen=True, eq=False)
class Person:
    """One person in one frame."""

    identity: int
    """0 to 15, the same for one person over a group."""
    points: NDArray[np.int16]
    """(17, 2), x and y in pose units; 0 where a point is not visible."""
    visible: NDArray[np.bool_]
    """(17,): whether each point is visible."""
    moves_picture: bool = False
    """Whether frames are drawn with the motion of the person's limbs."""


People = tuple[Person, ...]


def pose_unit(geometry: scaffold.Geometry) -> float:
    """Pixels in one pose unit: a quarter of a cell."""
    return geometry.cell / 4


def _code(
    coder: Coder, _site: scaffold.Site, before: People | None, value: People | None
) -> People:
    """People of the sample before come first, in their order there, then new ones."""
    writing = not coder.reading
    if value is None and writing:
        raise ConfigError("this stream has pose: a sample needs people, if only an empty tuple")
    found = {person.identity: person for person in value or ()}
    if len(found) < len(value or ()):
        raise ConfigError("two people of one sample have the same identity")
    people: list[Person] = []
    for old in before or ():
        stays = int(old.identity in found) if writing else None
        if coder.code(_STAYS, stays):
            people.append(_code_person(coder, old.identity, old, found.get(old.identity)))
    known = {person.identity for person in before or ()}
    new = [person for person in value or () if person.identity not in known]
    while coder.code(_MORE, int(bool(new)) if writing else None):
        person = new.pop(0) if new else None
        identity = coder.code(_IDENTITY, person.identity if person else None)
        if any(other.identity == identity for other in people):
            raise BitstreamError("two people have the same identity: the stream is damaged")
        people.append(_code_person(coder, identity, None, person))
    return tuple(people)


def _code_person(coder: Coder, identity: int, old: Person | None, value: Person | None) -> Person:
    moves = coder.code(_MOVES_PICTURE, None if value is None else int(value.moves_picture))
    shift = [0, 0]
    if old is not None:
        guess = None if value is None else _common_shift(old, value)
        shift = [coder.code(_SHIFT, None if guess is None else guess[k], k) for k in (0, 1)]
    points = np.zeros((POINTS, 2), np.int16)
    visible = np.zeros(POINTS, np.bool_)
    last: list[int] | None = None
    for point in range(POINTS):
        was_visible = old is not None and bool(old.visible[point])
        context = 2 if old is None else int(was_visible)
        seen = None if value is None else int(value.visible[point])
        if not coder.code(_VISIBLE, seen, context):
            continue
        element, base = _POINT, last
        if old is not None and was_visible:
            base = [int(old.points[point, k]) + shift[k] for k in (0, 1)]
        elif last is None:
            element, base = _ORIGIN, [0, 0]
        target = None if value is None else value.points[point].tolist()
        last = _code_point(coder, element, base or [0, 0], target)
        points[point], visible[point] = last, True
    return Person(identity, points, visible, bool(moves))


def _code_point(
    coder: Coder, element: Element, base: list[int], target: list[int] | None
) -> list[int]:
    """A point's x and y, predicted by `base`."""
    found = [
        base[k] + coder.code(element, None if target is None else target[k] - base[k], k)
        for k in (0, 1)
    ]
    if max(map(abs, found)) > MAX_POINT:
        raise LimitError(f"a key point lies beyond {MAX_POINT} units")
    return found


def _common_shift(old: Person, new: Person) -> tuple[int, int]:
    both = old.visible & new.visible
    if not both.any():
        return 0, 0
    moved = new.points[both].astype(int) - old.points[both]
    return int(median(moved[:, 0].tolist())), int(median(moved[:, 1].tolist()))


def _digest(value: People) -> bytes:
    people = (
        scaffold.digest(one.identity, one.moves_picture, one.points, one.visible) for one in value
    )
    return scaffold.digest(len(value)) + b"".join(people)


POSE: scaffold.Layer[People] = scaffold.Layer(
    name="pose",
    scope=scaffold.Scope.SAMPLE,
    header_bit=1,
    default=False,
    code=_code,
    digest=_digest,
    absent=scaffold.ABSENT,
)
