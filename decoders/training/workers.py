"""Several processes that train one network, one a GPU or a machine, as torchrun starts them.

Each draws its own batches, and DistributedDataParallel averages the gradients. The first process
also prepares, logs, saves and scores.
"""

import os
from datetime import timedelta

import torch
from torch import distributed

_RANK, _LOCAL = "RANK", "LOCAL_RANK"
_PATIENCE = timedelta(hours=12)
"""The others wait while the first one prepares pairs."""


def join(device: str) -> str:
    """Join the other processes if torchrun has started this one.

    Returns the device to train on: with cuda, one for each process.
    """
    if _RANK not in os.environ:
        return device
    on_gpu = device.startswith("cuda")
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=_PATIENCE)
    if not on_gpu:
        return device
    own = int(os.environ[_LOCAL])
    torch.cuda.set_device(own)
    return f"cuda:{own}"


def rank() -> int:
    """This process's number; 0 is the first, or the only one."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def wait() -> None:
    """Wait until all processes are here."""
    if distributed.is_initialized():
        distributed.barrier()


def leave() -> None:
    """Leave the other processes, if there are any."""
    if distributed.is_initialized():
        distributed.destroy_process_group()
