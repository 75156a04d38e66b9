"""OBJECTS packets: class, track and box of what a stream shows, at anchors predicted in time.

A decoder that draws frames skips them (docs/format.md, section 10). `AnchorCoder` writes, reads and
counts one anchor after another.
"""

from dataclasses import dataclass, field, replace

from gsvc.codec.bitstream.container import Cutter, Packet, read_varint, varint
from gsvc.codec.bitstream.entropy_coding import (
    FLAG,
    SIGNED,
    UNSIGNED,
    Coder,
    Element,
    Reader,
    Trace,
    Writer,
)
from gsvc.codec.bitstream.errors import (
    DEFAULT_LIMITS,
    BitstreamError,
    ConfigError,
    LimitError,
    Limits,
)
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layers.pose import POSE, People
from gsvc.codec.bitstream.scaffold import FrameClock, Geometry, Place, Site, code_ticks

MOVING, PERSON = "moving", "person"
_THINGS = """bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,
stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,
umbrella,handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball glove,
skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,banana,apple,
sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,potted plant,bed,dining table,
toilet,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,refrigerator,book,
clock,vase,scissors,teddy bear,hair drier,toothbrush"""

COCO = (PERSON, *_THINGS.replace("\n", "").split(","))
"""The 80 classes of COCO, in its order."""
KINDS = (MOVING, *COCO)
"""Names of classes by number; a stream spells others, which get the next numbers."""
MAX_KIND = 255


MAX_OBJECTS = 512
"""Most objects at one anchor."""
MAX_TRACK = (1 << 16) - 1
"""Largest number of a track; the next one is 0 again."""
MAX_PLACE = 1 << 15
"""Largest magnitude of a box's edge, in object units."""
MAX_UNIT_LOG2 = 3
"""Largest logarithm of an object unit, in eighths of a cell."""
MAX_GAP = 2048
"""Most frames from one anchor to the next."""
MAX_SCORE = 15
"""Highest score, in steps of a sixteenth."""
ACTIVITY_STEPS = 255
"""Steps of the share of a picture that moves."""
MAX_LETTERS = 63
"""Bytes of the name of a class."""
CAMERA_SCALES = 16.0, 16.0, 4096.0, 64.0
"""Steps in a pixel to the right, a pixel down, a zoom by 1 beyond 1, and a degree clockwise."""
MAX_CAMERA = 1 << 16
"""Largest magnitude of a number of the camera's motion."""

_UNIT = Element("objects.unit", "objects", UNSIGNED, MAX_UNIT_LOG2)
_POSED = Element("objects.posed", "objects", FLAG)
_MEASURED = Element("objects.measured", "objects", FLAG)
_SAME = Element("objects.same", "objects", FLAG)
_GAP = Element("objects.gap", "objects", UNSIGNED, MAX_GAP - 1)
_CUT = Element("objects.cut", "objects", FLAG)
_STAYS = Element("objects.stays", "objects", FLAG)
_LATE = Element("objects.late", "objects", UNSIGNED, MAX_GAP - 1)
_PREDICTED = Element("objects.predicted", "objects", FLAG, contexts=2)
_SHIFT = Element("objects.shift", "objects", SIGNED, 4 * MAX_PLACE, contexts=2)
_RESIZED = Element("objects.resized", "objects", FLAG)
_GROWTH = Element("objects.growth", "objects", SIGNED, MAX_PLACE, contexts=2)
_MORE = Element("objects.more", "objects", FLAG)
_EARLY = Element("objects.early", "objects", UNSIGNED, MAX_GAP - 1)
_TRACK = Element("objects.track", "objects", UNSIGNED, MAX_TRACK)
_KIND = Element("objects.kind", "objects", UNSIGNED, MAX_KIND)
_LETTERS = Element("objects.letters", "objects", UNSIGNED, MAX_LETTERS)
_LETTER = Element("objects.letter", "objects", UNSIGNED, 255, is_traced=False)
_SCORE = Element("objects.score", "objects", UNSIGNED, MAX_SCORE)
_PLACE = Element("objects.place", "objects", SIGNED, MAX_PLACE, contexts=2)
_EXTENT = Element("objects.extent", "objects", UNSIGNED, MAX_PLACE, contexts=2)
_ACTIVITY = Element("objects.activity", "objects", SIGNED, ACTIVITY_STEPS)
_CAMERA = Element("objects.camera", "objects", SIGNED, 2 * MAX_CAMERA, contexts=4)


@dataclass(frozen=True)
class ObjectBox:
    """One object at one anchor."""

    track: int
    """0 to `MAX_TRACK`, no other object's at this anchor; numbers wrap in long streams."""
    kind: str
    """Its class: one of `KINDS`, or any other name."""
    left: int
    """Edge of its box in object units."""
    top: int
    """Edge of its box in object units."""
    width: int
    """Width of its box in object units, from 0."""
    height: int
    """Height of its box in object units, from 0."""
    score: int = MAX_SCORE
    """The detector's confidence, in sixteenths, rounded down: 0 to 15."""
    early: int = 0
    """Where it is new: frames before the anchor that show it too."""


@dataclass(frozen=True)
class AnchorMotion:
    """How the picture moves from the anchor before to this one."""

    activity: int
    """Share of the picture that moves by itself: 0 to 255."""
    camera: tuple[int, int, int, int]
    """Motion of the scene in a frame, times `CAMERA_SCALES`: right, down, zoom less 1, turn."""


@dataclass(frozen=True, eq=False)
class Anchor:
    """All objects at one frame."""

    gap: int
    """Frames since the anchor before, from 1."""
    objects: tuple[ObjectBox, ...] = ()
    """Objects of the anchor before in its order, then new ones."""
    is_cut: bool = False
    """Whether a scene begins here: nothing goes on from the anchor before."""
    late: dict[int, int] = field(default_factory=dict)
    """Frames after the anchor before that still show a track that ends there, by track."""
    people: People | None = None
    """Key points, where the packet has them."""
    motion: AnchorMotion | None = None
    """Activity and motion of the camera, where the packet has them."""


@dataclass(frozen=True)
class Parts:
    """The fields that the anchors of a packet have, and their unit."""

    unit_log2: int = 0
    """Logarithm of the object unit, in eighths of a cell: 0 to 3."""
    people: bool = False
    """Key points too."""
    motion: bool = False
    """Activity and motion of the camera too."""


def code_parts(coder: Coder, parts: Parts | None) -> Parts:
    """Code the fields that a packet begins with."""
    unit = coder.code(_UNIT, None if parts is None else parts.unit_log2)
    posed = coder.code(_POSED, None if parts is None else parts.people)
    measured = coder.code(_MEASURED, None if parts is None else parts.motion)
    return Parts(unit, bool(posed), bool(measured))


def object_unit(geometry: Geometry, unit_log2: int) -> float:
    """Pixels in one object unit."""
    return geometry.cell / 8 * (1 << unit_log2)


@dataclass(frozen=True)
class KnownObject:
    """An object at the last anchor, and its way there."""

    at: ObjectBox
    way: tuple[int, int] = (0, 0)
    gap: int = 1

    def predicted(self, gap: int) -> tuple[int, int]:
        """The left and top edge of its box if it goes on as it did."""
        dx, dy = (step * gap // self.gap for step in self.way)
        return self.at.left + dx, self.at.top + dy


class AnchorCoder:
    """Codes the anchors of packets that build on each other, in order, with `coder`."""

    def __init__(self, coder: Coder, geometry: Geometry) -> None:
        self._coder, self._site = coder, Site(geometry, Place.BETWEEN, 1)
        self.known: dict[int, KnownObject] = {}
        """The objects of the last anchor by track."""
        self._gap, self._track = 1, MAX_TRACK
        self._names = list(KINDS)
        self._people: People | None = None
        self._motion = AnchorMotion(0, (0, 0, 0, 0))

    def code(self, left: int, parts: Parts, anchor: Anchor | None) -> Anchor:
        """The next anchor, at most `left` frames after the one before.

        Raises ConfigError for one that cannot be stored, BitstreamError for invalid bytes.
        """
        gap = self._code_gap(left, anchor)
        is_cut = bool(self._coder.code(_CUT, None if anchor is None else anchor.is_cut))
        if is_cut:
            self.known, self._people = {}, None
        wanted = None if anchor is None else {one.track: one for one in anchor.objects}
        if anchor is not None and len(wanted or ()) != len(anchor.objects):
            raise ConfigError("two objects of one anchor have the same track")
        late: dict[int, int] = {}
        for track, old in list(self.known.items()):
            new = None if wanted is None else wanted.get(track)
            # One of another class than before ends and is new.
            stays = None if wanted is None else int(new is not None and new.kind == old.at.kind)
            if self._coder.code(_STAYS, stays):
                self.known[track] = self._code_old(old, gap, (wanted or {}).pop(track, None))
            else:
                given = None if anchor is None else anchor.late.get(track, 0)
                late[track] = self._inside(self._coder.code(_LATE, given), gap)
                del self.known[track]
        self._code_new(gap, None if wanted is None else list(wanted.values()))
        people, motion = self._code_parts(parts, anchor)
        objects = tuple(one.at for one in self.known.values())
        return Anchor(gap, objects, is_cut, late, people, motion)

    def _code_gap(self, left: int, anchor: Anchor | None) -> int:
        wanted = None if anchor is None else anchor.gap
        if wanted is not None and not 1 <= wanted <= left:
            raise ConfigError(f"an anchor {wanted} frames after the last one: 1 to {left} can be")
        same = None if wanted is None else int(wanted == self._gap)
        if self._gap > left or not self._coder.code(_SAME, same):
            self._gap = 1 + self._coder.code(_GAP, None if wanted is None else wanted - 1)
        if self._gap > left:
            raise BitstreamError("an anchor of objects lies beyond its packet: it is damaged")
        return self._gap

    def _code_old(self, old: KnownObject, gap: int, new: ObjectBox | None) -> KnownObject:
        code, at, place = self._coder.code, old.at, old.predicted(gap)
        grown = None if new is None else (new.width - at.width, new.height - at.height)
        off = None if new is None else (new.left - place[0], new.top - place[1])
        hits = None if new is None else int(off == grown == (0, 0))
        width, height = at.width, at.height
        if not code(_PREDICTED, hits, int(any(old.way))):
            place = self._pair(_SHIFT, place, off)
            if code(_RESIZED, None if grown is None else int(any(grown))):
                width, height = self._pair(_GROWTH, (width, height), grown)
        box = _checked(ObjectBox(at.track, at.kind, *place, width, height, at.score))
        return KnownObject(box, (box.left - at.left, box.top - at.top), gap)

    def _pair(
        self, element: Element, base: tuple[int, int], wanted: tuple[int, int] | None
    ) -> tuple[int, int]:
        x, y = (self._coder.code(element, None if wanted is None else wanted[k], k) for k in (0, 1))
        return base[0] + x, base[1] + y

    def _code_new(self, gap: int, wanted: list[ObjectBox] | None) -> None:
        code = self._coder.code
        while code(_MORE, None if wanted is None else int(bool(wanted))):
            if len(self.known) == MAX_OBJECTS:
                raise LimitError(f"an anchor has more than {MAX_OBJECTS} objects")
            new = wanted.pop(0) if wanted else None
            early = self._inside(code(_EARLY, None if new is None else new.early), gap)
            step = None if new is None else (new.track - self._track - 1) % (MAX_TRACK + 1)
            self._track = (self._track + 1 + code(_TRACK, step)) % (MAX_TRACK + 1)
            if self._track in self.known:
                raise BitstreamError("two objects have the same track: the stream is damaged")
            kind = self._code_kind(None if new is None else new.kind)
            score = code(_SCORE, None if new is None else new.score)
            place = self._pair(_PLACE, (0, 0), None if new is None else (new.left, new.top))
            size = self._pair(_EXTENT, (0, 0), None if new is None else (new.width, new.height))
            box = _checked(ObjectBox(self._track, kind, *place, *size, score, early))
            self.known[self._track] = KnownObject(box)

    def _code_kind(self, wanted: str | None) -> str:
        """One of those that are known, or the next one, which is then spelt."""
        spelt = len(self._names)
        known = self._names.index(wanted) if wanted in self._names else spelt
        index = self._coder.code(_KIND, None if wanted is None else known)
        if index > spelt:
            raise BitstreamError("an object is of a class without a name: the stream is damaged")
        if index == spelt:
            self._names.append(self._code_name(wanted))
        return self._names[index]

    def _code_name(self, wanted: str | None) -> str:
        data = None if wanted is None else wanted.encode()
        letters = range(self._coder.code(_LETTERS, None if data is None else len(data)))
        spelt = bytes(self._coder.code(_LETTER, None if data is None else data[k]) for k in letters)
        try:
            return spelt.decode()
        except UnicodeDecodeError as error:
            raise BitstreamError("the name of a class is not UTF-8: it is damaged") from error

    def _code_parts(
        self, parts: Parts, anchor: Anchor | None
    ) -> tuple[People | None, AnchorMotion | None]:
        if parts.people:
            people = None if anchor is None else anchor.people or ()
            self._people = POSE.code(self._coder, self._site, self._people, people)
        if parts.motion:
            self._motion = self._code_motion(None if anchor is None else anchor.motion)
        return self._people if parts.people else None, self._motion if parts.motion else None

    def _code_motion(self, wanted: AnchorMotion | None) -> AnchorMotion:
        code, old = self._coder.code, self._motion
        change = None if wanted is None else wanted.activity - old.activity
        activity = old.activity + code(_ACTIVITY, change)
        camera = []
        for k, before in enumerate(old.camera):
            change = None if wanted is None else wanted.camera[k] - before
            camera.append(before + code(_CAMERA, change, k))
        if not 0 <= activity <= ACTIVITY_STEPS or max(map(abs, camera)) > MAX_CAMERA:
            raise LimitError("the motion of an anchor is out of range: the stream is damaged")
        return AnchorMotion(activity, (camera[0], camera[1], camera[2], camera[3]))

    def _inside(self, frames: int, gap: int) -> int:
        if frames >= gap:
            raise LimitError("an object is shown beyond its anchor: the stream is damaged")
        return frames


def _checked(box: ObjectBox) -> ObjectBox:
    edges = box.left, box.top, box.left + box.width, box.top + box.height
    if min(box.width, box.height) < 0 or max(map(abs, edges)) > MAX_PLACE:
        raise LimitError(f"a box of an object lies beyond {MAX_PLACE} units")
    return box


@dataclass(frozen=True, eq=False)
class ObjectRun:
    """The content of an OBJECTS packet: the objects of some frames."""

    ticks: tuple[int, ...]
    """Time from the frame before of each frame, in units of the time base."""
    anchors: tuple[Anchor, ...]
    """Their gaps sum to the number of frames."""
    parts: Parts = field(default_factory=Parts)
    """The fields that its anchors have."""
    begins: bool = False
    """Whether it can be read without the packets before."""
    is_alone: bool = False
    """Whether the stream has no pictures."""


class _RunCoder:
    """Codes the runs that build on each other: the same for writing and reading."""

    def __init__(self, coder: Coder, header: Header) -> None:
        self._coder = coder
        self._clock = FrameClock(header.frame_ticks)
        self._anchors = AnchorCoder(coder, header.geometry)

    def code(self, frames: int, run: ObjectRun | None) -> ObjectRun:
        parts = code_parts(self._coder, None if run is None else run.parts)
        ticks = code_ticks(self._coder, self._clock, frames, None if run is None else run.ticks)
        anchors: list[Anchor] = []
        left = frames
        while left:
            if run is not None and len(anchors) == len(run.anchors):
                raise ConfigError("the anchors of objects end before their frames")
            wanted = None if run is None else run.anchors[len(anchors)]
            anchors.append(self._anchors.code(left, parts, wanted))
            left -= anchors[-1].gap
        return ObjectRun(ticks, tuple(anchors), parts)


class ObjectWriter:
    """Writes the runs of one stream, in order."""

    def __init__(self, header: Header) -> None:
        self._header, self._since = header, 0
        self._begin()

    def _begin(self) -> None:
        self._writer = Writer()
        self._coder = _RunCoder(self._writer, self._header)

    def write(self, run: ObjectRun) -> bytes:
        """The payload of a run. Raises ConfigError for what cannot be stored."""
        if run.begins:
            self._begin()
            self._since = 0
        head = varint(2 * self._since + run.is_alone) + varint(len(run.ticks))
        self._since += 1
        if not run.ticks:
            return head
        self._coder.code(len(run.ticks), run)
        return head + self._writer.finish()


class ObjectReader:
    """Reads OBJECTS packets in order; after a lost one, from the next that can be read alone on."""

    def __init__(
        self, header: Header, limits: Limits = DEFAULT_LIMITS, trace: Trace | None = None
    ) -> None:
        self._header, self._limits, self._trace = header, limits, trace
        self._next: int | None = None

    def read(self, packet: Packet) -> ObjectRun:
        """The run of an OBJECTS packet. Raises BitstreamError for one invalid, or after a gap."""
        expected, self._next = self._next, None  # Damage ends what can be read.
        cutter = Cutter(packet.payload)
        since, is_alone = divmod(read_varint(cutter.take), 2)
        frames = read_varint(cutter.take)
        # A schematic draws these frames.
        most = self._limits.longest_interval(self._header.format.width, self._header.format.height)
        if frames > most:
            raise LimitError(f"objects of {frames} frames: at most {most} can be of this size")
        if since == 0:
            self._reader = Reader(self._trace, self._limits.scaffold_bits)
            self._coder = _RunCoder(self._reader, self._header)
        elif since != expected:
            raise BitstreamError("objects build on a packet that is missing: begin at another")
        run = ObjectRun((), ())
        if frames:
            self._reader.start(cutter.rest())
            run = self._coder.code(frames, None)
        self._next = since + 1
        return replace(run, begins=since == 0, is_alone=bool(is_alone))
