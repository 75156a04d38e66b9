"""What happens between frames: flicker that no single frame shows.

Warp error: W.-S. Lai et al., "Learning Blind Video Temporal Consistency", ECCV 2018, with the flow
of DIS (T. Kroeger et al., ECCV 2016) on the source, and minus the source's own error. Alone it
rewards blur, so the distance of frame differences stands beside it.
"""

from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip import TestClip
from gsvc.decoders.interpolation.optical_flow import Flow, gray, pixel_grid, warp
from gsvc.eval.metrics.base import FrameMetric, Frames, Golden, ProvedMetric, check_sides
from gsvc.eval.metrics.shift_tolerant import SMALLEST_SIDE, distances, network

_MOST_DISAGREEMENT = 1.0
"""Pixels between a position and where the flow there and back leads; beyond it, it is occluded."""


class WarpError(FrameMetric):
    """The output's warp error minus the source's.

    The warp error is the root mean square difference, in levels of 0-255, between a frame and the
    one before warped along the source's flow, over what is visible in both. A negative value means
    that the output changes less than the source, as blur makes it do.
    """

    name = "warp_error"
    unit = "levels"
    smallest_side = SMALLEST_SIDE
    of_steps = True
    golden = Golden(0, 15.32877, tolerance=0.05, side=96, frames=3)
    advice = "install a usual OpenCV: pip install --force-reinstall opencv-python-headless"

    def version(self) -> str:
        """See `Metric.version`."""
        return "DIS medium on the source, RGB RMS over unoccluded pixels, output minus source"

    def _against(self, source: Frames, index: int) -> Callable[[Frames], float]:
        maps, visible = _correspondence(source[index - 1], source[index])
        own = _difference(source, index, maps, visible)
        return lambda test: _difference(test, index, maps, visible) - own


def _correspondence(before: Picture, after: Picture) -> tuple[Flow, NDArray[np.bool_]]:
    """Where each pixel of `after` was in `before`, (H, W, 2), and where that is reliable."""
    one, two = gray(before), gray(after)
    estimator = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    back = estimator.calc(two, one, None)
    forth = estimator.calc(one, two, None)
    height, width = one.shape
    maps = pixel_grid(height, width) + back
    disagreement = np.linalg.norm(back + warp(forth, maps), axis=2)
    inside = np.all((maps >= 0) & (maps <= (width - 1, height - 1)), axis=2)
    return maps, inside & (disagreement < _MOST_DISAGREEMENT)


def _difference(
    frames: Sequence[Picture], index: int, maps: Flow, visible: NDArray[np.bool_]
) -> float:
    moved = cv2.remap(
        frames[index - 1].astype(np.float32), maps, None, cv2.INTER_LINEAR
    )  # in float: rounding would count as flicker
    if not visible.any():
        return float("nan")
    return float(np.sqrt(np.mean((frames[index][visible] - moved[visible]) ** 2)))


class DifferenceDistance(ProvedMetric):
    """ST-LPIPS AlexNet between source and output of the pictures of change; 0 = they change alike.

    A picture of change is (frame - frame before) / 2 + 128, at half the size to save time.
    """

    name = "st_lpips_alex_of_differences"
    golden = Golden(0, 0.016656, frames=3)
    advice = "reinstall it: pip install --force-reinstall stlpips-pytorch==0.0.2"

    def version(self) -> str:
        """See `Metric.version`."""
        network("alex")
        return "stlpips-pytorch alex shift-tolerant on (frame - frame before) / 2 + 128, half size"

    def _values(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        check_sides(source.frames, 2 * SMALLEST_SIDE, "ST-LPIPS of differences")
        values = np.full((len(tests), len(indices)), np.nan)
        later = [column for column, index in enumerate(indices) if index > 0]
        if later:
            steps = [indices[column] for column in later]
            changes = [_changes(test, steps) for test in tests]
            values[:, later] = distances(network("alex"), _changes(source.frames, steps), changes)
        return values


def _changes(frames: Sequence[Picture], steps: Sequence[int]) -> list[Picture]:
    size = frames[0].shape[1] // 2, frames[0].shape[0] // 2
    pairs = ((frames[index].astype(np.int16), frames[index - 1]) for index in steps)
    changes = (((after - before + 256) // 2).astype(np.uint8) for after, before in pairs)
    return [np.asarray(cv2.resize(c, size, interpolation=cv2.INTER_AREA)) for c in changes]


METRICS = (WarpError(), DifferenceDistance())
