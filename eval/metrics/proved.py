"""Metrics that are proved before use: each must first give known values on a known clip."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import MissingDependencyError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.eval.metrics.base import Metric
from gsvc.eval.metrics.pairing import check_pairs

Frames = Sequence[Picture]


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
    """A metric whose first use is checked against its golden pair.

    This keeps a package of another version, other weights or a mistake of ours out of the tables.
    """

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
    def _values(
        self, source: TestClip, tests: Sequence[Frames], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        """`measure` without its checks."""

    def measure(
        self, source: TestClip, tests: Sequence[Frames], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        """See `Metric.measure`."""
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

    @abstractmethod
    def _against(self, source: Frames, index: int) -> Callable[[Frames], float] | None:
        """From a test to its value at frame `index`; None where the source has none."""

    def _values(
        self, source: TestClip, tests: Sequence[Frames], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        values = np.full((len(tests), len(indices)), np.nan)
        for column, index in enumerate(indices):
            if (value := self._against(source.frames, index)) is not None:
                values[:, column] = [value(test) for test in tests]
        return values


def golden_clip(side: int, frames: int) -> tuple[TestClip, list[Picture]]:
    """A synthetic clip that moves to the right, and its damaged version.

    It is computed in integers. The damaged frames are shifted by a pixel and quantised, the later
    ones more coarsely.
    """
    y, x = np.mgrid[0:side, 0:side]
    planes = [x * 3 + y, (x * y) // 7, (x // 8 + y // 8) % 2 * 160 + x]
    first = np.stack(planes, axis=2).astype(np.uint8)
    source = [np.roll(first, 2 * index, axis=1) for index in range(frames)]
    steps = [min(32 + 8 * index, 96) for index in range(frames)]
    damaged = [
        np.roll(frame, 1, axis=1) // step * step for frame, step in zip(source, steps, strict=True)
    ]
    return TestClip("golden", source, Fraction(25)), damaged
