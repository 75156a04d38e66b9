"""What is timed: refiners, a picture or a window at a time, and drawing by motion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.types import Interval
from gsvc.decoders.devices import enough_memory
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.motion.learned.ifnet import IFNET_MULTIPLE, IFNet
from gsvc.decoders.motion.learned.rife import load_rife
from gsvc.decoders.refiners.base import Cost, KeyRefiner, WindowRefiner
from gsvc.decoders.refiners.compact.backend import CompactBackend
from gsvc.decoders.refiners.registry import BACKENDS, check_device, load_refiner
from gsvc.decoders.rendering import IntervalRenderer

MOTION = "motion"
"""Decoding at steps 0, but for AV1: the frames between two coded pictures."""
LEARNED_MOTION = "rife"
"""One frame between two coded pictures by RIFE: its network on the device, its warps on the CPU."""
REFINERS = tuple(name for name in BACKENDS if name != "compact")  # which is another name of one
TOGETHER = 8
"""Pictures that a network is given at once."""
_SPACING = 8
"""Frames from one coded picture to the next."""


@dataclass(frozen=True)
class Work:
    """Something to time, at one size."""

    device: str
    """What it really runs on."""
    one: Callable[[], object]
    """As a decoder does it: one call waits for the one before."""
    frames: int = 1
    """Frames that one call makes."""
    together: Callable[[], object] | None = None
    """`TOGETHER` pictures in one call; None: it takes one at a time."""
    cost: Cost | None = None
    """What one call computes, if that is known."""


def make_work(name: str, device: str, height: int, width: int) -> Work:
    """The work of a back end, of `MOTION` or `LEARNED_MOTION`. Errors as of `load_refiner`."""
    if name == MOTION:
        return _motion(height, width)
    if name == LEARNED_MOTION:
        check_device(device)
        return _learned_motion(device, height, width)
    refiner = load_refiner(name, device)
    refiner.load()
    cost = refiner.cost(height, width)
    if isinstance(refiner, WindowRefiner):
        return Work(device, _window(refiner, height, width), refiner.delay, cost=cost)
    return _keys(refiner, device, _pictures(height, width, TOGETHER), cost)


def _keys(refiner: KeyRefiner, device: str, pictures: Sequence[Picture], cost: Cost | None) -> Work:
    gain = np.zeros(pictures[0].shape[:2], np.float32)
    keys = [KeyPicture(picture, gain, 0.8, 1.0) for picture in pictures]

    def together(backend: CompactBackend) -> None:
        with enough_memory(device):
            backend.pipeline.together(keys)

    return Work(
        device,
        lambda: refiner.refine(keys[0], steps=1, seed=0),
        together=(lambda: together(refiner)) if isinstance(refiner, CompactBackend) else None,
        cost=cost,
    )


def _window(refiner: WindowRefiner, height: int, width: int) -> Callable[[], object]:
    frames = np.stack(_pictures(height, width, refiner.delay + 1))
    keys = {index: frames[index] for index in range(0, len(frames), _SPACING)}
    trust = np.ones(frames.shape[:3], np.float32)
    return lambda: refiner.restore(frames, keys, trust, steps=1, seed=0)


def _motion(height: int, width: int) -> Work:
    """DIS there and back, then a warp for each frame: OpenCV, on the CPU."""
    left, right = _pictures(height, width, 2)

    def draw() -> None:
        renderer = IntervalRenderer(left, right, Interval((1,) * _SPACING), None)
        for offset in range(1, _SPACING):
            renderer.picture(offset)

    return Work("cpu", draw, _SPACING - 1)


def _learned_motion(device: str, height: int, width: int) -> Work:
    rife, (left, right) = load_rife(device), _pictures(height, width, 2)
    with torch.device("meta"):
        # In training it does not look at the motion that it finds: here there is none.
        network, padded = (
            IFNet().train(),
            (-size % IFNET_MULTIPLE + size for size in (height, width)),
        )
        picture, time = torch.empty(1, 3, *padded), torch.empty(1)
    cost = Cost(lambda: network(picture, picture, time))
    return Work(device, lambda: rife.between(left, right, 0.5), cost=cost)


def _pictures(height: int, width: int, count: int) -> list[Picture]:
    """A texture that moves by some pixels from one picture to the next: RGB uint8 (H, W, 3)."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    waves = [np.sin(x / (5 + 3 * k) + k) * np.cos(y / (7 + k)) for k in range(3)]
    grain = np.random.default_rng(0).normal(0, 12, (height, width, 1))
    still = np.clip(128 + 70 * np.dstack(waves) + grain, 0, 255).astype(np.uint8)
    return [np.roll(still, 3 * shift, axis=1) for shift in range(count)]
