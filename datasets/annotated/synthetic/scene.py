"""A synthetic scene: its cameras, its actors, what each frame shows and what is true of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.datasets.annotated.boxes import Boxes, Floats, Places, make_boxes, make_places
from gsvc.datasets.annotated.clips import read_picture
from gsvc.datasets.annotated.synthetic.camera import Camera, Matrix
from gsvc.datasets.annotated.synthetic.ground import Backdrop
from gsvc.datasets.annotated.synthetic.paths import SIDE, walk
from gsvc.datasets.annotated.synthetic.placing import Placed, painted, placed
from gsvc.datasets.annotated.synthetic.settings import SceneSettings
from gsvc.datasets.annotated.synthetic.sprites import DRAWN, Look, cutout, cutouts, pillar

_HEIGHTS = {"person": (1.55, 1.9), "animal": (0.6, 1.1), "thing": (0.6, 1.0)}
"""Metres."""
_SPEEDS = {"person": (0.8, 1.6), "animal": (0.6, 2.0), "thing": (0.3, 1.0)}
"""Metres per second."""
_STRIDE = 0.8
"""Of a walk's full cycle: metres for each metre of height."""
_PILLAR = 2.2
"""Metres."""
_LIFT, _AWAY = 4.2, 13.0
"""Metres of the cameras above the ground, and from its middle."""
_VIEW = 1.1
"""Focal length for each pixel of width."""
_LEAST_SEEN = 1
"""Pixels from which on a thing is in the truth of a frame."""


@dataclass(frozen=True)
class Actor:
    """Something that stands or moves on the ground."""

    id: int
    """Of its track, from 1; 0 for what is not in the truth."""
    label: str
    """Its class."""
    height: float
    """Metres."""
    path: Floats = field(repr=False)
    """Where it is in each frame, metres, (frames, 2)."""
    look: Look = field(repr=False)


@dataclass(frozen=True)
class Shot:
    """One frame of one camera."""

    picture: Picture
    """RGB uint8 (H, W, 3)."""
    truth: Boxes
    """Of what is seen of it at least a pixel. Boxes span what hides behind others, not what is
    outside the picture; `visibility` counts both as hidden."""


@dataclass(frozen=True)
class Scene:
    """Everything is fixed: a shot is the same each time that it is taken."""

    settings: SceneSettings
    cameras: tuple[Camera, ...]
    actors: tuple[Actor, ...]
    backdrops: tuple[Backdrop, ...] = field(repr=False)
    """One for each camera."""

    def shots(self, camera: int) -> Iterator[Shot]:
        """All frames of a camera, by its index from 0."""
        return (self.shot(camera, index) for index in range(self.settings.frames))

    def shot(self, camera: int, index: int) -> Shot:
        """Frame `index` of a camera, both from 0."""
        settings, time = self.settings, self.time(index)
        projection = self.cameras[camera].projection(time)
        standing = [self._standing(actor, projection, index) for actor in self.actors]
        order = sorted((one for one in standing if one is not None), key=lambda one: -one.depth)
        pixels, owner = painted(self.backdrops[camera].frame(time), order)
        random = np.random.default_rng((settings.seed, camera, index))
        pixels += random.normal(0, settings.noise, pixels.shape).astype(np.float32)
        picture = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
        return Shot(picture, self._truth(index, order, owner))

    def time(self, index: int) -> float:
        """Seconds from the start to a frame."""
        return float(index / self.settings.frame_rate)

    @property
    def places(self) -> Places:
        """Where everything is that has an id, seen or not."""
        known = [actor for actor in self.actors if actor.id]
        count = self.settings.frames
        return make_places(
            np.tile(np.arange(count), len(known)),
            np.concatenate([np.empty((0, 2)), *(actor.path for actor in known)]),
            np.repeat([actor.id for actor in known], count),
        )

    def _standing(self, actor: Actor, projection: Matrix, index: int) -> Placed | None:
        before = actor.path[: index + 1]
        gone = np.linalg.norm(np.diff(before, axis=0), axis=1).sum()
        ahead = actor.path[min(index + 1, len(actor.path) - 1)] - actor.path[max(index - 1, 0)]
        sprite = actor.look(float(gone / (_STRIDE * actor.height)) % 1)
        return placed(actor, sprite, projection, actor.path[index], ahead)

    def _truth(self, index: int, order: list[Placed], owner: NDArray[np.int32]) -> Boxes:
        seen = np.bincount(owner.ravel(), minlength=len(order) + 1)[1:]
        width, height = self.settings.width, self.settings.height
        rows = [
            (one, count)
            for one, count in zip(order, seen, strict=True)
            if one.actor.id and count >= _LEAST_SEEN
        ]
        boxes = np.array([one.box for one, _ in rows], np.float64).reshape(-1, 4)
        return make_boxes(
            np.full(len(rows), index),
            np.clip(boxes, 0, (width, height, width, height)),
            label=[one.actor.label for one, _ in rows],
            id=[one.actor.id for one, _ in rows],
            visibility=[min(1.0, count / one.pixels) for one, count in rows],
        )


def make_scene(settings: SceneSettings) -> Scene:
    """The scene of some settings. Raises InputError for a photograph or cut-outs of no use."""
    photo = None if settings.background is None else read_picture(settings.background)
    cameras = tuple(_camera(settings, index) for index in range(settings.cameras))
    return Scene(
        settings,
        cameras,
        tuple(_actors(settings)),
        tuple(Backdrop(camera, settings.seed, photo) for camera in cameras),
    )


def _camera(settings: SceneSettings, index: int) -> Camera:
    """They stand in a circle, the first where y is least."""
    angle = 2 * np.pi * index / settings.cameras - np.pi / 2
    x, y = (SIDE / 2 + _AWAY * turn for turn in (np.cos(angle), np.sin(angle)))
    return Camera(
        settings.width,
        settings.height,
        _VIEW * settings.width,
        (float(x), float(y), _LIFT),
        (SIDE / 2, SIDE / 2, 0.6),
        settings.sway,
    )


def _actors(settings: SceneSettings) -> Iterator[Actor]:
    random = np.random.default_rng(settings.seed)
    given = {} if settings.cutouts is None else cutouts(settings.cutouts)
    counts = {"person": settings.people, "animal": settings.animals, "thing": settings.things}
    paths: list[Floats] = []
    for _ in range(settings.pillars):
        paths.append(walk(random, settings.frames, 0.0, paths))
        yield Actor(0, "", _PILLAR, paths[-1], pillar(random))
    labels = [label for label, count in counts.items() for _ in range(count)]
    for number, label in enumerate(labels, 1):
        speed = random.uniform(*_SPEEDS[label]) / float(settings.frame_rate)
        paths.append(walk(random, settings.frames, speed, paths))
        files = given.get(label)
        look = cutout(files[random.integers(len(files))]) if files else DRAWN[label](random)
        yield Actor(number, label, random.uniform(*_HEIGHTS[label]), paths[-1], look)
