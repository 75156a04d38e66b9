"""Frames of the source to OBJECTS payloads: objects are found at the encoder, as analysis does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gsvc.codec.frames import Picture
from gsvc.codec.limits import DEFAULT_LIMITS
from gsvc.codec.scaffold.layers.objects import Parts
from gsvc.codec.scaffold.layers.pose import People
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.objects import ObjectRun, ObjectWriter
from gsvc.decoders.analysis.drafts import Draft
from gsvc.decoders.analysis.finders import Finder
from gsvc.encoders.objects.anchors import AnchorMaker, SeenFrame, SeenObject
from gsvc.encoders.objects.key_points import KeyPointFinder
from gsvc.encoders.objects.source_following import SourceFollowing

_ANCHOR_SECONDS, _BESIDE_PICTURES_SECONDS = 0.4, 0.2
"""Between anchors, of objects alone and beside pictures, where their bits are small change."""
_MOST_FRAMES = 240
"""Of a packet: tight limits of receivers permit a few more."""
_BEGIN_SECONDS = 20.0
"""Between packets that can be read alone."""


@dataclass(frozen=True)
class ObjectRecipe:
    """What is sent of objects."""

    finder: Finder | None
    """What names objects; None: all are what moves."""
    moving: bool
    """Whether what it does not name counts too."""
    parts: Parts
    """What anchors have."""
    is_alone: bool
    """Whether no pictures are sent."""
    packet_seconds: float
    """Video that a packet describes."""


class ObjectCoder:
    """Codes the objects of one stream: `push` every frame, then `flush`."""

    def __init__(self, header: Header, recipe: ObjectRecipe) -> None:
        """Raises MissingModelError where key points are asked for and their models are missing."""
        rate = float(header.format.frame_rate)
        self._size = header.format.width, header.format.height
        most = min(_MOST_FRAMES, DEFAULT_LIMITS.longest_interval(*self._size))
        seconds = _ANCHOR_SECONDS if recipe.is_alone else _BESIDE_PICTURES_SECONDS
        self._gap = max(1, min(most, round(seconds * rate)))
        anchors = min(round(recipe.packet_seconds / seconds), most // self._gap)
        self._chunk = self._gap * max(1, anchors)
        self._refresh = max(1, round(_BEGIN_SECONDS * rate / self._chunk))
        parts, alone = recipe.parts, recipe.is_alone
        self._following = SourceFollowing(
            self._size, rate, recipe.finder, moving=recipe.moving, often=not alone
        )
        self._maker = AnchorMaker(header.geometry, parts, self._gap, is_alone=alone)
        self._writer = ObjectWriter(header)
        self._points = KeyPointFinder(header.geometry) if parts.people else None
        self._picture: Picture | None = None
        self._seen: list[SeenFrame] = []
        self._kept: dict[int, Picture] = {}
        self._frames = self._told = self._runs = 0
        self._opened = ObjectRun((), (), parts, begins=True, is_alone=alone)

    def opening(self) -> bytes:
        """The payload that a stream begins with, and where a receiver may join: what follows can be
        read without what was before."""
        self._runs = 0
        return self._writer.write(self._opened)

    def push(self, picture: Picture, ticks: int, *, is_cut: bool) -> list[bytes]:
        """Take a frame, RGB uint8 (H, W, 3), `ticks` after the one before; give what is ready."""
        if is_cut:
            self._keep()
        self._picture = picture
        self._frames += 1
        at = (self._frames - 1) % self._chunk
        if is_cut or at == 0 or (at + 1) % self._gap == 0:
            self._keep()
        self._take(self._following.push(picture, ticks, is_cut=is_cut))
        return self._ready()

    def flush(self) -> list[bytes]:
        """What is left."""
        self._keep()
        self._take(self._following.flush())
        payloads = self._ready()
        return [*payloads, self._written(self._seen)] if self._seen else payloads

    def _keep(self) -> None:
        """Keep the last picture for its key points: its frame has an anchor."""
        if self._points is not None and self._picture is not None:
            self._kept[self._frames - 1] = self._picture

    def _take(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            objects = {
                track.number: SeenObject(track.kind, box, track.score)
                for track, box in draft.shown(self._size)
            }
            activity = draft.activity or 0.0
            self._seen.append(SeenFrame(draft.ticks, objects, activity, draft.camera, draft.is_cut))

    def _ready(self) -> list[bytes]:
        payloads: list[bytes] = []
        while len(self._seen) >= self._chunk:
            frames, self._seen = self._seen[: self._chunk], self._seen[self._chunk :]
            payloads.append(self._written(frames))
        return payloads

    def _written(self, frames: list[SeenFrame]) -> bytes:
        begins = self._runs % self._refresh == 0
        people: dict[int, People] = {}
        if self._points is not None:
            for at, frame in enumerate(frames):
                if (picture := self._kept.pop(self._told + at, None)) is not None:
                    people[at] = self._points(picture, frame.objects)
        self._runs += 1
        self._told += len(frames)
        return self._writer.write(self._maker.run(settled(frames), people, begins=begins))


def settled(frames: Sequence[SeenFrame]) -> list[SeenFrame]:
    """The same, each object with the class that it has at the end: a detector may name it late."""
    kinds = {number: one.kind for frame in frames for number, one in frame.objects.items()}
    return [
        replace(
            frame,
            objects={n: replace(one, kind=kinds[n]) for n, one in frame.objects.items()},
        )
        for frame in frames
    ]
