"""Seconds and memory of a pretrained back end's windows, on the machine that is to run it."""

from collections.abc import Mapping
from importlib.metadata import version
from time import perf_counter

import numpy as np
import torch

from gsvc.codec.errors import DeviceError
from gsvc.datasets.hub import read_manifest
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.refiners.base import Refiner, WindowRefiner
from gsvc.decoders.refiners.registry import load_refiner

_SIZES = (288, 512), (480, 854), (720, 1280)
_PACKAGES = "gsvc", "torch", "diffusers", "transformers"
_KEYS = 8


def window_speeds(name: str, device: str, steps: int) -> Mapping[str, object]:
    """What a window, or a key picture, takes at each size, loading apart; and of what it was made.

    Pictures are noise: they cost what others cost. Errors as of `load_refiner`.
    """
    refiner = load_refiner(name, device)
    rows: list[Mapping[str, object]] = []
    for height, width in _SIZES:
        size = f"{width}x{height}"
        try:
            refiner.check(height, width, steps=steps)
            _restore(refiner, 64, 64, 1)  # loads it
            seconds, memory = _measured(refiner, height, width, steps)
        except DeviceError as error:
            rows.append({"size": size, "why_not": str(error)})
            continue
        rows.append({"size": size, "seconds": round(seconds, 3), "peak_bytes": memory})
    on = torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu"
    manifest = read_manifest(name)
    packages = {package: version(package) for package in _PACKAGES}
    weights = {"repo": manifest.repo, "commit": manifest.commit, "weights": manifest.weights}
    return {"name": name, "device": on, "steps": steps, **weights, **packages, "windows": rows}


def _measured(refiner: Refiner, height: int, width: int, steps: int) -> tuple[float, int | None]:
    on_gpu = refiner.device.startswith("cuda")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(refiner.device)
    began = perf_counter()
    _restore(refiner, height, width, steps)
    if on_gpu:
        torch.cuda.synchronize(refiner.device)
    peak = torch.cuda.max_memory_allocated(refiner.device) if on_gpu else None
    return perf_counter() - began, peak


def _restore(refiner: Refiner, height: int, width: int, steps: int) -> None:
    rng = np.random.default_rng(1)
    if isinstance(refiner, WindowRefiner):
        shape = refiner.delay + 1, height, width
        frames = rng.integers(0, 256, (*shape, 3), np.uint8)
        keys = {at: frames[at] for at in range(0, len(frames), _KEYS)}
        refiner.restore(frames, keys, np.ones(shape, np.float32), steps=steps, seed=0)
    else:
        picture = rng.integers(0, 256, (height, width, 3), np.uint8)
        refiner.refine(KeyPicture.of(picture, None, 40, 1), steps=steps, seed=0)
