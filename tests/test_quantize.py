"""`--quantize int8`: what it needs, what it goes with, and what it does to tiny models."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import gsvc
from gsvc import ConfigError, DeviceError, MissingDependencyError
from gsvc.codec.api.decoder import set_options
from gsvc.decoders.keyframes.pretrained.gpu_memory import need_of, quantized_bytes
from needs import need_package
from pretrained_windows import WINDOWED, window_of


def asked(vram: str | None = None) -> gsvc.DecoderSettings:
    return gsvc.DecoderSettings(quantize="int8", vram=vram)


def test_it_is_counted_before_loading() -> None:
    whole, small = (need_of("wan-v2v", 480, 854, 33, quantized=q) for q in (False, True))
    assert 0.5 < small.network / whole.network < 0.55
    assert small.others == whole.others and small.window == whole.window
    assert small.chosen(small.of("whole")) == "whole"
    with pytest.raises(DeviceError, match=r"wan-v2v at 854x480 needs .* even with vram=.offload"):
        small.chosen(small.of("offload") - 1)


def test_what_it_does_not_go_with_is_a_line(
    tiny: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="int4.*int8 is what there is"):
        gsvc.DecoderSettings(quantize="int4")
    with pytest.raises(ConfigError, match="^quantize: swiftvr has no weights for it: leave it o"):
        set_options(tiny("swiftvr"), asked())
    with monkeypatch.context() as patch:
        patch.setattr(
            "gsvc.codec.weights.extras.find_spec", lambda name: None if name == "torchao" else 1
        )
        with pytest.raises(MissingDependencyError, match=r"pip install 'gsvc\[quantize\]', or lea"):
            set_options(tiny("ltx"), asked())
    monkeypatch.setattr("gsvc.codec.weights.extras.find_spec", lambda name: 1)
    for kind in ("groups", "fp8"):
        with pytest.raises(ConfigError, match=f"whole or offload, not with {kind}"):
            set_options(tiny("ltx"), asked(vram=kind))


@pytest.mark.parametrize("name", [*WINDOWED, "sd-turbo"])
def test_weights_are_held_in_8_bits(name: str, tiny: Callable[[str], Any]) -> None:
    """As many bytes as were counted; two bytes for each number that torchao leaves alone."""
    need_package("torchao")
    backend, plain = tiny(name), tiny(name)
    set_options(backend, asked())
    network = next(
        getattr(backend._loaded(1), part)
        for part in ("transformer", "unet")
        if hasattr(backend._loaded(1), part)
    )
    whole = plain._loaded(1)
    counted = quantized_bytes(getattr(whole, "transformer", None) or whole.unet)
    held = [one.data for one in network.parameters()]
    small = [one for one in held if type(one).__name__ == "Int8Tensor"]
    rows = sum(one.shape[0] for one in small)
    others = sum(2 * one.numel() for one in held if type(one).__name__ != "Int8Tensor")
    assert small and counted == others + sum(one.numel() for one in small) + 3 * rows
    assert backend.revision != plain.revision
    if name == "sd-turbo":
        return
    window = window_of(9)
    given: Mapping[str, int] = {"steps": 1, "seed": 0}
    one, two, exact = (np.stack(b.restore(*window, **given)) for b in (backend, backend, plain))
    assert np.array_equal(one, two)
    assert np.abs(one.astype(int) - exact).max() < 40
