"""Random cuts of pictures that lie on the device: no Python for a single sample."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gsvc.decoders.training.standalone.dice import Dice

_DARKEST = 0.85
_CHANNELS_APART = 0.06
_TINTED = 0.5


@dataclass(frozen=True)
class Cuts:
    """Where each sample is cut out, how it is turned and how its colours are changed."""

    rows: Tensor
    """int64 (B, S): lines of the picture, downwards or upwards."""
    columns: Tensor
    """int64 (B, S)."""
    swapped: Tensor
    """bool (B): lines become columns."""
    gain: Tensor
    """(B, 3, 1, 1), at most 1: of colours in [-1, 1]."""
    offset: Tensor
    """(B, 3, 1, 1): added after the gain; nothing leaves [-1, 1]."""

    def of(self, stack: Tensor, numbers: Tensor) -> Tensor:
        """From a stack, uint8 (N, C, H, W), the pictures `numbers` (B), as uint8 (B, C, S, S).

        With `numbers` (B, T), (B * T, C, S, S): pictures of one sample are cut alike.
        """
        each = numbers.numel() // len(numbers)
        rows, columns = (x.repeat_interleave(each, 0) for x in (self.rows, self.columns))
        swapped = self.swapped.repeat_interleave(each).view(-1, 1, 1, 1)
        channels = torch.arange(stack.shape[1], device=stack.device).view(1, -1, 1, 1)
        place = numbers.reshape(-1, 1, 1, 1), channels, rows[:, None, :, None]
        taken = stack[(*place, columns[:, None, None, :])]
        return torch.where(swapped, taken.transpose(2, 3), taken)

    def colours(self, stack: Tensor, numbers: Tensor) -> Tensor:
        """As `of`, of RGB pictures, in [-1, 1], in changed colours."""
        each = numbers.numel() // len(numbers)
        gain, offset = (x.repeat_interleave(each, 0) for x in (self.gain, self.offset))
        return colours_of(self.of(stack, numbers)) * gain + offset


def drawn_cuts(dice: Dice, count: int, full: int, side: int) -> Cuts:
    """Cuts of `side` pixels out of pictures of `full`: anywhere, flipped, turned, tinted."""
    steps = torch.arange(side, device=dice.device)
    lines = []
    for _ in "yx":
        ways = torch.where(dice.is_true(count)[:, None], steps, side - 1 - steps)
        lines.append(dice.below(full - side + 1, count)[:, None] + ways)
    tinted = dice.is_true(count, _TINTED).view(-1, 1, 1, 1)
    common = _DARKEST + (1 - _DARKEST) * dice.uniform(count, 1, 1, 1)
    gain = common - _CHANNELS_APART * dice.uniform(count, 3, 1, 1)
    gain = torch.where(tinted, gain, 1.0)
    offset = (1 - gain) * (2 * dice.uniform(count, 1, 1, 1) - 1)
    return Cuts(lines[0], lines[1], dice.is_true(count), gain, offset)


def whole_cuts(count: int, full: int, device: torch.device) -> Cuts:
    """Pictures as they are: for scores."""
    lines = torch.arange(full, device=device).expand(count, -1)
    none = torch.zeros(count, dtype=torch.bool, device=device)
    gain = torch.ones(count, 3, 1, 1, device=device)
    return Cuts(lines, lines, none, gain, torch.zeros_like(gain))


def colours_of(values: Tensor) -> Tensor:
    """uint8 as float in [-1, 1]."""
    return values.float() / 127.5 - 1
