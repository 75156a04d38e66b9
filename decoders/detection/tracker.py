"""Tracks: objects joined from picture to picture, and from camera to camera.

From picture to picture: A. Bewley et al., "Simple Online and Realtime Tracking", ICIP 2016
(arXiv:1602.00763), with the decoder's motion in place of a Kalman filter, and the best overlap
first. A stream is read as intervals, with or without their keyframes; frames wait until it is known
which tracks in them are objects.

From camera to camera, where several see one piece of ground: each object stands under the middle of
its box's lower edge. Those of different cameras that stand at one place are one, as long as they
do; see T. Chavdarova et al., "WILDTRACK", CVPR 2018, for the setting.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, compress
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.errors import Limits
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.objects import MOVING
from gsvc.codec.bitstream.scaffold import Interval, Place, Sample
from gsvc.decoders.detection import findings
from gsvc.decoders.detection.motion_detection import SURE
from gsvc.decoders.streams.reconstruction import PacketTimeline, Reconstruction, StrictTimeline

_LEAST_OVERLAP = 0.2  # intersection over union of a track and what continues it
_COVERED = 0.6  # share of a moving place within an object that it is then a part of
_MORE = 1.5
"""Times the size of an object, from which a moving place around it does not tell where it is."""
_LEAST_WIDTH = 0.5  # widths of an object, of what moves beside it and is another one
_HITS = 2  # pictures that must show an object
_PATIENCE = 4  # pictures in a row that may miss an object
_VISIBLE = 0.3  # share of an object within the picture, below which it has left
_FOLLOWS = 0.7
"""Share of the way to what was found that a box goes: what moves is cut out roughly."""


@dataclass(eq=False)
class Track:
    """One object over time."""

    number: int
    box: findings.Box
    """In the last picture."""
    hits: int = 0
    """Pictures in which it was found."""
    misses: int = 0
    """Pictures since it was last found."""
    confirmed: bool = False
    """Whether it is shown."""
    ended: bool = False
    """Whether it is followed no longer."""
    _votes: dict[str, float] = field(default_factory=dict)
    _score: float = 0.0

    @property
    def kind(self) -> str:
        """The class with the most votes; a detector's before "moving"."""
        return max(self._votes, key=lambda kind: (kind != MOVING, self._votes[kind]))

    @property
    def score(self) -> float:
        """The mean over the pictures in which it was found."""
        return self._score / max(self.hits, 1)

    def miss(self, box: findings.Box, *, looked: bool) -> None:
        """Note that it was not found where motion carries it; `looked`: whether a detector ran."""
        self.box = box
        self.misses += looked or self.kind == MOVING

    def take(self, found: findings.Detection, box: findings.Box) -> None:
        """Note that it was found, at `box`."""
        self.box, self.misses = box, 0
        self.hits += 1
        self._votes[found.kind] = self._votes.get(found.kind, 0.0) + found.score
        self._score += found.score
        self.confirmed |= self.hits >= _HITS


class TrackStep(NamedTuple):
    """A track's way from one picture to the next."""

    track: Track
    start: findings.Box | None
    """None: it was not known there."""
    end: findings.Box


class Tracker:
    """Follows objects through the pictures of a stream; `restart` where a scene begins."""

    def __init__(self, size: tuple[int, int]) -> None:
        """`size`: width and height of the pictures."""
        self._whole, self._last = np.array([0.0, 0.0, *size]), 0
        self._tracks: list[Track] = []

    def restart(self) -> None:
        """Objects of a scene end with it; those that nothing disproved were there."""
        for track in self._tracks:
            track.confirmed |= not track.misses
            track.ended = True
        self._tracks = []

    def step(
        self,
        carry: Callable[[findings.Box], findings.Box],
        found: Sequence[findings.Detection] | None,
        moving: Sequence[findings.Detection] = (),
    ) -> list[TrackStep]:
        """Go on to the next picture.

        `carry` moves a box there; `found` is what a detector found, None where none looked;
        `moving` is less sure: it adds nothing to objects that were found.
        """
        steps = [TrackStep(track, track.box, carry(track.box)) for track in self._tracks]
        named, steps, new = _matched(steps, found or ())
        new = [one for one in new if one.begins]
        has_name = [one.track.kind != MOVING for one in steps]
        seen, lost, _ = _matched(list(compress(steps, has_name)), moving)
        known = [*(one.end for one in named + seen), *(one.box for one in new)]
        rest = [left for one in moving if (left := _beside(one, known)) is not None]
        others = [one for one, is_named in zip(steps, has_name, strict=True) if not is_named]
        more, gone, rest = _matched(others, rest)
        for one in lost + gone:
            one.track.miss(one.end, looked=found is not None)
        known += [one.end for one in more + lost if not one.track.misses]
        new += [one for one in rest if one.score >= SURE and not _is_part(one.box, known)]
        steps = [*named, *seen, *more, *lost, *gone, *map(self._begun, new)]
        for one in steps:
            one.track.ended = not self._goes_on(one.track)
        self._tracks = [one.track for one in steps if not one.track.ended]
        # A track that was not found may be but where others are.
        shown = (one for one in steps if not (one.track.misses and _is_part(one.end, known)))
        return [one for one in shown if one.track.misses < 2]

    def _goes_on(self, track: Track) -> bool:
        if track.misses > (_PATIENCE if track.confirmed else 0):
            return False
        return findings.within(track.box, self._whole) > _VISIBLE

    def _begun(self, found: findings.Detection) -> TrackStep:
        self._last += 1
        track = Track(self._last, found.box)
        track.take(found, found.box)
        return TrackStep(track, None, found.box)


def _matched(
    steps: Sequence[TrackStep], found: Sequence[findings.Detection]
) -> tuple[list[TrackStep], list[TrackStep], list[findings.Detection]]:
    """The steps that end where something was found, best overlap first; the others; the rest."""
    overlaps = findings.overlap([one.end for one in steps], [one.box for one in found])
    pairs: dict[int, int] = {}
    for flat in np.argsort(-overlaps, axis=None, kind="stable").tolist():
        row, column = divmod(flat, len(found))
        if overlaps[row, column] < _LEAST_OVERLAP:
            break
        if row not in pairs and column not in pairs.values():
            pairs[row] = column
    done = [_ended(steps[row], found[column]) for row, column in pairs.items()]
    others = [step for row, step in enumerate(steps) if row not in pairs]
    return done, others, [one for n, one in enumerate(found) if n not in pairs.values()]


def _ended(step: TrackStep, found: findings.Detection) -> TrackStep:
    change = _FOLLOWS * (found.box - step.end)
    if step.track.kind == MOVING != found.kind:
        change = found.box - step.end  # the detector knows better where it ends
    elif found.kind == MOVING != step.track.kind:
        # What moves there may be more than the object, or less: it keeps its size.
        is_more = findings.area(found.box) > _MORE * findings.area(step.end)
        change = np.zeros(4) if is_more else np.tile((change[:2] + change[2:]) / 2, 2)
    step.track.take(found, step.end + change)
    return step._replace(end=step.track.box)


def _is_part(box: findings.Box, known: Sequence[findings.Box]) -> bool:
    """Whether a place belongs to something that is known, or that to it."""
    return any(
        max(findings.within(box, one), findings.within(one, box)) > _COVERED for one in known
    )


def _beside(place: findings.Detection, known: Sequence[findings.Box]) -> findings.Detection | None:
    """What of a moving place lies beside the objects that are known: the wider side of each. People
    who walk together move as one; who is not known yet walks beside those who are."""
    box = place.box.copy()
    for one in known:
        if not _is_part(box, [one]):
            continue
        before, after = one[0] - box[0], box[2] - one[2]
        if max(before, after) < _LEAST_WIDTH * (one[2] - one[0]):
            return None
        if before > after:
            box[2] = one[0]
        else:
            box[0] = one[2]
    return replace(place, box=box)


Floats = NDArray[np.float64]

_APART = 1.0  # metres within which what two cameras see is one object
_TOO_FAR = 1.25
"""Metres from where the others see an object, from which a camera sees another one."""
_NEAR_SECONDS = 0.2  # for which two objects stand at one place until they are one
_GONE_SECONDS = 1.5  # after which an object that no camera sees has left
_MARGIN = 2.0
"""Pixels: a box that ends so near the picture's lower edge hides where it stands."""


@dataclass(frozen=True, eq=False)
class GroundObject:
    """One object on the ground at one time."""

    kind: str
    """Its class, as most cameras name it; "moving" until one does."""
    track: int
    """Its number, from 1, for all cameras and times."""
    place: Floats
    """x, y in metres, float64 (2,): the mean of what the cameras say."""
    score: float
    """Of the surest camera, 0 to 1."""
    seen: Mapping[int, findings.TrackedObject]
    """What each camera that sees it calls it, by the number of the stream, from 0."""


@dataclass(frozen=True, eq=False)
class _Standing:
    camera: int
    one: findings.TrackedObject
    place: Floats


@dataclass(eq=False)
class _Track:
    number: int
    place: Floats
    kinds: Counter[str]
    """How often cameras named it so."""
    last: float = 0.0
    """Seconds at which it was last seen."""
    now: dict[int, _Standing] = field(default_factory=dict)
    """What is seen of it at present, by camera."""

    @property
    def kind(self) -> str:
        return max(self.kinds, key=lambda kind: (kind != MOVING, self.kinds[kind]))


def standing(one: findings.TrackedObject, homography: Floats, height: int) -> Floats | None:
    """Where it stands in metres, float64 (2,); None where its feet are cut off or in the sky.

    `homography`: from (x, y, 1) in metres to pixels, float64 (3, 3); `height`: of the picture.
    """
    left, _, right, bottom = one.box
    if bottom >= height - _MARGIN:
        return None
    x, y, depth = np.linalg.inv(homography) @ ((left + right) / 2, bottom, 1.0)
    # Depth is below 0 beyond the horizon.
    return np.array([x, y]) / depth if depth > 0 else None


class GroundTracker:
    """Joins what cameras see, time by time."""

    def __init__(self) -> None:
        self._tracks: list[_Track] = []
        self._of: dict[tuple[int, int], _Track] = {}
        """By camera and the camera's own track."""
        self._near: dict[tuple[_Track, _Track], float] = {}
        """Since when two stand at one place."""
        self._count = 0

    def step(
        self, seconds: float, cameras: Sequence[Sequence[tuple[findings.TrackedObject, Floats]]]
    ) -> list[GroundObject]:
        """What stands on the ground at a time, by number; `cameras`: objects and their places."""
        for track in self._tracks:
            track.now = {}
        seen = [
            _Standing(camera, one, place)
            for camera, objects in enumerate(cameras)
            for one, place in objects
        ]
        for one in [one for one in seen if not self._goes_on(one)]:
            self._join(one)
        for track in self._tracks:
            if track.now:
                track.place, track.last = _middle(track), seconds
                track.kinds.update(one.one.kind for one in track.now.values())
        self._merge(seconds)
        self._forget(seconds)
        return [
            GroundObject(
                track.kind,
                track.number,
                track.place,
                max(one.one.score for one in track.now.values()),
                {camera: one.one for camera, one in sorted(track.now.items())},
            )
            for track in self._tracks
            if track.now
        ]

    def _goes_on(self, one: _Standing) -> bool:
        """Whether a camera's object is still the one that it was; it is noted there then."""
        track = self._of.get((one.camera, one.one.track))
        if track is None or one.camera in track.now or _apart(track.place, one.place) > _TOO_FAR:
            return False
        track.now[one.camera] = one
        return True

    def _join(self, one: _Standing) -> None:
        """Give a new object of a camera to the nearest track that may be it, or begin one."""
        near = [
            track
            for track in self._tracks
            if one.camera not in track.now
            and _apart(track.place, one.place) <= _APART
            and _alike(track.kind, one.one.kind)
        ]
        if near:
            track = min(near, key=lambda track: _apart(track.place, one.place))
        else:
            self._count += 1
            track = _Track(self._count, one.place, Counter([one.one.kind]))
            self._tracks.append(track)
        track.now[one.camera] = one
        self._of[one.camera, one.one.track] = track

    def _merge(self, seconds: float) -> None:
        """Two tracks of different cameras that stay at one place are one: the older goes on."""
        near: dict[tuple[_Track, _Track], float] = {}
        present = [track for track in self._tracks if track.now]
        for old, young in combinations(present, 2):
            is_near = _apart(old.place, young.place) <= _APART and _alike(old.kind, young.kind)
            if not is_near or old.now.keys() & young.now.keys():
                continue
            near[old, young] = self._near.get((old, young), seconds)
            if seconds - near[old, young] >= _NEAR_SECONDS and old.now and young.now:
                old.now |= young.now
                old.place = _middle(old)
                old.kinds.update(young.kinds)
                young.now = {}
                self._tracks.remove(young)
                self._of = {key: old if one is young else one for key, one in self._of.items()}
        self._near = near

    def _forget(self, seconds: float) -> None:
        """Drop who is gone, so that memory is constant."""
        self._tracks = [one for one in self._tracks if seconds - one.last <= _GONE_SECONDS]
        kept = set(self._tracks)
        self._of = {key: track for key, track in self._of.items() if track in kept}


def _apart(one: Floats, other: Floats) -> float:
    """Metres."""
    return float(np.linalg.norm(one - other))


def _middle(track: _Track) -> Floats:
    """Where the cameras that see it say it is, on average."""
    return np.asarray(np.mean([one.place for one in track.now.values()], axis=0), np.float64)


def _alike(one: str, other: str) -> bool:
    """Whether classes agree; what only moves may be anything."""
    return MOVING in (one, other) or one == other


@dataclass(frozen=True, eq=False)
class StreamPiece:
    """An interval of a stream, with the time of each of its frames."""

    interval: Interval
    closing: Sample | None
    """The sample on the coded picture before."""
    ticks: list[int]
    """The pts of its frames."""
    begins: bool
    """Whether it is not known how the frames before go on: a scene begins."""
    picture: Picture | None
    """The coded picture at its end, RGB uint8 (H, W, 3); None AFTER, and where none is decoded."""


class DecodedPieces:
    """The pieces of a stream with their keyframes, decoded."""

    def __init__(self, header: Header, limits: Limits) -> None:
        reconstruction = Reconstruction(header, GroupReader(header, limits), attrgetter("picture"))
        self._strict = StrictTimeline(header, reconstruction, limits)

    def of(self, packet: Packet) -> Iterator[StreamPiece]:
        """The pieces of the next packet.

        Raises BitstreamError where it is damaged or follows a gap: then go on at an INTRA packet.
        """
        for one, ticks in self._strict.intervals(packet):
            has_picture = one.interval.place is not Place.AFTER
            picture = one.key.textured if has_picture else None
            yield StreamPiece(one.interval, one.closing, ticks, one.previous_key is None, picture)


class ScaffoldPieces:
    """The pieces of a stream without keyframes: no picture is decoded."""

    def __init__(self, header: Header, limits: Limits) -> None:
        self._reader, self._timeline = GroupReader(header, limits), PacketTimeline(header, limits)
        self._closing: Sample | None = None
        self._anew = True

    def of(self, packet: Packet) -> Iterator[StreamPiece]:
        if not packet.is_picture:
            return
        parsed = self._reader.read(packet)
        ticks = self._timeline.times(packet, parsed.ticks, anew=self._anew)
        opens, self._anew = parsed.opens_shot, False
        for interval in parsed.intervals:
            times, ticks = ticks[: interval.length], ticks[interval.length :]
            begins = opens and (interval.place is Place.BEFORE or interval.length == 1)
            yield StreamPiece(interval, self._closing, times, begins, None)
            self._closing, opens = interval.closing_sample, False


@dataclass(eq=False)
class Draft:
    """One frame."""

    frame: int
    """Its number, from 0."""
    ticks: int
    """Its pts."""
    piece: StreamPiece
    """Where it is from."""
    offset: int
    """Frames since the piece's begin, from 1."""
    objects: list[tuple[Track, findings.Box]] = field(default_factory=list)
    """What may be in it."""
    activity: float | None = None
    """As in `FrameAnalysis`."""
    camera: findings.CameraStep | None = None
    """As in `FrameAnalysis`."""
    is_cut: bool = False
    """Whether a scene begins here."""

    def shown(self, size: tuple[int, int]) -> Iterator[tuple[Track, findings.Box]]:
        """The objects, by number, that are in a picture of that width and height, and where."""
        whole = np.array([0.0, 0.0, *size])
        for track, box in sorted(self.objects, key=lambda pair: pair[0].number):
            if track.confirmed and findings.within(box, whole) > _VISIBLE:
                yield track, findings.clipped(box, size)


def decided(runs: list[list[Draft]]) -> Iterator[Draft]:
    """Take the frames out of those that wait, a run at a time, of which it is known what tracks
    are objects; the last run stays."""
    while len(runs) > 1 and all(
        track.confirmed or track.ended for draft in runs[0] for track, _ in draft.objects
    ):
        yield from runs.pop(0)
