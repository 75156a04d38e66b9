"""Exchange rates: bits, computation, memory and energy for each other, in one table."""

from collections.abc import Mapping, Sequence
from math import exp
from statistics import fmean
from typing import Any

from gsvc.codec.planning.energy import RADIOS
from gsvc.eval.layout import markdown
from gsvc.eval.planning.surface import JUDGES, Point, clips_of, dials, exchanges, rate_of_quality
from gsvc.eval.summary.frontier import PUBLISHED

_PERCENT = 100
_LITTLE = 1e-3
"""More memory that saves no more than this share has no row."""


def exchange_table(
    points: Sequence[Point], fitted: Mapping[str, Any], memory: Sequence[tuple[int, float]]
) -> str:
    """Rows of what is given, what is saved, at what rate. `fitted`: numbers of the planner."""
    rows = [*_compute_rows(points), *_encoder_rows(points, fitted), *_memory_rows(memory)]
    rows.append(
        ["decoding time for bits, published", f"{PUBLISHED.compute:g}-fold",
         f"a {PUBLISHED.compression:g}th of the bits", f"B ~ C^-{PUBLISHED.exponent:.2f}"]
    )  # fmt: skip
    return markdown(["given for saved", "given", "saved", "rate"], [*rows, *_energy_rows(points)])


def _compute_rows(points: Sequence[Point]) -> list[list[str]]:
    rows = []
    for judge, name in JUDGES.items():
        found = exchanges(points, judge)
        clips = clips_of(points)
        # A clip whose bits no way lowers counts as nothing for what was spent.
        exponent = sum(one.exponent for one in found.values()) / len(clips)
        bits = fmean([1 / found[c].compression if c in found else 1.0 for c in clips])
        times = [one.compute for one in found.values()] or [1.0]
        rows.append(
            [f"decoding time for bits, by {name}", f"{fmean(times):.1f}-fold",
             f"{_PERCENT * (1 - bits):.1f} % of the bits", f"B ~ C^-{exponent:.3f}"]
        )  # fmt: skip
    return rows


def _encoder_rows(points: Sequence[Point], fitted: Mapping[str, Any]) -> list[list[str]]:
    fast, medium = fitted["presets"]["fast"], fitted["presets"]["medium"]
    given = medium["of_fast"] / fast["of_fast"]
    bits = (medium["jod"] - fast["jod"]) * -rate_of_quality(points, "jod")
    lean = medium["lean"]
    return [
        ["encoding time for bits, fast to medium, by CVVDP, JOD", f"{given:.1f}-fold",
         f"{_PERCENT * (1 - exp(-bits)):.0f} % of the bits", "–"],
        ["encoding time for memory, medium, lean", f"{lean['time']:.1f}-fold",
         f"{_PERCENT * (1 - lean['memory']):.0f} % of what is held beside programs", "–"],
    ]  # fmt: skip


def _memory_rows(curve: Sequence[tuple[int, float]]) -> list[list[str]]:
    rows, before = list[list[str]](), 0.0
    for size, share in curve:
        if share > before + _LITTLE:
            before = share
            each = _PERCENT * share / (size / 1e6)
            rows.append(
                ["memory for diffusion steps", f"{size / 1e6:.1f} MB",
                 f"{_PERCENT * share:.1f} % of the steps", f"{each:.2f} % a MB"]
            )  # fmt: skip
    return rows


def _energy_rows(points: Sequence[Point]) -> list[list[str]]:
    """What a processor may draw for its computation to cost less than the bits that it saves."""
    rows = []
    saved, spent = _bits_for_seconds(points)
    for name, radio in RADIOS.items():
        bits = f"{saved / 1000:.2f} kbit a second of video"
        watts = saved * radio.joules_per_bit / spent if spent else 0.0
        rows.append(
            [f"energy of sending over {name} for that of computing", f"{spent:.2f} s a second",
             bits, f"pays below {1000 * watts:.2g} mW"]
        )  # fmt: skip
    return rows


def _bits_for_seconds(points: Sequence[Point]) -> tuple[float, float]:
    """Bits saved, and seconds computed for it, for a second of video: by texture, mean of clips."""
    saved, spent = [], []
    for clip in clips_of(points):
        found = exchanges([p for p in points if p.clip == clip], "texture").get(clip)
        own = [p for p in points if p.clip == clip]
        plain = fmean(p.seconds for p in own if p.way == "steps 0")
        rate = fmean(1000 * p.kbps for p in own)
        best = max(dial.compute for dial in dials(points, clip, "texture"))
        saved.append(rate * (1 - 1 / found.compression) if found else 0.0)
        spent.append(plain * ((found.compute if found else best) - 1))
    return fmean(saved), fmean(spent)
