"""Speed and memory of refiners and of drawing by motion, on a device of this machine.

`gsvc bench speed` times a picture or window; `gsvc bench backend`, a pretrained model's windows.
"""

import gc
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch

from gsvc.codec.bitstream import errors, scaffold
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.extras import machine
from gsvc.codec.weights.hub import read_hub_manifest
from gsvc.decoders.interpolation import ifnet, rendering
from gsvc.decoders.interpolation.rife import between, load_rife
from gsvc.decoders.keyframes.backends import BACKENDS, check_device, load_refiner
from gsvc.decoders.keyframes.compact.backend import CompactBackend
from gsvc.decoders.keyframes.devices import bfloat16_pays
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.refiner import (
    KeyRefiner,
    Refiner,
    RefinerCost,
    WindowRefiner,
    enough_memory,
)
from gsvc.eval.bench.flops import wide
from gsvc.eval.bench.store import versions
from gsvc.eval.compute import PeakMemory, refiner_flops
from gsvc.eval.layout import markdown

_REPEATS, _MOST_REPEATS, _SECONDS = 3, 50, 1.0
"""Work is repeated so often at least, and at most; between them, for so long."""
_LONG = 5.0  # seconds of one go from which one more is enough
_SIDE = {"cpu": 1024, "cuda": 8192}  # of the matrices that are multiplied


class Timing(NamedTuple):
    """What work took."""

    seconds: float
    """The median of its repeats, after one that warms the device up."""
    repeats: int
    """How many there were."""
    memory: int | None
    """Bytes at the peak beside what was held before; None where the system does not tell."""


def timed(work: Callable[[], object], device: str) -> Timing:
    """Do the work a few times on a device and wait for each to end."""
    memory, first = _first(work, device)
    seconds = [_seconds(work, device)]
    while not _is_enough(seconds, first):
        seconds.append(_seconds(work, device))
    return Timing(statistics.median(seconds), len(seconds), memory)


def matrix_peak(device: str) -> float:
    """Operations a second of a matrix product (multiply-add: two), the best of half a second."""
    kind = torch.device(device).type
    side = _SIDE[kind]
    dtype = torch.float16 if kind == "cuda" else torch.float32
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in "ab")
    times = [_seconds(lambda: a @ b, device) for _ in range(3)]
    more = min(_MOST_REPEATS, round(0.5 / min(times)))
    times += [_seconds(lambda: a @ b, device) for _ in range(more)]
    return 2 * side**3 / min(times)


def _first(work: Callable[[], object], device: str) -> tuple[int | None, float]:
    """The first go: bytes at its peak, and seconds."""
    gc.collect()
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        seconds = _seconds(work, device)
        return torch.cuda.max_memory_allocated(device) - before, seconds
    with PeakMemory() as memory:
        seconds = _seconds(work, device)
    return memory.peak, seconds


def _seconds(work: Callable[[], object], device: str) -> float:
    wait(device)
    begin = perf_counter()
    work()
    wait(device)
    return perf_counter() - begin


def wait(device: str) -> None:
    """Until the device has done all that it was told to."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def _is_enough(seconds: list[float], first: float) -> bool:
    if first > _LONG and seconds[0] > _LONG:
        return True
    done = len(seconds)
    return done >= _MOST_REPEATS or (done >= _REPEATS and sum(seconds) >= _SECONDS)


MOTION = "motion"
"""Decoding at steps 0, but for AV1: the frames between two coded pictures."""
LEARNED_MOTION = "rife"
"""One frame between two coded pictures by RIFE: its network on the device, its warps on the CPU."""
REFINERS = tuple(name for name in BACKENDS if name != "compact")  # which is another name of one
TOGETHER = 8
"""Pictures that a network is given at once."""
_SPACING = 8  # frames from one coded picture to the next


class TimedWork(NamedTuple):
    """Something to time, at one size."""

    device: str
    """What it really runs on."""
    one: Callable[[], object]
    """As a decoder does it: one call waits for the one before."""
    frames: int = 1
    """Frames that one call makes."""
    together: Callable[[], object] | None = None
    """`TOGETHER` pictures in one call; None: it takes one at a time."""
    cost: RefinerCost | None = None
    """What one call computes, if that is known."""


def make_work(name: str, device: str, height: int, width: int) -> TimedWork:
    """The work of a back end, of `MOTION` or `LEARNED_MOTION`. Errors as of `load_refiner`."""
    if name == MOTION:
        return _motion(height, width)
    if name == LEARNED_MOTION:
        check_device(device)
        return _learned_motion(device, height, width)
    refiner = load_refiner(name, device)
    refiner.load()
    cost = refiner.cost(height, width)
    if isinstance(refiner, WindowRefiner):
        return TimedWork(device, _window(refiner, height, width), refiner.delay, cost=cost)
    return _keys(refiner, device, _pictures(height, width, TOGETHER), cost)


def _keys(
    refiner: KeyRefiner, device: str, pictures: Sequence[Picture], cost: RefinerCost | None
) -> TimedWork:
    gain = np.zeros(pictures[0].shape[:2], np.float32)
    keys = [Keyframe(picture, gain, 0.8, 1.0) for picture in pictures]

    def together(backend: CompactBackend) -> None:
        with enough_memory(device):
            backend.pipeline.together(keys)

    return TimedWork(
        device,
        lambda: refiner.refine(keys[0], steps=1, seed=0),
        together=(lambda: together(refiner)) if isinstance(refiner, CompactBackend) else None,
        cost=cost,
    )


def _window(
    refiner: WindowRefiner, height: int, width: int, steps: int = 1
) -> Callable[[], object]:
    frames = np.stack(_pictures(height, width, refiner.delay + 1))
    keys = {index: frames[index] for index in range(0, len(frames), _SPACING)}
    trust = np.ones(frames.shape[:3], np.float32)
    return lambda: refiner.restore(frames, keys, trust, steps=steps, seed=0)


def _motion(height: int, width: int) -> TimedWork:
    """DIS there and back, then a warp for each frame: OpenCV, on the CPU."""
    left, right = _pictures(height, width, 2)

    def draw() -> None:
        renderer = rendering.IntervalRenderer(left, right, scaffold.Interval((1,) * _SPACING), None)
        for offset in range(1, _SPACING):
            renderer.picture(offset)

    return TimedWork("cpu", draw, _SPACING - 1)


def _learned_motion(device: str, height: int, width: int) -> TimedWork:
    rife, (left, right) = load_rife(device), _pictures(height, width, 2)
    padded = (-size % ifnet.IFNET_MULTIPLE + size for size in (height, width))
    with torch.device("meta"):
        # In training it does not look at the motion that it finds: here there is none.
        network, picture, time = ifnet.IFNet().train(), torch.empty(1, 3, *padded), torch.empty(1)
    cost = RefinerCost(lambda: network(picture, picture, time))
    return TimedWork(device, lambda: between(rife, left, right, 0.5), cost=cost)


def _pictures(height: int, width: int, count: int) -> list[Picture]:
    """A texture that moves by some pixels from one picture to the next: RGB uint8 (H, W, 3)."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    waves = [np.sin(x / (5 + 3 * k) + k) * np.cos(y / (7 + k)) for k in range(3)]
    grain = np.random.default_rng(0).normal(0, 12, (height, width, 1))
    still = np.clip(128 + 70 * np.dstack(waves) + grain, 0, 255).astype(np.uint8)
    return [np.roll(still, 3 * shift, axis=1) for shift in range(count)]


LIMIT = 60.0
"""Seconds a picture from which nothing is timed."""
_LIMIT_TOGETHER = 20.0  # the same for pictures at once: a CPU gains nothing by them
SUBJECTS = MOTION, LEARNED_MOTION, *REFINERS
"""What can be timed: back ends, as in `gsvc decode --backend`, and motion."""


@dataclass(frozen=True)
class Speed:
    """How fast one subject is at one size."""

    subject: str
    """As in the settings."""
    device: str
    """What it really ran on."""
    height: int
    """Lines."""
    width: int
    """Pixels a line."""
    seconds: float | None = None
    """One frame, one at a time, the way to the device and back included."""
    repeats: int = 0
    """Times that this was measured."""
    together: int = 1
    """Pictures at once in the next number."""
    rate_together: float | None = None
    """Frames a second, `together` at once."""
    memory: int | None = None
    """Bytes at the peak beside the loaded network, one at a time."""
    flops: float | None = None
    """Operations a pixel of a frame; element-wise ones and margins of a refiner's tiles are not
    counted, those of a prior's are."""
    peak: float | None = None
    """Operations a second of a matrix product on its device, measured just before and after."""
    motion_frames: float | None = None
    """How many frames motion draws at this size in the time of one."""
    reason: str = ""
    """Why a number is missing."""

    @property
    def share(self) -> float | None:
        """The part of `peak` that was reached, at the better of the two rates."""
        if self.seconds is None or not self.flops or not self.peak:
            return None
        rate = max(1 / self.seconds, self.rate_together or 0)
        return self.flops * self.height * self.width * rate / self.peak


def measure(subjects: Sequence[str], sizes: Sequence[int], device: str) -> Iterator[Speed]:
    """Time each of `SUBJECTS` at each size, the short side of pictures of 16:9.

    A subject that lacks a package, weights or memory gives a reason in place of numbers. Raises
    ConfigError for a size out of range, and as `check_device`.
    """
    widths = wide(sizes)
    check_device(device)
    return _speeds(subjects, widths, device)


def _speeds(subjects: Sequence[str], widths: Mapping[int, int], device: str) -> Iterator[Speed]:
    drawn: dict[int, float] = {}
    for subject in subjects:
        share = 1.0
        for height, width in widths.items():
            speed = _measured(Speed(subject, device, height, width), share)
            if speed.seconds is not None and subject == MOTION:
                drawn[height] = speed.seconds
            share = speed.share or share
            if speed.seconds is not None and height in drawn:
                speed = replace(speed, motion_frames=speed.seconds / drawn[height])
            yield speed


def _measured(speed: Speed, share: float) -> Speed:
    """Measured where it is expected to reach this share of the device's matrix product."""
    device, height, width = speed.device, speed.height, speed.width
    try:
        work = make_work(speed.subject, device, height, width)
        once, step = refiner_flops(work.cost) if work.cost else (0, 0)
        count, peak = (once + step) / work.frames, matrix_peak(work.device)
        speed = replace(speed, device=work.device, flops=count / (height * width) or None)
        if (expected := count / (share * peak)) > LIMIT:
            return replace(speed, reason=f"about {expected:.0f} s a picture, over {LIMIT:.0f}")
        one = timed(work.one, device)
        seconds = one.seconds / work.frames
        speed = replace(speed, seconds=seconds, repeats=one.repeats, memory=one.memory)
        speed = _with_together(speed, work, one)
        return replace(speed, peak=max(peak, matrix_peak(work.device)))
    except errors.GsvcError as error:
        return replace(speed, reason=str(error))


def _with_together(speed: Speed, work: TimedWork, one: Timing) -> Speed:
    if work.together is None:
        reason = "" if speed.subject == MOTION else "takes one at a time"
        return replace(speed, reason=reason)
    if (expected := TOGETHER * one.seconds) > _LIMIT_TOGETHER:
        reason = f"{TOGETHER} at once: about {expected:.0f} s, over {_LIMIT_TOGETHER:.0f}"
        return replace(speed, reason=reason)
    rate = TOGETHER / timed(work.together, speed.device).seconds
    return replace(speed, together=TOGETHER, rate_together=rate)


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
    on_cpu = "bfloat16" if bfloat16_pays() else "float32"
    precision = "float16" if torch.device(device).type == "cuda" else on_cpu
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
    missing = [f"- {s.subject}, {s.height} lines: {s.reason}" for s in speeds if s.reason]
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


_SIZES = (288, 512), (480, 854), (720, 1280)
_PACKAGES = "gsvc", "torch", "diffusers", "transformers"


def window_speeds(name: str, device: str, steps: int) -> Mapping[str, object]:
    """What a window or a coded picture takes at each size, loading apart. As `load_refiner`."""
    refiner = load_refiner(name, device)
    rows: list[Mapping[str, object]] = []
    for height, width in _SIZES:
        size = f"{width}x{height}"
        try:
            refiner.check(height, width, steps=steps)
            _restoring(refiner, 64, 64, 1)()  # loads it
            memory, seconds = _first(_restoring(refiner, height, width, steps), device)
        except errors.DeviceError as error:
            rows.append({"size": size, "why_not": str(error)})
            continue
        rows.append({"size": size, "seconds": round(seconds, 3), "peak_bytes": memory})
    on = torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"
    manifest = read_hub_manifest(name)
    packages = {package: version(package) for package in _PACKAGES}
    weights = {"repo": manifest.repo, "commit": manifest.commit, "weights": manifest.weights}
    return {"name": name, "device": on, "steps": steps, **weights, **packages, "windows": rows}


def _restoring(refiner: Refiner, height: int, width: int, steps: int) -> Callable[[], object]:
    if isinstance(refiner, WindowRefiner):
        return _window(refiner, height, width, steps)
    keyframe = Keyframe.of(_pictures(height, width, 1)[0], None, 40, 1)
    return lambda: refiner.refine(keyframe, steps=steps, seed=0)
