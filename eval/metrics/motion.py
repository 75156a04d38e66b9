"""Do things move as they did? The decoded clip's motion beside the source's.

Motion is what Dense Inverse Search (T. Kroeger et al., ECCV 2016) finds in the luma of two frames
at full size, the same for source and output. Lengths are in pixels of a clip of 288 lines.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip import TestClip
from gsvc.decoders.interpolation.optical_flow import Flow, dis_flow, gray, pixel_grid, warp
from gsvc.eval.metrics.base import FrameMetric, Frames, Golden, ProvedMetric, luma
from gsvc.eval.metrics.shift_tolerant import SMALLEST_SIDE

LINES = 288
_MOVES = 0.5
"""Pixels from one frame to the next, at 288 lines, from which something moves."""
_SAME_PLACE = 1.0
"""Pixels, at 288 lines, that the source's motion there and back may miss its start by."""
_LEAST_SHARE = 1e-3
"""Of a frame: with fewer pixels that move, the frame stands still."""
_JUMP = 2.0
"""Of the source's change: beyond it a frame jumps."""
_LEAST_CHANGE = 0.5
"""Levels of 0-255, mean over a frame, that any frame may change by: noise, or a fade of one."""
_DIVERGES = 0.01
"""Of the largest divergence in a frame: beyond it motion folds or tears."""
_PRESET = cv2.DISOPTICAL_FLOW_PRESET_MEDIUM
_ADVICE = "install a usual OpenCV: pip install --force-reinstall opencv-python-headless"


class MotionError(FrameMetric):
    """How far the decoded motion is from the source's, where the source moves.

    Mean distance of the end points of both motions, frame before to frame, over the pixels that
    move by half a pixel or more in the source. Pixels whose motion there and back disagree, such as
    all at a cut, do not count. NaN where the source stands still.
    """

    name = "motion_error"
    unit = "px"
    smallest_side = SMALLEST_SIDE
    of_steps = True
    golden: Golden | None = Golden(0, 0.671875, tolerance=0.05, side=96, frames=3)
    advice = _ADVICE
    nothing = "the source does not move on any frame measured"

    def version(self) -> str:
        """See `Metric.version`."""
        return f"DIS medium on luma, pixels at {LINES} lines, where the source moves {_MOVES}"

    def _against(self, source: Frames, index: int) -> Callable[[Frames], float] | None:
        scale = LINES / min(source[0].shape[:2])
        motion = motion_between(source[index - 1], source[index])
        moves = (scale * np.linalg.norm(motion, axis=2) >= _MOVES) & self._counts(source[index - 1])
        if np.mean(moves) >= _LEAST_SHARE:
            moves &= scale * _disagreement(source, index, motion) < _SAME_PLACE
        if np.mean(moves) < _LEAST_SHARE:
            return None

        def distance(test: Frames) -> float:
            found = motion_between(test[index - 1], test[index])
            return float(scale * np.linalg.norm((found - motion)[moves], axis=1).mean())

        return distance

    def _counts(self, picture: Picture) -> NDArray[np.bool_]:
        """Which pixels of the frame before, from which motion starts, count if they move."""
        return np.ones(picture.shape[:2], bool)


class Jumps(ProvedMetric):
    """The share of frames, 0 to 1, that change over twice as much as the source's do.

    The change is the mean difference of luma to the frame before. All frames are looked at.
    """

    name = "jumps"
    per_frame = False
    golden = Golden(0, 0, frames=3)
    advice = "reinstall numpy"
    nothing = "a clip of one frame cannot jump"

    def version(self) -> str:
        """See `Metric.version`."""
        return f"mean luma difference over {_JUMP} times the source's and over {_LEAST_CHANGE}"

    def _values(
        self, source: TestClip, tests: Sequence[Frames], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        if len(source.frames) < 2:
            return np.full((len(tests), 1), np.nan)
        most = _JUMP * np.maximum(_changes(source.frames), _LEAST_CHANGE)
        return np.array([[np.mean(_changes(test) > most)] for test in tests])


class PsnrDiv(FrameMetric):
    """PSNR of luma where the decoded motion tears or folds: where its divergence is not small.

    C. Daly et al., "An Efficient Quality Metric for Video Frame Interpolation Based on Motion-Field
    Divergence", QoMEX 2025 (arXiv:2510.01361). The pixels that count are those with
    |du/dx + dv/dy| over a hundredth of its largest value in the frame, (u, v) being the motion of
    the decoded clip. The choices that are ours: DIS, as everywhere here; the motion from the frame
    to the one before it, so that the last frame has one; and where no motion diverges, as in a
    frozen picture, every pixel counts.
    """

    name = "psnr_div"
    unit = "dB"
    higher_is_better = True
    smallest_side = SMALLEST_SIDE
    of_steps = True
    golden = Golden(np.inf, 16.747, tolerance=0.05, side=96, frames=3)
    advice = _ADVICE

    def version(self) -> str:
        """See `Metric.version`."""
        return f"BT.709 luma where DIS medium diverges over {_DIVERGES} of its most"

    def _against(self, source: Frames, index: int) -> Callable[[Frames], float]:
        def ratio(test: Frames) -> float:
            counts = diverging(motion_between(test[index], test[index - 1]))
            error = np.mean((luma(source[index]) - luma(test[index]))[counts] ** 2)
            return float(10 * np.log10(255**2 / error)) if error else float("inf")

        return ratio


def diverging(motion: Flow) -> NDArray[np.bool_]:
    """Where the divergence is over a hundredth of its largest; everywhere when there is none."""
    divergence = np.abs(np.gradient(motion[..., 0], axis=1) + np.gradient(motion[..., 1], axis=0))
    most = divergence.max()
    return np.asarray(divergence > _DIVERGES * most) if most else np.ones(divergence.shape, bool)


def motion_between(one: Picture, other: Picture) -> Flow:
    """Where each pixel of `one` goes in `other`: float32 (H, W, 2), pixels of the pictures."""
    return dis_flow(gray(one), gray(other), _PRESET)


def _disagreement(frames: Frames, index: int, there: Flow) -> NDArray[np.float32]:
    """How far motion there and back ends from where it began: float32 (H, W), pixels."""
    back = motion_between(frames[index], frames[index - 1])
    missed = there + warp(back, pixel_grid(*there.shape[:2]) + there)
    return np.asarray(np.linalg.norm(missed, axis=2), np.float32)


def _changes(frames: Frames) -> NDArray[np.float64]:
    """Mean luma difference of each frame but the first to the one before."""
    shown = [gray(frame) for frame in frames]
    return np.array([cv2.absdiff(*pair).mean() for pair in pairwise(shown)])


METRICS = (MotionError(), Jumps(), PsnrDiv())
