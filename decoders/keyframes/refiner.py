"""What a back end is: the interface of the generative models that restore pictures.

A back end inherits from `KeyRefiner` or `WindowRefiner` and has a line in the table of `backends`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError, DeviceError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.model_files import weights_id

if TYPE_CHECKING:
    from gsvc.decoders.keyframes.keyframe import Keyframe
    from gsvc.decoders.keyframes.latent_cache import LatentCache
    from gsvc.decoders.keyframes.transformer_cache import TransformerCache


@dataclass(frozen=True)
class RefinerCost:
    """What one call of a refiner computes, as functions that do it on tensors without storage."""

    step: Callable[[], object]
    """One evaluation of the network."""
    once: Callable[[], object] | None = None
    """What is computed once, however many steps follow."""


class Backend(Protocol):
    """One generative model. Nothing is loaded before `load`, or the first picture."""

    extra: ClassVar[str] = ""
    """The extra of gsvc that installs the packages it needs, if any."""
    keeps_latents: ClassVar[bool] = False
    """Whether it uses `latents`."""
    latents: "LatentCache | None" = None
    """Where it takes intermediate latents from and keeps them, set before its first picture."""
    keeps_steps: ClassVar[bool] = False
    """Whether it uses `step_cache`."""
    step_cache: "TransformerCache | None" = None
    """What it keeps from one step of a window to the next."""
    memory: "Budget | None" = None
    """How much of a GPU's memory it may take; None: what is free."""
    can_quantize: ClassVar[bool] = False
    """Whether it uses `quantize`."""
    quantize: bool = False
    """Whether its network's weights are held in 8 bits."""
    pastes_keys: bool = False
    """Whether keyframes are shown as they were decoded, where it restores windows."""
    name: str
    """As the user wrote it."""
    device: str
    """What it runs on: "cpu", "cuda" or "cuda:N"."""

    def __init__(self, name: str, device: str = "cpu") -> None:
        self.name, self.device = name, device

    @property
    def files(self) -> Sequence[Path]:
        """The files with its weights, its own first.

        Raises ConfigError or MissingModelError where they are missing or damaged.
        """
        return ()

    @property
    def id(self) -> bytes:
        """4 bytes that name it in a stream's header: the first of the SHA-256 of its first file.

        0 for a back end without files. Errors as of `files`.
        """
        return weights_id(self.files[0]) if self.files else bytes(4)

    def load(self) -> None:
        """Load the network now: the first picture then need not wait for it (several seconds)."""
        return

    def check(self, height: int, width: int, *, steps: int) -> None:
        """Check, before loading, what can be known for frames of this size.

        Raises ConfigError for steps that it does not know, DeviceError for too little memory.
        """
        return

    def cost(self, height: int, width: int) -> RefinerCost | None:
        """What one call computes for pictures of this size; None if that is not known."""
        return None


class KeyRefiner(Backend, Protocol):
    """Restores keyframes, each alone; the motion carries the result to the frames between.

    `Decoder` calls `check` first, then `refine` once for each keyframe that a frame shows.
    """

    def refine(self, key: "Keyframe", *, steps: int, seed: int) -> Picture:
        """What a keyframe was before coding, as near as it can be: RGB uint8 (H, W, 3).

        `steps`: evaluations of the network, at least 1. The same picture, steps and seed give the
        same result on the same machine, on others within a tolerance.
        """


@runtime_checkable
class WindowRefiner(Backend, Protocol):
    """Restores renderings, a window of consecutive frames at a time.

    A window has 8k + 1 frames and begins with the last keyframe of the window before, if the
    scene goes on. It ends at a keyframe, unless the frames up to the next one are more than a
    window holds.
    """

    delay: int
    """Frames by which output may be late, a multiple of 8; a window has at most `delay` + 1."""

    @property
    def revision(self) -> str:
        """What tells its weights from others under the same `id`; "" where `id` does."""
        return ""

    def restore(
        self,
        rendering: NDArray[np.uint8],
        keys: Mapping[int, Picture],
        confidence: NDArray[np.float32],
        *,
        steps: int,
        seed: int,
    ) -> Sequence[Picture]:
        """The frames of a window, each RGB uint8 (H, W, 3), as many as `rendering` has.

        `rendering`: RGB uint8 (n, H, W, 3), the frames as motion draws them; n is 8k + 1.
        `keys`: the decoded keyframes among them, RGB uint8 (H, W, 3), by index.
        `confidence`: float32 (n, H, W), 0 to 1, how far motion there and back agrees; 1 at keys.
        `steps`, `seed`: as of `KeyRefiner.refine`.
        """


Refiner: TypeAlias = KeyRefiner | WindowRefiner


KINDS = {
    "whole": "all weights stay on the GPU",
    "offload": "network and autoencoder take turns on the GPU",
    "groups": "a block of the network at a time is on the GPU: slow",
    "fp8": "as offload, with weights kept in 8 bits: pictures change a little",
}
"""How weights are held -> what that means. A size chooses among the first three."""
_UNITS = {"K": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Budget:
    """What `--vram` says: bytes, or a kind."""

    bytes: int | None = None
    kind: str | None = None

    @classmethod
    def of(cls, text: str) -> "Budget":
        """Read "8G", "offload" ... Raises ConfigError for anything else."""
        if text in KINDS:
            return cls(kind=text)
        number, unit = text[:-1], _UNITS.get(text[-1:].upper())
        try:
            size = float(number) * (unit or 0)
        except ValueError:
            size = 0
        if not size > 0:
            raise ConfigError(f"vram {text!r}: write a size, 8G, or one of {', '.join(KINDS)}")
        return cls(bytes=int(size))


@contextmanager
def enough_memory(device: str) -> Iterator[None]:
    """Raises DeviceError when a GPU's memory runs out in it."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        why = f"{device} has not enough free memory for this: take cpu, a smaller refiner or video"
        raise DeviceError(why) from error
