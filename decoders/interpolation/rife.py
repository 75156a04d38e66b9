"""Frames between two pictures, drawn by the motion that RIFE estimates.

The network is `ifnet`; its published weights come by `gsvc models pull rife`, unless tuned ones
ship with gsvc. torch is imported when a network is loaded. The scaffold's motion is made for the
decoder's own estimate by DIS; here it is added to RIFE's, which is linear in time as that is.
"""

import pickle
from collections.abc import Callable
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import MissingModelError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights import extras, safetensors_files
from gsvc.codec.weights.model_files import RIFE, cached_path, model_path, pull_command, sha256_of
from gsvc.decoders.interpolation.optical_flow import Flow, pixel_grid, warp
from gsvc.decoders.interpolation.rendering import IntervalRenderer, MakeRenderer
from gsvc.decoders.keyframes.refiner import enough_memory

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gsvc.decoders.interpolation.ifnet import IFNet

SHIPPED = Path(__file__).parent / "weights" / "rife.safetensors"
"""Weights tuned to decoded pictures, where some ship."""

_ONE_SIDED = 20.0
"""Steepness of the mask around its middle: a symmetric blend of two pictures shows ghosts."""
_PARTS = {"conv0": "shrink", "convblock": "body", "lastconv": "leave"}
"""Parts of a block, as the published file names them and as `IFNet` does."""


class LearnedMotion(NamedTuple):
    """The motion of one frame between two pictures."""

    to_left: Flow
    """Where its pixels are in the left picture: float32 (H, W, 2), in pixels from their place."""
    to_right: Flow
    """The same for the right picture."""
    side: NDArray[np.float32]
    """The share to draw from the left picture: float32 (H, W), mostly near 0 or 1."""

    def drawn(self, left: Picture, right: Picture) -> Picture:
        """The frame, looked up bicubically in two pictures, nearly everywhere in one of them."""
        grid = pixel_grid(*left.shape[:2])
        from_left = warp(left, grid + self.to_left, cv2.INTER_CUBIC)
        from_right = warp(right, grid + self.to_right, cv2.INTER_CUBIC)
        blended = cv2.blendLinear(from_left, from_right, self.side, 1 - self.side)
        return np.asarray(blended, np.uint8)


class RifePair:
    """Two pictures of one scene on the network's device: made once for all frames between them.

    Over a cut what it gives is nonsense: the caller must not ask for it.
    """

    def __init__(self, network: "IFNet", left: Picture, right: Picture) -> None:
        """`network`: with its weights; `left`, `right`: RGB uint8 (H, W, 3), of any size."""
        self._network, self._size = network, left.shape[:2]
        self._device = next(network.parameters()).device
        self._pictures = [_padded(picture, self._device) for picture in (left, right)]

    def motion(self, time: float) -> LearnedMotion:
        """The motion of the frame at `time`, 0 at the left picture and 1 at the right one.

        Raises DeviceError when the device has too little memory.
        """
        import torch

        from gsvc.decoders.keyframes.devices import precision_on

        height, width = self._size
        at = torch.tensor([time], device=self._device)
        with (
            enough_memory(str(self._device)),
            torch.inference_mode(),
            precision_on(self._device, exact_on_cpu=True),
        ):
            motion, mask = self._network(*self._pictures, at)
            side = (_ONE_SIDED * (mask.sigmoid() - 0.5)).sigmoid()
            found = torch.cat([motion, side], 1)[0, :, :height, :width].permute(1, 2, 0)
        values = np.ascontiguousarray(found.cpu().numpy(), np.float32)
        return LearnedMotion(values[..., :2], values[..., 2:4], values[..., 4].copy())


def between(network: "IFNet", left: Picture, right: Picture, time: float) -> Picture:
    """The frame at `time`; arguments as of `RifePair`."""
    return RifePair(network, left, right).motion(time).drawn(left, right)


def rife_file() -> Path:
    """The weights: `SHIPPED` where they are, else the published ones.

    Raises MissingDependencyError without torch, MissingModelError where they are missing.
    """
    extras.need("refine", "learned motion", ', or take motion="dis"')
    if SHIPPED.exists():
        safetensors_files.check_shipped(SHIPPED)
        return SHIPPED
    return model_path(RIFE.name)


def load_rife(device: str = "cpu", weights: Path | None = None) -> "IFNet":
    """RIFE's network on a device of torch.

    `weights`: a `.safetensors` file of `gsvc train adopt`; None: `rife_file`. Raises as that,
    MissingModelError for other weights, DeviceError when the device has too little memory.
    """
    weights = weights or rife_file()
    from gsvc.decoders.interpolation.ifnet import IFNet
    from gsvc.decoders.keyframes.devices import placed

    if weights == cached_path(RIFE):
        network = IFNet()
        network.load_state_dict(_published(weights))
    else:
        network = safetensors_files.load_network(IFNet, weights)
    with enough_memory(device):
        return placed(network, device)


@cache
def loaded_rife(device: str = "cpu") -> "IFNet":
    """RIFE's network on a device, loaded once in a process. Raises as `load_rife`."""
    return load_rife(device)


def _published(path: Path) -> "dict[str, Tensor]":
    """The published weights, under the names of `IFNet`: theirs are like
    `module.block2.conv0.1.0.weight`, and the rest is not used."""
    import torch

    if sha256_of(path) != RIFE.sha256:
        raise MissingModelError(f"{path} is damaged; run: {pull_command(RIFE.name)}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError) as error:
        raise MissingModelError(f"this version of torch cannot read {path}: {error}") from error
    renamed = {}
    for name, value in state.items():
        _, block, *rest = name.split(".")
        number = block.removeprefix("block")
        if number.isdigit():
            renamed[".".join(["blocks", number, _PARTS[rest[0]], *rest[1:]])] = value
    return renamed


def _padded(picture: Picture, device: "torch.device") -> "Tensor":
    """The network's input, (1, 3, H, W) in [0, 1], the right and bottom border repeated."""
    import torch
    from torch.nn import functional

    from gsvc.decoders.interpolation.ifnet import IFNET_MULTIPLE

    height, width = picture.shape[:2]
    padding = 0, -width % IFNET_MULTIPLE, 0, -height % IFNET_MULTIPLE
    values = torch.tensor(picture, device=device).permute(2, 0, 1)[None].float() / 255
    return functional.pad(values, padding, mode="replicate")


class LearnedRenderer(IntervalRenderer):
    """Renders the frames between two keyframes by RIFE."""

    def __init__(self, *given: Any, rife: Callable[[], "IFNet"] = loaded_rife, **more: Any) -> None:
        """As of `IntervalRenderer`; `rife`: gives the network, when the first frame needs it."""
        super().__init__(*given, **more)
        self._load = rife

    @cached_property
    def _rife(self) -> RifePair:
        return RifePair(self._load(), self._left, self._right)

    def picture(self, offset: int) -> Picture:
        """See `IntervalRenderer.picture`. Raises as `load_rife` and `RifePair.motion`."""
        if self._interval.dissolves:
            return super().picture(offset)
        motion, bend = self._rife.motion(offset / self._length), self._bend(offset)
        if bend is not None:
            side = motion.side if bend.side is None else np.clip(motion.side + bend.side, 0, 1)
            to_left, to_right = motion.to_left + bend.vectors, motion.to_right + bend.vectors
            motion = LearnedMotion(to_left, to_right, side)
        return motion.drawn(*self._drawn)


def rife_renderer(device: str) -> MakeRenderer:
    """What makes a `LearnedRenderer` on a device of torch. Raises as `rife_file`."""
    rife_file()
    return partial(LearnedRenderer, rife=partial(loaded_rife, device))
