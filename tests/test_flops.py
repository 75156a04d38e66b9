"""Operations counted without weights are those that a computation with weights makes."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run_gsvc
from gsvc import ConfigError
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.pretrained.architecture_work import ArchitectureWork, parameters
from gsvc.decoders.keyframes.pretrained.architectures import ARCHITECTURES
from gsvc.eval.bench.flops import computes
from gsvc.eval.compute import count_flops
from tiny_models import MAKERS, TEXT, put_tiny

_LTX: dict[str, Any] = {
    "in_channels": 8,
    "out_channels": 8,
    "num_attention_heads": 2,
    "attention_head_dim": 8,
    "cross_attention_dim": 16,
    "num_layers": 2,
    "caption_channels": 16,
}
_WAN: dict[str, Any] = {
    "num_attention_heads": 2,
    "attention_head_dim": 12,
    "num_layers": 2,
    "text_dim": 16,
    "ffn_dim": 32,
}
LARGE = {"wan-vace", "wan-v2v", "sparkvsr", "ltx2", "sd-turbo"}


def quick_first(names: Iterable[str]) -> list[Any]:
    """Names of models; the larger ones are marked slow."""
    quick = [name for name in names if name not in LARGE]
    return [
        *quick,
        *(pytest.param(name, marks=pytest.mark.slow) for name in names if name in LARGE),
    ]


SMALL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ltx": (
        _LTX,
        {
            "latent_channels": 8,
            "block_out_channels": (8, 8, 8, 8),
            "decoder_block_out_channels": (8, 16, 32),
            "decoder_layers_per_block": (1, 1, 1, 1),
            "layers_per_block": (1, 1, 1, 1, 1),
        },
    ),
    "ltx2": (
        {
            **_LTX,
            "audio_in_channels": 8,
            "audio_out_channels": 8,
            "audio_num_attention_heads": 2,
            "audio_attention_head_dim": 4,
            "audio_cross_attention_dim": 8,
        },
        {
            "latent_channels": 8,
            "block_out_channels": (8, 16, 32, 64),
            "decoder_block_out_channels": (8, 16, 32),
            "decoder_layers_per_block": (1, 1, 1, 1),
            "layers_per_block": (1, 1, 1, 1, 1),
        },
    ),
    "wan-vace": ({**_WAN, "vace_layers": [0, 1]}, {"base_dim": 4, "num_res_blocks": 1}),
    "wan-v2v": (_WAN, {"base_dim": 4, "num_res_blocks": 1}),
    "sparkvsr": (
        {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2, "text_embed_dim": 8},
        {"block_out_channels": (8, 8, 8, 8), "norm_num_groups": 2, "layers_per_block": 1},
    ),
    "sd-turbo": (
        {
            "block_out_channels": (8, 8, 16, 16),
            "norm_num_groups": 2,
            "attention_head_dim": 2,
            "cross_attention_dim": 16,
        },
        {"block_out_channels": [8, 8, 8, 8], "norm_num_groups": 2},
    ),
}


@pytest.mark.parametrize("name", quick_first(SMALL))
def test_counted_without_storage_as_when_computed(name: str) -> None:
    form = ARCHITECTURES[name]
    network, autoencoder = SMALL[name]
    small = replace(
        form,
        settings={**form.settings, **network},
        autoencoder_settings={**form.autoencoder_settings, **autoencoder},
        text=(6, 16),
        connectors="",
    )
    frames = 9 if form.time else 1
    told, done = (
        ArchitectureWork(small, 64, 96, frames),
        ArchitectureWork(small, 64, 96, frames, device="cpu"),
    )
    for part in ("step", "once"):
        without: Callable[[], object] = getattr(told, part)
        assert count_flops(without) == count_flops(getattr(done, part)) > 0, part


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # of diffusers' scheduler
@pytest.mark.parametrize("name", quick_first(MAKERS))
def test_a_window_costs_what_its_architecture_foretells(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The counter on a whole window of a tiny model, with keys, masks and steps, and the table."""
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    put_tiny(name)
    refiner: Any = load_refiner(name)
    pipeline, form = refiner._loaded(1), ARCHITECTURES[name]
    network = getattr(pipeline, "transformer", None) or pipeline.unet
    connectors = _settings(pipeline.connectors) if form.connectors else {}
    tiny = replace(
        form,
        settings=_settings(network),
        autoencoder_settings=_settings(pipeline.vae),
        connector_settings=connectors,
        text=(6, TEXT),
    )
    side, steps = 2 * form.multiple, min(2, refiner.most_steps)
    frames = np.zeros((33, side, side, 3), np.uint8)
    keys, sure = {at: frames[at] for at in range(0, 33, 8)}, np.ones(frames.shape[:3], np.float32)

    def restore() -> object:
        if not form.time:
            key = Keyframe.of(frames[0], None, 40, 1)
            return refiner.refine(key, steps=steps, seed=0)
        return refiner.restore(frames, keys, sure, steps=steps, seed=0)

    work = ArchitectureWork(tiny, side, side, refiner.frames)
    told = count_flops(work.once) + steps * count_flops(work.step)
    assert told == count_flops(restore)


def _settings(part: Any) -> dict[str, Any]:
    return {key: value for key, value in part.config.items() if not key.startswith("_")}


def test_a_transformer_costs_what_its_formula_says() -> None:
    """Wan 1.3B: two operations a weight and token, and attention among all tokens."""
    work = ArchitectureWork(ARCHITECTURES["wan-v2v"], 288, 512, 33)
    width, layers, tokens, words = 1536, 30, 9 * 18 * 32, 512
    assert 1.41e9 < parameters(work.network) < 1.43e9
    linear = (4 + 2) * width**2 * tokens + 2 * width**2 * words + 2 * width * 8960 * tokens
    attention = 2 * width * tokens * (tokens + words)
    assert count_flops(work.step) == pytest.approx(2 * layers * (linear + attention), rel=0.01)


def test_more_steps_and_caches_show() -> None:
    (one,) = computes(["compact:nano"], [288], steps=1)
    (four,) = computes(["compact:nano"], [288], steps=4, saved=0.5)
    assert four.total == pytest.approx(2 * one.total)
    assert one.per_pixel == pytest.approx(94e3, rel=0.02)  # as docs/model_card.md has it


def test_the_table_names_its_sources() -> None:
    told = run_gsvc("bench", "flops", "sd-turbo", "compact:nano", "--size", "288")
    text = told.stdout.decode()
    assert (
        "| sd-turbo " in text
        and "| 512x288 |" in " ".join(text.split())
        and "Stable Diffusion 2.1" in text
    )
    rows = run_gsvc("bench", "flops", "compact:nano", "--size", "288", "--json").stdout
    assert json.loads(rows)["frames"] == 1


def test_what_cannot_be_counted_is_said_in_a_line() -> None:
    for names, sizes, dials, line in (
        (["none"], [288], {}, "no back end 'none' can be counted: take restorer, compact:base, "),
        (["ltx"], [7], {}, "size 7 is out of range: 64 to 4320"),
        (["ltx"], [288], {"window": 32}, "window 32: windows have 8k"),
        (["ltx"], [288], {"steps": 0}, "steps 0 are out of range: 1 to 1000"),
        (["ltx"], [288], {"saved": 1.5}, "saved 1.5: a share of the steps, 0 to 1"),
    ):
        with pytest.raises(ConfigError, match=line):
            list(computes(names, sizes, **dials))
