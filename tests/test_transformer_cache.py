"""diffusers' caches on tiny random transformers: they save work and end with the window."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any

import pytest
import torch
from diffusers import (
    CogVideoXTransformer3DModel,
    LTX2VideoTransformer3DModel,
    LTXVideoTransformer3DModel,
    WanTransformer3DModel,
    WanVACETransformer3DModel,
)
from torch import Tensor, nn

from gsvc import ConfigError
from gsvc.decoders.keyframes.transformer_cache import CACHES, TransformerCache
from gsvc.eval.compute import count_flops

STEPS = 10
WAN: dict[str, Any] = {
    "num_attention_heads": 2,
    "attention_head_dim": 12,
    "in_channels": 4,
    "out_channels": 4,
    "text_dim": 16,
    "freq_dim": 16,
    "ffn_dim": 32,
    "num_layers": 3,
    "rope_max_seq_len": 32,
}
Model = tuple[Any, tuple[int, ...], dict[str, Any]]
"""A transformer, the shape of its latents, and what else it takes."""


def wan() -> Model:
    given = {"encoder_hidden_states": torch.ones(1, 6, 16)}
    return WanTransformer3DModel(**WAN), (1, 4, 3, 4, 4), given


def vace() -> Model:
    model = WanVACETransformer3DModel(**WAN, vace_layers=[0, 2], vace_in_channels=12)
    given = {
        "encoder_hidden_states": torch.ones(1, 6, 16),
        "control_hidden_states": torch.ones(1, 12, 3, 4, 4),
    }
    return model, (1, 4, 3, 4, 4), given


def ltx() -> Model:
    model = LTXVideoTransformer3DModel(
        in_channels=8,
        out_channels=8,
        num_attention_heads=2,
        attention_head_dim=8,
        cross_attention_dim=16,
        num_layers=3,
        caption_channels=16,
    )
    given = {
        "encoder_hidden_states": torch.ones(1, 6, 16),
        "encoder_attention_mask": torch.ones(1, 6, dtype=torch.bool),
        "num_frames": 3,
        "height": 4,
        "width": 4,
    }
    return model, (1, 48, 8), given


def cogvideo() -> Model:
    model = CogVideoXTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        out_channels=4,
        time_embed_dim=8,
        text_embed_dim=16,
        num_layers=3,
        sample_width=4,
        sample_height=4,
        sample_frames=9,
        max_text_seq_length=6,
    )
    return model, (1, 3, 4, 4, 4), {"encoder_hidden_states": torch.ones(1, 6, 16)}


def run(model: Model, kept: TransformerCache | None = None, begin: float = 1000) -> Tensor:
    """A loop of Euler steps, like those of the pipelines."""
    transformer, shape, given = model
    state = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), kept.on(transformer, STEPS) if kept else nullcontext():
        for number in range(STEPS):
            timestep = torch.tensor([begin * (1 - number / STEPS)])
            velocity = transformer(hidden_states=state, timestep=timestep, **given)[0]
            state = state - 0.1 * velocity
    return state


@cache
def run_plainly(make: Callable[[], Model], begin: float) -> tuple[Tensor, int]:
    """What comes out without a cache, and its operations."""
    model = made(make)
    return run(model, begin=begin), count_flops(lambda: run(model, begin=begin))


def made(make: Callable[[], Model]) -> Model:
    torch.manual_seed(5)
    model = make()
    for parameter in model[0].parameters():
        nn.init.normal_(parameter, std=0.1)
    return model


@pytest.mark.parametrize(
    ("make", "name"),
    [
        *((wan, name) for name in CACHES),
        (ltx, "first-block"),
        (cogvideo, "mag"),
        (vace, "faster"),  # it refuses the two above, see below
    ],
)
def test_a_cache_saves_work_and_ends_with_its_window(make: Callable[[], Model], name: str) -> None:
    begin = 400  # as of what restores
    model = made(make)
    kept = TransformerCache(f"{name}:3" if name in ("faster", "taylorseer") else f"{name}:0.5")
    (plain, whole), first = run_plainly(make, begin), run(model, kept, begin)
    if name == "mag":
        assert torch.equal(first, plain)  # which measured
        first = run(model, kept, begin)
    assert count_flops(lambda: run(model, kept, begin)) < whole
    assert not torch.equal(first, plain)
    assert (first - plain).abs().mean() < 0.2 * (plain - plain.mean()).abs().mean()
    assert torch.equal(run(model, kept, begin), first)  # nothing is left of the window before
    assert torch.equal(run(model, begin=begin), plain)


def test_what_cannot_be_is_said_in_a_line() -> None:
    for text, line in {
        "none": "no cache is called 'none': take first-block, mag, faster, taylorseer",
        "first-block:": "cache='first-block:': after the colon a number, 0 to 1",
        "mag:2": "cache='mag:2': after the colon a number, 0 to 1",
        "faster:2.5": "cache='faster:2.5': after the colon a whole number, 2 to 10",
        "taylorseer:nan": "cache='taylorseer:nan': after the colon a whole number, 2 to 10",
    }.items():
        with pytest.raises(ConfigError, match=f"^{line}$"):
            TransformerCache(text)
    assert str(TransformerCache("first-block")) == "first-block:0.05"


def test_transformers_it_does_not_fit_are_refused_before_anything_runs() -> None:
    with torch.device("meta"):
        ltx2 = LTX2VideoTransformer3DModel(num_layers=1)
    with pytest.raises(ConfigError, match="control would be added twice: faster or taylorseer"):
        run(vace(), TransformerCache("first-block"))
    with pytest.raises(ConfigError, match="diffusers does not know its blocks: faster or tay"):
        TransformerCache("mag").check(ltx2)
    with pytest.raises(ConfigError, match="diffusers keeps nothing of a Linear: omit it"):
        TransformerCache("faster").check(nn.Linear(1, 1))
