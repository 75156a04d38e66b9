"""ColorVideoVDP: a model of what an observer sees on a given display.

R. Mantiuk et al., "ColorVideoVDP: A visual difference predictor for image, video and display
distortions", ACM TOG (SIGGRAPH) 2024, package `cvvdp`, whose wheel carries the parameters.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.eval.metrics.proved import Golden, ProvedMetric
from gsvc.eval.optional import optional

DISPLAY = "standard_fhd"
"""24-inch full-HD monitor, 200 cd/m2, office light, from 60 cm; clips are shown unscaled."""


class Cvvdp(ProvedMetric):
    """10 less the just-objectionable differences; one number per clip, from all of its frames."""

    name = "cvvdp"
    unit = "JOD"
    higher_is_better = True
    per_frame = False
    golden = Golden(10, 4.819357, slack=1e-6, frames=2)
    advice = "reinstall it: pip install --force-reinstall cvvdp==0.5.7"

    def version(self) -> str:
        """See `Metric.version`."""
        _metric()
        return f"cvvdp {version('cvvdp')}, display {DISPLAY}"

    def _values(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        import torch

        reference = np.stack(source.frames)
        with torch.inference_mode():
            scores = [
                _metric().predict(
                    np.stack(test),
                    reference,
                    dim_order="FHWC",
                    frames_per_second=float(source.frame_rate),
                )[0]
                for test in tests
            ]
        return np.array([[float(score)] for score in scores])


@cache
def _metric() -> Any:
    with optional('ColorVideoVDP cannot be imported ({error}): pip install "gsvc[bench]"'):
        import pycvvdp
        import torch
    return pycvvdp.cvvdp(display_name=DISPLAY, device=torch.device("cpu"), quiet=True)


METRICS = (Cvvdp(),)
