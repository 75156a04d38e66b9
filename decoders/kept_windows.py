"""Restored windows on disk, so that a decode that was interrupted goes on where it was.

A window is found again by all that it was made of: what the refiner was given, and its settings.
"""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture
from gsvc.codec.output import explain_failure, own_folder

_MARK = "gsvc-windows"
_SUFFIX = ".safetensors"


class KeptWindows:
    """A folder of restored windows. Nobody clears it but its user."""

    def __init__(self, folder: Path, made_by: str) -> None:
        """`made_by`: one text for all that must be equal, such as refiner, steps and seed.

        Raises ConfigError for a folder that holds something else, OutputError where it cannot be
        written.
        """
        self._folder, self._made_by = folder, made_by
        self.taken = 0
        """Windows that need not be restored."""
        own_folder(folder, _MARK)
        with explain_failure(folder):
            (folder / _MARK).touch()

    def restored(
        self,
        rendering: NDArray[np.uint8],
        keys: Mapping[int, Picture],
        confidence: NDArray[np.float32],
        restore: Callable[[], Sequence[Picture]],
    ) -> Sequence[Picture]:
        """The window, from the folder, or by `restore` and into it."""
        # Late: plain decoding does without this package.
        from safetensors import SafetensorError
        from safetensors.numpy import load_file, save_file

        path = self._folder / f"{self._name(rendering, keys, confidence)}{_SUFFIX}"
        with suppress(OSError, ValueError, KeyError, SafetensorError):
            frames: NDArray[np.uint8] = load_file(path)["frames"]
            if frames.shape == rendering.shape and frames.dtype == np.uint8:
                self.taken += 1
                return list(frames)
        pictures = restore()
        with explain_failure(path):
            part = self._folder / f".{secrets.token_hex(8)}"
            try:
                save_file({"frames": np.stack(pictures)}, part)
                os.replace(part, path)
            finally:
                part.unlink(missing_ok=True)
        return pictures

    def _name(
        self,
        rendering: NDArray[np.uint8],
        keys: Mapping[int, Picture],
        confidence: NDArray[np.float32],
    ) -> str:
        digest = sha256(f"{self._made_by}, {rendering.shape}, {sorted(keys)}".encode())
        for array in (rendering, *(keys[at] for at in sorted(keys)), np.float16(confidence)):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:32]
