"""Several processes that train one network, one a GPU or a machine, as torchrun starts them.

Each draws its own batches; the mean of their gradients is what all learn from, as
DistributedDataParallel has it. Done by hand, it bears networks that begin to learn late. The first
process also logs, saves and scores.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

_RANK, _LOCAL, _RESTARTS = "RANK", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"


def join(device: str) -> torch.device:
    """Join the other processes if torchrun has started this one.

    Returns the device to train on: with cuda, one for each process.
    """
    if _RANK not in os.environ:
        return torch.device(device)
    on_gpu = device.startswith("cuda")
    if not distributed.is_initialized():
        store, own_rank, count = next(iter(rendezvous("env://")))
        # After a restart by torchrun gloo would find the addresses of those who died.
        again = PrefixStore(f"restart-{os.environ.get(_RESTARTS, '0')}", store)
        backend = "nccl" if on_gpu else "gloo"
        distributed.init_process_group(backend, store=again, rank=own_rank, world_size=count)
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


def ended(code: int) -> int:
    """The exit code of a process that has left; one that torchrun has started ends here with it.

    As Python ends, threads of torch may still be at work and abort the process, upon which torchrun
    would end the others.
    """
    if _RANK in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def is_sharded(tensor: Tensor) -> bool:
    """Whether each process has a part of it: a DTensor, as FSDP2 makes them."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, in every process; all must ask."""
    anything: Any = tensor
    full: Tensor = anything.full_tensor() if is_sharded(tensor) else tensor
    return full


def own_part(tensor: Tensor) -> Tensor:
    """What this process has of a tensor."""
    anything: Any = tensor
    part: Tensor = anything.to_local() if is_sharded(tensor) else tensor
    return part


def alike(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Those that are not sharded, and those that are so over the same processes, each apart:
    operations on lists bear one kind."""
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault(getattr(tensor, "device_mesh", None), []).append(tensor)
    return list(kinds.values())


def clip_gradients(parameters: Sequence[nn.Parameter], largest: float) -> Tensor:
    """Make all gradients together no longer than `largest`; returns how long they were."""
    kinds = alike(parameters)
    if len(kinds) < 2:
        length: Tensor = whole(nn.utils.clip_grad_norm_(parameters, largest))
        return length
    gradients = [[x.grad for x in kind if x.grad is not None] for kind in kinds]
    norms = [whole(nn.utils.get_total_norm(kind)) for kind in gradients]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    share = (largest / (norm + 1e-6)).clamp(max=1.0)
    for gradient in (each for kind in gradients for each in kind):
        own_part(gradient).mul_(share)
    return norm


def mean_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Make the gradients of all processes their mean; those that are sharded are already."""
    if processes() == 1:
        return
    gradients = [x.grad for x in parameters if x.grad is not None and not is_sharded(x.grad)]
    if not gradients:
        return
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
        for tensor in (each for each in tensors if not is_sharded(each)):
            distributed.broadcast(tensor.detach(), 0)
