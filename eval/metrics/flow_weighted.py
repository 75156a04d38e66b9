"""ST-LPIPS where the motion is wrong: FloLPIPS with another network and another flow.

D. Danier, F. Zhang and D. Bull, "FloLPIPS: A Bespoke Video Quality Metric for Frame Interpolation",
PCS 2022, weight LPIPS by how far the output's optical flow is from the source's. Here the distance
is ST-LPIPS AlexNet's and the flow that of DIS, so this is neither FloLPIPS nor comparable with it.
"""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.eval.metrics.base import FrameMetric, Frames, Golden
from gsvc.eval.metrics.motion import motion_between
from gsvc.eval.metrics.shift_tolerant import SMALLEST_SIDE, layer_maps, network


class FlowWeighted(FrameMetric):
    """ST-LPIPS AlexNet, weighted by how wrong the motion is; 0 = equal.

    Where the motion is right everywhere, all places count alike.

    The weights are the distance between both motions, from the frame to the one before it, scaled
    down to each layer's size and to a sum of 1.
    """

    name = "flow_weighted_st_lpips_alex"
    smallest_side = SMALLEST_SIDE
    of_steps = True
    golden = Golden(0, 0.017619, tolerance=0.05, side=96, frames=3)
    advice = "reinstall it: pip install --force-reinstall stlpips-pytorch==0.0.2"

    def version(self) -> str:
        """See `Metric.version`."""
        network("alex")
        return "stlpips-pytorch alex shift-tolerant, weighted by end-point error of DIS medium"

    def _against(self, source: Frames, index: int) -> Callable[[Frames], float]:
        motion = motion_between(source[index], source[index - 1])
        features = layer_maps(network("alex"), source[index])

        def distance(test: Frames) -> float:
            found = motion_between(test[index], test[index - 1])
            wrong = np.linalg.norm(found - motion, axis=2)
            return _weighted(features, test[index], wrong)

        return distance


def _weighted(features: list[Any], test: Picture, wrong: NDArray[np.float32]) -> float:
    total = 0.0
    judge: Any = network("alex")
    for head, one, other in zip(judge.lins, features, layer_maps(judge, test), strict=True):
        height, width, _ = one.shape
        places = cv2.resize(wrong, (width, height), interpolation=cv2.INTER_AREA)
        weights = places / places.sum() if places.any() else np.full_like(places, 1 / places.size)
        differences = (one - other).square_() @ head.model[-1].weight.flatten()
        total += float(np.sum(weights * differences.numpy()))
    return total


METRICS = (FlowWeighted(),)
