"""ColorVideoVDP: a model of what an observer sees on a given display.

R. Mantiuk et al., "ColorVideoVDP: A visual difference predictor for image, video and display
distortions", ACM TOG (SIGGRAPH) 2024, package `cvvdp`, whose wheel carries the parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.eval.metrics.cvvdp_faster import Observer
from gsvc.eval.metrics.pairing import check_pairs, check_sides
from gsvc.eval.metrics.proved import Golden, ProvedMetric
from gsvc.eval.optional import optional

DISPLAY = "standard_fhd"
"""24-inch full-HD monitor, 200 cd/m2, office light, from 60 cm; clips are shown unscaled."""
SMALLEST_SIDE = 16
"""Pixels: under it the package has no bands to look at."""


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
        check_sides(source.frames, SMALLEST_SIDE, "ColorVideoVDP")
        if len(source.frames) == 1:
            return _of_pictures(source.frames[0], [test[0] for test in tests])
        return _pooled(_observed(source, tests))[:, np.newaxis]


@dataclass(frozen=True)
class Differences:
    """Where in time, colour and size of detail a test differs, in JOD that are lost.

    The model's eye looks back over a quarter of a second: a difference in one frame is strongest
    an eighth of a second later.
    """

    frequencies: NDArray[np.float64]
    """(bands,): cycles per degree of the viewing angle, falling; the last band is what is left."""
    bands: NDArray[np.float64]
    """(4, frames, bands): in light, red-green, yellow-violet, and in light that changes."""
    frames: NDArray[np.float64]
    """(frames,): what the clip would lose if all of it were like that frame."""


def differences_over_time(source: TestClip, test: Sequence[Picture]) -> Differences:
    """What the package calls a distogram, and the loss frame by frame.

    The clip has two frames or more. Raises InputError when the frames do not match the source's,
    MissingDependencyError without the package.
    """
    check_pairs(source.frames, test)
    check_sides(source.frames, SMALLEST_SIDE, "ColorVideoVDP")
    observer, found = _observer(source), _observed(source, [test])[0]
    import torch

    package = _metric()
    weights = 4 * package.get_ch_weights(4)[0].repeat(1, 1, found.shape[-1])
    weights[:, 0, -1] *= package.baseband_weight
    bands = 10 - package.met2jod(torch.from_numpy(found) * weights).numpy()
    # Every frame twice: the package takes one alone for a picture that is looked at for long.
    alone = np.repeat(found.swapaxes(0, 1)[:, :, np.newaxis], 2, axis=2)
    return Differences(observer.frequencies, bands.astype(np.float64), 10 - _pooled(alone))


def _observed(source: TestClip, tests: Sequence[Sequence[Picture]]) -> NDArray[np.float32]:
    return _observer(source).differences(source.frames, tests)


def _observer(source: TestClip) -> Observer:
    form = source.format
    return Observer(_metric(), form.width, form.height, float(form.frame_rate))


def _pooled(differences: NDArray[np.float32]) -> NDArray[np.float64]:
    """(tests, 4, frames, bands) → JOD of each test."""
    import torch

    scores = [_metric().do_pooling_and_jods(torch.from_numpy(one)[None]) for one in differences]
    return np.array([float(score) for score in scores])


def _of_pictures(reference: Picture, tests: Sequence[Picture]) -> NDArray[np.float64]:
    """The package's score of single pictures, which has no channel of change."""
    import torch

    with torch.inference_mode():
        scores = [_metric().predict(one, reference, dim_order="HWC")[0] for one in tests]
    return np.array([[float(score)] for score in scores])


@cache
def _metric() -> Any:
    with optional('ColorVideoVDP cannot be imported ({error}): pip install "gsvc[bench]"'):
        import pycvvdp
        import torch
    return pycvvdp.cvvdp(display_name=DISPLAY, device=torch.device("cpu"), quiet=True)


METRICS = (Cvvdp(),)
