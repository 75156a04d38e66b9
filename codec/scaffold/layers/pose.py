"""How the poses of people are laid out in elements: each person against the same person before."""

from statistics import median

import numpy as np

from gsvc.codec.errors import BitstreamError, ConfigError, LimitError
from gsvc.codec.limits import MAX_POINT
from gsvc.codec.scaffold.coder import Coder
from gsvc.codec.scaffold.types import POINTS, Person


def code_people(
    coder: Coder, before: tuple[Person, ...], value: tuple[Person, ...] | None
) -> tuple[Person, ...]:
    """Code the people of one sample; `value` is None when reading.

    `before`: the people of the sample before; who stays comes first, in its order, then new people.
    Raises ConfigError when two people of `value` have the same identity, BitstreamError when two
    that are read have, and LimitError for a key point beyond `MAX_POINT` units.
    """
    writing = value is not None
    found = {person.identity: person for person in value or ()}
    if len(found) < len(value or ()):
        raise ConfigError("two people of one sample have the same identity")
    people: list[Person] = []
    for old in before:
        stays = int(old.identity in found) if writing else None
        if coder.code("pose.stays", stays):
            people.append(_code_person(coder, old.identity, old, found.get(old.identity)))
    known = {person.identity for person in before}
    new = [person for person in value or () if person.identity not in known]
    while coder.code("pose.more", int(bool(new)) if writing else None):
        person = new.pop(0) if new else None
        identity = coder.code("pose.identity", person.identity if person else None)
        if any(other.identity == identity for other in people):
            raise BitstreamError("two people have the same identity: the stream is damaged")
        people.append(_code_person(coder, identity, None, person))
    return tuple(people)


def _code_person(coder: Coder, identity: int, old: Person | None, value: Person | None) -> Person:
    moves = coder.code("pose.moves_picture", None if value is None else int(value.moves_picture))
    shift = [0, 0]
    if old is not None:
        guess = None if value is None else _common_shift(old, value)
        shift = [coder.code("pose.shift", None if guess is None else guess[k], k) for k in (0, 1)]
    points = np.zeros((POINTS, 2), np.int16)
    visible = np.zeros(POINTS, np.bool_)
    last: list[int] | None = None
    for point in range(POINTS):
        context = 2 if old is None else int(old.visible[point])
        seen = None if value is None else int(value.visible[point])
        if not coder.code("pose.visible", seen, context):
            continue
        target = None if value is None else value.points[point].tolist()
        element = "pose.point"
        if old is not None and old.visible[point]:
            base = [int(old.points[point, k]) + shift[k] for k in (0, 1)]
        elif last is not None:
            base = last
        else:
            base, element = [0, 0], "pose.origin"
        last = [
            base[k] + coder.code(element, None if target is None else target[k] - base[k], k)
            for k in (0, 1)
        ]
        if max(abs(last[0]), abs(last[1])) > MAX_POINT:
            raise LimitError(f"a key point lies beyond {MAX_POINT} units")
        points[point], visible[point] = last, True
    return Person(identity, points, visible, bool(moves))


def _common_shift(old: Person, new: Person) -> tuple[int, int]:
    both = old.visible & new.visible
    if not both.any():
        return 0, 0
    moved = new.points[both].astype(int) - old.points[both]
    return int(median(moved[:, 0].tolist())), int(median(moved[:, 1].tolist()))
