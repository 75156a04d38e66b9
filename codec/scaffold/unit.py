"""Coded pictures as a packet has them: what of an AV1 temporal unit is not known beforehand.

A hierarchical AV1 sequence shows half of its pictures by naming a frame that was coded before, and
most of the others begin with much the same frame header. So the number of frames, their sizes and
the first bytes of each are entropy-coded; all further bytes follow as they are. The sequence header
is coded as what it differs in from the usual one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gsvc.codec.errors import BitstreamError
from gsvc.codec.limits import DEFAULT_LIMITS, MAX_UNIT_FRAMES
from gsvc.codec.scaffold.coder import FLAG, UNSIGNED, Coder, Element

HEAD_BYTES = 14
"""First bytes of a frame that are entropy-coded: about its header."""
_LAYERS = 6
_LAYER = "key pictures"

SEQUENCE_BYTES = 255
"""The most that a sequence header may take."""

_SIZES = SEQUENCE_BYTES + 1
_SEQUENCE = Element("unit.sequence", _LAYER, UNSIGNED, SEQUENCE_BYTES)
_UNUSUAL = Element("unit.unusual", _LAYER, FLAG, is_traced=False)
_REPEATS = Element("unit.repeats", _LAYER, FLAG, contexts=2)
_SLOT = Element("unit.slot", _LAYER, UNSIGNED, 7)
_HIDDEN = Element("unit.hidden", _LAYER, UNSIGNED, MAX_UNIT_FRAMES - 1, 2)
_SIZE = Element("frame.size", _LAYER, UNSIGNED, DEFAULT_LIMITS.packet_bytes, _LAYERS)
_HEAD = Element("frame.head", _LAYER, FLAG, 1, 2 * 8 * HEAD_BYTES * 4, is_traced=False)
UNIT_ELEMENTS = _SEQUENCE, _UNUSUAL, _REPEATS, _SLOT, _HIDDEN, _SIZE, _HEAD
"""Every syntax element of coded pictures."""


@dataclass(frozen=True)
class Unit:
    """An AV1 temporal unit that shows one picture."""

    frames: tuple[bytes, ...]
    """Payloads of its frame OBUs: hidden frames, then the one shown, unless `slot` says which."""
    slot: int | None = None
    """The reference slot, 0 to 7, of an earlier frame that it shows."""
    sequence: bytes = b""
    """Payload of the sequence header OBU; only the first of a group has one."""


def plain_bytes(units: Sequence[Unit]) -> bytes:
    """What of the units is not entropy-coded."""
    return b"".join(frame[HEAD_BYTES:] for unit in units for frame in unit.frames)


class UnitCoder:
    """Codes the pictures of one group, packet by packet, with `coder`."""

    def __init__(self, coder: Coder, usual_sequence: bytes) -> None:
        """`usual_sequence`: the sequence header to expect."""
        self._coder, self._usual = coder, usual_sequence
        self.forget()

    def forget(self) -> None:
        """Predict nothing from the packets before."""
        self._repeated = 0
        # The last head of a hidden and of a shown frame.
        self._heads = [bytes(HEAD_BYTES), bytes(HEAD_BYTES)]

    def code(
        self, count: int, wanted: Sequence[Unit] | None, plain: bytes, *, opens_group: bool
    ) -> tuple[Unit, ...]:
        """The `count` pictures of a packet; `plain` are their `plain_bytes`, all of them.

        Raises BitstreamError for invalid bytes.
        """
        rest, units = _Rest(plain), []
        for n in range(count):
            unit = None if wanted is None else wanted[n]
            is_first, is_last = opens_group and n == 0, n == count - 1
            units.append(self._unit(unit, rest, is_first=is_first, is_last=is_last))
        if rest.left:
            raise BitstreamError("a packet is longer than its pictures: the stream is damaged")
        return tuple(units)

    def _unit(self, unit: Unit | None, rest: "_Rest", *, is_first: bool, is_last: bool) -> Unit:
        code = self._coder.code
        sequence = b""
        if is_first:
            sequence = self._sequence(None if unit is None else unit.sequence)
        repeats = None if unit is None else int(unit.slot is not None)
        repeats = self._repeated = code(_REPEATS, repeats, self._repeated)
        slot = code(_SLOT, None if unit is None else unit.slot) if repeats else None
        given = None if unit is None else unit.frames
        hidden = None if given is None else len(given) - (not repeats)
        hidden = code(_HIDDEN, hidden, repeats)
        frames = []
        for n in range(hidden + (not repeats)):
            frame, layer = None if given is None else given[n], hidden - n
            frames.append(self._frame(frame, rest, layer, is_last=is_last and layer == 0))
        return Unit(tuple(frames), slot, sequence)

    def _sequence(self, sequence: bytes | None) -> bytes:
        """Its size, less the usual one's modulo 256, and bits."""
        more = None if sequence is None else (len(sequence) - len(self._usual)) % _SIZES
        size = (len(self._usual) + self._coder.code(_SEQUENCE, more)) % _SIZES
        usual = int.from_bytes(self._usual[:size].ljust(size, b"\0"), "big")
        wanted = None if sequence is None else int.from_bytes(sequence, "big")
        coded = 0
        for place in reversed(range(8 * size)):
            expected = usual >> place & 1
            unusual = None if wanted is None else wanted >> place & 1 ^ expected
            coded = coded << 1 | self._coder.code(_UNUSUAL, unusual) ^ expected
        return coded.to_bytes(size, "big")

    def _frame(self, frame: bytes | None, rest: "_Rest", layer: int, *, is_last: bool) -> bytes:
        """`layer`: frames of the unit after it; `is_last`: nothing of the packet follows it."""
        if is_last and rest.left:
            size = HEAD_BYTES + rest.left
        else:
            context = min(layer, _LAYERS - 1)
            size = self._coder.code(_SIZE, None if frame is None else len(frame), context)
        is_shown = int(layer == 0)
        before = self._heads[is_shown]
        head = self._head(frame, min(size, HEAD_BYTES), before, is_shown)
        self._heads[is_shown] = head + before[len(head) :]
        return head + rest.take(size - len(head))

    def _head(self, frame: bytes | None, size: int, before: bytes, is_shown: int) -> bytes:
        """Each bit under the one at its place in the last such head, and the one before it."""
        past = int.from_bytes(before, "big")
        wanted = None if frame is None else int.from_bytes(frame[:size], "big")
        head = last = 0
        for place in range(8 * size):
            old = past >> 8 * HEAD_BYTES - 1 - place & 1
            context = 4 * (8 * HEAD_BYTES * is_shown + place) + 2 * old + last
            bit = None if wanted is None else wanted >> 8 * size - 1 - place & 1
            last = self._coder.code(_HEAD, bit, context)
            head = head << 1 | last
        return head.to_bytes(size, "big")


class _Rest:
    """The plain bytes that are left."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise BitstreamError("a packet is shorter than its pictures: the stream is damaged")
        self._position += count
        return self._data[self._position - count : self._position]
