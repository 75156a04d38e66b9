"""Random views of picture pairs, so that a perceptual network cannot be fooled by one of them.

As in E-LPIPS (Kettunen et al., 2019): a network fitted to a single view of AlexNet learns lattices
that this view does not see. AlexNet's first layer has a stride of four pixels and misses what VGG
sees; with enlarged views a network comes nearer to the source for both (see docs/logs/training.md).
"""

import torch
from torch import Tensor
from torch.nn import functional

from gsvc.decoders.training.standalone.dice import Dice

VIEW_SIDE = 96
_MOST_OCTAVES = 1.6
_UNTOUCHED = 0.25
"""Share of the views at whole pixels and natural size: what is as fine as a pixel shows there."""
_ORDERS = torch.tensor([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])


def random_views(estimate: Tensor, truth: Tensor, dice: Dice) -> tuple[Tensor, Tensor]:
    """Each pair under its own random change: (B, 3, V, V), V at most VIEW_SIDE.

    Enlarged up to three times, cut at any pixel, turned, colours exchanged, made brighter or
    darker. `estimate` and `truth`: (B, 3, S, S) in [-1, 1].
    """
    count, side = len(truth), truth.shape[-1]
    goal = min(VIEW_SIDE, side)
    grid = _grid(dice, count, side, goal)
    orders = _ORDERS.to(truth.device)[dice.below(len(_ORDERS), count)]
    gain = 0.7 + 0.3 * dice.uniform(count, 1, 1, 1)
    offset = 0.4 * dice.uniform(count, 1, 1, 1) - 0.2
    views = []
    for pictures in (estimate, truth):
        view = functional.grid_sample(pictures.float(), grid, "bilinear", "border", False)
        view = view.gather(1, orders.view(count, 3, 1, 1).expand_as(view))
        views.append(view * gain + offset)
    return views[0], views[1]


def _grid(dice: Dice, count: int, side: int, goal: int) -> Tensor:
    """For grid_sample, (B, goal, goal, 2): where each pixel of the views comes from."""
    zoom = 2 ** (dice.uniform(count) * _MOST_OCTAVES)
    zoom = torch.where(dice.is_true(count, _UNTOUCHED), 1.0, zoom)
    room = side - goal / zoom
    lines = []
    for _ in "yx":
        # At whole pixels; so a view of natural size is no average of neighbours.
        start = (dice.uniform(count) * (room + 1)).floor().minimum(room)
        steps = torch.arange(goal, device=dice.device) + 0.5
        place = start[:, None] + steps / zoom[:, None]
        place = torch.where(dice.is_true(count)[:, None], place, place.flip(1))
        lines.append(place / side * 2 - 1)
    down = lines[0][:, :, None].expand(count, goal, goal)
    across = lines[1][:, None, :].expand(count, goal, goal)
    swapped = dice.is_true(count).view(-1, 1, 1)
    y, x = (torch.where(swapped, part.transpose(1, 2), part) for part in (down, across))
    return torch.stack([x, y], -1)
