"""Back ends by name.

Importing this module, and finding a refiner for the CPU, do not import torch.
"""

from functools import cache
from pathlib import Path
from typing import cast

from gsvc.codec.bitstream.errors import ConfigError, DeviceError
from gsvc.codec.weights.extras import find_class, need
from gsvc.codec.weights.safetensors_files import class_of
from gsvc.decoders.keyframes.compact.backend import WEIGHTS as COMPACT
from gsvc.decoders.keyframes.refiner import Refiner
from gsvc.decoders.keyframes.restorer.backend import RESTORER
from gsvc.decoders.keyframes.windowed.window_backend import WEIGHTS as WINDOWED

_NETWORKS = {
    "CompactRefiner": "gsvc.decoders.keyframes.compact.backend:CompactBackend",
    "WindowRestorer": "gsvc.decoders.keyframes.windowed.window_backend:WindowedBackend",
}
"""Class of a network -> the back end that runs it."""
BACKENDS = {
    RESTORER: "gsvc.decoders.keyframes.restorer.backend:RestorerBackend",
    **dict.fromkeys(COMPACT, _NETWORKS["CompactRefiner"]),
    **dict.fromkeys(WINDOWED, _NETWORKS["WindowRestorer"]),
}
"""Name -> module:Class, a `KeyRefiner` or a `WindowRefiner`, of those that come with gsvc."""
_PLACE = "gsvc.decoders.keyframes.pretrained"
PRETRAINED = {
    "ltx": f"{_PLACE}.ltx:LtxBackend",
    "ltx2": f"{_PLACE}.ltx2:Ltx2Backend",
    "ltx2:condition": f"{_PLACE}.ltx2:Ltx2ConditionBackend",
    "wan-vace": f"{_PLACE}.wan_vace:WanVaceBackend",
    "wan-vace-14b": f"{_PLACE}.wan_vace:WanVaceBackend",
    "wan-v2v": f"{_PLACE}.wan_v2v:WanV2vBackend",
    "sparkvsr": f"{_PLACE}.sparkvsr:SparkVsrBackend",
    "swiftvr": f"{_PLACE}.swiftvr:SwiftVrBackend",
    "sd-turbo": f"{_PLACE}.sd_turbo:SdTurboBackend",
}
"""The same of those whose weights the hub has: `gsvc models pull`, with what is before ":"."""
_FAMILIES = "compact", "windowed"


def find_backend(name: str = RESTORER, device: str = "cpu") -> Refiner:
    """The back end: a name in `BACKENDS` or `PRETRAINED`, a file of `gsvc train` or module:Class.

    Only the name is checked, and which network a file says it has. Raises ConfigError if unknown.
    """
    place = {**BACKENDS, **PRETRAINED}.get(name)
    if name.endswith(".safetensors"):
        network = class_of(Path(name))
        if network not in _NETWORKS:
            raise ConfigError(f"{name} is for {network}, which is no refiner")
        place = _NETWORKS[network]
    if place is None:
        family, colon, _ = name.partition(":")
        if not colon or family in _FAMILIES:
            names = ", ".join((*BACKENDS, *PRETRAINED))
            why = f"unknown refiner {name!r}; take {names}, a .safetensors file or module:Class"
            raise ConfigError(why)
        place = name
    return cast(Refiner, find_class(place)(name, device))


def load_refiner(name: str = RESTORER, device: str = "cpu") -> Refiner:
    """The refiner of this name, see `find_backend`, to run on `device` ("cpu", "cuda" or "cuda:N").

    Its network is loaded when the first picture needs it. Raises ConfigError for an unknown name or
    device, MissingDependencyError without the extra that it needs, MissingModelError when
    its weights are missing or damaged, DeviceError when the device is not there.
    """
    refiner = find_backend(name, device)
    if refiner.extra:
        need(refiner.extra, "refining", ", or take steps=0")
    _ = refiner.files  # raises where they are not as they must be
    check_device(device)
    return refiner


@cache
def model_id(name: str = RESTORER) -> bytes:
    """`Backend.id` of this name. Errors as of `find_backend` and `Backend.files`."""
    return find_backend(name).id


def gpu_or_cpu() -> str:
    """ "cuda" where torch finds a GPU, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def check_device(device: str) -> None:
    """Raises ConfigError for what is no device, DeviceError for one that is not there."""
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not (kind == "cuda" and number.isdigit())):
        raise ConfigError(f"unknown device {device!r}; permitted are cpu, cuda and cuda:N")
    if kind == "cuda":
        need("refine", f"device {device}", ", or take cpu")
        import torch

        if not torch.cuda.is_available() or int(number or 0) >= torch.cuda.device_count():
            raise DeviceError(f"device {device} is not there; take cpu")
