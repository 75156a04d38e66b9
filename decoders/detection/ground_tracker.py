"""Several cameras that see one piece of ground: their objects joined where they stand.

Each object stands under the middle of its box's lower edge. Those of different cameras that stand
at one place are one, as long as they do; see T. Chavdarova et al., "WILDTRACK", CVPR 2018, for the
setting.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.objects import MOVING
from gsvc.decoders.detection.findings import TrackedObject

Floats = NDArray[np.float64]

_APART = 1.0
"""Metres within which what two cameras see is one object."""
_TOO_FAR = 1.25
"""Metres from where the others see an object, from which a camera sees another one."""
_NEAR_SECONDS = 0.2
"""For which two objects stand at one place until they are one."""
_GONE_SECONDS = 1.5
"""After which an object that no camera sees has left."""
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
    seen: Mapping[int, TrackedObject]
    """What each camera that sees it calls it, by the number of the stream, from 0."""


@dataclass(frozen=True, eq=False)
class _Standing:
    """An object of one camera, where it stands."""

    camera: int
    one: TrackedObject
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


def standing(one: TrackedObject, homography: Floats, height: int) -> Floats | None:
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
        self, seconds: float, cameras: Sequence[Sequence[tuple[TrackedObject, Floats]]]
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
        return [_shown(track) for track in self._tracks if track.now]

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
                self._absorb(old, young)
        self._near = near

    def _absorb(self, old: _Track, young: _Track) -> None:
        old.now |= young.now
        old.place = _middle(old)
        old.kinds.update(young.kinds)
        young.now = {}
        self._tracks.remove(young)
        self._of = {key: old if track is young else track for key, track in self._of.items()}

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


def _shown(track: _Track) -> GroundObject:
    seen = {camera: one.one for camera, one in sorted(track.now.items())}
    score = max(one.score for one in seen.values())
    return GroundObject(track.kind, track.number, track.place, score, seen)
