"""What the benchmark asks of a metric, and metrics that are proved before they are used.

A proved metric must first give known values on a known clip. Frames are compared in pairs of equal
size, and several metrics look at luma.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import InputError, MissingDependencyError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip_reader import TestClip

Frames = Sequence[Picture]
"""RGB uint8 (H, W, 3), all of one size."""
Tests = Sequence[Frames]
"""Decoded versions of one clip."""
Indices = Sequence[int]
"""Of the frames that are measured."""
Values = NDArray[np.float64]
"""Shape (tests, indices)."""


class Metric(Protocol):
    """How a decoded clip differs from its source; metrics inherit from it for the defaults."""

    name: str
    """As on the command line and in tables: "st_lpips_vgg"."""
    unit: str
    """"dB", "" for none."""
    higher_is_better: bool
    per_frame: bool
    """False: one number for the whole clip."""
    nothing: str = "no finite value on any frame measured"
    """Why a clip has no value when `measure` gives none."""

    @abstractmethod
    def version(self) -> str:
        """Package, version, variant, for the cell's key.

        Raises MissingDependencyError or MissingModelError, saying what to do, when the package or
        its weights are not here; then the table has a gap with that reason, never another number.
        """

    @abstractmethod
    def measure(self, source: TestClip, tests: Tests, indices: Indices) -> Values:
        """The values, float64 (tests, len(indices)), or (tests, 1) when not `per_frame`.

        The value at index i of a temporal metric is that of the step from frame i - 1 to i, NaN at
        frame 0. The source's features are computed once for all tests. Raises InputError when the
        frames of a test do not match the source's in number and size.
        """


_BT709_LUMA = np.array([0.2126, 0.7152, 0.0722])


def check_pairs(reference: Sequence[Picture], test: Sequence[Picture]) -> None:
    """Raise InputError unless both hold RGB uint8 pictures of one size, and equally many."""
    if len(reference) != len(test):
        raise InputError(
            f"{len(test)} frames cannot be measured against {len(reference)}: "
            "pass sequences of equal length, paired by index"
        )
    if not reference:
        raise InputError("there are no frames to measure: pass at least one pair")
    for index, (a, b) in enumerate(zip(reference, test, strict=True)):
        if a.ndim != 3 or a.shape != reference[0].shape or a.shape != b.shape or a.shape[2] != 3:
            why = f"frame {index} is {b.shape} against {a.shape}: all must be RGB and of one size"
            raise InputError(why)
        if a.dtype != np.uint8 or b.dtype != np.uint8:
            raise InputError(f"frame {index} is {b.dtype} against {a.dtype}: both must be uint8")


def check_sides(frames: Sequence[Picture], smallest: int, metric: str) -> None:
    """Raise InputError when a side is under `smallest` pixels."""
    height, width = frames[0].shape[:2]
    if min(height, width) < smallest:
        raise InputError(
            f"{metric} needs sides of {smallest} pixels or more, got {width}x{height}: "
            "measure larger frames"
        )


def chosen(frames: Sequence[Picture], indices: Sequence[int]) -> list[Picture]:
    """The frames at `indices`."""
    return [frames[index] for index in indices]


def luma(picture: Picture) -> NDArray[np.float64]:
    """BT.709 luma of RGB uint8 (H, W, 3): float64 (H, W), full range, 0-255, not rounded."""
    return np.asarray(picture @ _BT709_LUMA)


@dataclass(frozen=True)
class Golden:
    """What a metric must give on the golden clip, averaged over its frames."""

    same: float
    """Against itself."""
    different: float | None
    """Against its damaged version; None where the value cannot be known beforehand."""
    tolerance: float = 1e-3
    """Of `different`, relative."""
    slack: float = 0
    """Of `same`, absolute."""
    side: int = 64
    """Of the clip's pictures, in pixels."""
    frames: int = 1

    def fits(self, same: float, different: float) -> bool:
        """Whether a metric that gives these values is the right one."""
        is_same = same == self.same or abs(same - self.same) <= self.slack
        if self.different is None:
            return is_same
        return is_same and abs(different - self.different) <= self.tolerance * abs(self.different)


class ProvedMetric(Metric, ABC):
    """A metric that must give known values on its golden pair before its first use."""

    unit = ""
    higher_is_better = False
    per_frame = True
    golden: Golden | None
    """None where a synthetic picture has nothing to see for the network."""
    advice: str
    """What to do when the values differ."""

    def __init__(self) -> None:
        self._is_proved = False

    @abstractmethod
    def _values(self, source: TestClip, tests: Tests, indices: Indices) -> Values:
        """`measure` without its checks."""

    def measure(self, source: TestClip, tests: Tests, indices: Indices) -> Values:
        for test in tests:
            check_pairs(source.frames, test)
        self._prove()
        return self._values(source, tests, indices)

    def _prove(self) -> None:
        if self._is_proved or self.golden is None:
            return
        source, damaged = golden_clip(self.golden.side, self.golden.frames)
        values = self._values(source, [source.frames, damaged], range(self.golden.frames))
        same, different = map(float, np.nanmean(values, axis=1))
        if not self.golden.fits(same, different):
            raise MissingDependencyError(
                f"{self.name} gives {same:.6f} and {different:.6f} on the golden pair instead of "
                f"{self.golden.same} and {self.golden.different}: {self.advice}"
            )
        self._is_proved = True


class FrameMetric(ProvedMetric):
    """A proved metric of single frames, or of the step from the frame before."""

    smallest_side = 0
    """Pixels that it needs."""
    of_steps = False
    """Frame 0 has no value."""

    @abstractmethod
    def _against(self, source: Frames, index: int) -> Callable[[Frames], float] | None:
        """From a test to its value at frame `index`; None where the source has none."""

    def _values(self, source: TestClip, tests: Tests, indices: Indices) -> Values:
        check_sides(source.frames, self.smallest_side, self.name)
        values = np.full((len(tests), len(indices)), np.nan)
        for column, index in enumerate(indices):
            if self.of_steps and index == 0:
                continue
            if (value := self._against(source.frames, index)) is not None:
                values[:, column] = [value(test) for test in tests]
        return values


def golden_clip(side: int, frames: int) -> tuple[TestClip, list[Picture]]:
    """A synthetic clip that moves to the right, and its damaged version: shifted and quantised."""
    y, x = np.mgrid[0:side, 0:side]
    planes = [x * 3 + y, (x * y) // 7, (x // 8 + y // 8) % 2 * 160 + x]
    first = np.stack(planes, axis=2).astype(np.uint8)
    source = [np.roll(first, 2 * index, axis=1) for index in range(frames)]
    steps = [min(32 + 8 * index, 96) for index in range(frames)]
    damaged = [
        np.roll(frame, 1, axis=1) // step * step for frame, step in zip(source, steps, strict=True)
    ]
    return TestClip("golden", source, Fraction(25)), damaged
