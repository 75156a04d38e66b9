"""The speeds as a table, and what they were measured on."""

from collections.abc import Sequence

import torch

from gsvc.codec.machine import machine
from gsvc.eval.bench.machine import versions
from gsvc.eval.bench.speed.run import Speed
from gsvc.eval.bench.speed.subjects import MOTION, TOGETHER
from gsvc.eval.layout import markdown

_HEADER = (
    "", "size", "on", "ms a frame", "frames/s", f"{TOGETHER} at once", "MB", "kFLOP a pixel",
    "of the peak", "frames of motion",
)  # fmt: skip
_MISSING = "–"


def description(device: str) -> dict[str, object]:
    """The machine, and what the networks run on and with."""
    told: dict[str, object] = {**machine(), "threads": torch.get_num_threads(), "device": device}
    if torch.device(device).type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        told |= {"gpu": properties.name, "gpu_memory": properties.total_memory}
        told |= {"cuda": torch.version.cuda, "capability": f"{properties.major}.{properties.minor}"}
    precision = "float16" if torch.device(device).type == "cuda" else "float32"
    return {**told, "precision": precision, "versions": versions()}


def table(speeds: Sequence[Speed], told: dict[str, object]) -> str:
    """The machine in a line, a table, and what is not in it with the reasons."""
    where = f"{told['gpu']}, {told['cpu']}" if "gpu" in told else told["cpu"]
    numbers = told["versions"]
    assert isinstance(numbers, dict)
    peak = max((speed.peak or 0 for speed in speeds if speed.subject != MOTION), default=0)
    line = (
        f"{where}, {told['cores']} cores, {told['threads']} threads; torch {numbers['torch']}, "
        f"{told['precision']}"
    )
    if peak:
        line += f"; matrix product up to {peak / 1e12:.3g} TFLOP/s"
    missing = [
        f"- {speed.subject}, {speed.height} lines: {speed.reason}"
        for speed in speeds
        if speed.reason
    ]
    return "\n".join([line, "", markdown(_HEADER, [_row(speed) for speed in speeds]), "", *missing])


def _row(speed: Speed) -> list[str]:
    name = f"{MOTION} (steps 0)" if speed.subject == MOTION else speed.subject
    seconds = speed.seconds
    return [
        name,
        f"{speed.width}x{speed.height}",
        speed.device,
        _shown(seconds and 1000 * seconds, "{:.4g}"),
        _shown(seconds and 1 / seconds, "{:.3g}"),
        _shown(speed.rate_together, "{:.3g}"),
        _shown(speed.memory and speed.memory / 1e6, "{:.0f}"),
        _shown(speed.flops and speed.flops / 1e3, "{:.0f}"),
        _shown(speed.share and 100 * speed.share, "{:.0f} %"),
        _shown(speed.motion_frames, "{:.3g}"),
    ]


def _shown(value: float | None, form: str) -> str:
    return _MISSING if value is None else form.format(value)
