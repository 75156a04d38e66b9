"""What back ends compute before anything is spent: `gsvc bench flops`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.keyframes.backends import BACKENDS, find_backend
from gsvc.decoders.keyframes.pretrained.architecture_work import ArchitectureWork, architecture
from gsvc.decoders.keyframes.pretrained.architectures import ARCHITECTURES
from gsvc.decoders.keyframes.refiner import WindowRefiner
from gsvc.eval import compute, layout

NAMES = (*(name for name in BACKENDS if name != "compact"), *ARCHITECTURES)
"""What can be counted."""
SIZES = 288, 480, 720
_SIDES = 64, 4320
_HEADER = (
    "back end", "frames", "weights, GB", "size", "TFLOP once", "TFLOP a step", "steps",
    "TFLOP", "MFLOP a pixel", "latents, MB",
)  # fmt: skip


@dataclass(frozen=True)
class BackendFlops:
    """What one window, or one coded picture, costs."""

    name: str
    frames: int
    """That are computed at once; a window shows one less, 1: a coded picture."""
    weights: int
    """Bytes."""
    height: int
    width: int
    once: int
    """Operations, however many steps follow; a multiply-add is two."""
    step: int
    """Operations of one step."""
    steps: int
    latents: int | None
    """Bytes; None: it works on pixels."""
    source: str
    """Where its settings are from."""
    saved: float = 0.0
    """Share of the steps that a cache saves."""

    @property
    def total(self) -> float:
        """Operations."""
        return self.once + self.steps * (1 - self.saved) * self.step

    @property
    def per_pixel(self) -> float:
        """Operations for each pixel that is shown."""
        return self.total / (max(1, self.frames - 1) * self.height * self.width)


def computes(
    names: Sequence[str],
    sizes: Sequence[int],
    *,
    window: int = 33,
    steps: int | None = None,
    saved: float = 0.0,
) -> Iterator[BackendFlops]:
    """Each of `NAMES` at each size, 64 to 4320: the shorter side, of pictures of 16:9.

    `window`: frames that a pretrained back end sees at once, 8k + 1; `steps`: None for the usual
    number; `saved`: the share of the steps that a cache saves, 0 to 1. Raises ConfigError for an
    unknown name and for values out of range.
    """
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"no back end {name!r} can be counted: take {', '.join(NAMES)}")
    widths = wide(sizes)
    if window < 9 or window % 8 != 1:
        raise ConfigError(f"window {window}: windows have 8k + 1 frames: 9, 17, 25, 33 ...")
    if steps is not None and not 1 <= steps <= 1000:
        raise ConfigError(f"steps {steps} are out of range: 1 to 1000")
    if not 0 <= saved <= 1:
        raise ConfigError(f"saved {saved:g}: a share of the steps, 0 to 1")
    for name in names:
        for height, width in widths.items():
            if name in ARCHITECTURES:
                made = _pretrained(name, height, width, window)
            else:
                made = _shipped(name, height, width)
            yield replace(made, steps=steps or made.steps, saved=saved)


def wide(heights: Iterable[int]) -> dict[int, int]:
    """The widths of pictures of 16:9, by height. Raises ConfigError outside of 64 to 4320 lines."""
    least, most = _SIDES
    for height in heights:
        if not least <= height <= most:
            raise ConfigError(f"size {height} is out of range: {least} to {most} lines")
    return {height: round(height * 16 / 9 / 2) * 2 for height in heights}


def _pretrained(name: str, height: int, width: int, window: int) -> BackendFlops:
    form = architecture(name)
    work = ArchitectureWork(form, height, width, window if form.time else 1)
    once, step = compute.refiner_flops(work.cost())
    place = height, width, once, step, form.steps
    return BackendFlops(name, work.frames, work.weights, *place, work.latents, form.source)


def _shipped(name: str, height: int, width: int) -> BackendFlops:
    refiner = find_backend(name)
    cost = refiner.cost(height, width)
    assert cost is not None, "of what is shipped the cost is known"
    frames = refiner.delay + 1 if isinstance(refiner, WindowRefiner) else 1
    weights = sum(file.stat().st_size for file in refiner.files)
    once, step = compute.refiner_flops(cost)
    place = height, width, once, step, 1
    return BackendFlops(name, frames, weights, *place, None, "its weights")


def table(rows: Sequence[BackendFlops]) -> str:
    """As Markdown, with the sources below."""
    below = []
    for name, source in {row.name: row.source for row in rows}.items():
        notes = ARCHITECTURES[name].notes if name in ARCHITECTURES else ""
        below.append("; ".join([f"- {name}: {source}", *([notes] if notes else [])]))
    return "\n".join([layout.markdown(_HEADER, list(map(_row, rows))), "", *below])


def _row(row: BackendFlops) -> list[str]:
    return [
        row.name,
        str(row.frames),
        f"{row.weights / 1e9:.3g}",
        f"{row.width}x{row.height}",
        _three(row.once / 1e12),
        _three(row.step / 1e12),
        f"{row.steps * (1 - row.saved):g}",
        _three(row.total / 1e12),
        _three(row.per_pixel / 1e6),
        "–" if row.latents is None else f"{row.latents / 1e6:.3g}",
    ]


def _three(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
