"""Refiners by name: renderings in, frames out, as a stream with constant memory.

Importing this module, loading a refiner for the CPU and refining with 0 steps do not import torch.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gsvc.codec.errors import ConfigError, DeviceError
from gsvc.codec.frames import Picture
from gsvc.decoders.rendering import Rendering
from gsvc.decoders.shipped import check_shipped

if TYPE_CHECKING:
    from gsvc.decoders.pipeline import RefinerPipeline

BACKENDS = {"compact": Path(__file__).parent / "weights" / "compact.safetensors"}
"""Back end -> its weights; the network's settings lie beside them as `.json`."""

WINDOW = 4
"""Frames that the network sees together; windows overlap by one frame, which the earlier window decides."""


class Refiner(Protocol):
    """Turns renderings into frames."""

    def refine(
        self, renderings: Iterable[Rendering], *, steps: int, seed: int
    ) -> Iterator[Picture]:
        """Refine consecutive frames of one size; one picture a rendering, in order.

        `steps`: evaluations of the network a window; 0 gives the renderings' pictures. The same
        renderings, steps and seed give the same pictures on the same machine, others within a tolerance.
        Raises ConfigError for negative steps.
        """
        ...


def load_refiner(backend: str = "compact", device: str = "cpu") -> Refiner:
    """The refiner `backend`, to run on `device` ("cpu", "cuda" or "cuda:N").

    Raises ConfigError for an unknown back end or device, DeviceError when the device is not there,
    MissingModelError when the weights are not, or are not those that gsvc came with.
    """
    weights = _weights(backend)
    check_device(device)
    return CompactBackend(weights, device)


@cache
def model_id(backend: str = "compact") -> bytes:
    """First 4 bytes of the SHA-256 of the back end's weights file. Errors as in `load_refiner`."""
    return hashlib.sha256(_weights(backend).read_bytes()).digest()[:4]


class CompactBackend:
    """The refiner whose weights come with gsvc; the network is loaded when the first frame needs it."""

    def __init__(self, weights: Path, device: str) -> None:
        self._weights, self._device = weights, device
        self._pipeline: RefinerPipeline | None = None

    def refine(
        self, renderings: Iterable[Rendering], *, steps: int, seed: int
    ) -> Iterator[Picture]:
        """See `Refiner.refine`."""
        if steps < 0:
            raise ConfigError(f"steps is {steps}; take 0 (no refinement) or more")
        if steps == 0:
            return (rendering.picture for rendering in renderings)
        return self._refine(renderings, steps, seed)

    def _refine(self, renderings: Iterable[Rendering], steps: int, seed: int) -> Iterator[Picture]:
        self._pipeline = self._pipeline or load_pipeline(self._weights, self._device)
        window: list[Rendering] = []
        shown = 0  # how many of the window's frames went out with the window before
        for rendering in renderings:
            window.append(rendering)
            if len(window) == WINDOW:
                yield from self._pipeline(window, num_inference_steps=steps, seed=seed)[shown:]
                window, shown = window[-1:], 1
        if len(window) > shown:
            yield from self._pipeline(window, num_inference_steps=steps, seed=seed)[shown:]


def load_pipeline(weights: Path, device: str = "cpu") -> "RefinerPipeline":
    """The pipeline with the network of a `.safetensors` file and the `.json` beside it."""
    import torch
    from diffusers import FlowMatchEulerDiscreteScheduler
    from safetensors.torch import load_file

    from gsvc.decoders.compact import CompactRefiner
    from gsvc.decoders.pipeline import RefinerPipeline

    network = CompactRefiner(**json.loads(weights.with_suffix(".json").read_text()))
    network.load_state_dict(load_file(weights))
    network = network.eval().to(device, memory_format=torch.channels_last)
    return RefinerPipeline(network, FlowMatchEulerDiscreteScheduler())


def _weights(backend: str) -> Path:
    if backend not in BACKENDS:
        raise ConfigError(f"unknown refiner {backend!r}; there are: {', '.join(BACKENDS)}")
    weights = BACKENDS[backend]
    check_shipped(weights)
    return weights


def check_device(device: str) -> None:
    """Raises ConfigError for what is no device, DeviceError for one that is not there."""
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not (kind == "cuda" and number.isdigit())):
        raise ConfigError(f"unknown device {device!r}; permitted are cpu, cuda and cuda:N")
    if kind == "cuda":
        import torch

        if not torch.cuda.is_available() or int(number or 0) >= torch.cuda.device_count():
            raise DeviceError(f"device {device} is not there; take cpu")
