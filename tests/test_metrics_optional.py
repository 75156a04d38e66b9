"""The metrics beside ST-LPIPS and PSNR, each against an independent answer or its definition."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from gsvc import ConfigError, InputError, MissingDependencyError, MissingModelError, Picture
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.metrics import find_metric, metrics
from gsvc.eval.metrics.base import Golden
from gsvc.eval.metrics.fidelity import MsSsim
from gsvc.eval.metrics.perceptual import FILES, Fvd, Lpips, frechet_distance, lpips_network
from needs import need, need_package

FREE = [
    "psnr_y",
    "ms_ssim",
    "cvvdp",
    "vmaf",
    "vmaf_neg",
    "warp_error",
    "st_lpips_alex_of_differences",
]
"""Metrics that need nothing but packages."""


def texture(seed: int, height: int = 176, width: int = 192) -> Picture:
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    soft: Picture = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 3), None, 0, 255, cv2.NORM_MINMAX)
    return soft


def moving_clip(frames: int = 4) -> TestClip:
    """A texture that moves by two pixels a frame."""
    first = texture(0)
    return TestClip("moving", [np.roll(first, 2 * i, axis=1) for i in range(frames)], Fraction(25))


def blurred(clip: TestClip, sigma: float) -> list[Picture]:
    return [cv2.GaussianBlur(frame, (0, 0), sigma) for frame in clip.frames]


def noisy(clip: TestClip, level: int) -> list[Picture]:
    rng = np.random.default_rng(1)
    return [
        np.clip(frame + rng.integers(-level, level + 1, frame.shape), 0, 255).astype(np.uint8)
        for frame in clip.frames
    ]


@pytest.mark.parametrize("name", FREE)
def test_more_damage_is_never_better_and_none_is_best(name: str) -> None:
    metric = find_metric(name)
    with need(name):
        metric.version()
    clip = moving_clip()
    indices = [0, 1, 3]
    damages: list[Sequence[Picture]] = [clip.frames, noisy(clip, 8), noisy(clip, 50)]
    values = metric.measure(clip, damages, indices)
    assert values.shape == (3, 3 if metric.per_frame else 1)
    means = np.nanmean(values, axis=1) * (1 if metric.higher_is_better else -1)
    assert means[0] > means[1] > means[2]


@pytest.mark.parametrize("name", ["warp_error", "st_lpips_alex_of_differences"])
def test_a_step_needs_a_frame_before_it(name: str) -> None:
    clip = moving_clip()
    values = find_metric(name).measure(clip, [noisy(clip, 8)], [0, 2])
    assert np.isnan(values[0, 0])
    assert values[0, 1] > 0


def test_warp_error_rewards_blur_and_the_distance_of_differences_does_not() -> None:
    clip = moving_clip()
    clip = TestClip("noisy", noisy(clip, 20), clip.frame_rate)
    smooth = [blurred(clip, 3)]
    assert find_metric("warp_error").measure(clip, smooth, [2])[0, 0] < 0
    assert find_metric("st_lpips_alex_of_differences").measure(clip, smooth, [2])[0, 0] > 0.01


def test_ms_ssim_of_a_known_case() -> None:
    # Flat pictures have no structure to lose: what is left is luminance at the coarsest scale.
    one, other = (np.full((176, 176, 3), level, np.uint8) for level in (100, 120))
    clip = TestClip("flat", [one], Fraction(25))
    luminance = (2 * 100 * 120 + 2.55**2) / (100**2 + 120**2 + 2.55**2)
    value = find_metric("ms_ssim").measure(clip, [[other]], [0])[0, 0]
    assert value == pytest.approx(luminance**0.1333, abs=1e-4)


def test_vmaf_scores_each_frame_against_the_one_of_the_same_index() -> None:
    clip = moving_clip(6)
    damaged = list(clip.frames)
    damaged[4] = texture(5)
    values = find_metric("vmaf").measure(clip, [damaged], range(6))[0]
    assert values.argmin() == 4
    assert values[:4].min() > 90


def test_a_metric_that_gives_other_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = MsSsim()
    monkeypatch.setattr(metric, "golden", Golden(1, 0.5, side=176))
    clip = moving_clip()
    with pytest.raises(MissingDependencyError, match="golden pair"):
        metric.measure(clip, [clip.frames], [0])


@pytest.mark.parametrize("name", sorted(metrics()))
def test_frames_that_do_not_pair_are_refused_by_every_metric(name: str) -> None:
    clip = moving_clip()
    with need(name):
        metric = find_metric(name)
    with pytest.raises(InputError, match="equal length"):
        metric.measure(clip, [clip.frames[:-1]], [0])


def test_an_unknown_metric_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="st_lpips_vgg"):
        find_metric("beauty")


def test_frechet_distance_of_gaussians_with_known_means_and_variances() -> None:
    rng = np.random.default_rng(0)
    one = rng.standard_normal((4000, 3)) * [1, 2, 3] + [0, 0, 1]
    other = rng.standard_normal((4000, 3)) * [2, 2, 1]
    # Diagonal covariances: the sum of squared differences of means and of standard deviations.
    assert frechet_distance(one, other) == pytest.approx(1 + 1 + 0 + 4, rel=0.1)


def test_frechet_distance_is_that_of_the_matrix_formula() -> None:
    from scipy.linalg import sqrtm

    rng = np.random.default_rng(1)
    one, other = (
        rng.standard_normal((30, 5)),
        rng.standard_normal((40, 5)) @ np.diag(range(1, 6)) + 1,
    )
    s1, s2 = np.cov(one.T), np.cov(other.T)
    difference = one.mean(axis=0) - other.mean(axis=0)
    expected = difference @ difference + np.trace(s1 + s2 - 2 * sqrtm(s1 @ s2).real)
    assert frechet_distance(one, other) == pytest.approx(expected, rel=1e-6)


def test_frechet_distance_of_a_single_sample_is_refused() -> None:
    with pytest.raises(InputError, match="two samples"):
        frechet_distance(np.zeros((1, 4)), np.zeros((1, 4)))


def test_fvd_without_the_users_file_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GSVC_I3D", raising=False)
    with pytest.raises(MissingModelError, match="set GSVC_I3D"):
        Fvd().version()


@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")  # what the network's file is made by
def test_fvd_runs_the_users_network_on_16_frame_clips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    class Pooled(torch.nn.Module):
        def forward(
            self, x: torch.Tensor, rescale: bool, resize: bool, return_features: bool
        ) -> torch.Tensor:
            if x.size(2) != 16 or x.size(3) != 224 or rescale or resize or not return_features:
                raise RuntimeError("not the protocol")
            return x.mean(dim=(2, 3)).flatten(1)

    torch.jit.script(Pooled()).save(tmp_path / "i3d.pt")  # type: ignore[no-untyped-call]
    monkeypatch.setenv("GSVC_I3D", str(tmp_path / "i3d.pt"))
    clip = TestClip("long", [texture(i, 64, 64) for i in range(33)], Fraction(25))
    darker = [frame // 2 for frame in clip.frames]
    values = Fvd().measure(clip, [clip.frames, darker], [0])
    assert values[0, 0] == pytest.approx(0, abs=1e-4)
    assert values[1, 0] > 1


def test_lpips_without_its_backbone_says_which_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_package("lpips")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    lpips_network.cache_clear()
    with pytest.raises(MissingModelError, match="alexnet-owt-7be5be79.pth into"):
        Lpips("alex").version()
    checkpoint = tmp_path / "hub/checkpoints/alexnet-owt-7be5be79.pth"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"something else")
    with pytest.raises(MissingModelError, match="another one"):
        Lpips("alex").version()


@pytest.mark.filterwarnings("ignore:The parameter 'pretrained':UserWarning")  # by lpips
@pytest.mark.filterwarnings("ignore:Arguments other than a weight enum:UserWarning")
@pytest.mark.slow
def test_lpips_is_what_the_package_computes_from_the_same_backbone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lpips = need_package("lpips")
    import torch
    import torchvision

    torch.manual_seed(0)
    backbone = torchvision.models.alexnet(weights=None)
    folder = tmp_path / "hub/checkpoints"
    folder.mkdir(parents=True)
    torch.save(backbone.state_dict(), folder / "alexnet-test.pth")
    _rename_by_hash(folder / "alexnet-test.pth", monkeypatch)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    lpips_network.cache_clear()

    theirs = lpips.LPIPS(net="alex", pnet_rand=True, verbose=False)
    for index, layer in enumerate(backbone.features):
        for part in (getattr(theirs.net, f"slice{k}") for k in range(1, 6)):
            if str(index) in dict(part.named_children()):
                getattr(part, str(index)).load_state_dict(layer.state_dict())
    clip = moving_clip(1)
    test = blurred(clip, 2)
    pair = [
        torch.from_numpy(f).permute(2, 0, 1)[None] / 127.5 - 1 for f in (clip.frames[0], test[0])
    ]
    expected = theirs(*pair).item()
    values = Lpips("alex").measure(clip, [test, clip.frames], [0])
    lpips_network.cache_clear()
    assert values[0, 0] == pytest.approx(expected, rel=1e-4)
    assert values[1, 0] == 0


def _rename_by_hash(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib

    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    named: Any = path.with_name(f"alexnet-{digest}.pth")
    path.rename(named)
    monkeypatch.setitem(FILES, "alex", named.name)
