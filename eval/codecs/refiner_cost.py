"""What a refiner computes for a stream: its network, counted for each key picture or window."""

from functools import cache
from math import ceil

from gsvc.codec.stream.info import StreamInfo
from gsvc.decoders.refiners.base import WindowRefiner
from gsvc.decoders.refiners.registry import find_backend
from gsvc.eval.codecs.base import Compute
from gsvc.eval.compute import Flops, count_flops

_OUTSIDE = ("AV1 decoding", "motion and rendering")


def refiner_cost(info: StreamInfo, steps: int, backend: str = "compact") -> Compute:
    """Operations per pixel of a frame as shown (a multiply-add is two), and bytes of weights.

    The padding of the sides is counted. The rest of decoding, integer work of OpenCV and dav1d, is
    named in `not_counted`.
    """
    video = info.header.format
    if not steps:
        return Compute(0.0, 0, _OUTSIDE)
    refiner = find_backend(backend)
    step, once = _flops(backend, video.height, video.width)
    if isinstance(refiner, WindowRefiner):
        calls = ceil((info.frames - 1) / refiner.delay)
    else:
        calls = sum(len(packet.key_frames) for packet in info.packets)
    weights = sum(file.stat().st_size for file in refiner.files)
    count = calls * (steps * step.count + once)
    pixels = video.width * video.height * info.frames
    return Compute(count / pixels, weights, (*_OUTSIDE, *step.not_counted))


@cache
def _flops(backend: str, height: int, width: int) -> tuple[Flops, int]:
    """One evaluation of the network, and what is computed once, counted without storage."""
    cost = find_backend(backend).cost(height, width)
    if cost is None:
        return Flops(0, ("the refiner",)), 0
    step = count_flops(cost.step)
    once = count_flops(cost.once).count if cost.once else 0
    return Flops(step.count, (*cost.not_counted, *step.not_counted)), once
