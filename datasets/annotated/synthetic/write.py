"""The synthetic set as files: a MOT sequence a camera, homographies, places on the ground."""

import csv
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np

from gsvc.codec.errors import InputError, OutputError
from gsvc.codec.output import explain_failure
from gsvc.datasets.annotated.boxes import Floats, Places, joined, make_places
from gsvc.datasets.annotated.clips import AnnotatedClip, MultiViewClip
from gsvc.datasets.annotated.mot import mot_text, read_mot, sequence_info
from gsvc.datasets.annotated.synthetic.camera import Matrix
from gsvc.datasets.annotated.synthetic.scene import Scene
from gsvc.datasets.annotated.text_files import read_json, read_text

CAMERAS = "cameras.json"
PLACES = "places.csv"
_HEADER = ["frame", "id", "x", "y"]


def write_synthetic(scene: Scene, folder: str | Path) -> None:
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
            (made / PLACES).write_text(_places_text(scene.places))
            made.rename(folder)


def read_synthetic(folder: str | Path) -> MultiViewClip:
    """The views and places of a set that `write_synthetic` wrote. Raises InputError."""
    folder = Path(folder)
    found = (path.parent for path in folder.glob("C*/seqinfo.ini"))
    views = sorted(found, key=lambda view: (len(view.name), view.name))
    if not views:
        raise InputError(f"{folder}: no C1/seqinfo.ini: give a folder of the synthetic set")
    rows = list(csv.reader(io.StringIO(read_text(folder / PLACES))))
    try:
        if rows[0] != _HEADER:
            raise ValueError(f"header {rows[0]}")
        table = np.array([[float(cell) for cell in row] for row in rows[1:]]).reshape(-1, 4)
    except (ValueError, IndexError) as error:
        raise InputError(
            f"{folder / PLACES}: {error}: write the columns {', '.join(_HEADER)} as numbers"
        ) from error
    places = make_places(table[:, 0] - 1, table[:, 2:], table[:, 1])
    clips = tuple(read_mot(view) for view in views)
    return MultiViewClip(clips, places, _homographies(folder / CAMERAS, clips))


def _homographies(path: Path, views: tuple[AnnotatedClip, ...]) -> tuple[Floats, ...]:
    content = read_json(path)
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


def _write_view(scene: Scene, camera: int, folder: Path) -> None:
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


def _cameras(scene: Scene) -> dict[str, list[list[list[float]]]]:
    times = [scene.time(index) for index in range(scene.settings.frames)]
    return {
        f"C{number}": [_unit(camera.homography(time)) for time in times]
        for number, camera in enumerate(scene.cameras, 1)
    }


def _unit(homography: Matrix) -> list[list[float]]:
    """Scaled so that its last entry is 1."""
    rows: list[list[float]] = (homography / homography[2, 2]).tolist()
    return rows


def _places_text(places: Places) -> str:
    order = np.lexsort((places.id, places.frame))
    rows = (
        f"{places.frame[row] + 1},{places.id[row]},{x:.4f},{y:.4f}\n"
        for row, (x, y) in zip(order, places.place[order], strict=True)
    )
    return ",".join(_HEADER) + "\n" + "".join(rows)
