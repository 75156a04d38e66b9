"""SwiftVR runs through its authors' package; here one that stands in for it."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gsvc import ConfigError, DeviceError, MissingDependencyError
from gsvc.decoders.keyframes.refiner import Budget
from pretrained_windows import window_of


@pytest.mark.parametrize("count", [1, 9, 17, 33])
@pytest.mark.usefixtures("swiftvr")
def test_all_frames_come_back_in_time(tiny: Callable[[str], Any], count: int) -> None:
    """It takes four at a time, and three of the first four are none."""
    frames, keys, confidence = window_of(count, (17, 33))
    backend = tiny("swiftvr")
    backend.check(17, 33, steps=1)
    assert np.array_equal(backend.restore(frames, keys, confidence, steps=1, seed=0), frames)
    assert backend._pipeline.dtype == "float32"


def test_what_it_cannot_do_is_said_in_a_line(
    tiny: Callable[[str], Any], swiftvr: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = tiny("swiftvr")
    with pytest.raises(ConfigError, match="one step"):
        backend.check(50, 66, steps=2)
    backend.memory = Budget.of("8G")
    with pytest.raises(ConfigError, match="swiftvr needs is not known: leave out vram"):
        backend.check(50, 66, steps=1)
    window = window_of(9)
    backend.restore(*window, steps=1, seed=0)
    session = sys.modules["swiftvr"].StreamSession
    monkeypatch.setattr(session, "flush", lambda _: None)
    with pytest.raises(DeviceError, match="gave 5 frames of 9: this version of its package"):
        backend.restore(*window, steps=1, seed=0)


def test_its_package_may_be_missing(
    tiny: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = tiny("swiftvr")
    monkeypatch.setattr("gsvc.decoders.keyframes.pretrained.swiftvr.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match="pip install --no-deps ./SwiftVR decord"):
        backend.check(50, 66, steps=1)
