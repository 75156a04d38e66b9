"""The extractors: their model files in the cache, the person mask, the body poses."""

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gsvc import ConfigError, MissingModelError, OutputError, Picture
from gsvc.codec.weights.model_files import EXTRACTORS, cached_path, model_path, pull, state_of
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.decoders.detection.people import COCO17, PoseEstimator
from gsvc.encoders.scaffold.segmentation_extractor import PersonSegmenter
from needs import need_clip, need_models

FACE = COCO17[:5]


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("GSVC_CACHE", str(cache))
    return cache


@pytest.fixture(scope="module")
def model_files() -> dict[str, bytes]:
    """The real files by their path in the wheel, out of the user's cache."""
    need_models()
    return {model.path: model_path(name).read_bytes() for name, model in EXTRACTORS.items()}


@pytest.fixture(scope="module")
def carphone() -> Picture:
    """First frame of carphone in its own size, 176x144: one man, from the chest up."""
    need_models()
    return load_clip(need_clip("carphone"), frames=1, short_side=None)[0][0]


def _wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return path


def test_cache_folder_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GSVC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cached_path(EXTRACTORS["pose_detection"]).is_relative_to(
        tmp_path / "xdg" / "gsvc" / "models"
    )
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path / "own"))
    assert cached_path(EXTRACTORS["pose_detection"]).is_relative_to(tmp_path / "own" / "models")


def test_missing_model_names_the_command(empty_cache: Path) -> None:
    with pytest.raises(MissingModelError, match="run: gsvc models pull$"):
        PersonSegmenter()
    with pytest.raises(MissingModelError, match="run: gsvc models pull$"):
        PoseEstimator()
    assert {state_of(model) for model in EXTRACTORS.values()} == {"missing"}


def test_unknown_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="pose_detection.*rife"):
        model_path("yolo")


def test_pull_from_a_wheel_then_nothing_to_do(
    empty_cache: Path, tmp_path: Path, model_files: dict[str, bytes]
) -> None:
    wheel = _wheel(tmp_path / "models.whl", model_files)
    paths = pull(source=wheel)
    assert [path.read_bytes() for path in paths] == list(model_files.values())
    assert {state_of(model) for model in EXTRACTORS.values()} == {"ok"}
    assert sorted(path.name for path in (empty_cache / "models").iterdir()) == sorted(
        path.name for path in paths
    )
    wheel.unlink()
    assert pull(source=wheel) == paths


def test_pull_repairs_a_damaged_model(
    empty_cache: Path, tmp_path: Path, model_files: dict[str, bytes]
) -> None:
    wheel = _wheel(tmp_path / "models.whl", model_files)
    path = pull(["pose_detection"], source=wheel)[0]
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    assert state_of(EXTRACTORS["pose_detection"]) == "damaged"
    pull(["pose_detection"], source=wheel)
    assert state_of(EXTRACTORS["pose_detection"]) == "ok"
    path.write_bytes(content[:-1])
    with pytest.raises(MissingModelError, match="damaged; run: gsvc models pull$"):
        model_path("pose_detection")


def test_wrong_content_is_not_kept(empty_cache: Path, tmp_path: Path) -> None:
    files = {model.path: b"not a model" for model in EXTRACTORS.values()}
    with pytest.raises(MissingModelError, match="another SHA-256"):
        pull(source=_wheel(tmp_path / "models.whl", files))
    assert list((empty_cache / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such package file"), (b"PK?", "not a whole wheel"), ({}, "holds no mediapipe")],
)
def test_unusable_wheel(
    empty_cache: Path, tmp_path: Path, content: bytes | dict[str, bytes] | None, message: str
) -> None:
    wheel = tmp_path / "models.whl"
    if isinstance(content, bytes):
        wheel.write_bytes(content)
    elif content is not None:
        _wheel(wheel, content)
    with pytest.raises(MissingModelError, match=message) as caught:
        pull(source=wheel)
    assert "\n" not in str(caught.value)


def test_cache_that_cannot_be_written(
    empty_cache: Path, tmp_path: Path, model_files: dict[str, bytes]
) -> None:
    empty_cache.write_text("a file where the folder should be")
    with pytest.raises(OutputError, match="GSVC_CACHE"):
        pull(source=_wheel(tmp_path / "models.whl", model_files))


def test_pull_without_a_network(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(MissingModelError, match="mediapipe 0.10.21.*network") as caught:
        pull()
    assert "\n" not in str(caught.value)


def test_loading_a_model_writes_nothing_to_stderr() -> None:
    need_models()
    code = (
        "from gsvc.encoders.scaffold.segmentation_extractor import PersonSegmenter;"
        "PersonSegmenter()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_mask_covers_the_person(carphone: Picture) -> None:
    mask = PersonSegmenter()(carphone)
    assert mask.shape == carphone.shape[:2] and mask.dtype == np.float32
    assert mask.min() >= 0 and mask.max() <= 1
    assert mask[45:80, 72:105].min() > 0.9  # the face
    assert mask[:60, :40].max() < 0.2  # the roof and window


@pytest.mark.parametrize("size", [(1, 1), (16, 16), (33, 175), (288, 512), (301, 97)])
def test_any_size_is_taken(size: tuple[int, int]) -> None:
    need_models()
    picture = np.full((*size, 3), 90, np.uint8)
    assert PersonSegmenter()(picture).shape == size
    assert PoseEstimator()(picture) == []


# Of mediapipe 0.10.21 itself (Pose, static_image_mode, model_complexity 1) on the same picture.
REFERENCE = {
    0: (94.1, 65.0),
    2: (100.1, 53.1),
    5: (80.0, 58.2),
    7: (107.3, 56.1),
    8: (71.2, 64.8),
    11: (143.6, 103.0),
    12: (53.8, 127.7),
}


def test_pose_agrees_with_the_reference(carphone: Picture) -> None:
    poses = PoseEstimator()(carphone)
    assert len(poses) == 1
    pose = poses[0]
    assert pose.points.shape == (33, 2) and pose.points.dtype == np.float32
    assert pose.visibility.shape == (33,) and pose.visibility.dtype == np.float32
    for index, expected in REFERENCE.items():
        assert np.linalg.norm(pose.points[index] - expected) < 1.0, index
        assert pose.visibility[index] > 0.7
    assert pose.visibility[list(COCO17[11:])].max() < 0.3  # hips and legs are not in the picture
    left, top, right, bottom = pose.box
    assert (left, top) == tuple(pose.points.min(axis=0))
    assert (right, bottom) == tuple(pose.points.max(axis=0))


def test_pose_is_the_same_every_time(carphone: Picture) -> None:
    estimate = PoseEstimator()
    first, again, other = (
        estimate(carphone)[0],
        estimate(carphone)[0],
        PoseEstimator()(carphone)[0],
    )
    assert first.points.tobytes() == again.points.tobytes() == other.points.tobytes()
    assert first.visibility.tobytes() == other.visibility.tobytes()


def test_two_people_and_the_limit(carphone: Picture) -> None:
    pair = np.concatenate([carphone, carphone[:, ::-1]], axis=1)
    poses = sorted(PoseEstimator()(pair), key=lambda pose: pose.points[0, 0])
    noses = [pose.points[0] for pose in poses]
    assert len(poses) == 2
    assert np.linalg.norm(noses[0] - REFERENCE[0]) < 8
    assert np.linalg.norm(noses[1] - (351 - REFERENCE[0][0], REFERENCE[0][1])) < 8
    assert len(PoseEstimator(max_people=1)(pair)) == 1
    with pytest.raises(ConfigError, match="1 to 16"):
        PoseEstimator(max_people=0)


def test_pose_turns_with_the_picture(carphone: Picture) -> None:
    estimate = PoseEstimator()
    upright = estimate(carphone)[0].points
    turned = estimate(np.ascontiguousarray(np.rot90(carphone)))
    assert len(turned) == 1
    x, y = turned[0].points[:, 0], turned[0].points[:, 1]
    back = np.stack([carphone.shape[1] - 1 - y, x], axis=1)
    assert np.linalg.norm(back - upright, axis=1)[list(FACE)].max() < 6
