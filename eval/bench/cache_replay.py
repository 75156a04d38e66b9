"""Streams decoded again with latent caches of several capacities: hits, steps saved, pictures lost.

Each capacity begins with an empty cache and decodes all streams in their order; what differs from a
decode without a cache is measured on the frames.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.latent_cache import LatentCache
from gsvc.decoders.keyframes.refiner import WindowRefiner
from gsvc.eval.baselines import gsvc
from gsvc.eval.layout import markdown, write_bytes
from gsvc.eval.report.exhibits import image, label, legend, panels

_HEADER = ("capacity, MB", "entries", "hit rate", "steps saved", "PSNR to no cache, dB")


@dataclass(frozen=True)
class Replay:
    """What a cache of one capacity did."""

    capacity: int
    """Bytes."""
    entries: int
    """That it held in the end."""
    entry: float
    """Mean bytes of an entry; 0 without any."""
    hit_rate: float
    """Share of the loops that began with another's latents."""
    saved: float
    """Share of all steps that were not computed."""
    psnr: float
    """In dB, of all frames against those of loops that all ran whole, with the same noise; at
    capacity 0 against those without a cache. Infinite where they are equal."""


@dataclass(frozen=True)
class CapacityFit:
    """A family of hit rates over capacity M, with the parameters that come nearest."""

    text: str
    values: tuple[float, ...]
    error: float
    """Root of the mean squared error of the hit rate."""

    def __str__(self) -> str:
        values = ", ".join(f"{value:.3g}" for value in self.values)
        return f"{self.text}: {values}; error {self.error:.3f}"


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
        entry, saved = told.size / max(1, told.entries), told.saved / told.steps
        yield Replay(capacity, told.entries, entry, told.hit_rate, saved, psnr)


class _Alone(LatentCache):
    """A cache in which nothing is found: with it windows have one noise, as with any other."""

    is_on = True

    def __init__(self) -> None:
        super().__init__("", 0)


def fits(rows: Sequence[Replay]) -> list[CapacityFit]:
    """Both families, fitted to the hit rates; none where nothing hit."""
    from scipy.optimize import least_squares

    sizes = [row.entry for row in rows if row.entry]
    rates = np.array([row.hit_rate for row in rows])
    if not sizes or not rates.any():
        return []
    entries = np.array([row.capacity for row in rows]) / np.mean(sizes)
    families: dict[str, tuple[Callable[..., NDArray[np.float64]], tuple[float, ...]]] = {
        "1 - exp(-b M/s), b": (lambda b: 1 - np.exp(-b * entries), (0.01,)),
        "1 - (1 + k M/s)^-g, k and g": (lambda k, g: 1 - (1 + k * entries) ** -g, (0.1, 0.5)),
    }
    found = []
    for text, (family, begin) in families.items():
        solved = least_squares(lambda v, f=family: f(*v) - rates, begin, bounds=(0, np.inf))
        error = float(np.sqrt(np.mean(np.square(solved.fun))))
        found.append(CapacityFit(text, tuple(map(float, solved.x)), error))
    return found


def table(rows: Sequence[Replay]) -> str:
    """As Markdown."""
    shown = []
    for row in rows:
        psnr = "equal" if row.psnr == float("inf") else f"{row.psnr:.1f}"
        shares = f"{row.hit_rate:.1%}", f"{row.saved:.1%}"
        shown.append([f"{row.capacity / 1e6:.3g}", str(row.entries), *shares, psnr])
    return markdown(_HEADER, shown)


def plot(rows: Sequence[Replay], path: Path) -> None:
    """Hit rate, saved steps and lost quality over capacity, as an image. Raises OutputError."""
    sizes = [row.capacity / 1e6 for row in rows]
    figure, places = panels(["", " "], "Latent caches")
    (_, left), (_, right) = places
    left.plot(sizes, [row.hit_rate for row in rows], "o-", label="hit rate")
    left.plot(sizes, [row.saved for row in rows], "s-", label="steps saved")
    lossy = [(row.capacity / 1e6, row.psnr) for row in rows if row.psnr != float("inf")]
    right.plot([size for size, _ in lossy], [psnr for _, psnr in lossy], "o-")
    label(left, "", "capacity, MB", "share")
    label(right, "", "capacity, MB", "PSNR to no cache, dB")
    legend(figure)
    write_bytes(path, image(figure, path.suffix.removeprefix(".")))
