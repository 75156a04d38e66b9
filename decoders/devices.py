"""Networks on a device: in single precision on a CPU, in half precision on a GPU.

Half precision is float16: finer than bfloat16, and known to every GPU. Its range, 65504, is a
hundred times what the networks reach, whatever they are shown (`tests/test_devices.py`).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import torch
from torch import nn

from gsvc.codec.errors import DeviceError

_Network = TypeVar("_Network", bound=nn.Module)


def placed(network: _Network, device: str) -> _Network:
    """The network on a device, ready to be run there: a GPU holds its weights in float16."""
    dtype = torch.float16 if torch.device(device).type == "cuda" else torch.float32
    # Not by diffusers' own `to`, which warns of layers to keep in float32 where there are none.
    nn.Module.to(network.eval(), device, dtype)
    return nn.Module.to(network, memory_format=torch.channels_last)


def precision_on(device: torch.device) -> AbstractContextManager[object]:
    """In it layers compute in a GPU's half precision; pictures stay in float32 between them."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.float16)
    return nullcontext()


@contextmanager
def enough_memory(device: str) -> Iterator[None]:
    """Raises DeviceError when a GPU's memory runs out in it."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            f"{device} has not enough free memory for this: take cpu, a smaller refiner or video"
        ) from error
