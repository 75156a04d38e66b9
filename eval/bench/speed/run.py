"""The measurement: each subject at each size, with a reason where something is left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gsvc.codec.errors import ConfigError, GsvcError
from gsvc.decoders.refiners.registry import check_device
from gsvc.eval.bench.speed.subjects import (
    LEARNED_MOTION,
    MOTION,
    REFINERS,
    TOGETHER,
    Work,
    make_work,
)
from gsvc.eval.bench.speed.timing import Timing, matrix_peak, timed
from gsvc.eval.compute import count_flops

LIMIT = 60.0
"""Seconds a picture from which nothing is timed."""
_LIMIT_TOGETHER = 20.0
"""The same for pictures at once: a CPU gains nothing by them."""
_SIDES = 64, 4320


@dataclass(frozen=True)
class SpeedSettings:
    """What to time. Raises ConfigError for a size out of range."""

    subjects: Sequence[str] = (MOTION, LEARNED_MOTION, *REFINERS)
    """Back ends, as in `gsvc decode --backend`, `MOTION` and `LEARNED_MOTION`."""
    sizes: Sequence[int] = (288, 720, 1080)
    """Short sides of pictures of 16:9."""
    device: str = "cpu"
    """Where the networks run."""

    def __post_init__(self) -> None:
        for size in self.sizes:
            if not _SIDES[0] <= size <= _SIDES[1]:
                raise ConfigError(f"size {size} is out of range: {_SIDES[0]} to {_SIDES[1]} lines")


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


def measure(settings: SpeedSettings) -> Iterator[Speed]:
    """Time what the settings name, subject by subject.

    A subject that lacks a package, weights or memory gives a reason in place of numbers. Raises
    ConfigError and DeviceError for a device that is not there.
    """
    check_device(settings.device)
    drawn: dict[int, float] = {}
    for subject in settings.subjects:
        share = 1.0
        for size in settings.sizes:
            speed = _measured(subject, settings.device, size, share)
            if speed.seconds is not None and subject == MOTION:
                drawn[size] = speed.seconds
            share = speed.share or share
            yield _compared(speed, drawn.get(size))


def _measured(subject: str, device: str, size: int, share: float) -> Speed:
    """One subject at one size, expected to reach this share of the device's matrix product."""
    height, width = size, round(size * 16 / 9 / 2) * 2
    speed = Speed(subject, device, height, width)
    try:
        work = make_work(subject, device, height, width)
        count, peak = _operations(work) / work.frames, matrix_peak(work.device)
        speed = replace(speed, device=work.device, flops=count / (height * width) or None)
        if (expected := count / (share * peak)) > LIMIT:
            return replace(speed, reason=f"about {expected:.0f} s a picture, over {LIMIT:.0f}")
        one = timed(work.one, device)
        seconds = one.seconds / work.frames
        speed = replace(speed, seconds=seconds, repeats=one.repeats, memory=one.memory)
        speed = _with_together(speed, work, one)
        return replace(speed, peak=max(peak, matrix_peak(work.device)))
    except GsvcError as error:
        return replace(speed, reason=str(error))


def _operations(work: Work) -> int:
    """Of one call; 0 where they are not known."""
    parts = (work.cost.step, work.cost.once) if work.cost else ()
    return sum(count_flops(part).count for part in parts if part is not None)


def _with_together(speed: Speed, work: Work, one: Timing) -> Speed:
    if work.together is None:
        reason = "" if speed.subject == MOTION else "takes one at a time"
        return replace(speed, reason=reason)
    if (expected := TOGETHER * one.seconds) > _LIMIT_TOGETHER:
        reason = f"{TOGETHER} at once: about {expected:.0f} s, over {_LIMIT_TOGETHER:.0f}"
        return replace(speed, reason=reason)
    rate = TOGETHER / timed(work.together, speed.device).seconds
    return replace(speed, together=TOGETHER, rate_together=rate)


def _compared(speed: Speed, drawn: float | None) -> Speed:
    """With the time in frames that are drawn by motion."""
    if speed.seconds is None or not drawn:
        return speed
    return replace(speed, motion_frames=speed.seconds / drawn)
