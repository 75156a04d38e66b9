import sys
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from demo import measure
from gsvc import InputError, MissingDependencyError, Picture
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.metrics import perceptual as shift_tolerant
from gsvc.eval.metrics.base import Values
from gsvc.eval.metrics.fidelity import psnr_y
from gsvc.eval.metrics.perceptual import NETS, Net, StLpips


def st_lpips(reference: Sequence[Picture], test: Sequence[Picture], net: Net) -> Values:
    return st_lpips_each(reference, [test], net)[0]  # type: ignore[no-any-return]


def st_lpips_each(
    reference: Sequence[Picture], tests: Sequence[Sequence[Picture]], net: Net
) -> Values:
    clip = TestClip("it", reference, Fraction(25))
    return StLpips(net).measure(clip, tests, range(len(reference)))


def picture(height: int = 48, width: int = 64, shift: int = 0) -> Picture:
    y, x = np.mgrid[0:height, 0:width]
    planes = [(x + shift) * 3 + y, (x * y) // 9, (x // 8 + y // 8) % 2 * 160 + shift]
    return np.stack(planes, axis=2).astype(np.uint8)


def blurred(source: Picture, times: int) -> Picture:
    smooth = source.astype(float)
    for _ in range(times):
        smooth = (np.roll(smooth, 1, 1) + smooth + np.roll(smooth, 1, 0)) / 3
    return smooth.astype(np.uint8)


@pytest.mark.parametrize("net", NETS)
def test_distance_is_zero_for_equal_frames_and_grows_with_damage(net: Net) -> None:
    source = picture()
    distances = st_lpips([source] * 3, [source, blurred(source, 1), blurred(source, 8)], net)
    assert distances.dtype == np.float64
    assert distances[0] == 0
    assert 0 < distances[1] < distances[2]


@pytest.mark.parametrize("net", NETS)
def test_frames_are_paired_by_index_whatever_the_batch(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = [picture(shift=shift) for shift in range(5)]
    test = [blurred(frame, times) for times, frame in enumerate(reference)]
    together = st_lpips(reference, test, net)
    monkeypatch.setattr(shift_tolerant, "_PIXELS_PER_BATCH", 2 * 48 * 64)
    by_twos = st_lpips(reference, test, net)
    assert together == pytest.approx(by_twos, rel=1e-4)
    assert by_twos.tolist() == st_lpips(reference, test, net).tolist()


@pytest.mark.parametrize("net", NETS)
def test_agrees_with_the_package_called_as_its_authors_do(net: Net) -> None:
    from stlpips_pytorch import stlpips, utils

    source = picture()
    network = stlpips.LPIPS(net=net, variant="shift_tolerant", verbose=False)
    expected = network(utils.im2tensor(source), utils.im2tensor(blurred(source, 2))).item()
    assert st_lpips([source], [blurred(source, 2)], net)[0] == pytest.approx(expected, rel=1e-4)


def test_psnr_y_is_that_of_bt709_luma() -> None:
    source = np.full((32, 32, 3), 100, np.uint8)
    greener = source + np.array([0, 10, 0], np.uint8)
    values = psnr_y([source, source], [greener, source])
    assert values[0] == pytest.approx(20 * np.log10(255 / 7.152))
    assert values[1] == np.inf


def test_several_tests_at_once_give_what_each_gives_alone() -> None:
    reference = [picture(), picture(shift=5)]
    tests = [[blurred(frame, times) for frame in reference] for times in (1, 4)]
    together = st_lpips_each(reference, tests, "vgg")
    assert together.tolist() == [st_lpips(reference, test, "vgg").tolist() for test in tests]

    for test, quality in zip(tests, measure(reference, tests), strict=True):
        assert quality.st_lpips_alex == st_lpips(reference, test, "alex").mean()
        assert quality.st_lpips_vgg == st_lpips(reference, test, "vgg").mean()
        assert quality.psnr_y == psnr_y(reference, test).mean()


@pytest.mark.parametrize(
    ("reference", "test", "message"),
    [
        ([picture()] * 2, [picture()], "equal length"),
        ([], [], "no frames"),
        ([picture()], [picture(width=66)], "one size"),
        ([picture(), picture(50)], [picture(), picture(50)], "one size"),
        ([picture()], [picture().astype(np.float32)], "uint8"),
    ],
)
def test_frames_that_do_not_pair_are_refused(
    reference: list[Picture], test: list[Picture], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        psnr_y(reference, test)
    with pytest.raises(InputError, match=message):
        st_lpips(reference, test, "alex")


def test_st_lpips_refuses_frames_too_small_for_it() -> None:
    with pytest.raises(InputError, match="32 pixels"):
        st_lpips([picture(16, 64)], [picture(16, 64)], "alex")


@pytest.fixture
def fresh_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are loaded anew in the test, and those of other tests stay loaded."""
    loader = shift_tolerant.load_network.__wrapped__
    monkeypatch.setattr(shift_tolerant, "load_network", loader)


@pytest.mark.usefixtures("fresh_networks")
def test_a_missing_package_names_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stlpips_pytorch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'gsvc\[eval\]'"):
        st_lpips([picture()], [picture()], "alex")


@pytest.mark.usefixtures("fresh_networks")
def test_weights_without_the_backbone_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    load = torch.load

    def load_heads(*args: object, **options: object) -> dict[str, torch.Tensor]:
        weights = load(*args, **options)  # type: ignore[arg-type]
        return {name: value for name, value in weights.items() if not name.startswith("net.")}

    monkeypatch.setattr(torch, "load", load_heads)
    with pytest.raises(MissingDependencyError, match="incomplete weights"):
        st_lpips([picture()], [picture()], "alex")


@pytest.mark.usefixtures("fresh_networks")
def test_weights_that_measure_something_else_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    load = torch.load

    def load_changed(*args: object, **options: object) -> dict[str, torch.Tensor]:
        weights = load(*args, **options)  # type: ignore[arg-type]
        return {name: value * 1.1 for name, value in weights.items()}

    monkeypatch.setattr(torch, "load", load_changed)
    with pytest.raises(MissingDependencyError, match="golden pair"):
        st_lpips([picture()], [picture()], "alex")
