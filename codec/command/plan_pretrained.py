"""`gsvc plan --vram`: the pretrained model to take on a GPU, by counts alone, beside the plan."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gsvc.codec.planning.budgets import Budgets
from gsvc.codec.planning.vram import WINDOW, Held, held_within, preferred, smaller_sizes

_KINDS = {
    "whole": "whole",
    "offload": "a part at a time: slower",
    "groups": "a few layers at a time: slowest",
}


@dataclass(frozen=True)
class Chosen:
    """A model for a video."""

    model: Held
    flops: float
    """Operations for a second of video, counted; of a model of pictures the most: as if each
    frame were a key picture."""
    size: tuple[int, int]
    """Width and height at which it is held: the video's own, or smaller."""


class PretrainedChoice:
    """What a GPU of so much memory holds, and which model of it to take.

    The fastest way to hold one comes first, then the largest network; `--decoder-flops` leaves out
    what computes more. No quality and no time is foretold: neither was measured on a GPU.
    """

    def __init__(self, budgets: Budgets, size: tuple[int, int], rate: float) -> None:
        """`size`: width and height in pixels; `rate`: frames per second.

        Raises MissingDependencyError without gsvc[refine].
        """
        assert budgets.vram is not None
        self._vram, self._flops, self._rate = budgets.vram, budgets.decoder_flops, rate
        self._size = size
        self.models = held_within(self._vram, *size)
        """All, at the video's own size."""
        self.chosen = self._chosen()
        """None where nothing fits, whatever the size."""

    def as_json(self, source: str) -> dict[str, object]:
        """Values by name; quality and seconds are null: nobody measured them."""
        chosen = self.chosen and {
            **asdict(self.chosen.model),
            "flops": self.chosen.flops,
            "size": list(self.chosen.size),
            "quality": None,
            "seconds": None,
            "commands": self._commands(source, self.chosen.model),
        }
        return {"vram": [asdict(model) for model in self.models], "pretrained": chosen}

    def as_lines(self, source: str) -> list[str]:
        """For people."""
        fitting = preferred(self.models)
        lines = ["", f"--vram {self._text} holds, besides, at {_dimensions(self._size)}:"]
        for one in fitting:
            how = _KINDS[one.kind or ""]
            lines.append(f"  {one.name:<16}{one.memory / 1e9:>5.1f} GB  {how}")
        if missing := [m for m in self.models if m.kind is None]:
            lines.append(
                f"  not {', '.join(f'{m.name} ({m.memory / 1e9:.1f} GB)' for m in missing)}"
            )
        return [*lines, *self._told(source)]

    def _told(self, source: str) -> list[str]:
        if self.chosen is None:
            return [self._refusal()]
        model, scaled = self.chosen.model, self.chosen.size != self._size
        at = f", the video scaled to {_dimensions(self.chosen.size)} first" if scaled else ""
        how = _KINDS[model.kind or ""].partition(":")[0]
        told = (
            f"by counts alone: {model.name}{at}, the largest network held {how}; {model.steps} "
            f"steps take {self.chosen.flops / 1e12:,.1f} TFLOP for a second of video. What its "
            "pictures are worth and how long it takes was not measured: the plan above does not "
            "need it"
        )
        return [told, *self._commands(source, model)]

    def _refusal(self) -> str:
        if preferred(self.models):
            return "--decoder-flops is too little for any of them: the plan above needs none"
        least = min(self.models, key=lambda model: model.memory)
        return (
            f"no pretrained model fits: the nearest that can be met is --vram "
            f"{least.memory / 1e9 + 0.05:.1f}G, {least.name}; the plan above needs no GPU"
        )

    def _chosen(self) -> Chosen | None:
        for size in (self._size, *smaller_sizes(*self._size)):
            for model in preferred(held_within(self._vram, *size)):
                flops = flops_of(model, size, self._rate)
                if self._flops is None or flops <= self._flops:
                    return Chosen(model, flops, size)
        return None

    def _commands(self, source: str, model: Held) -> list[str]:
        stream = str(Path(source).with_suffix(".gsv"))
        steps = ["--steps", str(model.steps), "--vram", self._text, "--device", "cuda"]
        return [
            shlex.join(["gsvc", "models", "pull", model.name]),
            shlex.join(["gsvc", "decode", stream, "--backend", model.name, *steps]),
        ]

    @property
    def _text(self) -> str:
        return f"{self._vram / 1e9:g}G"


def flops_of(model: Held, size: Sequence[int], rate: float) -> float:
    """Operations for a second of video, counted; a multiply-add is two."""
    from gsvc.decoders.architectures.work import Work, architecture
    from gsvc.eval.compute import count_flops

    form, (width, height) = architecture(model.name), size
    work = Work(form, height, width, WINDOW if form.time else 1)
    total = count_flops(work.once).count + model.steps * count_flops(work.step).count
    return total * rate / max(1, work.frames - 1)


def _dimensions(size: Sequence[int]) -> str:
    return f"{size[0]}x{size[1]}"
