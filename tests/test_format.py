"""docs/format.md is enough: a second decoder, written from it alone, reads the same integers.

It uses only the types of gsvc to compare with. Keep it in step with the page, not with the code.
"""

import json
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import islice, pairwise
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gsvc import StreamReader
from gsvc.codec.bitstream.coded_pictures import strip_temporal_unit
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.layers.camera import Camera
from gsvc.codec.bitstream.layers.faces import Face, Faces
from gsvc.codec.bitstream.layers.flow import Correction
from gsvc.codec.bitstream.layers.pose import Person
from gsvc.codec.bitstream.layers.texture import Texture
from gsvc.codec.bitstream.objects import KINDS as KINDS_OF_OBJECTS, ObjectReader
from gsvc.codec.bitstream.scaffold import Interval, Place, Sample
from gsvc.codec.bitstream.stream_info import scaffold_bytes
from scaffolds import make_interval, make_sample

ROOT = Path(__file__).resolve().parent.parent
FORMAT = (ROOT / "docs" / "format.md").read_text()
FIELDS = [
    (name, int(bits))
    for name, bits in re.findall(r"^\| `(\w+)` \| (\d+) \|$", FORMAT, re.MULTILINE)
]
KINDS = dict(re.findall(r"^\| `(\w+\.\w+)` \| (\w+) \|", FORMAT, re.MULTILINE))
HEAD = FORMAT[FORMAT.index("    head(n):") : FORMAT.index("    rest:  ")]
FLAGS = [
    name.replace(".i", f".{i}").replace(".p", f".{i}")
    for name in dict.fromkeys(re.findall(r"[Ff]\(([\w.]+)\)", HEAD))
    for i in {"delta_coded.p": "yuv", "loop_filter_sharpness.i": "210"}.get(
        name, "0123456" if name == "is_global.i" else "-"
    )
]
FLAGS.append(FLAGS.pop(0))
"""Of heads of AV1 frames, in the order of their numbers."""
GOLDEN = sorted(Path(__file__).parent.glob("golden/*.gsv"))


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def rest(self) -> bytes:
        return self.data[self.at :]

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value


class Elements:
    """Range decoder, models and elements: section 5."""

    def __init__(self, fitted: int = 0) -> None:
        table = json.loads((ROOT / "codec/bitstream/fitted.json").read_text()) if fitted else {}
        self.fitted = {(name, *row[:3]): row[3] for name, rows in table.items() for row in rows}
        self.models: dict[tuple[Any, ...], list[int]] = {}

    def start(self, data: bytes) -> None:
        self.bytes = Bytes(data + bytes(4096))
        self.low, self.range = 0, 2**64 - 1
        self.point = int.from_bytes(self.bytes.take(8), "big")

    def renew(self, which: Callable[[str], bool]) -> None:
        self.models = {key: model for key, model in self.models.items() if not which(key[0])}

    def bit(self, p: int) -> int:
        split = ((4096 - p) * (2**24 - 2)) // 4096 + 1
        scale = self.range // 2**24
        q = ((self.point - self.low) % 2**64) // scale
        bit, start, end = (0, 0, split) if q < split else (1, split, 2**24)
        self.low = (self.low + scale * start) % 2**64
        self.range = scale * (end - start)
        if self.range < 2**32:
            self.low, self.range = (self.low << 32) % 2**64, self.range << 32
            self.point = (self.point << 32) % 2**64 + int.from_bytes(self.bytes.take(4), "big")
        return bit

    def m(self, name: str, context: int, kind: str, e: int = 0) -> int:
        key = name, context, kind, e
        if key not in self.models:
            self.models[key] = [256 * self.fitted[key], 5] if key in self.fitted else [32768, 0]
        model = self.models[key]
        one, count = model
        bit = self.bit(min(max(one // 16, 24), 4072))
        one += ((65535 if bit else 0) - one) * 2 // (2 * count + 3)
        model[:] = one, min(count + 1, 14)
        return bit

    def __call__(self, name: str, context: int = 0) -> int:
        if KINDS[name] == "flag":
            return self.m(name, context, "flag")
        e = 0
        while self.m(name, context, "exponent", e):
            e += 1
        value = 1
        for place in reversed(range(e)):
            b = self.m(name, context, "mantissa", e) if place == e - 1 else self.bit(2048)
            value = 2 * value + b
        value -= 1
        negative = KINDS[name] == "signed" and value > 0 and self.m(name, context, "sign")
        return -value if negative else value


class Heads:
    """Heads of AV1 frames by their fields: section 6, `head`."""

    def __init__(self, code: Elements, crf: int) -> None:
        self.code, self.crf = code, crf
        self.forget()

    def forget(self) -> None:
        self.last: dict[tuple[Any, ...], int] = {}
        self.hints: list[int | None] = [None] * 8

    def read(self, n: int, opens: bool, usual: int | None) -> bytes:
        self.depth, self.kind = min(n, 4), 0 if opens else 1 if n == 0 else 2
        self.bits = ""
        if not self.f("ends_early"):
            whole = self.fields(usual)
            while len(self.bits) % 8:
                _ = self.F("padding") if whole else self.P(1)
        return bytes(int(self.bits[at : at + 8], 2) for at in range(0, len(self.bits), 8))

    def put(self, value: int, width: int) -> int:
        self.bits += f"{value:0{width}b}"
        return value

    def f(self, name: str) -> int:
        key = name, self.kind
        context = 9 * FLAGS.index(name) + 3 * self.kind + self.last.get(key, 2)
        self.last[key] = self.code("head.flag", context)
        return self.last[key]

    def t(self, name: str, width: int, context: int) -> int:
        node = 1
        for _ in range(width):
            node = 2 * node + self.code(f"head.{name}", (context << width) + node)
        return node - (1 << width)

    def F(self, name: str) -> int:
        return self.put(self.f(name), 1)

    def S(self, name: str, width: int, known: int) -> int:
        key = name, self.kind
        old = self.last.get(key, 2**known)
        value = self.put(self.t(name, width, self.kind * (2**known + 1) + old), width)
        self.last[key] = value >> (width - known)
        return value

    def D(self, name: str, width: int, i: int, usual: int) -> int:
        key = name, self.kind, i
        if key in self.last and not (name == "loop_filter_level" and i % 2):
            value = self.last[key] + self.code(f"head.{name}", 5 * self.kind + i)
        else:
            value = usual + self.code(f"head.{name}", 5 * (self.kind + 3) + i)
        assert 0 <= value < 2**width
        self.last[key] = value
        return self.put(value, width)

    def P(self, width: int) -> int:
        bits = [str(self.code("head.plain")) for _ in range(width)]
        return self.put(int("".join(bits), 2), width)

    def fields(self, usual: int | None) -> bool:
        """Whether the whole header was read; else the rest is plain."""
        f, F, P = self.f, self.F, self.P
        F("show_existing_frame")
        low, intra, shows = not F("frame_type.1"), not F("frame_type.0"), F("show_frame")
        if not shows:
            F("showable_frame")
        key = low and intra and shows
        resilient = key or F("error_resilient_mode")
        fixed = F("disable_cdf_update")
        screen = F("allow_screen_content_tools")
        integer = screen and F("force_integer_mv")
        F("frame_size_override_flag")
        known = f("order_hint.usual") and usual is not None
        hint = self.put(usual or 0, 7) if known else P(7)
        if not intra and not resilient:
            self.S("primary_ref_frame", 3, 3)
        refresh = 255 if key else self.refresh()
        copy, references = 0, [0]
        if intra:
            F("render_size")
            copy = screen and F("allow_intrabc")
        else:
            F("frame_refs_short_signaling")
            references = self.references(hint)
            F("render_size")
            _ = integer or F("allow_high_precision_mv")
            _ = F("is_filter_switchable") or P(2)
            F("is_motion_mode_switchable")
            _ = resilient or F("use_ref_frame_mvs")
        if not fixed:
            F("disable_frame_end_update_cdf")
        self.hints = [hint if refresh >> n & 1 else old for n, old in enumerate(self.hints)]
        if not self.quantizers(copy) or not (copy or self.filters()):
            return False
        F("tx_mode_select")
        if not intra and F("reference_select") and len(set(references)) > 1:
            F("skip_mode_present")
        if not intra and not resilient:
            F("allow_warped_motion")
        F("reduced_tx_set")
        return intra or not any(F(f"is_global.{i}") for i in range(7))

    def refresh(self) -> int:
        if self.f("refresh.none"):
            return self.put(0, 8)
        if not self.f("refresh.one"):
            return self.P(8)
        key = "slot", self.depth
        slot = self.last[key] = self.t("refresh_slot", 3, 9 * self.depth + self.last.get(key, 8))
        return self.put(1 << slot, 8)

    def references(self, hint: int) -> list[int]:
        known = min(4, len(set(self.hints) - {None}))
        ranks: list[int] = []
        slots = []
        for i in range(7):

            def distance(slot: int, i: int = i) -> int:
                held = self.hints[slot]
                if held is None:
                    return 256
                d = (held - hint + 64) % 128 - 64
                return abs(d) + 128 * ((d >= 0) == (i < 4))

            up = 8 if i in (0, 4) else ranks[i // 4 * 4]
            ranks.append(self.t("reference", 3, 9 * (5 * i + known) + up))
            slots.append(self.put(sorted(range(8), key=distance)[ranks[-1]], 3))
        return slots

    def quantizers(self, copy: int) -> bool:
        F, P = self.F, self.P
        F("uniform_tile_spacing_flag")
        F("increment_tile_cols_log2")
        F("increment_tile_rows_log2")
        self.D("base_q_idx", 8, self.depth, min(255, 4 * self.crf))
        for plane in "yuv":
            _ = F(f"delta_coded.{plane}") and P(7)
        _ = F("using_qmatrix") and P(8)
        if F("segmentation_enabled"):
            return False
        if F("delta_q_present"):
            P(2)
            _ = not copy and F("delta_lf_present") and P(3)
        return True

    def filters(self) -> bool:
        a = self.D("loop_filter_level", 6, 0, 24)
        b = self.D("loop_filter_level", 6, 1, a)
        if a or b:
            c = self.D("loop_filter_level", 6, 2, a)
            self.D("loop_filter_level", 6, 3, c * 3 // 4)
        for i in (2, 1, 0):
            self.F(f"loop_filter_sharpness.{i}")
        if self.F("loop_filter_delta_enabled"):
            return False
        self.S("cdef_damping", 2, 2)
        for _ in range(2 ** self.S("cdef_bits", 2, 2)):
            for plane in ("y", "uv"):
                self.S(f"cdef_{plane}_pri", 4, 2)
                self.S(f"cdef_{plane}_sec", 2, 2)
        return True


class Clock:
    def __init__(self, ticks: Fraction) -> None:
        self.step, self.half, self.tick = (
            4 * ticks.numerator,
            2 * ticks.denominator,
            4 * ticks.denominator,
        )
        self.low, self.guess, self.high = -self.half, 0, self.half

    def predict(self) -> int:
        return max(1, (self.step + self.guess + self.half) // self.tick)

    def learn(self, t: int) -> None:
        late = self.step - t * self.tick
        self.low = max(self.low + late, -self.half)
        self.high = min(self.high + late, self.half)
        if self.low >= self.high:
            self.low, self.guess, self.high = -self.half, 0, self.half
        else:
            self.guess = min(max(self.guess + late, self.low + 1), self.high - 1)


class Seen:
    """What section 10 remembers."""

    def __init__(self, code: Elements) -> None:
        self.code = code
        self.clock: Clock
        self.people: tuple[Person, ...] = ()
        self.objects: dict[int, SimpleNamespace] = {}
        self.gap, self.last, self.activity, self.camera = 1, 65535, 0, [0] * 4
        self.names = list(KINDS_OF_OBJECTS)


STATE = (
    *("code", "layers", "faces", "coded_size", "alone", "clock", "labels", "people"),
    *("correction", "texture", "guide", "usual", "repeats", "heads"),
    *("fields", "count"),
)
"""What a slot remembers."""


class Plain:
    """A decoder of scaffolds: sections 1 to 7."""

    def __init__(self, data: bytes) -> None:
        self.data = Bytes(data)
        header = self.data.take(32)
        assert header[:4] == b"GSV\x01" and crc32c(header[:28]) == int.from_bytes(
            header[28:], "little"
        )
        number = int.from_bytes(header[4:28], "big")
        self.header: dict[str, int] = {}
        for name, bits in reversed(FIELDS):
            self.header[name] = number % 2**bits
            number >>= bits
        self.units: list[bytes] = []
        self.runs: list[list[Any]] = []
        self.people: tuple[Person, ...] = ()
        self.cell = max(8, round(min(self.header["width"], self.header["height"]) / 36))

    def grid(self, side: int) -> tuple[int, int]:
        return ceil(self.header["height"] / side), ceil(self.header["width"] / side)

    def intervals(self) -> Iterator[Interval]:
        pictures = 0
        while True:
            start = self.data.at
            tag, frames = self.data.varint(), self.data.varint()
            payload = Bytes(self.data.take(tag >> 4))
            body = self.data.data[start : self.data.at]
            assert crc32c(body) == int.from_bytes(self.data.take(4), "little")
            if tag & 15 == 0:
                assert payload.varint() == pictures and self.data.at == len(self.data.data)
                return
            if tag & 15 == 10:
                self.runs.append(self.objects(payload))
            if tag & 15 in (1, 2, 3):
                pictures += 1
                yield from self.picture(tag & 15, payload, frames)

    def picture(self, kind: int, payload: Bytes, frames: int) -> Iterator[Interval]:
        first = kind == 1
        if first:
            self.slots: dict[int, dict[str, Any]] = {}
            self.counts, self.slot = [0] * 4, 0
        elif kind == 3:
            assert self.header["returns"]
            self.slots[self.slot] = {name: getattr(self, name) for name in STATE}
            (byte,) = payload.take(1)
            self.slot, turn = byte % 4, byte // 4
            first, count = turn == 0, self.counts[self.slot]
            if first:
                self.counts[self.slot] = 0
            else:
                assert turn == 1 + (count - 1) % 63
                vars(self).update(self.slots[self.slot])
        self.counts[self.slot] += 1
        scaffold = payload.take(payload.varint())
        yield from self.packet(first, kind != 2, scaffold, payload.rest(), frames)

    def objects(self, payload: Bytes) -> list[Any]:
        """Each anchor: its gap, its objects, how late others end, people and motion."""
        since, frames = payload.varint(), payload.varint()
        if since < 2:
            self.seen = Seen(Elements())
            self.seen.clock = self.new_clock()
        scaffold, self.code = getattr(self, "code", None), self.seen.code
        people, self.people = self.people, self.seen.people
        anchors: list[Any] = []
        if frames:
            self.code.start(payload.rest())
            self.code("objects.unit")
            posed, measured = self.code("objects.posed"), self.code("objects.measured")
            irregular = self.code("timing.irregular")
            for _ in range(frames):
                clock = self.seen.clock
                clock.learn(clock.predict() + (self.code("timing.deviation") if irregular else 0))
        while left := frames - sum(anchor[0] for anchor in anchors):
            anchors.append(self.anchor(left, posed, measured))
        self.seen.people, self.people = self.people, people
        if scaffold:
            self.code = scaffold
        return anchors

    def anchor(self, left: int, posed: int, measured: int) -> tuple[Any, ...]:
        seen, code = self.seen, self.code
        if seen.gap > left or not code("objects.same"):
            seen.gap = 1 + code("objects.gap")
        assert seen.gap <= left
        if cut := code("objects.cut"):
            seen.objects, self.people = {}, ()
        late = {}
        for track, old in list(seen.objects.items()):
            if code("objects.stays"):
                self.old(old)
            else:
                late[track] = code("objects.late")
                del seen.objects[track]
        while code("objects.more"):
            self.new()
        people = self.code_people() if posed else None
        if measured:
            seen.activity += code("objects.activity")
            seen.camera = [seen.camera[k] + code("objects.camera", k) for k in range(4)]
        boxes = [(track, o.kind, *o.box, o.score) for track, o in seen.objects.items()]
        motion = (seen.activity, tuple(seen.camera)) if measured else None
        return seen.gap, cut, boxes, late, people, motion

    def old(self, old: SimpleNamespace) -> None:
        code, (left, top, width, height) = self.code, old.box
        x = left + old.dx * self.seen.gap // old.gap
        y = top + old.dy * self.seen.gap // old.gap
        if not code("objects.predicted", int(bool(old.dx or old.dy))):
            x, y = x + code("objects.shift", 0), y + code("objects.shift", 1)
            if code("objects.resized"):
                width, height = (
                    width + code("objects.growth", 0),
                    height + code("objects.growth", 1),
                )
        old.dx, old.dy, old.gap, old.box = x - left, y - top, self.seen.gap, (x, y, width, height)

    def new(self) -> None:
        seen, code = self.seen, self.code
        assert code("objects.early") < seen.gap
        seen.last = (seen.last + 1 + code("objects.track")) % 65536
        kind = code("objects.kind")
        if kind == len(seen.names):
            letters = range(code("objects.letters"))
            seen.names.append(bytes(code("objects.letter") for _ in letters).decode())
        score = code("objects.score")
        place = code("objects.place", 0), code("objects.place", 1)
        box = (*place, code("objects.extent", 0), code("objects.extent", 1))
        seen.objects[seen.last] = SimpleNamespace(
            kind=seen.names[kind], box=box, score=score, dx=0, dy=0, gap=1
        )

    def packet(
        self, first: bool, opens: bool, scaffold: bytes, plain: bytes, frames: int
    ) -> Iterator[Interval]:
        if first:
            self.code = Elements(self.header["fitted"])
        self.code.start(scaffold)
        if first:
            self.fields = Heads(self.code, self.code("picture.crf"))
            scale, sides = self.code("picture.eighths"), ("width", "height")
            self.layers, scale = (scale - 1) >> 3, (scale - 1) % 8 + 1
            self.faces: list[Face | None] = [None] * 4
            self.coded_size = [2 * ceil(self.header[side] * scale / 16) for side in sides]
            self.alone = self.code("packet.alone")
            self.labels = np.zeros(self.grid(self.cell), np.uint8)
            self.people = ()
            self.correction: Correction | None = None
            self.texture: Texture | None = None
            self.guide = 0
            self.usual, self.repeats, self.heads = 1, 0, np.zeros((2, 112), int)
            self.count: int | None = 0
        if opens:
            self.clock, self.usual = self.new_clock(), 1
        if self.alone:
            anew = ("interval.same", "interval.length", "interval.held", "interval.after")
            self.code.renew(
                lambda name: name in anew or name[:4] in ("timi", "unit", "fram", "head")
            )
            self.usual, self.repeats, self.heads = 1, 0, np.zeros((2, 112), int)
            self.fields.forget()
            self.count = 0 if first else None
        layout = self.layout(opens, frames)
        rest = Bytes(plain)
        with_unit = [place is not Place.AFTER for place, _ in layout]
        for n in range(sum(with_unit)):
            unit = self.unit(rest, first and n == 0, n == sum(with_unit) - 1)
            self.units.append(unit)
        assert not rest.rest()
        for place, ticks in layout:
            yield self.interval(place, ticks)

    def new_clock(self) -> Clock:
        return Clock(Fraction(self.header["frame_ticks_num"], self.header["frame_ticks_den"]))

    def layout(self, opens: bool, frames: int) -> list[tuple[Place, tuple[int, ...]]]:
        lengths: list[int] = []
        while left := frames - sum(lengths):
            if left == 1:
                self.usual = 1
            elif not (self.usual <= left and self.code("interval.same")):
                self.usual = 1 + self.code("interval.length")
            assert self.usual <= left
            lengths.append(self.usual)
        places = [Place.BETWEEN] * len(lengths)
        holds = self.header["holds"]
        if opens and holds and lengths[0] > 1 and self.code("interval.held"):
            places[0] = Place.BEFORE
        if holds and not (opens and len(lengths) == 1) and self.code("interval.after"):
            places[-1] = Place.AFTER
        irregular = self.code("timing.irregular")
        ticks = []
        for _ in range(frames):
            ticks.append(self.clock.predict() + (self.code("timing.deviation") if irregular else 0))
            self.clock.learn(ticks[-1])
        left_ticks = iter(ticks)
        return [
            (place, tuple(islice(left_ticks, length)))
            for place, length in zip(places, lengths, strict=True)
        ]

    def unit(self, rest: Bytes, is_first: bool, is_last: bool) -> bytes:
        """The AV1 temporal unit, every OBU with its size."""

        def obu(kind: int, payload: bytes) -> bytes:
            size, left = b"", len(payload)
            while left >= 128:
                size, left = size + bytes([left & 127 | 128]), left >> 7
            return bytes([kind << 3 | 2]) + size + bytes([left]) + payload

        unit = obu(1, self.sequence_header()) if is_first else b""
        repeats = self.repeats = self.code("unit.repeats", self.repeats)
        slot = self.code("unit.slot") if repeats else 0
        hidden = self.code("unit.hidden", repeats)
        for n in range(hidden, repeats - 1, -1):
            opens = is_first and n == hidden
            unit += obu(6, self.frame(rest, n, opens, is_last and n == 0))
        if self.count is not None:
            self.count += 1
        return unit + obu(3, bytes([0x88 | slot << 4])) if repeats else unit

    def sequence_header(self) -> bytes:
        sides = [side - 1 for side in self.coded_size]
        lengths = [max(1, side.bit_length()) for side in sides]
        bits = "0" * 29 + "".join(f"{length - 1:04b}" for length in lengths)
        bits += "".join(f"{side:0{length}b}" for side, length in zip(sides, lengths, strict=True))
        bits += f"{0x3ABE001:028b}"
        size = (-(-len(bits) // 8) + self.code("unit.sequence")) % 256
        usual = bits.ljust(8 * size, "0")[: 8 * size]
        return np.packbits([int(bit) ^ self.code("unit.unusual") for bit in usual]).tobytes()

    def frame(self, rest: Bytes, n: int, opens: bool, is_last: bool) -> bytes:
        left = len(rest.rest())
        if self.header["fitted"]:
            usual = None if self.count is None else (self.count + 2**n - 1) % 128
            fields = self.fields.read(n, opens, usual)
            return fields + rest.take(left if is_last else self.code("frame.size", min(n, 5)))
        size = 14 + left if is_last and left else self.code("frame.size", min(n, 5))
        shown, bit = int(n == 0), 0
        count = min(size, 14)
        for place in range(8 * count):
            context = 4 * (112 * shown + place) + 2 * self.heads[shown, place] + bit
            bit = self.heads[shown, place] = self.code("frame.head", int(context))
        head = np.packbits(self.heads[shown, : 8 * count].astype(np.uint8)).tobytes()
        assert size - count <= left
        return head + rest.take(size - count)

    def interval(self, place: Place, ticks: tuple[int, ...]) -> Interval:
        frames = len(ticks)
        may_dissolve = place is Place.BETWEEN and frames > 1
        dissolves = may_dissolve and bool(self.code("interval.dissolves"))
        camera = self.code_path(place, frames) if self.header["camera"] else None
        faces = self.code_faces(place, frames) if self.layers & 1 else None
        steps = self.code_brightness(frames) if self.layers >> 1 & 1 else None
        if place is Place.AFTER:
            return make_interval(ticks, camera=camera, place=place, faces=faces, brightness=steps)
        texture = self.code_texture() if self.header["texture"] else None
        if self.header["guide"]:
            self.guide = self.code("guide.mixture", self.guide)
        guide = self.guide - 1 if self.guide else None
        samples = []
        while self.code("sample.more"):
            samples.append(self.sample(frames - self.code("sample.gap")))
        layers = texture, camera, place, dissolves, faces, guide, steps
        return make_interval(ticks, tuple(samples), *layers)

    def code_brightness(self, frames: int) -> tuple[int, ...] | None:
        if not self.code("brightness.present"):
            return None
        steps = [0]
        for _ in range(frames):
            steps.append(steps[-1] + self.code("brightness.change", int(steps[-1] != 0)))
        return tuple(steps[1:])

    def code_faces(self, place: Place, frames: int) -> Faces | None:
        old, self.faces = self.faces, [None] * 4
        if place is not Place.AFTER and frames == 1:
            return None
        for slot in range(4):
            if self.code("faces.present", int(old[slot] is not None)):
                self.faces[slot] = self.code_face(place, frames, old[slot])
        return tuple(self.faces) if any(self.faces) else None

    def code_face(self, place: Place, frames: int, old: Face | None) -> Face:
        def more(name: str) -> NDArray[np.int32]:
            context = [0, 0, 1, 1, *[2] * 6]
            return np.array([self.code(name, context[k]) for k in range(10)], np.int32)

        if old is None:
            start = more("faces.state")
        else:
            start = old.end
            if not self.code("faces.goes_on"):
                start = start + more("faces.change")
        end = start + more("faces.change") if place is Place.BETWEEN else start
        step_log2 = self.code("faces.step")
        step = 2**step_log2
        nodes = {
            Place.BETWEEN: (frames - 1) // step,
            Place.BEFORE: ceil((frames - 1) / step),
            Place.AFTER: ceil(frames / step),
        }[place]
        bends, stays = np.zeros((nodes + 1, 10), np.int32), 0
        for n in range(nodes):
            stays = self.code("faces.stays", stays)
            bends[n + 1] = bends[n]
            if not stays:
                bends[n + 1] += [self.code("faces.bend", k) for k in range(10)]
        return Face(start, end, step_log2, bends[1:])

    def code_path(self, place: Place, frames: int) -> Camera | None:
        if place is not Place.AFTER and frames == 1:
            return None
        if not self.code("camera.present", int(place is not Place.BETWEEN)):
            return None
        step_log2 = self.code("camera.step")
        step = 2**step_log2
        nodes = {
            Place.BETWEEN: (frames - 1) // step,
            Place.BEFORE: ceil((frames - 1) / step),
            Place.AFTER: ceil(frames / step),
        }[place]
        path = np.zeros((nodes + 1, 3, 2), np.int64)
        for old, new in pairwise(path):
            for k in range(3):
                for i in range(2):
                    guess = old[k, i] + (new[0, i] - old[0, i] if k > 0 else 0)
                    new[k, i] = guess + self.code("camera.corner", i + (2 if k > 0 else 0))
        assert np.abs(path).max() <= 16384
        return Camera(step_log2, path[1:].astype(np.int16))

    def code_texture(self) -> Texture | None:
        old, self.texture = self.texture, None
        if not self.code("texture.present"):
            return None
        block_log2 = self.code("texture.block")
        rows, columns = self.grid(self.cell << block_log2)
        if old is None or old.block_log2 != block_log2:
            old = Texture(block_log2, np.zeros((rows, columns), np.uint8))
        gains = np.zeros((rows + 1, columns + 1), int)
        for r in range(rows):
            for c in range(columns):
                around = gains[r, c + 1] + gains[r + 1, c] + 2 * int(old.gains[r, c])
                steps = (1, 3, 6, 9, 14)
                gains[r + 1, c + 1] = self.code("texture.gain", sum(around >= s for s in steps))
        self.texture = Texture(block_log2, gains[1:, 1:].astype(np.uint8))
        return self.texture

    def sample(self, offset: int) -> Sample:
        labels = layers = people = correction = None
        if self.header["segmentation"]:
            labels, layers = self.code_labels(), self.code_layers()
        if self.header["pose"]:
            people = self.code_people()
        if self.header["flow"]:
            correction = self.code_correction()
        return make_sample(offset, labels, layers, people, correction)

    def code_labels(self) -> np.ndarray:
        if self.code("labels.same"):
            return self.labels
        rows, columns = self.labels.shape
        old, new = np.pad(self.labels, 1), np.zeros((rows + 2, columns + 2), np.uint8)
        for r in range(1, rows + 1):
            for c in range(1, columns + 1):
                l, a, al, ar = new[r, c - 1], new[r - 1, c], new[r - 1, c - 1], new[r - 1, c + 1]
                b, d = old[r, c], old[r + 1, c]
                context = (l == a) + 2 * (l == al) + 4 * (l == ar) + 8 * (l == b) + 16 * (l == d)
                if self.code("labels.left", int(context)):
                    new[r, c] = l
                elif a != l and self.code("labels.above", int((a == b) + 2 * (a == ar))):
                    new[r, c] = a
                elif b != l and b != a and self.code("labels.before"):
                    new[r, c] = b
                else:
                    new[r, c] = self.code("labels.value")
        self.labels = new[1:-1, 1:-1]
        return self.labels

    def code_layers(self) -> np.ndarray:
        layers = np.zeros((8, 2), np.int16)
        for label in range(8):
            if (self.labels == label).any() and self.code("layers.moves", int(label > 0)):
                layers[label] = self.code("layers.vector", 0), self.code("layers.vector", 1)
        return layers

    def code_people(self) -> tuple[Person, ...]:
        people = []
        for old in self.people:
            if self.code("pose.stays"):
                people.append(self.person(old.identity, old))
        while self.code("pose.more"):
            people.append(self.person(self.code("pose.identity"), None))
        self.people = tuple(people)
        return self.people

    def person(self, identity: int, old: Person | None) -> Person:
        moves = self.code("pose.moves_picture")
        shift = np.zeros(2, int)
        if old:
            shift = self.pair("pose.shift")
        points, visible = np.zeros((17, 2), np.int16), np.zeros(17, bool)
        last = None
        for k in range(17):
            was_visible = old is not None and bool(old.visible[k])
            if not self.code("pose.visible", 2 if old is None else int(was_visible)):
                continue
            if old is not None and was_visible:
                last = old.points[k] + shift + self.pair("pose.point")
            elif last is not None:
                last = last + self.pair("pose.point")
            else:
                last = self.pair("pose.origin")
            points[k], visible[k] = last, True
        return Person(identity, points, visible, bool(moves))

    def pair(self, name: str) -> np.ndarray:
        return np.array([self.code(name, 0), self.code(name, 1)])

    def code_correction(self) -> Correction | None:
        before, self.correction = self.correction, None
        if not self.code("flow.present"):
            return None
        block_log2 = self.code("flow.block")
        if before is not None and before.block_log2 != block_log2:
            before = None
        rows, columns = self.grid(self.cell << block_log2)
        sides, vectors = np.zeros((rows, columns), np.uint8), np.zeros((rows, columns, 2), np.int16)
        coded = np.zeros((rows, columns), bool)
        for r in range(rows):
            for c in range(columns):
                left, above = c > 0 and coded[r, c - 1], r > 0 and coded[r - 1, c]
                past = before is not None and bool(before.sides[r, c] or before.vectors[r, c].any())
                if not self.code("flow.coded", int(left) + int(above) + 3 * past):
                    continue
                coded[r, c] = True
                context = 0 if not left else 1 if sides[r, c - 1] == 0 else 2
                if self.code("flow.one_sided", context):
                    sides[r, c] = 2 if self.code("flow.right", context) else 1
                known = [vectors[r, c - 1]] if left else []
                known += [vectors[r - 1, c]] if above else []
                known += [before.vectors[r, c]] if past and before else []
                guess = np.sort(np.array(known), axis=0)[len(known) // 2] if known else 0
                vectors[r, c] = guess + self.pair("flow.vector")
        self.correction = Correction(block_log2, sides, vectors)
        return self.correction


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_second_decoder_agrees(path: Path) -> None:
    with path.open("rb") as file:
        reader = StreamReader(file)
        parser = GroupReader(reader.header)
        parsed = [parser.read(packet) for packet in reader if packet.is_picture]
        plain = Plain(path.read_bytes())
        assert plain.header == dict.fromkeys(plain.header, 0) | reader.header.fields()
    theirs = list(plain.intervals())
    ours = [interval for packet in parsed for interval in packet.intervals]
    assert list(map(scaffold_bytes, theirs)) == list(map(scaffold_bytes, ours))
    units = [unit for packet in parsed for unit in packet.units]
    assert list(map(strip_temporal_unit, plain.units)) == units


def test_the_check_value_of_the_checksum() -> None:
    assert crc32c(b"123456789") == 0xE3069283 and "0xE3069283" in FORMAT


def test_the_second_decoder_sees_the_same_objects() -> None:
    path = next(path for path in GOLDEN if path.stem == "with_objects")
    plain = Plain(path.read_bytes())
    assert len(list(plain.intervals())) == 3
    with path.open("rb") as file:
        reader = StreamReader(file)
        objects = ObjectReader(reader.header)
        runs = [objects.read(packet) for packet in reader if packet.type == 10]
    for run, theirs in zip(runs, plain.runs, strict=True):
        for anchor, other in zip(run.anchors, theirs, strict=True):
            motion = anchor.motion and (anchor.motion.activity, anchor.motion.camera)
            boxes = [
                (o.track, o.kind, o.left, o.top, o.width, o.height, o.score) for o in anchor.objects
            ]
            gap, cut, objects_there, late, people, moved = other
            assert (anchor.gap, anchor.is_cut, boxes) == (gap, cut, objects_there)
            assert (anchor.late, motion) == (late, moved)
            assert (anchor.people is None) == (people is None)
            for one, same in zip(anchor.people or (), people or (), strict=True):
                assert np.array_equal(one.points, same.points)
