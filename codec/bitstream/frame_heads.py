"""Heads of AV1 frames: their uncompressed headers, coded field by field.

Such a header (AV1 specification, section 5.9.2) takes about 16 bytes, of frames that often have 40.
Most of it follows from the frames before: the order hint from the pictures shown, the references
from what the slots hold. The fields are read as SVT-AV1's usual sequence has them; what is read
wrongly of another is stored as well, but takes more bits. A head ends with the byte in which the
header ends: its length depends on the frame's own bytes alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gsvc.codec.bitstream.entropy_coding import FLAG, SIGNED, Coder, Element
from gsvc.codec.bitstream.errors import BitstreamError

_LAYER = "key pictures"
_FLAGS = (
    *("show_existing_frame", "frame_type.1", "frame_type.0", "show_frame", "showable_frame"),
    *("error_resilient_mode", "disable_cdf_update", "allow_screen_content_tools"),
    *("force_integer_mv", "frame_size_override_flag", "order_hint.usual", "refresh.none"),
    *("refresh.one", "render_size", "allow_intrabc", "frame_refs_short_signaling"),
    *("allow_high_precision_mv", "is_filter_switchable", "is_motion_mode_switchable"),
    *("use_ref_frame_mvs", "disable_frame_end_update_cdf", "uniform_tile_spacing_flag"),
    *("increment_tile_cols_log2", "increment_tile_rows_log2", "delta_coded.y", "delta_coded.u"),
    *("delta_coded.v", "using_qmatrix", "segmentation_enabled", "delta_q_present"),
    *("delta_lf_present", "loop_filter_sharpness.2", "loop_filter_sharpness.1"),
    *("loop_filter_sharpness.0", "loop_filter_delta_enabled", "tx_mode_select"),
    *("reference_select", "skip_mode_present", "allow_warped_motion", "reduced_tx_set"),
    *(*(f"is_global.{n}" for n in range(7)), "padding", "ends_early"),
)
_FLAG_NUMBERS = {name: n for n, name in enumerate(_FLAGS)}
_KINDS = 3  # kinds of frames: the one that opens a sequence, shown ones and hidden ones
_DEPTHS, _SLOTS, _REFERENCES = 5, 8, 7
_NUMBERS = 5
"""Most depths, filter levels, or different pictures in the slots that contexts tell apart."""


def _tree(name: str, width: int, contexts: int) -> Element:
    """A field of `width` bits, each coded under those before it."""
    return Element(f"head.{name}", _LAYER, FLAG, 1, contexts << width, is_traced=False)


def _near(name: str, width: int, contexts: int) -> Element:
    """A field of `width` bits, coded as its difference from what is expected."""
    return Element(f"head.{name}", _LAYER, SIGNED, (1 << width) - 1, contexts, is_traced=False)


_FLAG = _tree("flag", 0, len(_FLAGS) * _KINDS * 3)
_PLAIN = _tree("plain", 0, 1)
_PRIMARY = _tree("primary_ref_frame", 3, _KINDS * 9)
_REFRESH = _tree("refresh_slot", 3, _DEPTHS * (_SLOTS + 1))
_REFERENCE = _tree("reference", 3, _REFERENCES * _NUMBERS * (_SLOTS + 1))
_QUANTIZER = _near("base_q_idx", 8, 2 * _KINDS * _NUMBERS)
_FILTER = _near("loop_filter_level", 6, 2 * _KINDS * _NUMBERS)
_CDEF = {"damping": 2, "bits": 2, "y_pri": 4, "y_sec": 2, "uv_pri": 4, "uv_sec": 2}
_DAMPING, _CDEF_BITS, *_STRENGTHS = (
    _tree(f"cdef_{name}", width, _KINDS * 5) for name, width in _CDEF.items()
)
HEAD_ELEMENTS = (
    *(_FLAG, _PLAIN, _PRIMARY, _REFRESH, _REFERENCE, _QUANTIZER, _FILTER, _DAMPING, _CDEF_BITS),
    *_STRENGTHS,
)
"""Every syntax element of heads."""
_PARENTS = {1: 0, 2: 0, 3: 0, 5: 4, 6: 4}  # the reference by which another is predicted
_USUAL_FILTER = 24
_MOST_BYTES = 32  # no head is longer


class Expected(NamedTuple):
    """What is known of a frame before its head."""

    depth: int
    """Frames of its unit after it; 0 for the one shown."""
    opens: bool
    """Whether it opens its AV1 sequence."""
    hint: int | None
    """Its order hint, 0 to 127, of 7 bits; None where packets before it may be lost."""
    quantizer: int
    """About its base_q_idx."""


class HeadCoder:
    """Codes the heads of the frames of one AV1 sequence, in order, with `coder`."""

    def __init__(self, coder: Coder) -> None:
        self._coder = coder
        self._depth = self._kind = 0
        self.forget()

    def forget(self) -> None:
        """Predict nothing from the frames before."""
        self._hints: list[int | None] = [None] * _SLOTS
        self._seen: dict[tuple[str, int, int], int] = {}

    def code(self, frame: bytes | None, expected: Expected) -> bytes:
        """The head of a frame, of its payload or, for a reader, None.

        It is empty for a frame that ends earlier than a head, which is no whole AV1 frame. Raises
        BitstreamError for a field read out of range.
        """
        self._depth = min(expected.depth, _DEPTHS - 1)
        self._kind = 0 if expected.opens else 1 + (self._depth > 0)
        is_early = None if frame is None else int(_ends_early(frame, expected))
        if self._coded_flag("ends_early", is_early):
            return b""
        return self._fields(frame, expected)

    def _fields(self, frame: bytes | None, expected: Expected) -> bytes:
        self._given = None if frame is None else int.from_bytes(frame[:_MOST_BYTES], "big")
        self._size = 0 if frame is None else 8 * min(_MOST_BYTES, len(frame))
        self._value = self._count = 0
        is_whole = self._header(expected)
        while self._count % 8:
            if is_whole:
                self._flag("padding")
            else:
                self._put(self._coder.code(_PLAIN, self._next(1)), 1)
        return self._value.to_bytes(self._count // 8, "big")

    def _header(self, expected: Expected) -> bool:
        """uncompressed_header of the specification; False where the rest of it is plain."""
        self._flag("show_existing_frame")
        is_key = not self._flag("frame_type.1")  # or an inter frame
        is_intra = not self._flag("frame_type.0")
        shows = self._flag("show_frame")
        is_key = is_key and is_intra and bool(shows)
        if not shows:
            self._flag("showable_frame")
        resilient = is_key or bool(self._flag("error_resilient_mode"))
        keeps_cdfs = self._flag("disable_cdf_update")
        is_screen = self._flag("allow_screen_content_tools")
        has_integers = is_screen and self._flag("force_integer_mv")
        self._flag("frame_size_override_flag")
        hint = self._order_hint(expected.hint)
        if not (is_intra or resilient):
            self._seen_tree(_PRIMARY, 3, 3)
        refreshed = 255 if is_key else self._refreshed()
        if is_intra:
            references: Sequence[int] = ()
            self._flag("render_size")
            copies = is_screen and self._flag("allow_intrabc")
        else:
            copies = 0
            references = self._inter(hint, bool(has_integers), resilient)
        if not keeps_cdfs:
            self._flag("disable_frame_end_update_cdf")
        self._hints = [hint if refreshed >> n & 1 else old for n, old in enumerate(self._hints)]
        return self._coding(expected.quantizer, bool(copies)) and self._modes(references, resilient)

    def _order_hint(self, usual: int | None) -> int:
        given = self._next(7)
        is_usual = None if given is None else int(given == usual)
        is_usual = self._coded_flag("order_hint.usual", is_usual)
        if is_usual and usual is not None:
            return self._put(usual, 7)
        return self._plain(7)

    def _refreshed(self) -> int:
        """refresh_frame_flags."""
        given = self._next(_SLOTS)
        none = None if given is None else int(given == 0)
        if self._coded_flag("refresh.none", none):
            return self._put(0, _SLOTS)
        one = None if given is None else int(given.bit_count() == 1)
        if not self._coded_flag("refresh.one", one):
            return self._plain(_SLOTS)
        slot = None if given is None else given.bit_length() - 1
        last = self._seen.get(("slot", 0, self._depth), _SLOTS)
        slot = self._branch(_REFRESH, slot, 3, self._depth * (_SLOTS + 1) + last)
        self._seen["slot", 0, self._depth] = slot
        return self._put(1 << slot, _SLOTS)

    def _inter(self, hint: int, has_integers: bool, resilient: bool) -> Sequence[int]:
        """What only inter frames have; returns their references."""
        self._flag("frame_refs_short_signaling")
        references = self._references(hint)
        self._flag("render_size")
        if not has_integers:
            self._flag("allow_high_precision_mv")
        if not self._flag("is_filter_switchable"):
            self._plain(2)
        self._flag("is_motion_mode_switchable")
        if not resilient:
            self._flag("use_ref_frame_mvs")
        return references

    def _references(self, hint: int) -> list[int]:
        """ref_frame_idx: ranks of slots, the nearest first, of the past or of the future."""
        known = min(len({one for one in self._hints if one is not None}), _NUMBERS - 1)
        past, future = (
            sorted(range(_SLOTS), key=lambda slot: self._distance(slot, hint, is_future))
            for is_future in (False, True)
        )
        ranks: list[int] = []
        slots = []
        for n in range(_REFERENCES):
            near, given = past if n < 4 else future, self._next(3)
            rank = None if given is None else near.index(given)
            parent = ranks[_PARENTS[n]] if n in _PARENTS else _SLOTS
            context = (n * _NUMBERS + known) * (_SLOTS + 1) + parent
            ranks.append(self._branch(_REFERENCE, rank, 3, context))
            slots.append(self._put(near[ranks[-1]], 3))
        return slots

    def _distance(self, slot: int, hint: int, is_future: bool) -> int:
        held = self._hints[slot]
        apart = 0 if held is None else (held - hint + 64) % 128 - 64
        return 256 if held is None else abs(apart) + 128 * ((apart >= 0) != is_future)

    def _coding(self, quantizer: int, copies: bool) -> bool:
        """Tiles, quantisers and filters."""
        for name in ("uniform_tile_spacing_flag", "increment_tile_cols_log2"):
            self._flag(name)
        self._flag("increment_tile_rows_log2")
        self._field(_QUANTIZER, quantizer, self._depth)
        for name in ("delta_coded.y", "delta_coded.u", "delta_coded.v"):
            if self._flag(name):
                self._plain(7)
        if self._flag("using_qmatrix"):
            self._plain(8)
        if self._flag("segmentation_enabled"):
            return False
        if self._flag("delta_q_present"):
            self._plain(2)
            if not copies and self._flag("delta_lf_present"):
                self._plain(3)
        return copies or self._filters()

    def _filters(self) -> bool:
        first = self._field(_FILTER, _USUAL_FILTER, 0)
        if first | self._field(_FILTER, first, 1, of_last=False):
            of_u = self._field(_FILTER, first, 2)
            self._field(_FILTER, of_u * 3 // 4, 3, of_last=False)
        for n in (2, 1, 0):
            self._flag(f"loop_filter_sharpness.{n}")
        if self._flag("loop_filter_delta_enabled"):
            return False
        self._seen_tree(_DAMPING, 2)
        for _ in range(1 << self._seen_tree(_CDEF_BITS, 2)):
            for element, width in zip(_STRENGTHS, (4, 2, 4, 2), strict=True):
                self._seen_tree(element, width)
        return True

    def _modes(self, references: Sequence[int], resilient: bool) -> bool:
        """What comes last."""
        self._flag("tx_mode_select")
        if references and self._flag("reference_select") and len(set(references)) > 1:
            self._flag("skip_mode_present")
        if references and not resilient:
            self._flag("allow_warped_motion")
        self._flag("reduced_tx_set")
        return not (references and any(self._flag(f"is_global.{n}") for n in range(7)))

    def _flag(self, name: str) -> int:
        return self._put(self._coded_flag(name, self._next(1)), 1)

    def _coded_flag(self, name: str, given: int | None) -> int:
        """A flag, which need not be in the header, under the last of its name and kind."""
        key = name, self._kind, 0
        context = 3 * (_KINDS * _FLAG_NUMBERS[name] + self._kind) + self._seen.get(key, 2)
        flag = self._seen[key] = self._coder.code(_FLAG, given, context)
        return flag

    def _seen_tree(self, element: Element, width: int, known: int = 2) -> int:
        """A field under the highest `known` bits of the last of its kind."""
        key, unseen = (element.name, self._kind, 0), 1 << known
        context = self._kind * (unseen + 1) + self._seen.get(key, unseen)
        value = self._branch(element, self._next(width), width, context)
        self._seen[key] = value >> width - known
        return self._put(value, width)

    def _branch(self, element: Element, given: int | None, width: int, context: int) -> int:
        node = 1
        for place in reversed(range(width)):
            bit = None if given is None else given >> place & 1
            node = node << 1 | self._coder.code(element, bit, (context << width) + node)
        return node - (1 << width)

    def _field(self, element: Element, usual: int, number: int, *, of_last: bool = True) -> int:
        """A field as its difference from the last one of this kind, else from `usual`."""
        key, width = (element.name, self._kind, number), element.maximum.bit_length()
        last = self._seen.get(key) if of_last else None
        context = ((last is None) * _KINDS + self._kind) * _NUMBERS + number
        given, base = self._next(width), usual if last is None else last
        value = base + self._coder.code(element, None if given is None else given - base, context)
        if not 0 <= value <= element.maximum:
            raise BitstreamError("a field of an AV1 frame is out of range: the stream is damaged")
        self._seen[key] = value
        return self._put(value, width)

    def _plain(self, width: int) -> int:
        """A field whose bits are coded alike, wherever they are."""
        given, value = self._next(width), 0
        for place in reversed(range(width)):
            bit = None if given is None else given >> place & 1
            value = value << 1 | self._coder.code(_PLAIN, bit)
        return self._put(value, width)

    def _next(self, width: int) -> int | None:
        """The next bits of the frame that is given."""
        if self._given is None:
            return None
        left = self._size - self._count - width
        if left < 0:
            raise BitstreamError("an AV1 frame ends in its header: it is damaged")
        return self._given >> left & (1 << width) - 1

    def _put(self, value: int, width: int) -> int:
        self._value, self._count = self._value << width | value, self._count + width
        return value


def _ends_early(frame: bytes, expected: Expected) -> bool:
    if len(frame) >= _MOST_BYTES:
        return False
    try:
        HeadCoder(Coder())._fields(frame, expected)
    except BitstreamError:
        return True
    return False
