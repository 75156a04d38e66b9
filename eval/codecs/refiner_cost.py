"""What the compact refiner computes for a stream: its network, counted on the key pictures that are refined."""

import json
from functools import cache

from gsvc.codec.scaffold.types import Place
from gsvc.codec.stream.info import StreamInfo
from gsvc.decoders.refiners.registry import files_of, weights_of
from gsvc.eval.codecs.base import Compute
from gsvc.eval.compute import Flops, count_flops

_OUTSIDE = ("AV1 decoding", "motion and rendering")
_TILES = "margins of tiles"
_WHOLE_PIXELS = 1_000_000
"""Larger pictures are refined in tiles; see `gsvc.decoders.refiners.compact.pipeline`."""


def refiner_cost(info: StreamInfo, steps: int, backend: str = "compact") -> Compute:
    """Operations (2 a multiply-add) a pixel of a frame as shown, and bytes of weights; 0 steps: none.

    Sides are padded: that is counted. The rest of decoding is OpenCV's and dav1d's integer work and stands in
    `not_counted`.
    """
    video = info.header.format
    pixels = video.width * video.height
    if not steps:
        return Compute(0.0, 0, _OUTSIDE)
    pictures = sum(p.is_picture and p.place is not Place.AFTER for p in info.packets)
    flops, once = _picture_flops(backend, video.height, video.width)
    missing = (*_OUTSIDE, *([_TILES] if pixels > _WHOLE_PIXELS else []), *flops.not_counted)
    weights = sum(file.stat().st_size for file in files_of(backend))
    count = pictures * (steps * flops.count + once)
    return Compute(count / (pixels * info.frames), weights, missing)


@cache
def _picture_flops(backend: str, height: int, width: int) -> tuple[Flops, int]:
    """One evaluation of the network, and what its prior takes once, counted on tensors without storage."""
    import torch

    from gsvc.decoders.refiners.compact.network import (
        DRAWINGS,
        GIVEN_CHANNELS,
        MULTIPLE,
        SCALARS,
        CompactRefiner,
    )
    from gsvc.decoders.refiners.priors.drawing import drawings, make_prior

    settings = json.loads(weights_of(backend).with_suffix(".json").read_text())
    height, width = height + -height % MULTIPLE, width + -width % MULTIPLE
    with torch.device("meta"):
        network = CompactRefiner(**settings)
        name = network.config.prior
        given = GIVEN_CHANNELS + (3 * DRAWINGS if name else 0)
        inputs = (
            torch.empty(1, 3, height, width),
            torch.empty(1),
            torch.empty(1, given, height, width),
            torch.empty(1, SCALARS),
        )
        once = 0
        if name:
            prior = make_prior(name)
            once = count_flops(lambda: drawings(prior, inputs[0])).count
        return count_flops(lambda: network(*inputs)), once
