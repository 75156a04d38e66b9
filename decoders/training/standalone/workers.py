"""Several processes that train one network, one a GPU or a machine, as torchrun starts them.

Each draws its own batches; the mean of their gradients is what all learn from, as
DistributedDataParallel has it. Done by hand, it bears networks that begin to learn late. The first
process also logs, saves and scores.
"""

import os
from collections.abc import Iterable

import torch
from torch import Tensor, distributed, nn

_RANK, _LOCAL = "RANK", "LOCAL_RANK"


def join(device: str) -> torch.device:
    """Join the other processes if torchrun has started this one.

    Returns the device to train on: with cuda, one for each process.
    """
    if _RANK not in os.environ:
        return torch.device(device)
    on_gpu = device.startswith("cuda")
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if on_gpu else "gloo")
    if not on_gpu:
        return torch.device(device)
    own = torch.device(f"cuda:{os.environ[_LOCAL]}")
    torch.cuda.set_device(own)
    return own


def rank() -> int:
    """This process's number; 0 is the first, or the only one."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def processes() -> int:
    """How many train."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def leave() -> None:
    """Leave the other processes, if there are any."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def mean_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Make the gradients of all processes their mean."""
    if processes() == 1:
        return
    gradients = [each.grad for each in parameters if each.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    flat /= processes()
    parts = torch.split(flat, [gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def of_the_first(value: float, device: torch.device) -> float:
    """The value that the first process has."""
    if processes() == 1:
        return value
    shared = torch.tensor([value], dtype=torch.float64, device=device)
    distributed.broadcast(shared, 0)
    return float(shared)


def same_weights(tensors: Iterable[Tensor]) -> None:
    """Give all processes the first one's tensors."""
    if processes() > 1:
        for tensor in tensors:
            distributed.broadcast(tensor.detach(), 0)
