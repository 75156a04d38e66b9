"""A synthetic set with exact truth: things that move over a plane, before one camera or several.

`python -m gsvc.datasets.annotated.synthetic OUT` writes one: a MOT sequence a camera, homographies,
places on the ground. All follows from the seed: who walks where, how it looks, what hides what.
"""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError, OutputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.output import explain_failure
from gsvc.datasets.annotated import synthetic_drawing as drawing, truth as annotated_clips
from gsvc.datasets.annotated.annotation_formats import mot_text, read_mot, sequence_info
from gsvc.datasets.annotated.synthetic_drawing import Actor, Matrix, PlacedSprite
from gsvc.datasets.annotated.truth import Boxes, Floats, Places, joined, make_boxes, make_places

_RANGES = {
    "frames": (1, 100_000, ""),
    "cameras": (1, 16, "around the ground"),
    "people": (0, 200, ""),
    "animals": (0, 200, ""),
    "things": (0, 200, ""),
    "pillars": (0, 50, "that hide what is behind them"),
    "sway": (0, 20, "degrees by which the cameras turn to and fro"),
    "noise": (0, 50, "grey levels"),
    "width": (64, 4096, "pixels"),
    "height": (64, 4096, "pixels"),
}
"""The least and the most, and what the command's help says."""


@dataclass(frozen=True)
class SceneSettings:
    """One scene. Raises ConfigError for a value out of range (`_RANGES`)."""

    seed: int = 0
    frames: int = 75
    frame_rate: Fraction = Fraction(25)
    """Frames per second."""
    width: int = 640
    """Pixels, even."""
    height: int = 360
    """Pixels, even."""
    cameras: int = 1
    people: int = 4
    animals: int = 2
    things: int = 2
    pillars: int = 2
    sway: float = 0.0
    """Degrees by which the cameras turn to and fro."""
    noise: float = 1.5
    """Standard deviation in grey levels."""
    background: Path | None = None
    """A photograph in place of the drawn ground."""
    cutouts: Path | None = None
    """A folder with pictures with alpha to move in place of drawn shapes: person/, animal/ and
    thing/, each as far as there is one; files beside the folders are things."""

    def __post_init__(self) -> None:
        for name, (low, high, _) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{name} {value}: must be {low} to {high}")
        if self.frame_rate <= 0:
            raise ConfigError(f"frame_rate {self.frame_rate}: must be above 0")
        if self.width % 2 or self.height % 2:
            raise ConfigError(f"size {self.width}x{self.height}: make both even")


SIDE = 12.0
"""Metres of the square, 0 to SIDE in x and y, that everything moves in."""
_APART = 0.7  # metres that two things keep between them, where a path that does is found
_TRIES = 40


def walk(random: np.random.Generator, steps: int, stride: float, others: list[Floats]) -> Floats:
    """A path through the square that keeps away from others': float64 (steps, 2), metres.

    It goes straight from one random place to the next, `stride` metres a step; 0 stands still.
    """
    best, most = np.zeros((steps, 2)), -1.0
    for _ in range(_TRIES):
        path = _walk(random, steps, stride)
        apart = (np.linalg.norm(path - other, axis=1).min() for other in others)
        nearest = float(min(apart, default=_APART))
        if nearest > most:
            best, most = path, nearest
        if most >= _APART:
            break
    return best


def _walk(random: np.random.Generator, steps: int, stride: float) -> Floats:
    place, goal = random.uniform(0.5, SIDE - 0.5, (2, 2))
    path = np.empty((steps, 2))
    for index in range(steps):
        path[index] = place
        while np.linalg.norm(goal - place) <= stride:
            goal = random.uniform(0.5, SIDE - 0.5, 2)
        place = place + stride * (goal - place) / np.linalg.norm(goal - place)
    return path


_HEIGHTS = {"person": (1.55, 1.9), "animal": (0.6, 1.1), "thing": (0.6, 1.0)}  # metres
_SPEEDS = {"person": (0.8, 1.6), "animal": (0.6, 2.0), "thing": (0.3, 1.0)}
"""Metres per second."""
_STRIDE = 0.8  # of a walk's full cycle: metres for each metre of height
_PILLAR = 2.2  # metres
_LIFT, _AWAY = 4.2, 13.0  # metres of the cameras above the ground, and from its middle
_VIEW = 1.1  # focal length for each pixel of width
_LEAST_SEEN = 1  # pixels from which on a thing is in the truth of a frame


class Shot(NamedTuple):
    """One frame of one camera."""

    picture: Picture
    """RGB uint8 (H, W, 3)."""
    truth: Boxes
    """Of what is seen of it at least a pixel. Boxes span what hides behind others, not what is
    outside the picture; `visibility` counts both as hidden."""


@dataclass(frozen=True)
class SyntheticScene:
    """Everything is fixed: a shot is the same each time that it is taken."""

    settings: SceneSettings
    cameras: tuple[drawing.PinholeCamera, ...]
    actors: tuple[Actor, ...]
    backdrops: tuple[drawing.Backdrop, ...] = field(repr=False)
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
        pixels, owner = drawing.painted(self.backdrops[camera].frame(time), order)
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

    def _standing(self, actor: Actor, projection: Matrix, index: int) -> PlacedSprite | None:
        gone = np.linalg.norm(np.diff(actor.path[: index + 1], axis=0), axis=1).sum()
        ahead = actor.path[min(index + 1, len(actor.path) - 1)] - actor.path[max(index - 1, 0)]
        sprite = actor.look(float(gone / (_STRIDE * actor.height)) % 1)
        return drawing.placed(actor, sprite, projection, actor.path[index], ahead)

    def _truth(self, index: int, order: list[PlacedSprite], owner: NDArray[np.int32]) -> Boxes:
        seen = np.bincount(owner.ravel(), minlength=len(order) + 1)[1:]
        width, height = self.settings.width, self.settings.height
        rows = [
            (one, count)
            for one, count in zip(order, seen, strict=True)
            if one.actor.id and count >= _LEAST_SEEN
        ]
        boxes = np.array([one.box for one, _ in rows]).reshape(-1, 4)
        return make_boxes(
            np.full(len(rows), index),
            np.clip(boxes, 0, (width, height, width, height)),
            label=[one.actor.label for one, _ in rows],
            id=[one.actor.id for one, _ in rows],
            visibility=[min(1.0, count / one.pixels) for one, count in rows],
        )


def make_scene(settings: SceneSettings) -> SyntheticScene:
    """The scene of some settings. Raises InputError for a photograph or cut-outs of no use."""
    photo = annotated_clips.read_picture(settings.background) if settings.background else None
    cameras = tuple(_camera(settings, index) for index in range(settings.cameras))
    return SyntheticScene(
        settings,
        cameras,
        tuple(_actors(settings)),
        tuple(drawing.Backdrop(camera, settings.seed, photo) for camera in cameras),
    )


def _camera(settings: SceneSettings, index: int) -> drawing.PinholeCamera:
    """They stand in a circle, the first where y is least."""
    angle = 2 * np.pi * index / settings.cameras - np.pi / 2
    x, y = (SIDE / 2 + _AWAY * turn for turn in (np.cos(angle), np.sin(angle)))
    return drawing.PinholeCamera(
        settings.width,
        settings.height,
        _VIEW * settings.width,
        (float(x), float(y), _LIFT),
        (SIDE / 2, SIDE / 2, 0.6),
        settings.sway,
    )


def _actors(settings: SceneSettings) -> Iterator[Actor]:
    random = np.random.default_rng(settings.seed)
    given = {} if settings.cutouts is None else drawing.cutouts(settings.cutouts)
    counts = {"person": settings.people, "animal": settings.animals, "thing": settings.things}
    paths: list[Floats] = []
    for _ in range(settings.pillars):
        paths.append(walk(random, settings.frames, 0.0, paths))
        yield Actor(0, "", _PILLAR, paths[-1], drawing.pillar(random))
    labels = [label for label, count in counts.items() for _ in range(count)]
    for number, label in enumerate(labels, 1):
        speed = random.uniform(*_SPEEDS[label]) / float(settings.frame_rate)
        paths.append(walk(random, settings.frames, speed, paths))
        if files := given.get(label):
            look = drawing.cutout(files[random.integers(len(files))])
        else:
            look = drawing.DRAWN[label](random)
        yield Actor(number, label, random.uniform(*_HEIGHTS[label]), paths[-1], look)


CAMERAS = "cameras.json"
PLACES = "places.csv"
_HEADER = ["frame", "id", "x", "y"]


def write_synthetic(scene: SyntheticScene, folder: str | Path) -> None:
    """Write a scene into a new folder, whole or not at all.

    C1/, C2/ ... are MOT sequences with PNG pictures. `cameras.json` has each camera's homography
    for each frame: (3, 3), from metres on the ground to pixels. `places.csv` has frame (from 1),
    id, x and y in metres. Raises OutputError, for a folder that exists as well.
    """
    folder = Path(folder)
    if folder.exists():
        raise OutputError(f"{folder} already exists: give another name")
    with explain_failure(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=".") as temporary:
            made = Path(temporary) / folder.name
            for camera in range(scene.settings.cameras):
                _write_view(scene, camera, made / f"C{camera + 1}")
            (made / CAMERAS).write_text(json.dumps(_cameras(scene)))
            (made / PLACES).write_text(",".join(_HEADER) + "\n" + "".join(_lines(scene.places)))
            made.rename(folder)


def read_synthetic(folder: str | Path) -> annotated_clips.MultiViewClip:
    """The views and places of a set that `write_synthetic` wrote. Raises InputError."""
    folder = Path(folder)
    found = (path.parent for path in folder.glob("C*/seqinfo.ini"))
    views = sorted(found, key=lambda view: (len(view.name), view.name))
    if not views:
        raise InputError(f"{folder}: no C1/seqinfo.ini: give a folder of the synthetic set")
    rows = list(csv.reader(io.StringIO(annotated_clips.read_text(folder / PLACES))))
    try:
        if rows[0] != _HEADER:
            raise ValueError(f"header {rows[0]}")
        table = np.array([[float(cell) for cell in row] for row in rows[1:]]).reshape(-1, 4)
    except (ValueError, IndexError) as error:
        why = f"{folder / PLACES}: {error}: write the columns {', '.join(_HEADER)} as numbers"
        raise InputError(why) from error
    places = make_places(table[:, 0] - 1, table[:, 2:], table[:, 1])
    clips = tuple(read_mot(view) for view in views)
    return annotated_clips.MultiViewClip(clips, places, _homographies(folder / CAMERAS, clips))


def _homographies(
    path: Path, views: tuple[annotated_clips.AnnotatedClip, ...]
) -> tuple[Floats, ...]:
    content = annotated_clips.read_json(path)
    try:
        found = tuple(np.array(content[view.name], np.float64) for view in views)
        for matrices, view in zip(found, views, strict=True):
            if matrices.shape != (len(view.pictures), 3, 3) or not np.linalg.det(matrices).all():
                raise ValueError(f"the homographies of {view.name}")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: {error} is missing or wrong: each camera has an invertible 3 x 3 matrix for "
            "each frame"
        ) from error
    return found


def _write_view(scene: SyntheticScene, camera: int, folder: Path) -> None:
    settings, truth = scene.settings, []
    for inner in (folder / "img1", folder / "gt"):
        inner.mkdir(parents=True)
    for index, shot in enumerate(scene.shots(camera), 1):
        _, data = cv2.imencode(".png", cv2.cvtColor(shot.picture, cv2.COLOR_RGB2BGR))
        (folder / "img1" / f"{index:06}.png").write_bytes(data.tobytes())
        truth.append(shot.truth)
    size = settings.width, settings.height
    info = sequence_info(folder.name, settings.frame_rate, settings.frames, size)
    (folder / "seqinfo.ini").write_text(info)
    (folder / "gt" / "gt.txt").write_text(mot_text(joined(truth)))


def _cameras(scene: SyntheticScene) -> dict[str, list[list[list[float]]]]:
    found = {}
    for number, camera in enumerate(scene.cameras, 1):
        times = map(scene.time, range(scene.settings.frames))
        matrices = np.array([camera.homography(time) for time in times])
        found[f"C{number}"] = (matrices / matrices[:, 2:, 2:]).tolist()
    return found


def _lines(places: Places) -> Iterator[str]:
    order = np.lexsort((places.id, places.frame))
    for row, (x, y) in zip(order, places.place[order], strict=True):
        yield f"{places.frame[row] + 1},{places.id[row]},{x:.4f},{y:.4f}\n"


_HELP = {
    "seed": "decides all that is left open",
    "frame_rate": "frames per second",
    "background": "a photograph in place of the drawn ground",
    "cutouts": "a folder of pictures with alpha in person/ animal/ thing/, to move instead",
} | {name: told for name, (_, _, told) in _RANGES.items()}


def _main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gsvc.datasets.annotated.synthetic",
        description="Write a synthetic scene with exact truth: OUT/C1 and so on are MOT sequences.",
    )
    parser.add_argument("out", metavar="OUT", help="the folder to make")
    for one in fields(SceneSettings):
        name = f"--{one.name.replace('_', '-')}"
        kind = Path if one.default is None else type(one.default)
        told = _HELP[one.name] + ("" if one.default is None else " (%(default)s)")
        parser.add_argument(name, type=kind, default=one.default, help=told.strip())
    chosen = vars(parser.parse_args(arguments))
    try:
        out = Path(chosen.pop("out"))
        scene = make_scene(SceneSettings(**chosen))
        write_synthetic(scene, out)
        print(f"{out}: {len(scene.cameras)} cameras, {scene.settings.frames} frames each")
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
