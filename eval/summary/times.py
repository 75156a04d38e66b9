"""The unit of time: encoding the same clip with x265 slow, at full size and its middle crf."""

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction

from gsvc.eval.bench.record import CellRecord
from gsvc.eval.summary.curves import clip_label

REFERENCE = "x265 slow (full size, middle crf)"
NO_REFERENCE = f"the run has no {REFERENCE} on this clip"


def reference_seconds(cells: Iterable[CellRecord]) -> dict[str, float]:
    """Seconds that x265 slow took to encode, by clip label; clips without it are missing."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for cell in cells:
        settings = cell.settings
        is_full = Fraction(str(settings.get("scale", 1))) == 1
        is_slow = cell.codec == "x265" and settings.get("preset", "slow") == "slow"
        if is_full and is_slow and not cell.error:
            crf = float(settings.get("crf", 0))
            found[clip_label(cell)].append((crf, cell.encode_seconds))
    middle = {clip: sorted(times)[len(times) // 2][1] for clip, times in found.items()}
    return {clip: seconds for clip, seconds in middle.items() if seconds > 0}
