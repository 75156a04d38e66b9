"""The restorer at work: its network by onnxruntime, what surrounds it by OpenCV.

The network gives residuals at half the size, four channels an output: RGB, and by how much the
picture's own fine detail is raised. They are mixed before they are enlarged, since all that follows
is linear. See `network.py` for the network; `tools/export_restorer.py` writes the file.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream import errors, frames
from gsvc.codec.weights.model_files import weights_id
from gsvc.decoders.keyframes.keyframe import Keyframe

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

FILE = Path(__file__).parent / "weights" / "restorer.onnx"
_MULTIPLE = 4
"""What sides at half the size are multiples of: it works at a quarter of that, too."""
_MOST_PIXELS = 1 << 18
"""Of a strip at half the size: about 200 MB in the network, one million pixels of the picture."""
_REACH = 64  # rows at half the size that a row may depend on
LAYERS = 4
"""Temporal layers that it tells apart."""
_WIDE = 3.0
"""Standard deviation, in cells of 2x2 pixels at half the size, of the area with the same grid."""
_THREADS = 2
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_LOG = logging.getLogger(__name__)
_FloatMap = NDArray[np.float32]


@dataclass(frozen=True)
class Restorations:
    """What the restorer offers for one picture."""

    picture: frames.Picture
    """The decoded one, its texture raised, RGB uint8 (H, W, 3)."""
    drawn: _FloatMap
    """What the outputs draw, in units of [-1, 1]: float32 (3, 4, ceil(H / 2), ceil(W / 2))."""

    def mixed(self, weights: Sequence[float]) -> frames.Picture:
        """The picture restored by the weighted sum of the first outputs, RGB uint8 (H, W, 3)."""
        if not any(weights):
            return self.picture
        height, width = self.picture.shape[:2]
        half = np.tensordot(np.asarray(weights, np.float32), self.drawn[: len(weights)], 1)
        half -= _lattice(half)
        size = 2 * half.shape[2], 2 * half.shape[1]
        *colors, gain = (cv2.resize(plane, size, interpolation=cv2.INTER_LINEAR) for plane in half)
        restored = cv2.merge(colors)[:height, :width]
        restored *= np.float32(127.5)
        detail = cv2.merge([gain] * 3)[:height, :width]
        detail *= self._fine
        restored += detail
        restored += self.picture
        # It rounds to even and ends at 255, far sooner than NumPy.
        return np.asarray(cv2.convertScaleAbs(np.maximum(restored, 0, out=restored)), np.uint8)

    def drawn_luma(self, count: int) -> _FloatMap:
        """What the first `count` outputs add to luma, in grey levels: float32 (count, H, W).

        Mixtures of it and luma are about those of `mixed`, and far sooner made.
        """
        height, width = self.picture.shape[:2]
        fine, found = self._fine @ _LUMA, []
        for drawn in self.drawn[:count]:
            half = drawn - _lattice(drawn)
            size = 2 * half.shape[2], 2 * half.shape[1]
            planes = np.tensordot(127.5 * _LUMA, half[:3], 1), half[3]
            luma, gain = (cv2.resize(one, size)[:height, :width] for one in planes)
            found.append(luma + gain * fine)
        return np.stack(found)

    @cached_property
    def _fine(self) -> _FloatMap:
        """The picture's fine detail, as of `network.fine_band`, in grey levels."""
        plain = self.picture.astype(np.float32)
        fine = _blurred(plain, 0.7)
        fine -= _blurred(plain, 1.5)
        return fine


class RestorerNetwork(errors.HasThreads):
    """The restorer's network at work, loaded when first asked for."""

    def __init__(self, device: str = "cpu", *, low_memory: bool = False) -> None:
        """`device`: "cpu", "cuda" or "cuda:N"; `low_memory`: hold less memory, for more time."""
        super().__init__()
        self._device, self._low_memory = device, low_memory

    @property
    def id(self) -> bytes:
        return weights_id(FILE)

    def restorations(self, key: Keyframe) -> Restorations:
        """All that its outputs draw for a keyframe."""
        height, width = key.picture.shape[:2]
        padding = (0, -height % (2 * _MULTIPLE)), (0, -width % (2 * _MULTIPLE))
        picture = np.pad(key.picture, (*padding, (0, 0)), mode="edge")
        gain = np.pad(key.gain, padding, mode="edge")
        rows, columns = picture.shape[0] // 2, picture.shape[1] // 2
        split = picture.reshape(rows, 2, columns, 2, 3).transpose(4, 1, 3, 0, 2)
        gains = cv2.resize(gain, (columns, rows), interpolation=cv2.INTER_AREA)
        inputs = np.concatenate(
            [split.reshape(12, rows, columns) / np.float32(127.5) - 1, gains[None]]
        )
        strips, conditions = [], _conditions(key)
        step = max(_REACH, _MOST_PIXELS // columns // _MULTIPLE * _MULTIPLE)
        for top in range(0, rows, step):
            first, last = max(0, top - _REACH), min(rows, top + step + _REACH)
            given = {"picture": inputs[None, :, first:last], "conditions": conditions}
            (drawn,) = self.session.run(None, given)
            strips.append(drawn[0, :, top - first : top - first + step])
        shown = np.concatenate(strips, axis=1).reshape(3, 4, rows, columns)[
            ..., : -(-height // 2), : -(-width // 2)
        ]
        return Restorations(key.picture, shown)

    def let_go(self) -> None:
        vars(self).pop("session", None)

    @cached_property
    def session(self) -> "InferenceSession":
        """Errors as of `KeyRefiner.load`."""
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # else 1.32 calls home
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = _THREADS
        # An arena is a tenth faster, and never gives back what the largest picture took.
        options.enable_cpu_mem_arena = not self._low_memory
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            providers = _providers(self._device, onnxruntime.get_available_providers())
            return onnxruntime.InferenceSession(FILE, options, providers)
        except Exception as error:  # its own classes are not public
            raise errors.MissingModelError(f"{FILE} does not load: reinstall gsvc") from error


def _providers(device: str, available: Sequence[str]) -> list[str | tuple[str, dict[str, str]]]:
    """Of onnxruntime, best first. A GPU needs another build of it: without, the CPU computes."""
    kind, _, number = device.partition(":")
    if kind == "cuda" and _CUDA in available:
        return [(_CUDA, {"device_id": number or "0"}), _CPU]
    if kind == "cuda":
        _LOG.warning(
            "the restorer runs on the CPU: for %s, install onnxruntime-gpu in place of onnxruntime",
            device,
        )
    return [_CPU]


def _conditions(key: Keyframe) -> _FloatMap:
    layers = [float(key.layer == layer) for layer in range(LAYERS)]
    return np.array([[4 * key.quantizer - 3, 4 * key.size - 3, *layers]], np.float32)


def _lattice(drawn: _FloatMap) -> _FloatMap:
    """What repeats every two pixels over a wide area of planes, (4, H, W).

    Enlarging within the network leaves such a grid on what is coded most coarsely. No detail of a
    picture keeps so to even and odd pixels, so nothing else is lost.
    """
    planes, *sides = drawn.shape
    fine = drawn - np.stack([_blurred(plane, 1.0) for plane in drawn])  # no slopes
    padded = np.pad(fine, ((0, 0), *((0, side % 2) for side in sides)), mode="reflect")
    rows, columns = (side // 2 for side in padded.shape[1:])
    cells = padded.reshape(planes, rows, 2, columns, 2).transpose(1, 3, 0, 2, 4)
    apart = cells - cells.mean((3, 4), keepdims=True)
    wide = _blurred(apart.reshape(rows, columns, 4 * planes), _WIDE)
    found = wide.reshape(cells.shape).transpose(2, 0, 3, 1, 4).reshape(padded.shape)
    return np.asarray(found[:, : sides[0], : sides[1]])


def _blurred(picture: _FloatMap, spread: float) -> _FloatMap:
    side = 2 * round(3 * spread) + 1
    blurred = cv2.GaussianBlur(picture, (side, side), spread, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(blurred, np.float32)
