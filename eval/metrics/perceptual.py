"""Distances of features: ST-LPIPS, the primary pair, LPIPS, the field's number, DISTS, Fréchet's.

Lower is better, 0 = equal. ST-LPIPS: A. Ghildyal and F. Liu, "Shift-tolerant Perceptual Similarity
Metric", ECCV 2022, as packaged in `stlpips-pytorch` 0.0.2, whose wheel carries the backbones as
well as the heads. LPIPS and DISTS have torchvision's ImageNet networks, read from disk and checked.

Fréchet distances: d² = |m1 - m2|² + tr(S1 + S2 - 2 (S1 S2)^½) of the means and covariances of
features of source and output (D. Dowson and B. Landau, 1982; for pictures M. Heusel et al., NIPS
2017; for video T. Unterthiner et al., 2018). From fewer samples than the features have dimensions
it is biased upwards: the numbers rank outputs of one clip, and are not to be compared with those of
other papers or of clips of other lengths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import InputError, MissingDependencyError, MissingModelError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.model_files import sha256_of
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.late_loading import hub_file, optional, torch
from gsvc.eval.metrics import base

Net = Literal["alex", "vgg"]
NETS: tuple[Net, ...] = ("alex", "vgg")

SMALLEST_SIDE = 32
"""Pixels: below it the metric's networks have nothing left to compare."""

_GOLDEN: dict[Net, base.Golden] = {
    "alex": base.Golden(0, 0.016653),
    "vgg": base.Golden(0, 0.187596),
}
_PIXELS_PER_BATCH = 200_000
_VALUES_AT_ONCE = 2**18
_INSTALL = "install the measuring extra: pip install 'gsvc[eval]'"
REINSTALL = "reinstall it: pip install --force-reinstall stlpips-pytorch==0.0.2"


class StLpips(base.ProvedMetric):
    """ST-LPIPS: mean weighted squared difference of unit-length features over layers and places."""

    advice = REINSTALL
    method = "ST-LPIPS"
    goldens: Mapping[Net, base.Golden] = _GOLDEN

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net, self.golden = net, self.goldens[net]
        self.name = f"{self.method.lower().replace('-', '_')}_{net}"

    def version(self) -> str:
        self._network()
        return f"stlpips-pytorch {version('stlpips-pytorch')} {self.net} shift-tolerant"

    def _values(self, source: TestClip, tests: base.Tests, indices: base.Indices) -> base.Values:
        reference = base.chosen(source.frames, indices)
        base.check_sides(reference, SMALLEST_SIDE, self.method)
        return distances(self._network(), reference, [base.chosen(test, indices) for test in tests])

    def _network(self) -> torch.nn.Module:
        return load_network(self.net)


def distances(
    network: torch.nn.Module, reference: Sequence[Picture], tests: Sequence[Sequence[Picture]]
) -> NDArray[np.float64]:
    """Shape (tests, frames); the frames are taken to pair."""
    height, width = reference[0].shape[:2]
    batch = max(1, _PIXELS_PER_BATCH // (height * width))
    values = np.empty((len(tests), len(reference)))
    with torch.inference_mode():
        for start in range(0, len(reference), batch):
            part = slice(start, start + batch)
            layers = [_of_unit_length(layer) for layer in _layers(network, reference[part])]
            for row, test in zip(values, tests, strict=True):
                row[part] = _compare(network, layers, _layers(network, test[part]))
    return values


def _layers(network: Any, frames: Sequence[Picture]) -> list[torch.Tensor]:
    """The backbone's five layers, each (N, positions, channels)."""
    layers = network.net(network.scaling_layer(_tensor(frames)))
    return [layer.permute(0, 2, 3, 1).flatten(1, 2) for layer in layers]


def _of_unit_length(layer: torch.Tensor) -> torch.Tensor:
    length: torch.Tensor = torch.linalg.vector_norm(layer, dim=-1, keepdim=True)
    return layer.div(length.clamp_min_(1e-10))


def _compare(
    network: Any, reference: Sequence[torch.Tensor], test: Sequence[torch.Tensor]
) -> NDArray[np.float64]:
    """Weighted squared difference to `reference`, of unit length: a mean of places a layer."""
    total = np.zeros(len(reference[0]))
    for head, a, b in zip(network.lins, reference, test, strict=True):
        weights = head.model[-1].weight.flatten()
        for index, (one, other) in enumerate(zip(a, b, strict=True)):
            total[index] += _layer_distance(weights, one, other)
    return total


def _layer_distance(weights: torch.Tensor, reference: torch.Tensor, test: torch.Tensor) -> float:
    """One layer of one frame, in parts that fit the cache; several times slower in one go."""
    positions, channels = test.shape
    step = max(1, _VALUES_AT_ONCE // channels)
    total = 0.0
    for start in range(0, positions, step):
        part = slice(start, start + step)
        difference = _of_unit_length(test[part]).sub_(reference[part]).square_()
        total += float(difference.sum(dim=0) @ weights)
    return total / positions


def _tensor(frames: Sequence[Picture]) -> torch.Tensor:
    """Frames as float32 (N, 3, H, W) in [-1, 1], channels last in memory (twice as fast on CPU)."""
    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).float().div(127.5).sub(1)


@cache
def load_network(net: Net) -> torch.nn.Module:
    """The network as published, with the wheel's weights. Raises MissingDependencyError."""
    with optional(f"ST-LPIPS cannot be imported ({{error}}): {_INSTALL}"):
        import stlpips_pytorch
        from stlpips_pytorch import stlpips
    # Built without storage: a weight that the file does not fill stays on the meta device and is
    # caught below, so no random or downloaded backbone can slip in.
    with torch.device("meta"):
        network = stlpips.LPIPS(net=net, variant="shift_tolerant", pretrained=False, verbose=False)
    path = Path(stlpips_pytorch.__file__).parent / f"weights/vST0.0/{net}_shift_tolerant.pth"
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
        network.load_state_dict(weights, strict=False, assign=True)
    except (OSError, RuntimeError) as error:
        raise MissingDependencyError(f"ST-LPIPS {net} has no weights: {REINSTALL}") from error
    if any(tensor.is_meta for tensor in (*network.parameters(), *network.buffers())):
        raise MissingDependencyError(f"ST-LPIPS {net} has incomplete weights: {REINSTALL}")
    ready: torch.nn.Module = network.eval().requires_grad_(False)
    return ready.to(memory_format=torch.channels_last)


FILES = {"alex": "alexnet-owt-7be5be79.pth", "vgg": "vgg16-397923af.pth"}
"""As torchvision publishes them; what stands after the last dash begins the file's SHA-256."""

_ADDRESS = "https://download.pytorch.org/models/"


def backbone_path(net: str) -> Path:
    """Where torch keeps the file. Raises MissingModelError when it is missing or another one."""
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    # The reason for a gap goes into tables that others read: ~ is the home folder.
    home = Path.home()
    told = f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else folder
    remedy = f"put {_ADDRESS}{FILES[net]} into {told}"
    return hub_file(folder / FILES[net], f"the {net} backbone", remedy)


class Lpips(StLpips):
    """LPIPS on its original networks; as ST-LPIPS, but shifts are not forgiven.

    R. Zhang et al., "The Unreasonable Effectiveness of Deep Features ...", CVPR 2018.
    """

    # Without a number for the damaged pair: the backbone's file is proved by its hash instead.
    goldens = dict.fromkeys(NETS, base.Golden(0, None))
    advice = "reinstall it: pip install --force-reinstall lpips==0.1.4"
    method = "LPIPS"

    def version(self) -> str:
        self._network()
        return f"lpips {version('lpips')} {self.net} v0.1"

    def _network(self) -> torch.nn.Module:
        network: torch.nn.Module = lpips_network(self.net)
        return network


@cache
def lpips_network(net: Net) -> Any:
    """The network with the wheel's heads and torchvision's backbone."""
    with optional("LPIPS cannot be imported ({error}): pip install 'gsvc[bench]'"):
        import lpips
    backbone = torch.load(backbone_path(net), map_location="cpu", weights_only=True)
    # On the meta device nothing is random: what the files do not fill cannot be computed with.
    with torch.device("meta"):
        ready = lpips.LPIPS(net=net, pretrained=False, pnet_rand=True, verbose=False)
    ready.scaling_layer = lpips.ScalingLayer()
    heads = Path(lpips.__file__).parent / f"weights/v0.1/{net}.pth"
    ready.load_state_dict(
        torch.load(heads, map_location="cpu", weights_only=True), strict=False, assign=True
    )
    # The tensor for "slice2.3.weight" is torchvision's "features.3.weight".
    names = ready.net.state_dict()
    layers = {name: backbone["features." + name.partition(".")[2]] for name in names}
    ready.net.load_state_dict(layers, assign=True)
    return ready.eval().requires_grad_(False).to(memory_format=torch.channels_last)


class Dists(base.FrameMetric):
    """Structure and texture alike, by features of VGG (DISTS), one number a frame.

    K. Ding et al., "Image Quality Assessment: Unifying Structure and Texture Similarity", IEEE
    TPAMI 2022, as in the authors' package `DISTS_pytorch`. Frames are compared at their own size.
    """

    name = "dists"
    smallest_side = SMALLEST_SIDE
    # The backbone's file is proved by its hash; equal frames differ by rounding only.
    golden = base.Golden(0, None, slack=1e-5)
    advice = "reinstall it: pip install --force-reinstall DISTS_pytorch==0.1"

    def version(self) -> str:
        _network()
        return f"DISTS_pytorch {version('DISTS_pytorch')}, frames not resized"

    def _against(self, source: base.Frames, index: int) -> Callable[[base.Frames], float]:
        def tensor(picture: Picture) -> torch.Tensor:
            return torch.from_numpy(picture).permute(2, 0, 1)[None].float().div(255)

        reference = tensor(source[index])
        return lambda test: float(_network()(reference, tensor(test[index])))


@cache
def _network() -> Any:
    with optional("DISTS cannot be imported ({error}): pip install 'gsvc[bench]'"):
        import DISTS_pytorch
    # The package asks torch's hub for the backbone; with the file there, nothing is downloaded.
    backbone_path("vgg")
    ready = DISTS_pytorch.DISTS(load_weights=False)
    weights = torch.load(Path(DISTS_pytorch.__file__).parent / "weights.pt", weights_only=True)
    ready.alpha.data, ready.beta.data = weights["alpha"], weights["beta"]
    return ready.eval()


I3D_VARIABLE = "GSVC_I3D"
"""Environment variable: path of the user's I3D as TorchScript."""
CLIP_FRAMES, CLIP_SIDE = 16, 224

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


class Fvd(base.ProvedMetric):
    """Fréchet video distance on the user's I3D.

    The samples are windows of 16 frames, pictures at 224x224, of all frames whatever the indices.
    """

    name = "fvd"
    per_frame = False
    # The network is the user's own: only that equal clips are at no distance is known.
    golden = base.Golden(0, None, slack=1e-3, frames=2 * CLIP_FRAMES)
    advice = f"set {I3D_VARIABLE} to the published I3D file"

    def version(self) -> str:
        path = _i3d_path()
        _i3d(path)
        samples = "one clip's windows: few samples, biased"
        return f"I3D {sha256_of(path)[:16]}, 16 frames, 224x224, {samples}"

    def _values(self, source: TestClip, tests: base.Tests, indices: base.Indices) -> base.Values:
        reference = _video_features(source.frames)
        return np.array([[frechet_distance(reference, _video_features(test))] for test in tests])


def _small(frames: Sequence[Picture]) -> NDArray[np.float32]:
    """(n, 224, 224, 3) float32 in [0, 1]."""
    size = (CLIP_SIDE, CLIP_SIDE)
    small = [cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in frames]
    return np.stack(small).astype(np.float32) / np.float32(255)


def _video_features(frames: Sequence[Picture]) -> Features:
    network = _i3d(_i3d_path())
    features = []
    with torch.inference_mode():
        for start in range(0, len(frames) - CLIP_FRAMES + 1, CLIP_FRAMES):
            values = torch.from_numpy(_small(frames[start : start + CLIP_FRAMES]) * 2 - 1)
            video = values.permute(3, 0, 1, 2)[None]
            features.append(network(video, rescale=False, resize=False, return_features=True)[0])
    return np.array([np.asarray(one.double()) for one in features])


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
    try:
        return torch.jit.load(path, map_location="cpu").eval()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        why = f"{path} is not TorchScript: set {I3D_VARIABLE} to I3D's"
        raise MissingModelError(why) from error


METRICS = StLpips("alex"), StLpips("vgg"), Lpips("alex"), Lpips("vgg"), Dists(), Fvd()
