"""The frames of a window, restored in order."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.keyframes.devices import in_tiles, precision_on
from gsvc.decoders.keyframes.refiner import RefinerCost
from gsvc.decoders.keyframes.windowed.window_network import WINDOW_MULTIPLE, WindowRestorer

WHOLE_PIXELS = 1_000_000
"""Larger pictures are restored in tiles."""
_TILE = 640


class Between(NamedTuple):
    """Where a frame is among the keyframes of its window."""

    before: int
    """Index of the keyframe before it, or of one nearby."""
    after: int
    time: float
    """0 at the one before, 1 at the one after."""


def place_of(number: int, keys: Sequence[int]) -> Between:
    """Of a frame between keyframes, by index, in order.

    A keyframe is where the next one's interval begins; the last one is where its own ends. Where
    one side has no keyframe, the other side's stands for it; without any, the frame itself.
    """
    before = [key for key in keys if key <= number]
    after = [key for key in keys if key > number]
    if before and after:
        start, end = before[-1], after[0]
    elif len(before) > 1 and before[-1] == number:
        start, end = before[-2:]
    else:
        start = end = (before[-1:] or after[:1] or [number])[0]
    return Between(start, end, (number - start) / (end - start) if end > start else 0.0)


@torch.inference_mode()
def restored_frames(
    network: WindowRestorer,
    rendering: NDArray[np.uint8],
    keys: Sequence[int],
    confidence: NDArray[np.float32],
) -> list[Picture]:
    """See `WindowRefiner.restore`; `keys` are indices: the rendering there is the keyframe.

    A large picture is restored in tiles, each over the whole window. A tile sees all that pixels
    depend on in their own frame, but not all that earlier frames pass on from farther away.
    """
    height, width = rendering.shape[1:3]
    sides = (0, 0), (0, -height % WINDOW_MULTIPLE), (0, -width % WINDOW_MULTIPLE)
    padded = np.pad(rendering, (*sides, (0, 0)), "edge")
    device = network.leave.weight.device
    pictures = torch.from_numpy(padded).to(device).permute(0, 3, 1, 2)
    trusted = torch.from_numpy(np.pad(confidence, sides, "edge")).to(device)[:, None]
    places = [place_of(number, keys) for number in range(len(rendering))]
    run = partial(_window, network, places)
    if height * width <= WHOLE_PIXELS:
        drawn = run(pictures, trusted)
    else:
        drawn = in_tiles(run, [pictures, trusted], tile=_TILE, margin=network.reach)
    return list(drawn[..., :height, :width].permute(0, 2, 3, 1).contiguous().cpu().numpy())


def _window(
    network: WindowRestorer, places: Sequence[Between], pictures: Tensor, trusted: Tensor
) -> Tensor:
    """`pictures`, uint8 (n, 3, H, W), and confidence, (n, 1, H, W): restored, like `pictures`."""
    memory, frames = None, []
    for number, (before, after, time) in enumerate(places):
        shown = (pictures[one : one + 1].float() / 127.5 - 1 for one in (number, before, after))
        trust, moment = (
            trusted[number : number + 1],
            pictures.new_full((1,), time, dtype=torch.float32),
        )
        with precision_on(pictures.device):
            frame, memory = network(*shown, trust, moment, memory)
        frames.append(frame.float().add(1).mul(127.5).round().clamp(0, 255).byte())
    return torch.cat(frames)


def window_cost(settings: Mapping[str, Any], frames: int, height: int, width: int) -> RefinerCost:
    """What a window computes with these settings, padded as when it runs; no tile margins."""
    height, width = height + -height % WINDOW_MULTIPLE, width + -width % WINDOW_MULTIPLE
    with torch.device("meta"):
        network = WindowRestorer(**settings)
        picture, trust = torch.empty(1, 3, height, width), torch.empty(1, 1, height, width)
        time = torch.empty(1)

    def window() -> None:
        memory = None
        for _ in range(frames):
            _, memory = network(picture, picture, picture, trust, time, memory)

    return RefinerCost(step=window)
