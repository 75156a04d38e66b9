"""The unit of time: encoding the same clip with x265 slow, at full size and its middle crf."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from gsvc.eval.bench.record import CellRecord
from gsvc.eval.summary.curves import clip_label

REFERENCE = "x265 slow (full size, middle crf)"
NO_REFERENCE = f"the run has no {REFERENCE} on this clip"


def reference_seconds(cells: Iterable[CellRecord]) -> dict[str, float]:
    """Seconds that x265 slow took to encode, by clip label; clips without it are missing."""
    found: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        if cell.error or cell.codec != "x265" or not _is_reference(cell.settings):
            continue
        crf = float(cell.settings.get("crf", 0))
        found.setdefault(clip_label(cell), []).append((crf, cell.encode_seconds))
    middle = {clip: sorted(times)[len(times) // 2][1] for clip, times in found.items()}
    return {clip: seconds for clip, seconds in middle.items() if seconds > 0}


def _is_reference(settings: Mapping[str, int | float | str]) -> bool:
    full = Fraction(str(settings.get("scale", 1))) == 1
    return full and settings.get("preset", "slow") == "slow"
