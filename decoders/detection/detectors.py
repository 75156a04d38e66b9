"""What looks for things in keyframes, by name: the detectors that gsvc brings, and those of others.

People are looked for in the whole picture, and where something moves. torchvision's models, ONNX
files and files of Ultralytics are each one class with the call of `Detector`; none comes with gsvc.
"""

import logging
from ast import literal_eval
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError, MissingDependencyError, MissingModelError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.objects import COCO, MOVING, PERSON
from gsvc.codec.weights.extras import find_class
from gsvc.decoders.detection import coco_detector, findings, sent_objects
from gsvc.decoders.detection.findings import Detection
from gsvc.decoders.detection.people import DetectedPose, PoseEstimator

_MOST = 4  # people that are looked for in the whole picture, and in each place that moves
_AROUND = 1.6
"""How much larger the square that is looked at is than the longer side of what moves."""
_LEAST_SIDE = 24  # pixels, of what moves, below which nobody is recognised
_LEAST_SHARED = 0.3  # of a person within what moves there


class PeopleFinder:
    """Finds people; the constructor raises MissingModelError without the models."""

    def __init__(self) -> None:
        self._estimate = PoseEstimator(_MOST)

    def __call__(self, picture: Picture, moving: Sequence[Detection]) -> list[Detection]:
        """People in RGB uint8 (H, W, 3); `moving` says where to look closer."""
        found = [_person(pose, 0, 0, picture.shape[1::-1]) for pose in self._estimate(picture)]
        for place in moving:
            if not any(findings.within(one.box, place.box) > _LEAST_SHARED for one in found):
                found += self._near(picture, place.box)
        return found

    def _near(self, picture: Picture, box: findings.Box) -> list[Detection]:
        side = max(box[2] - box[0], box[3] - box[1])
        if side < _LEAST_SIDE:
            return []
        centre, half = (box[:2] + box[2:]) / 2, _AROUND * side / 2
        left, top = np.maximum(centre - half, 0).astype(int).tolist()
        right, bottom = np.ceil(centre + half).astype(int).tolist()
        crop = np.ascontiguousarray(picture[top:bottom, left:right])
        people = [_person(pose, left, top, picture.shape[1::-1]) for pose in self._estimate(crop)]
        return [one for one in people if findings.within(one.box, box) > _LEAST_SHARED]


def _person(pose: DetectedPose, left: int, top: int, size: tuple[int, int]) -> Detection:
    """The person of a pose in a crop that begins at `left`, `top` of a picture of that size."""
    box = np.array(pose.box) + (left, top, left, top)
    reach = sent_objects.REACH * (box[2:] - box[:2])
    points = pose.points + (left, top)
    inside = ((points >= 0) & (points < size)).all(axis=1)
    score = float(pose.visibility[inside].mean()) if inside.any() else 0.0
    return Detection(PERSON, np.concatenate([box[:2] - reach, box[2:] + reach]), score)


NONE, OBJECTS = "none", "objects"
Finder = Callable[[Picture, Sequence[Detection]], list[Detection]]
"""Finds things in a picture; told what moves there."""

_log = logging.getLogger(__name__)


def checked(detector: findings.Detector, least_score: float) -> Finder:
    """A user's detector; raises ConfigError where it gives what is no list of detections."""
    name = type(detector).__name__

    def find(picture: Picture, _moving: Sequence[Detection]) -> list[Detection]:
        found = detector(picture)
        for one in found:
            box = np.asarray(getattr(one, "box", None), np.float64)
            if box.shape != (4,) or not np.isfinite(box).all() or (box[2:] <= box[:2]).any():
                raise ConfigError(
                    f"detector {name} gave {one!r}: it must give gsvc.Detection with a box of "
                    "left, top, right, bottom"
                )
        return [
            Detection(str(o.kind), np.asarray(o.box, np.float64), float(o.score))
            for o in found
            if o.score >= least_score
        ]

    return find


def _coco() -> Finder:
    detector = coco_detector.CocoDetector()
    return lambda picture, _moving: detector(picture)


def _what_is_there() -> Finder | None:
    """The best whose models and packages are on this machine."""
    lacks = ""
    for make in (_coco, PeopleFinder):
        try:
            finder = make()
        except (MissingModelError, MissingDependencyError) as error:
            lacks = lacks or str(error)
            continue
        if lacks:
            _log.warning("of all classes only people are recognised: %s", lacks)
        return finder
    _log.warning("nothing is recognised, only what moves is found: %s", lacks)
    return None


OWN_FINDERS: dict[str, Callable[[], Finder | None]] = {
    findings.AUTO: _what_is_there,
    findings.COCO_DETECTOR: _coco,
    findings.PEOPLE_DETECTOR: PeopleFinder,
    MOVING: lambda: None,
    NONE: lambda: None,
}
"""What looks at coded pictures, or None where nothing does, by the name of what gsvc brings.

They raise MissingModelError, MissingDependencyError."""

_SIDE = 640
_LEAST_SCORE = 0.05
_SUPPRESSION_OVERLAP = 0.5
_GRAY = 114.0
_KEYS = "names", "imgsz"
_MOST_CLASSES = 10_000


class TorchvisionDetector:
    """A detection model of torchvision, or any module with its input and output."""

    def __init__(self, model: Any, names: Sequence[str] = ()) -> None:
        """`names`: of its classes, by label."""
        self._model, self._names = model.eval(), names

    def __call__(self, picture: Picture) -> list[Detection]:
        import torch

        with torch.inference_mode():
            values = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)
            found = self._model([values.float() / 255])[0]
        rows = zip(*(found[key].tolist() for key in ("labels", "boxes", "scores")), strict=True)
        return [
            Detection(_name(self._names, label), np.array(box), score) for label, box, score in rows
        ]


class OnnxDetector:
    """An ONNX file of the YOLO family as Ultralytics exports it, run by OpenCV.

    It takes a square of RGB in [0, 1] and gives (1, 4 + classes, n), centre and size of boxes and
    the scores of classes, or (1, n, 6): left, top, right, bottom, score, class.
    """

    def __init__(self, path: str | Path, names: Sequence[str] = (), side: int = 0) -> None:
        """`names`: of its classes, by number; `side`: of the square, in pixels.

        Where they are left out the file tells them, if the package onnx is there to read it;
        otherwise 80 classes are those of COCO, and the side is 640. Raises MissingModelError for a
        file that cannot be loaded.
        """
        try:
            self._net = cv2.dnn.readNetFromONNX(str(path))
        except cv2.error as error:
            raise MissingModelError(f"{path} cannot be loaded as ONNX: check the file") from error
        told, told_side = _metadata(path)
        self._path, self._names, self._side = path, names or told, side or told_side

    def __call__(self, picture: Picture) -> list[Detection]:
        height, width = picture.shape[:2]
        scale = self._side / max(height, width)
        square = np.full((self._side, self._side, 3), _GRAY, np.float32)
        small = cv2.resize(picture, (round(width * scale), round(height * scale)))
        square[: small.shape[0], : small.shape[1]] = small
        try:
            self._net.setInput(cv2.dnn.blobFromImage(square, 1 / 255))
            output = np.asarray(self._net.forward())
        except cv2.error as error:
            raise ConfigError(
                f"{self._path} does not run on a picture of {self._side}x{self._side}: make an "
                "OnnxDetector of your own with its side"
            ) from error
        boxes, scores, labels = self._rows(output)
        if not self._names and output.shape[1] == 4 + len(COCO):
            self._names = COCO
        return [
            Detection(_name(self._names, int(labels[n])), boxes[n] / scale, float(scores[n]))
            for n in _best(boxes, scores, labels)
        ]

    def _rows(
        self, output: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
        """Boxes (n, 4) in pixels of the square, scores and labels."""
        if output.ndim != 3 or output.shape[0] != 1 or min(output.shape) < 1:
            raise ConfigError(f"{self._path} gives {output.shape}: (1, 4 + classes, n) is needed")
        rows = output[0].astype(np.float64)
        if rows.shape[1] == 6:
            return rows[:, :4], rows[:, 4], rows[:, 5].astype(np.intp)
        rows = rows.T
        half = rows[:, 2:4] / 2
        boxes = np.concatenate([rows[:, :2] - half, rows[:, :2] + half], axis=1)
        return boxes, rows[:, 4:].max(axis=1), rows[:, 4:].argmax(axis=1)


class UltralyticsDetector:
    """A .pt file of Ultralytics, run by their package, which is to be installed.

    Such files are pickles: load only what you trust.
    """

    def __init__(self, path: str | Path) -> None:
        """Raises MissingDependencyError without the package, MissingModelError without the file."""
        try:
            from ultralytics import YOLO
        except ImportError as error:
            why = f"{path} needs Ultralytics: pip install ultralytics, or export it as .onnx"
            raise MissingDependencyError(why) from error
        self._model = YOLO(str(path))

    def __call__(self, picture: Picture) -> list[Detection]:
        found = self._model(picture[..., ::-1], verbose=False)[0]
        rows = found.boxes.data.tolist()
        return [Detection(found.names[int(row[5])], np.array(row[:4]), row[4]) for row in rows]


def _metadata(path: str | Path) -> tuple[Sequence[str], int]:
    """Names and side that Ultralytics writes into its exports, where onnx is installed."""
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        return (), _SIDE
    try:
        entries = onnx.load(path, load_external_data=False).metadata_props
        told = {one.key: literal_eval(one.value) for one in entries if one.key in _KEYS}
        names = dict(told.get("names", {}))
        count = min(_MOST_CLASSES, max(names, default=-1) + 1)
        ordered = [str(names.get(n, f"class {n}")) for n in range(count)]
        return ordered, int(max(told.get("imgsz", [_SIDE])))
    except (ValueError, TypeError, SyntaxError, OSError, DecodeError):
        return (), _SIDE  # another tool's file


def from_torchvision(name: str) -> findings.Detector:
    """A detection model of torchvision by name, with its own weights, which it may download.

    Raises MissingDependencyError without torchvision, ConfigError for an unknown name.
    """
    try:
        from torchvision.models import detection, get_model, get_model_weights, list_models
    except ImportError as error:
        why = f"torchvision:{name} needs torchvision: pip install torchvision"
        raise MissingDependencyError(why) from error
    names = list_models(module=detection)
    if name not in names:
        raise ConfigError(f"torchvision has no detector {name}: choose {', '.join(names)}")
    weights = get_model_weights(name).DEFAULT
    return TorchvisionDetector(get_model(name, weights=weights), weights.meta["categories"])


def _best(
    boxes: NDArray[np.float64], scores: NDArray[np.float64], labels: NDArray[np.intp]
) -> list[int]:
    """Rows that no surer one of their class covers."""
    corners = [[x, y, right - x, bottom - y] for x, y, right, bottom in boxes.tolist()]
    kept = cv2.dnn.NMSBoxesBatched(
        corners, scores.tolist(), labels.tolist(), _LEAST_SCORE, _SUPPRESSION_OVERLAP
    )
    return [int(n) for n in kept]


def _name(names: Sequence[str], label: int) -> str:
    return names[label] if 0 <= label < len(names) else f"class {label}"


TORCHVISION = "torchvision:"
FILES = ".onnx", ".pt"


def find_finder(name: str, least_score: float) -> Finder | None:
    """What looks at coded pictures; None where nothing does.

    Raises ConfigError for an unknown name, MissingModelError, MissingDependencyError.
    """
    make = OWN_FINDERS.get(name)
    return make() if make else checked(named_detector(name), least_score)


def named_detector(name: str) -> findings.Detector:
    """A detector of others. Raises ConfigError for an unknown name, MissingModelError and
    MissingDependencyError for what it lacks."""
    if name.startswith(TORCHVISION):
        return from_torchvision(name.removeprefix(TORCHVISION))
    if name.endswith(FILES):
        if not Path(name).is_file():
            raise MissingModelError(f"{name}: no such file: check the name")
        return OnnxDetector(name) if name.endswith(".onnx") else UltralyticsDetector(name)
    if ":" not in name:
        raise ConfigError(
            f"detector {name}: choose {findings.AUTO}, {OBJECTS}, {findings.COCO_DETECTOR}, "
            f"{findings.PEOPLE_DETECTOR}, {MOVING}, {NONE}, {TORCHVISION}NAME, a file .onnx or "
            ".pt, or module:Class"
        )
    try:
        detector: findings.Detector = find_class(name)()
    except TypeError as error:
        raise ConfigError(f"{name}: {error}: write a class that is made without values") from error
    if not callable(detector):
        raise ConfigError(f"{name} is no detector: it must be called with a picture")
    return detector
