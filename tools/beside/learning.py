"""How the restorer learns, on one core or on a GPU: batches, losses, optimisers, scores."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from beside.distances import (
    WIDTHS,
    WassersteinDistortion,
    fidelity,
    luma,
    means_distance,
    psnr,
    structural,
)
from beside.mixtures import FAITHFUL, MIDDLE, TEXTURED, best_mixture, conditions_of, mixed
from gsvc.decoders.keyframes.restorer.network import Restorer
from gsvc.decoders.training.samples import GAIN_UNIT, Sample

Batch = dict[str, Tensor]
"""`picture`, `gain`, `conditions` as of `Restorer.forward`, and `truth` like `picture`."""
COLUMNS = "psnr", "ssim_half", "ssim_quarter", "texture"
_NUMBERS = "quantizer", "size", "layer"
_TEXTURE_MEANS = 1, 2
_KEPT = 0.999
"""Share of the averaged weights that a step keeps."""
_SCORED_WIDTH = 3.0


def crops_of(samples: Sequence[Sample]) -> Tensor:
    """Samples of one size, uint8 (n, 7, H, W): the decoded picture, its texture gain, the truth."""
    both = [np.concatenate([s.stacks["given"][0], s.stacks["truth"][0]], 2) for s in samples]
    return torch.from_numpy(np.ascontiguousarray(np.stack(both).transpose(0, 3, 1, 2)))


def numbers_of(samples: Sequence[Sample]) -> Tensor:
    """Quantiser, size and temporal layer, float (n, 3)."""
    return torch.tensor([[float(s.numbers[name]) for name in _NUMBERS] for s in samples])


def as_batch(crops: Tensor, numbers: Tensor) -> Batch:
    """What the network takes, of `crops_of` and `numbers_of`."""
    values = crops.float()
    quantizer, size, layer = numbers.unbind(1)
    return {
        "picture": values[:, :3] / 127.5 - 1,
        "gain": values[:, 3:4] / GAIN_UNIT,
        "truth": values[:, 4:] / 127.5 - 1,
        "conditions": conditions_of(quantizer, size, layer.long()),
    }


def losses(network: Restorer, batch: Batch, *, low: bool) -> tuple[dict[str, Tensor], Tensor]:
    """Of each crop's best mixture and of the fidelity end, and the residuals.

    `low`: in bfloat16.
    """
    picture, truth = batch["picture"], batch["truth"]
    with torch.autocast(picture.device.type, torch.bfloat16, enabled=low):
        residuals = network(picture, batch["gain"], batch["conditions"])
    residuals = residuals.float()
    small, small_residuals, goal = halved(picture), halved(residuals), halved(truth)
    weights = best_mixture(small, small_residuals, goal)
    ends = torch.cat([mixed(small, small_residuals, weights), small + small_residuals[:, 0]])
    best, faithful = fidelity(ends, goal.repeat(2, 1, 1, 1)).view(2, -1).mean(1)
    return {"best": best, "faithful": faithful}, residuals


def texture_loss(texture: WassersteinDistortion, batch: Batch, residuals: Tensor) -> Tensor:
    """Of a mixture drawn between both ends: the nearer to texture, the wider it looks."""
    picture, truth = batch["picture"], batch["truth"]
    share = torch.rand(len(picture), device=picture.device)
    weights = torch.stack([1 - share, share, torch.zeros_like(share)], 1)
    # The fidelity output learns nothing here: else it, too, is drawn towards texture.
    fixed = torch.cat([residuals[:, :1].detach(), residuals[:, 1:]], 1)
    shown = mixed(picture, fixed, weights)
    wide = texture(shown, truth, share * (WIDTHS - 1))
    small, goal = halved(shown), halved(truth)
    near = 5 * means_distance(small, goal, _TEXTURE_MEANS)
    terms: Tensor = near + share * 0.3 * wide + (1 - share) * fidelity(small, goal)
    return terms.mean()


@torch.no_grad()
def scored(network: Restorer, texture: WassersteinDistortion, batch: Batch) -> dict[str, Tensor]:
    """Sums over crops of `COLUMNS`, float64 (4,), by mixture."""
    picture, truth = batch["picture"], batch["truth"]
    residuals = network(picture, batch["gain"], batch["conditions"]).float()
    mixtures = {
        "none": picture.new_zeros(3),
        "faithful": picture.new_tensor(FAITHFUL),
        "middle": picture.new_tensor(MIDDLE),
        "texture": picture.new_tensor(TEXTURED),
        "best": best_mixture(halved(picture), halved(residuals), halved(truth)),
    }
    width = picture.new_full((len(picture),), _SCORED_WIDTH)
    found = {}
    for name, weights in mixtures.items():
        shown = mixed(picture, residuals, weights).clamp(-1, 1)
        pair = luma(shown), luma(truth)
        rows = [psnr(shown, truth)]
        for _ in range(2):
            pair = halved(pair[0]), halved(pair[1])
            rows.append(structural(*pair))
        found[name] = torch.stack([*rows, texture(shown, truth, width)]).double().sum(1).cpu()
    return found


def halved(pictures: Tensor) -> Tensor:
    """Means over 2x2 pixels of (..., H, W)."""
    flat = functional.avg_pool2d(pictures.reshape(-1, 1, *pictures.shape[-2:]), 2)
    return flat.view(*pictures.shape[:-2], *flat.shape[-2:])


def follow(average: Restorer, network: Restorer, step: int, every: int = 1) -> None:
    """Move the averaged weights towards the network's, as they are after `every` more steps."""
    share = 1 - min(_KEPT, (1 + step) / (20 + step)) ** every
    with torch.no_grad():
        averages: list[Tensor] = list(average.parameters())
        torch._foreach_lerp_(averages, list(network.parameters()), share)


class KernelMuon(torch.optim.Optimizer):
    """Muon (Jordan et al., 2024) for kernels, those of one shape made orthogonal all at once.

    torch.optim.Muon computes in bfloat16, one kernel after the other: 14 times as long without
    AVX-512 BF16.
    """

    def __init__(self, kernels: Iterable[Tensor], lr: float) -> None:
        super().__init__(kernels, {"lr": lr, "momentum": 0.95, "decay": 0.01})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move each kernel by about `lr` root mean square, as Adam does."""
        for group in self.param_groups:
            kernels = sorted(group["params"], key=lambda kernel: tuple(kernel.shape))
            for _, alike in groupby(kernels, key=lambda kernel: tuple(kernel.shape)):
                self._move(list(alike), group)

    def _move(self, kernels: list[Tensor], group: dict[str, float]) -> None:
        for kernel in kernels:
            state = self.state[kernel]
            state.setdefault("momentum_buffer", torch.zeros_like(kernel))
            state["momentum_buffer"].lerp_(kernel.grad, 1 - group["momentum"])
        buffers = torch.stack([self.state[kernel]["momentum_buffer"] for kernel in kernels])
        gradients = torch.stack([kernel.grad for kernel in kernels if kernel.grad is not None])
        moves = _orthogonal(gradients.lerp(buffers, group["momentum"]))
        moves *= 0.2 * max(moves.shape[1:]) ** 0.5
        for kernel, move in zip(kernels, moves, strict=True):
            kernel.mul_(1 - group["lr"] * group["decay"]).sub_(move, alpha=group["lr"])


def _orthogonal(matrices: Tensor) -> Tensor:
    """Nearly orthogonal rows, by five Newton-Schulz iterations of Muon's.

    All factors are polynomials of one small symmetric matrix, so that alone is iterated.
    """
    x = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-12)
    gram = x @ x.transpose(1, 2)
    one = torch.eye(gram.shape[1], device=x.device)
    whole, (a, b, c) = one.expand_as(gram), (3.4445, -4.7750, 2.0315)
    for _ in range(5):
        factor = a * one + b * gram + c * gram @ gram
        whole, gram = factor @ whole, factor @ gram @ factor
    rows: Tensor = whole @ x
    return rows


def optimizers_of(network: Restorer, rate: float) -> tuple[KernelMuon, torch.optim.AdamW]:
    """Muon for the kernels of the blocks, Adam for the rest."""
    named = dict(network.named_parameters())
    kernels = [value for name, value in named.items() if name.endswith(".wide")]
    rest = [value for name, value in named.items() if not name.endswith(".wide")]
    adam = torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.99), weight_decay=1e-4, fused=True)
    return KernelMuon(kernels, rate), adam
