"""Streams decoded again with latent caches of several capacities: hits, steps saved, pictures lost.

Each capacity begins with an empty cache and decodes all streams in their order; what differs from a
decode without a cache is measured on the frames.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.latent_cache import LatentCache
from gsvc.decoders.keyframes.refiner import WindowRefiner
from gsvc.eval.baselines import gsvc
from gsvc.eval.layout import markdown

_HEADER = ("capacity, MB", "entries", "hit rate", "steps saved", "PSNR to no cache, dB")


@dataclass(frozen=True)
class Replay:
    """What a cache of one capacity did."""

    capacity: int
    """Bytes."""
    entries: int
    """That it held in the end."""
    hit_rate: float
    """Share of the loops that began with another's latents."""
    saved: float
    """Share of all steps that were not computed."""
    psnr: float
    """In dB, of all frames against those of loops that all ran whole, with the same noise; at
    capacity 0 against those without a cache. Infinite where they are equal."""


def replay(
    streams: Sequence[Path], capacities: Sequence[int], backend: str, steps: int, device: str
) -> Iterator[Replay]:
    """Decode with each capacity, in bytes. Raises ConfigError below 0, or without latents."""
    if any(capacity < 0 for capacity in capacities):
        raise ConfigError("capacities are bytes: 0 or more")
    settings = DecoderSettings(steps=steps, backend=backend, device=device)
    refiner = load_refiner(backend, device)
    if not refiner.keeps_latents:
        raise ConfigError(f"{backend} keeps no latents: take compact:nano, ltx ...")
    data = [path.read_bytes() for path in streams]

    def decoded(cache: LatentCache | None) -> Iterator[Picture]:
        refiner.latents = cache
        for one in data:
            yield from gsvc.decoded(one, settings, refiner)

    without = list(decoded(None))
    alone = list(decoded(_Alone())) if isinstance(refiner, WindowRefiner) else without
    for capacity in capacities:
        plain = alone if capacity else without
        with tempfile.TemporaryDirectory(prefix="gsvc-replay-") as folder:
            cache = LatentCache(folder, capacity)
            pairs = zip(plain, decoded(cache), strict=True)
            error = float(np.mean([np.square(a.astype(np.float32) - b).mean() for a, b in pairs]))
            told = cache.report()
        psnr = float(10 * np.log10(255**2 / error)) if error else float("inf")
        yield Replay(capacity, told.entries, told.hit_rate, told.saved / told.steps, psnr)


class _Alone(LatentCache):
    """A cache in which nothing is found: with it windows have one noise, as with any other."""

    is_on = True

    def __init__(self) -> None:
        super().__init__("", 0)


def table(rows: Sequence[Replay]) -> str:
    """As Markdown."""
    shown = []
    for row in rows:
        psnr = "equal" if row.psnr == float("inf") else f"{row.psnr:.1f}"
        shares = f"{row.hit_rate:.1%}", f"{row.saved:.1%}"
        shown.append([f"{row.capacity / 1e6:.3g}", str(row.entries), *shares, psnr])
    return markdown(_HEADER, shown)
