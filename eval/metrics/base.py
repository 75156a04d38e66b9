"""What the benchmark asks of a metric."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip


class Metric(Protocol):
    """A distance or a likeness between a clip and its decoded version.

    Metrics inherit from it for the defaults.
    """

    name: str
    """As on the command line and in tables: "st_lpips_vgg"."""
    unit: str
    """"dB", "" for none."""
    higher_is_better: bool
    per_frame: bool
    """False: one number for the whole clip."""
    nothing: str = "no finite value on any frame measured"
    """Why a clip has no value when `measure` gives none."""

    def version(self) -> str:
        """Package, version, variant, for the cell's key.

        Raises MissingDependencyError or MissingModelError, saying what to do, when the package or
        its weights are not here; then the table has a gap with that reason, never another number.
        """

    def measure(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        """The values, float64 (tests, len(indices)), or (tests, 1) when not `per_frame`.

        The value at index i of a temporal metric is that of the step from frame i - 1 to i, NaN at
        frame 0. The source's features are computed once for all tests. Raises InputError when the
        frames of a test do not match the source's in number and size.
        """
