"""Mixtures of the restorer's outputs: in training by the truth, in streams as the encoder says."""

import torch
from torch import Tensor
from torch.nn import functional

from gsvc.decoders.keyframes.restorer.network import OUTPUTS

FAITHFUL, MIDDLE, TEXTURED = (1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.0, 1.0, 0.0)
"""Weights of the two ends, and between them."""
_LAYERS = 4


def conditions_of(quantizer: Tensor, size: Tensor, layer: Tensor) -> Tensor:
    """The network's `conditions` (B, 6).

    `quantizer`: crf / 70; `size`: share of the side, both float (B,); `layer`: temporal, int (B,).
    """
    layers = functional.one_hot(layer.clamp(0, _LAYERS - 1), _LAYERS).to(quantizer)
    scaled = torch.stack([4 * quantizer - 3, 4 * size - 3], 1)
    return torch.cat([scaled, layers], 1)


def mixed(picture: Tensor, residuals: Tensor, weights: Tensor) -> Tensor:
    """The picture (B, 3, H, W) plus its residuals by `weights` (B, 3) or (3,)."""
    weights = weights.expand(len(picture), OUTPUTS)
    return picture + torch.einsum("bo,bochw->bchw", weights, residuals)


def best_mixture(picture: Tensor, residuals: Tensor, truth: Tensor, ridge: float = 0.02) -> Tensor:
    """Weights (B, 3) by least squares; differentiable.

    `picture`, `truth`: (B, 3, H, W); `residuals`: (B, 3, 3, H, W). Where residuals say little or
    the same, weights are drawn towards those of fidelity alone: `ridge` is the share of the
    residuals' own energy that holds them there.
    """
    rows = residuals.reshape(len(picture), OUTPUTS, -1)
    error = (truth - picture).reshape(len(picture), -1, 1)
    gram = rows @ rows.transpose(1, 2) / rows.shape[-1]
    goal = (rows @ error)[..., 0] / rows.shape[-1]
    hold = (ridge * gram.diagonal(dim1=1, dim2=2).mean(1) + 1e-7)[:, None]
    gram = gram + hold[..., None] * torch.eye(OUTPUTS, device=rows.device)
    weights: Tensor = torch.linalg.solve(gram, goal + hold * rows.new_tensor(FAITHFUL))
    return weights
