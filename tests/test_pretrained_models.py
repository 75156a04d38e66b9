"""Pretrained back ends: steps, caches, the benchmark, and models that are missing or torn."""

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import gsvc
from gsvc import ConfigError, MissingModelError
from gsvc.decoders.keyframes.backends import load_refiner
from pretrained_windows import window_of
from tiny_models import put_tiny

Pictures = Callable[..., list[gsvc.Picture]]


def test_steps_are_those_asked_for(tiny: Callable[[str], Any]) -> None:
    frames, keys, confidence = window_of(9)
    for name, steps in (("ltx", 5), ("ltx2", 3), ("wan-v2v", 2), ("wan-vace", 4), ("sparkvsr", 1)):
        backend = tiny(name)
        network, calls = backend._loaded(1).transformer, [0]
        network.register_forward_pre_hook(lambda *_, calls=calls: calls.append(0))
        backend.restore(frames, keys, confidence, steps=steps, seed=0)
        assert len(calls) - 1 == steps, name
        with pytest.raises(ConfigError, match=f"{name} restores in "):
            backend.check(50, 66, steps=101)


def test_caches_within_windows(tiny: Callable[[str], Any]) -> None:
    from gsvc.decoders.keyframes.transformer_cache import TransformerCache

    frames, keys, confidence = window_of(9)
    given: Mapping[str, int] = {"steps": 10, "seed": 1}
    for name, text in (("ltx", "first-block:1"), ("wan-v2v", "taylorseer:3")):
        backend = tiny(name)
        backend.step_cache = TransformerCache(text)
        assert len(backend.restore(frames, keys, confidence, **given)) == 9


@pytest.mark.slow
def test_the_benchmark_measures_it(
    tiny: Callable[[str], Any], moving_pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gsvc.datasets.clips.clip_reader import TestClip
    from gsvc.eval.baselines import find_codec
    from gsvc.eval.bench import speed as window_speed

    tiny("wan-v2v")
    codec = find_codec("gsvc", model="wan-v2v", steps=1, level=0, preset="fast")
    assert "wan-v2v random weights" in codec.version()
    frames = moving_pictures(9)
    clip = TestClip("it", frames, Fraction(25))
    (point,) = codec.rate_points()
    coded = codec.encode(clip, point)
    (way,) = codec.ways_to_decode(point)
    assert len(codec.decode(coded.data, clip.format, point, way).frames) == 9
    monkeypatch.setattr(window_speed, "_SIZES", ((32, 32),))
    told = window_speed.window_speeds("wan-v2v", "cpu", 1)
    assert told["windows"][0]["seconds"] > 0 and told["commit"] == "0" * 40  # type: ignore[index]


def test_what_is_not_here_is_said_in_a_line(
    tiny: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    with pytest.raises(MissingModelError, match="is not on this machine; run: gsvc models pull lt"):
        load_refiner("ltx")
    folder = put_tiny("wan-v2v")
    weights = next((folder / "transformer").glob("*.safetensors"))
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    with pytest.raises(MissingModelError, match="torn or of another revision; run: gsvc models"):
        load_refiner("wan-v2v")
    weights.write_bytes(whole)
    (folder / "vae" / "weights.bin").touch()
    with pytest.raises(MissingModelError, match=r"weights.bin, a pickle, which may run code"):
        load_refiner("wan-v2v")
    (folder / "vae" / "weights.bin").unlink()
    (folder / "gsvc.json").unlink()
    with pytest.raises(MissingModelError, match="was not pulled to its end"):
        load_refiner("wan-v2v")


def test_weights_that_changed_share_no_windows(tiny: Callable[[str], Any], tiny_hub: Path) -> None:
    refiner = tiny("ltx")
    before, manifest = refiner.revision, tiny_hub / "hub" / "ltx" / "gsvc.json"
    whole = manifest.read_text()
    told = json.loads(whole)
    name = min(told["files"])
    told["files"][name][1] = "0" * 64
    manifest.write_text(json.dumps(told))
    try:
        assert refiner.revision != before and refiner.id == load_refiner("ltx").id
    finally:
        manifest.write_text(whole)
