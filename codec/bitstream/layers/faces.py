"""Faces: how they move and speak over an interval; even motion would have them stand still."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream import scaffold
from gsvc.codec.bitstream.entropy_coding import FLAG, SIGNED, UNSIGNED, Coder, Element
from gsvc.codec.bitstream.errors import ConfigError, LimitError
from gsvc.codec.bitstream.layers.camera import camera_nodes

MAX_FACES = 4
"""Most faces of an interval."""
POSE_NUMBERS = 4
EXPRESSIONS = 6
NUMBERS = POSE_NUMBERS + EXPRESSIONS
"""Numbers of a face's state: x, y, right and down in face units, then weights of expressions. At
(x, y) is the face's origin; (right, down) is its x axis, as long as its eyes are apart."""
MAX_NUMBER = 1 << 16
"""Largest magnitude of one of them."""

_PRESENT = Element("faces.present", "faces", FLAG, contexts=2)
_GOES_ON = Element("faces.goes_on", "faces", FLAG)
_STATE = Element("faces.state", "faces", SIGNED, 2 * MAX_NUMBER, contexts=3)
_CHANGE = Element("faces.change", "faces", SIGNED, 2 * MAX_NUMBER, contexts=3)
_STEP = Element("faces.step", "faces", UNSIGNED, 4)
_STAYS = Element("faces.stays", "faces", FLAG, contexts=2)
_BEND = Element("faces.bend", "faces", SIGNED, 2 * MAX_NUMBER, contexts=NUMBERS)

Numbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Face:
    """One face over an interval."""

    start: Numbers
    """(10,): its state at the coded picture before the interval, or at the one that is held."""
    end: Numbers
    """(10,): its state at the coded picture that ends the interval; of held frames as `start`."""
    step_log2: int
    """0 to 4: nodes are 2^step_log2 frames apart."""
    bends: Numbers
    """(nodes, 10): its state less a straight line from `start` to `end`, at `camera_nodes`."""


Faces = tuple[Face | None, ...]
"""Faces by slot, 0 to 3, in which a face stays from interval to interval; None: none."""


def face_unit(geometry: scaffold.Geometry) -> float:
    """Pixels in one face unit: a sixteenth of a cell."""
    return geometry.cell / 16


def _code(
    coder: Coder, site: scaffold.Site, before: Faces | None, value: Faces | None
) -> Faces | None:
    if site.length == 1 and site.place is not scaffold.Place.AFTER:
        return None  # A coded picture alone: nothing moves.
    faces: list[Face | None] = []
    for slot in range(MAX_FACES):
        old = before[slot] if before else None
        face = value[slot] if value else None
        present = None if coder.reading else int(face is not None)
        if not coder.code(_PRESENT, present, int(old is not None)):
            faces.append(None)
            continue
        faces.append(_code_face(coder, site, None if old is None else old.end, face))
    return tuple(faces) if any(face is not None for face in faces) else None


def _code_face(coder: Coder, site: scaffold.Site, old: Numbers | None, face: Face | None) -> Face:
    start = _code_start(coder, old, None if face is None else face.start)
    end = start
    if site.place is scaffold.Place.BETWEEN:
        end = _code_state(coder, _CHANGE, start, None if face is None else face.end)
    elif face is not None and not np.array_equal(face.end, face.start):
        raise ConfigError("a face in held frames ends as it starts")
    step_log2 = coder.code(_STEP, None if face is None else face.step_log2)
    nodes = len(camera_nodes(site.place, site.length, step_log2))
    if face is not None and face.bends.shape != (nodes, NUMBERS):
        raise ConfigError(f"bends of a face of {face.bends.shape}: {(nodes, NUMBERS)} is needed")
    bends, last, stayed = np.zeros((nodes, NUMBERS), np.int32), np.zeros(NUMBERS, np.int32), 0
    for node in range(nodes):
        wanted = None if face is None else face.bends[node]
        stays = None if wanted is None else int(np.array_equal(wanted, last))
        stayed = coder.code(_STAYS, stays, stayed)
        bends[node] = last = last if stayed else _code_bend(coder, last, wanted)
    return Face(start, end, step_log2, bends)


def _code_start(coder: Coder, old: Numbers | None, wanted: Numbers | None) -> Numbers:
    """A state that goes on from the interval before, or the first one."""
    if old is None:
        return _code_state(coder, _STATE, np.zeros(NUMBERS, np.int32), wanted)
    goes_on = None if wanted is None else int(np.array_equal(wanted, old))
    return old if coder.code(_GOES_ON, goes_on) else _code_state(coder, _CHANGE, old, wanted)


def _code_state(coder: Coder, element: Element, base: Numbers, wanted: Numbers | None) -> Numbers:
    contexts = 0, 0, 1, 1, *(2,) * EXPRESSIONS
    more = None if wanted is None else (wanted - base).tolist()
    coded = [
        coder.code(element, None if more is None else more[k], context)
        for k, context in enumerate(contexts)
    ]
    return _checked(base + np.array(coded, np.int64))


def _code_bend(coder: Coder, last: Numbers, wanted: Numbers | None) -> Numbers:
    more = None if wanted is None else (wanted - last).tolist()
    coded = [coder.code(_BEND, None if more is None else more[k], k) for k in range(NUMBERS)]
    return _checked(last + np.array(coded, np.int64))


def _checked(numbers: NDArray[np.integer]) -> Numbers:
    if np.abs(numbers).max() > MAX_NUMBER:
        raise LimitError(f"a face's state goes beyond {MAX_NUMBER}")
    return numbers.astype(np.int32)


def _digest(value: Faces) -> bytes:
    parts = (
        scaffold.digest(slot, face.start, face.end, face.step_log2, face.bends)
        for slot, face in enumerate(value)
        if face is not None
    )
    return b"".join(parts)


FACES: scaffold.Layer[Faces] = scaffold.Layer(
    name="faces",
    scope=scaffold.Scope.INTERVAL,
    header_bit=None,
    default=True,
    code=_code,
    digest=_digest,
)
