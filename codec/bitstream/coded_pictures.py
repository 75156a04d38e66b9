"""Coded pictures: AV1 temporal units, and what of them a packet holds.

The open bitstream units (OBU) are those of the AV1 specification, section 5.3. A hierarchical AV1
sequence shows half of its pictures by naming a frame that was coded before. Most of the others
begin with much the same frame header. So the number of frames, their sizes and the head of each are
entropy-coded; all further bytes follow as they are. Of the sequence header only the difference from
the usual one is coded.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gsvc.codec.bitstream.container import Cutter, read_varint, varint
from gsvc.codec.bitstream.entropy_coding import FLAG, UNSIGNED, Coder, Element
from gsvc.codec.bitstream.errors import (
    DEFAULT_LIMITS,
    MAX_UNIT_FRAMES,
    MAX_UNIT_OBUS,
    BitstreamError,
    LimitError,
)
from gsvc.codec.bitstream.frame_heads import HEAD_ELEMENTS, Expected, HeadCoder

_HEAD_BYTES = 14
"""First bytes of a frame that are entropy-coded in streams without fitted probabilities."""
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
_HEAD = Element("frame.head", _LAYER, FLAG, 1, 2 * 8 * _HEAD_BYTES * 4, is_traced=False)
UNIT_ELEMENTS = _SEQUENCE, _UNUSUAL, _REPEATS, _SLOT, _HIDDEN, _SIZE, _HEAD, *HEAD_ELEMENTS
"""Every syntax element of coded pictures."""


@dataclass(frozen=True)
class TemporalUnit:
    """An AV1 temporal unit that shows one picture."""

    frames: tuple[bytes, ...]
    """Payloads of its frame OBUs: hidden frames, then the one shown, unless `slot` says which."""
    slot: int | None = None
    """The reference slot, 0 to 7, of an earlier frame that it shows."""
    sequence: bytes = b""
    """Payload of the sequence header OBU; only the first of a group has one."""


def plain_bytes(units: Iterable[TemporalUnit], *, fitted: bool) -> bytes:
    """The bytes of the units that are not entropy-coded; `fitted`: as of the stream's header."""
    heads, nothing = HeadCoder(Coder()), Expected(0, False, None, 0)
    return b"".join(
        frame[len(heads.code(frame, nothing)) if fitted else _HEAD_BYTES :]
        for unit in units
        for frame in unit.frames
    )


class UnitCoder:
    """Codes the pictures of one group, packet by packet, with `coder`."""

    def __init__(self, coder: Coder, usual_sequence: bytes, quantizer: int | None = None) -> None:
        """`usual_sequence`: the sequence header to expect; `quantizer`: about the base_q_idx of
        frames, None: heads are coded as in streams without fitted probabilities."""
        self._coder, self._usual, self._quantizer = coder, usual_sequence, quantizer
        self._fields = HeadCoder(coder)
        self.plain = b""
        """The bytes of the last packet's pictures that are not entropy-coded, for a writer."""
        self.forget()

    def forget(self) -> None:
        """Predict nothing from the packets before."""
        self._repeated = 0
        self._shown: int | None = None  # pictures of the sequence, where none can be lost
        self._fields.forget()
        # The last head of a hidden and of a shown frame.
        self._heads = [bytes(_HEAD_BYTES), bytes(_HEAD_BYTES)]

    def code(
        self,
        count: int,
        wanted: Sequence[TemporalUnit] | None,
        plain: bytes = b"",
        *,
        opens_group: bool,
    ) -> tuple[TemporalUnit, ...]:
        """The `count` pictures of a packet, those `wanted` or, for a reader, with these `plain`
        bytes. Raises BitstreamError."""
        rest, units = Cutter(plain), []
        self.plain = b""
        for n in range(count):
            unit = None if wanted is None else wanted[n]
            is_first, is_last = opens_group and n == 0, n == count - 1
            units.append(self._unit(unit, rest, is_first=is_first, is_last=is_last))
        if rest.left:
            raise BitstreamError("a packet is longer than its pictures: the stream is damaged")
        return tuple(units)

    def _unit(
        self, unit: TemporalUnit | None, rest: Cutter, *, is_first: bool, is_last: bool
    ) -> TemporalUnit:
        code = self._coder.code
        sequence = b""
        if is_first:
            sequence = self._sequence(None if unit is None else unit.sequence)
            self._shown = 0
        repeats = None if unit is None else int(unit.slot is not None)
        repeats = self._repeated = code(_REPEATS, repeats, self._repeated)
        slot = code(_SLOT, None if unit is None else unit.slot) if repeats else None
        given = None if unit is None else unit.frames
        hidden = None if given is None else len(given) - (not repeats)
        hidden = code(_HIDDEN, hidden, repeats)
        frames = []
        for n in range(hidden + (not repeats)):
            frame, layer = None if given is None else given[n], hidden - n
            opens, ends = is_first and n == 0, is_last and layer == 0
            frames.append(self._frame(frame, rest, layer, opens=opens, is_last=ends))
        self._shown = None if self._shown is None else self._shown + 1
        return TemporalUnit(tuple(frames), slot, sequence)

    def _sequence(self, sequence: bytes | None) -> bytes:
        """Code a sequence header: its size, less the usual one's modulo 256, and bits."""
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

    def _frame(
        self, frame: bytes | None, rest: Cutter, layer: int, *, opens: bool, is_last: bool
    ) -> bytes:
        """`layer`: frames of the unit after it; `is_last`: nothing of the packet follows it."""
        if self._quantizer is None:
            head, size = self._first_bytes(frame, rest, layer, is_last=is_last)
        else:
            hint = None if self._shown is None else (self._shown + (1 << layer) - 1) % 128
            head = self._fields.code(frame, Expected(layer, opens, hint, self._quantizer))
            size = rest.left
            if not is_last:
                left = None if frame is None else len(frame) - len(head)
                size = self._coder.code(_SIZE, left, min(layer, _LAYERS - 1))
        if frame is None:
            return head + rest.take(size)
        self.plain += frame[len(head) :]
        return frame

    def _first_bytes(
        self, frame: bytes | None, rest: Cutter, layer: int, *, is_last: bool
    ) -> tuple[bytes, int]:
        """The head of a frame in streams without fitted probabilities, and how much follows it."""
        left = rest.left if frame is None else len(frame) - _HEAD_BYTES
        if is_last and left > 0:
            size = _HEAD_BYTES + left
        else:
            context = min(layer, _LAYERS - 1)
            size = self._coder.code(_SIZE, None if frame is None else len(frame), context)
        is_shown = int(layer == 0)
        before = self._heads[is_shown]
        head = self._head(frame, min(size, _HEAD_BYTES), before, is_shown)
        self._heads[is_shown] = head + before[len(head) :]
        return head, size - len(head)

    def _head(self, frame: bytes | None, size: int, before: bytes, is_shown: int) -> bytes:
        """Each bit under the one at its place in the last such head, and the one before it."""
        past = int.from_bytes(before, "big")
        wanted = None if frame is None else int.from_bytes(frame[:size], "big")
        head = last = 0
        for place in range(8 * size):
            old = past >> 8 * _HEAD_BYTES - 1 - place & 1
            context = 4 * (8 * _HEAD_BYTES * is_shown + place) + 2 * old + last
            bit = None if wanted is None else wanted >> 8 * size - 1 - place & 1
            last = self._coder.code(_HEAD, bit, context)
            head = head << 1 | last
        return head.to_bytes(size, "big")


SEQUENCE_HEADER = 1
TEMPORAL_DELIMITER = 2
FRAME_HEADER = 3
TILE_GROUP = 4
METADATA = 5
FRAME = 6
REDUNDANT_FRAME_HEADER = 7
PADDING = 15

_SEQUENCE_SIZE_WITHIN = 64
"""First bytes of a sequence header, which always include the frame size."""
_USUAL_TOOLS = 0b11_1010_1011_1110_0000_0000_0001
"""The end of a usual sequence header, from frame_id_numbers_present_flag to the trailing one bit,
without the two zeros that it begins with."""
_NEEDLESS = (TEMPORAL_DELIMITER, METADATA, REDUNDANT_FRAME_HEADER, PADDING)
_PERMITTED = (SEQUENCE_HEADER, FRAME_HEADER, TILE_GROUP, METADATA, FRAME, REDUNDANT_FRAME_HEADER)


@dataclass(frozen=True)
class Obu:
    """One open bitstream unit."""

    kind: int
    spatial_layer: int
    data: bytes
    """The whole unit, with its header."""
    start: int
    """Where the payload begins in `data`."""


def strip_temporal_unit(unit: bytes) -> bytes:
    """Drop what packets make redundant: temporal delimiters, padding, the last unit's size."""
    kept = [obu for obu in split_units(unit) if obu.kind not in (TEMPORAL_DELIMITER, PADDING)]
    data = [obu.data for obu in kept]
    for obu in kept[-1:]:  # which needs no obu_has_size_field (section 5.3.1)
        head = 1 + (obu.data[0] >> 2 & 1)
        data[-1] = bytes([obu.data[0] & ~0b10]) + obu.data[1:head] + obu.data[obu.start :]
    return b"".join(data)


def sized_unit(kind: int, payload: bytes) -> bytes:
    """A bitstream unit that says how long it is."""
    return bytes([kind << 3 | 0b10]) + varint(len(payload)) + payload


def restore_temporal_unit(stripped: bytes) -> bytes:
    """Put back the temporal delimiter that `strip_temporal_unit` dropped."""
    return sized_unit(TEMPORAL_DELIMITER, b"") + stripped


def parted(unit: bytes) -> TemporalUnit:
    """The parts of a temporal unit, with or without what `strip_temporal_unit` drops.

    Raises BitstreamError for a unit that packets cannot hold: one with tile groups apart from their
    frame headers, or with several spatial layers.
    """
    sequence, slot = b"", None
    frames: list[bytes] = []
    for obu in split_units(unit, may_end_open=True):
        payload = obu.data[obu.start :]
        if slot is not None or (sequence and obu.kind == SEQUENCE_HEADER) or obu.spatial_layer:
            raise BitstreamError("an AV1 unit holds more than a picture: re-encode it")
        if obu.kind == SEQUENCE_HEADER and not frames and len(payload) <= SEQUENCE_BYTES:
            sequence = payload
        elif obu.kind == FRAME:
            frames.append(payload)
        elif obu.kind == FRAME_HEADER and len(payload) == 1 and payload[0] & 0x8F == 0x88:
            slot = payload[0] >> 4 & 7
        elif obu.kind not in _NEEDLESS:
            raise BitstreamError(f"an AV1 unit of type {obu.kind} cannot be stored: re-encode it")
    return TemporalUnit(tuple(frames), slot, sequence)


def joined(unit: TemporalUnit) -> bytes:
    """The temporal unit of these parts, as `strip_temporal_unit` leaves it."""
    parts = [(SEQUENCE_HEADER, unit.sequence)] if unit.sequence else []
    parts += [(FRAME, frame) for frame in unit.frames]
    if unit.slot is not None:
        parts.append((FRAME_HEADER, bytes([0x88 | unit.slot << 4])))
    *sized, (kind, payload) = parts
    return b"".join(sized_unit(*one) for one in sized) + bytes([kind << 3]) + payload


def check_temporal_unit(stripped: bytes, size: tuple[int, int]) -> None:
    """Refuse a unit that would cost an AV1 decoder more than one picture of `size` (width, height).

    Refused are units of another size, with several spatial layers, with other types of bitstream
    units, or with too many of them or too many hidden frames. The last frame, and no other, must be
    shown: else a second picture would come with the next unit. Raises BitstreamError, LimitError.
    """
    frames, is_shown = 0, False
    for count, obu in enumerate(split_units(stripped, may_end_open=True)):
        if obu.kind not in _PERMITTED or obu.spatial_layer:
            raise BitstreamError(f"a coded picture has an AV1 unit of type {obu.kind} out of place")
        if obu.kind in (FRAME_HEADER, FRAME):
            if is_shown:
                raise BitstreamError("a coded picture has an AV1 frame after the one that is shown")
            # show_existing_frame or show_frame of its header (section 5.9.2).
            first = obu.data[obu.start : obu.start + 1]
            frames, is_shown = frames + 1, bool(first and first[0] & 0b1001_0000)
        if count >= MAX_UNIT_OBUS or frames > MAX_UNIT_FRAMES:
            why = f"a coded picture has over {MAX_UNIT_FRAMES} AV1 frames or {MAX_UNIT_OBUS} units"
            raise LimitError(why)
        if obu.kind == SEQUENCE_HEADER:
            declared = sequence_size(obu.data[obu.start :])
            if declared != size:
                sizes = "{}x{}, its packet says {}x{}".format(*declared, *size)
                raise BitstreamError(f"a picture is coded at {sizes}: the stream is damaged")
    if not is_shown:
        raise BitstreamError("a picture has no AV1 frame that is shown: the stream is damaged")


def usual_sequence(size: tuple[int, int]) -> bytes:
    """The sequence header that SVT-AV1 3 and 4 write for pictures of (width, height).

    8 bits 4:2:0, one operating point, no timing (AV1, section 5.5.1); level 2.0, which larger
    pictures exceed.
    """
    most = [side - 1 for side in size]
    widths = [max(1, side.bit_length()) for side in most]
    value = (widths[0] - 1) << 4 | widths[1] - 1
    for side, width in zip(most, widths, strict=True):
        value = value << width | side
    value = value << _USUAL_TOOLS.bit_length() + 2 | _USUAL_TOOLS
    bits = 24 + 5 + 8 + sum(widths) + _USUAL_TOOLS.bit_length() + 2
    return (value << -bits % 8).to_bytes(-(-bits // 8), "big")


def sequence_size(sequence: bytes) -> tuple[int, int]:
    """Largest frame (width, height) that a sequence header's payload declares (AV1, section 5.5.1).

    Raises BitstreamError for one that is damaged or that packets cannot hold.
    """
    bits = _Bits(sequence[:_SEQUENCE_SIZE_WITHIN])
    bits.take(4)  # seq_profile, still_picture
    if bits.take(1):  # reduced_still_picture_header
        raise BitstreamError("a coded picture is an AV1 still image: re-encode it")
    _skip_operating_points(bits, _skip_timing(bits))
    width_bits, height_bits = bits.take(4) + 1, bits.take(4) + 1
    return bits.take(width_bits) + 1, bits.take(height_bits) + 1


class _Bits:
    """Reads a payload bit by bit, the most significant first."""

    def __init__(self, data: bytes) -> None:
        self._value, self._left = int.from_bytes(data, "big"), 8 * len(data)

    def take(self, count: int) -> int:
        """f(n) of the specification."""
        self._left -= count
        if self._left < 0:
            raise BitstreamError("an AV1 sequence header is cut short: the picture is damaged")
        return self._value >> self._left & (1 << count) - 1

    def take_uvlc(self) -> None:
        """uvlc() of the specification."""
        zeros = 0
        while not self.take(1):
            zeros += 1
        self.take(zeros if zeros < 32 else 0)


def _skip_timing(bits: _Bits) -> int:
    """Skip timing and decoder model; returns buffer_delay_length_minus_1 + 1, 0 without a model."""
    if not bits.take(1):  # timing_info_present_flag
        return 0
    bits.take(64)  # num_units_in_display_tick, time_scale
    if bits.take(1):  # equal_picture_interval
        bits.take_uvlc()
    if not bits.take(1):  # decoder_model_info_present_flag
        return 0
    delay_bits = bits.take(5) + 1
    bits.take(42)  # num_units_in_decoding_tick and two lengths
    return delay_bits


def _skip_operating_points(bits: _Bits, delay_bits: int) -> None:
    has_display_delay = bits.take(1)
    if bits.take(5):  # operating_points_cnt_minus_1
        raise BitstreamError("a coded picture has several AV1 operating points: re-encode it")
    bits.take(12)  # operating_point_idc
    if bits.take(5) > 7:  # seq_level_idx
        bits.take(1)  # seq_tier
    if delay_bits and bits.take(1):
        bits.take(2 * delay_bits + 1)
    if has_display_delay and bits.take(1):
        bits.take(4)


def split_units(data: bytes, *, may_end_open: bool = False) -> Iterator[Obu]:
    """The bitstream units of `data`; `may_end_open`: the last may lack its size, then ends it."""
    rest = Cutter(data, "an AV1 unit")
    while rest.left:
        start = rest.position
        head = rest.take(1)[0]
        layer = rest.take(1)[0] >> 3 & 3 if head >> 2 & 1 else 0
        if head >> 1 & 1:
            size = read_varint(rest.take)
        elif may_end_open:
            size = rest.left
        else:
            raise BitstreamError("an AV1 unit without a size field cannot be split: re-encode it")
        payload = rest.position
        rest.take(size)
        yield Obu(head >> 3 & 15, layer, data[start : rest.position], payload - start)
