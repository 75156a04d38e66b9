"""What RIFE computes: its network, counted for each frame that it draws."""

from functools import cache

import numpy as np

from gsvc.codec.scaffold.place import Place
from gsvc.codec.stream.info import StreamInfo
from gsvc.decoders.motion.learned.rife import loaded_rife, rife_file
from gsvc.eval.codecs.base import Compute
from gsvc.eval.compute import Flops, count_flops

_OUTSIDE = ("looking up pixels along the motion", "a second look where motion is fast")


def drawing_cost(height: int, width: int, drawn: int, frames: int) -> Compute:
    """Of `drawn` frames between pictures, per pixel of the clip's `frames`. Raises as `load_rife`.

    The padding of the sides is counted.
    """
    one = _one_frame(height, width)
    weights = rife_file().stat().st_size
    per_pixel = one.count * drawn / (width * height * frames)
    return Compute(per_pixel, weights, (*_OUTSIDE, *one.not_counted))


def motion_cost(info: StreamInfo) -> Compute:
    """Of decoding a stream of ours with learned motion; dissolving and held frames cost nothing."""
    intervals = (interval for packet in info.packets for interval in packet.intervals)
    moving = (one for one in intervals if one.place is Place.BETWEEN and not one.dissolves)
    drawn = sum(interval.frames - 1 for interval in moving)
    video = info.header.format
    return drawing_cost(video.height, video.width, drawn, info.frames)


@cache
def _one_frame(height: int, width: int) -> Flops:
    gray = np.full((height, width, 3), 128, np.uint8)
    return count_flops(lambda: loaded_rife().pair(gray, gray).motion(0.5))
