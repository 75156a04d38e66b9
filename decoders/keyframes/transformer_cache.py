"""What diffusers keeps from one step of a transformer to the next, by name: `--cache NAME[:N]`.

A cache is on for one window and forgets all at its end: windows do not see each other through it.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import ConfigError

_INNER = [r"\w*blocks\.\d+\.\w*(attn\d?|ffn?)"]
"""Attention and feed-forward parts, which TaylorSeer foretells: its own patterns fit none here."""
_WARM = 2  # steps of which FasterCache must have attention before it can go on from them
_MAG_SKIPS = 3  # steps in a row that MagCache leaves out at most: its authors'


@dataclass(frozen=True)
class _Kind:
    usual: float
    least: float
    most: float
    whole: bool
    """Whether the number counts steps, and parts of blocks are left out; else whole blocks are."""


_KINDS = {
    "first-block": _Kind(0.05, 0, 1, whole=False),
    "mag": _Kind(0.06, 0, 1, whole=False),
    "faster": _Kind(2, 2, 10, whole=True),
    "taylorseer": _Kind(5, 2, 10, whole=True),
}
CACHES = tuple(_KINDS)
_NO_BLOCKS = {
    "WanVACETransformer3DModel": "its control would be added twice",
    "LTX2VideoTransformer3DModel": "diffusers does not know its blocks",
}
"""Transformers whose blocks cannot be left out."""


class TransformerCache:
    """A cache by name, for transformers of one back end that run without guidance."""

    def __init__(self, text: str) -> None:
        """Read `NAME` or `NAME:NUMBER`.

        The number of first-block and mag is a threshold, from 0, nothing is left out, to 1; of
        faster and taylorseer it says that each N-th step is computed. Else raises ConfigError.
        """
        self.name, colon, number = text.partition(":")
        kind = _KINDS.get(self.name)
        if kind is None:
            raise ConfigError(f"no cache is called {self.name!r}: take {', '.join(CACHES)}")
        self.number = _number(text, number, kind) if colon else kind.usual
        self._ratios: dict[int, list[float]] = {}

    def __str__(self) -> str:
        return f"{self.name}:{self.number:g}"

    def check(self, transformer: nn.Module) -> None:
        """Raises ConfigError for a transformer that it does not work on."""
        name = type(transformer).__name__
        if not hasattr(transformer, "enable_cache"):
            raise ConfigError(f"cache={self.name!r}: diffusers keeps nothing of a {name}: omit it")
        if not _KINDS[self.name].whole and name in _NO_BLOCKS:
            others = " or ".join(other for other in CACHES if _KINDS[other].whole)
            raise ConfigError(f"cache={self.name!r}: not with {name}, {_NO_BLOCKS[name]}: {others}")

    @contextmanager
    def on(self, transformer: Any, steps: int) -> Iterator[None]:
        """In it the transformer runs one loop of `steps` with the cache. Errors as of `check`.

        mag needs to know how the model's outputs grow from step to step: the first loop of each
        length computes all, and is measured.
        """
        self.check(transformer)
        if self.name == "mag" and steps not in self._ratios:
            ratios: list[float] = []
            with _measured(transformer, ratios):
                yield
            if len(ratios) == steps:
                self._ratios[steps] = ratios
            return
        with _watched(transformer) as timestep:
            with _quiet():
                transformer.enable_cache(self._config(transformer, steps, timestep))
            try:
                with transformer.cache_context("window"):
                    yield
            finally:
                transformer.disable_cache()

    def _config(self, transformer: Any, steps: int, timestep: Callable[[], float]) -> Any:
        import diffusers

        if self.name == "first-block":
            return diffusers.FirstBlockCacheConfig(threshold=self.number)
        if self.name == "mag":
            return diffusers.MagCacheConfig(
                threshold=self.number,
                max_skip_steps=_MAG_SKIPS,
                num_inference_steps=steps,
                mag_ratios=torch.tensor(self._ratios[steps]),
            )
        if self.name == "faster":
            return diffusers.FasterCacheConfig(
                spatial_attention_block_skip_range=int(self.number),
                is_guidance_distilled=True,
                attention_weight_callback=lambda _: 0.5,
                current_timestep_callback=timestep,
            )
        return diffusers.TaylorSeerCacheConfig(
            cache_interval=int(self.number),
            taylor_factors_dtype=transformer.dtype,
            cache_identifiers=_INNER,
        )


def _number(text: str, number: str, kind: _Kind) -> float:
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    if not kind.least <= value <= kind.most or (kind.whole and value != int(value)):
        what = "a whole number" if kind.whole else "a number"
        raise ConfigError(f"cache={text!r}: after the colon {what}, {kind.least} to {kind.most}")
    return value


@contextmanager
def _quiet() -> Iterator[None]:
    """FasterCache says at each window that it is experimental: docs/caches.md does, once."""
    logger = logging.getLogger("diffusers.hooks.faster_cache")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _watched(transformer: nn.Module) -> Iterator[Callable[[], float]]:
    """The timestep at which the transformer is, 0 to 1000; the latest there is in the first steps.
    FasterCache asks for it, and would go on from steps that it has not seen where a loop begins
    late, as one that restores does."""
    seen: list[float] = []

    def note(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(float(named["timestep"].max()))

    handle = transformer.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield lambda: seen[-1] if len(seen) > _WARM else 1000.0
    finally:
        handle.remove()


@contextmanager
def _measured(transformer: Any, ratios: list[float]) -> Iterator[None]:
    """How much larger than in the step before is what the blocks add: a number a step."""
    blocks: Sequence[nn.Module] = (
        transformer.blocks if hasattr(transformer, "blocks") else transformer.transformer_blocks
    )
    entered: list[Tensor] = []
    before: list[Tensor] = []

    def enter(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        entered[:] = [named["hidden_states"] if "hidden_states" in named else given[0]]

    def leave(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        added = (output[0] if isinstance(output, tuple) else output) - entered[0]
        size = added.float().norm(dim=-1)
        ratios.append(float((size / (before[0] + 1e-8)).mean()) if before else 1.0)
        before[:] = [size]

    handles = [
        blocks[0].register_forward_pre_hook(enter, with_kwargs=True),
        blocks[-1].register_forward_hook(leave),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
