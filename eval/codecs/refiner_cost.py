"""What the compact refiner computes for a stream: its network counted on the windows that decoding makes."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from gsvc.codec.stream_info import StreamInfo
from gsvc.decoders.refiner import BACKENDS, WINDOW
from gsvc.eval.codecs.base import Compute
from gsvc.eval.compute import Flops, count_flops

_OUTSIDE = ("AV1 decoding", "motion and rendering")
_TILES = "margins of tiles"
_WHOLE_PIXELS = 1_000_000
"""Larger pictures are refined in tiles; see `gsvc.decoders.pipeline`."""


def refiner_cost(info: StreamInfo, steps: int) -> Compute:
    """Operations (2 a multiply-add) a pixel of a frame as shown, and bytes of weights; 0 steps: none.

    Windows overlap, sides are padded: both are counted. The rest of decoding is OpenCV's and dav1d's integer
    work and stands in `not_counted`.
    """
    video = info.header.format
    pixels = video.width * video.height
    if not steps:
        return Compute(0.0, 0, _OUTSIDE)
    lengths = Counter(length for n in _intervals(info) for length in window_lengths(n))
    windows = {length: _window_flops(length, video.height, video.width) for length in lengths}
    total = steps * sum(count * windows[length].count for length, count in lengths.items())
    unknown = sorted({name for flops in windows.values() for name in flops.not_counted})
    missing = (*_OUTSIDE, *([_TILES] if pixels > _WHOLE_PIXELS else []), *unknown)
    weights = BACKENDS["compact"].stat().st_size
    return Compute(total / (pixels * info.frames), weights, missing)


def window_lengths(frames: int) -> Iterator[int]:
    """Frames in each window over an interval; each window after the first begins with a frame of the last."""
    yield min(frames, WINDOW)
    left = frames - WINDOW
    while left > 0:
        yield 1 + min(left, WINDOW - 1)
        left -= WINDOW - 1


def _intervals(info: StreamInfo) -> list[int]:
    times = [0, *(packet.time for packet in info.packets if packet.is_picture)]
    return [after - before for before, after in pairwise(times)]


@cache
def _window_flops(frames: int, height: int, width: int) -> Flops:
    """One evaluation of the network, counted on tensors without storage."""
    import torch

    from gsvc.decoders.compact import (
        GUIDE_CHANNELS,
        MULTIPLE,
        PICTURE_CHANNELS,
        SCALARS,
        CompactRefiner,
    )

    settings = json.loads(BACKENDS["compact"].with_suffix(".json").read_text())
    height, width = height + -height % MULTIPLE, width + -width % MULTIPLE
    with torch.device("meta"):
        network = CompactRefiner(**settings)
        inputs = (
            torch.empty(1, frames, 3, height, width),
            torch.empty(1),
            torch.empty(1, frames, PICTURE_CHANNELS, height, width),
            torch.empty(1, frames, GUIDE_CHANNELS, height // 2, width // 2),
            torch.empty(1, frames, SCALARS),
        )
        return count_flops(lambda: network(*inputs))
