"""What the compact refiner computes for one key picture."""

from collections.abc import Mapping
from typing import Any

import torch

from gsvc.decoders.refiners.base import Cost
from gsvc.decoders.refiners.compact.network import (
    DRAWINGS,
    GIVEN_CHANNELS,
    MULTIPLE,
    SCALARS,
    CompactRefiner,
)
from gsvc.decoders.refiners.compact.pipeline import WHOLE_PIXELS
from gsvc.decoders.refiners.priors.drawing import drawings, make_prior


def picture_cost(settings: Mapping[str, Any], height: int, width: int) -> Cost:
    """Of the network with these settings and its prior; sides are padded as when it runs."""
    missing = ("margins of tiles",) if height * width > WHOLE_PIXELS else ()
    height, width = height + -height % MULTIPLE, width + -width % MULTIPLE
    with torch.device("meta"):
        network = CompactRefiner(**settings)
        name = network.config.prior
        picture = torch.empty(1, 3, height, width)
        given = torch.empty(1, GIVEN_CHANNELS + (3 * DRAWINGS if name else 0), height, width)
        sigma, scalars = torch.empty(1), torch.empty(1, SCALARS)
        prior = make_prior(name) if name else None
    return Cost(
        step=lambda: network(picture, sigma, given, scalars),
        once=None if prior is None else lambda: drawings(prior, picture),
        not_counted=missing,
    )
