"""Everything that training draws at random, out of one seed: numbers, cuts of pictures, movements.

Cuts are of pictures that lie on the device: no Python for a single sample. Key pictures are moved
by parts of a pixel, as frames show them: frames interpolate the key picture bicubically, which
softens it, while the true frame is as sharp as ever.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

_STEPS_APART = 1_000_003  # between the seeds of steps


class Rng:
    """Draws for each sample on the device, where they are used; for a whole batch in Python.

    Of several processes each draws for the batch of all and takes its part. What a step draws
    depends on the seed and the step's number alone.
    """

    def __init__(self, device: torch.device, seed: int, part: int = 0, parts: int = 1) -> None:
        self.device, self.part, self.parts = device, part, parts
        self._seed = seed
        self._generator = torch.Generator(device).manual_seed(seed)
        self.random = Random(seed)
        """For a whole batch."""

    def begin(self, step: int) -> None:
        """Begin anew, with what this step draws."""
        seed = self._seed + _STEPS_APART * (step + 1)
        self._generator.manual_seed(seed)
        self.random.seed(seed)

    def uniform(self, *shape: int) -> Tensor:
        """Float, from 0 up to below 1; the first of `shape` is of samples."""
        return self._own(torch.rand, shape)

    def normal(self, *shape: int) -> Tensor:
        """Float, of deviation 1; the first of `shape` is of samples."""
        return self._own(torch.randn, shape)

    def _own(self, draw: Callable[..., Tensor], shape: Sequence[int]) -> Tensor:
        whole = self.parts * shape[0], *shape[1:]
        drawn = draw(whole, generator=self._generator, device=self.device)
        return drawn.chunk(self.parts)[self.part]

    def below(self, ends: Tensor | int, count: int) -> Tensor:
        """`count` integers from 0 up to below `ends`, one end for all or one for each."""
        return (self.uniform(count) * ends).long()

    def is_true(self, count: int, probability: float = 0.5) -> Tensor:
        """`count` decisions."""
        return self.uniform(count) < probability


_DARKEST = 0.85
_CHANNELS_APART = 0.06
_TINTED = 0.5


class Cuts(NamedTuple):
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


def drawn_cuts(rng: Rng, count: int, full: int, side: int) -> Cuts:
    """Cuts of `side` pixels out of pictures of `full`: anywhere, flipped, turned, tinted."""
    steps = torch.arange(side, device=rng.device)
    lines = []
    for _ in "yx":
        ways = torch.where(rng.is_true(count)[:, None], steps, side - 1 - steps)
        lines.append(rng.below(full - side + 1, count)[:, None] + ways)
    tinted = rng.is_true(count, _TINTED).view(-1, 1, 1, 1)
    common = _DARKEST + (1 - _DARKEST) * rng.uniform(count, 1, 1, 1)
    gain = common - _CHANNELS_APART * rng.uniform(count, 3, 1, 1)
    gain = torch.where(tinted, gain, 1.0)
    offset = (1 - gain) * (2 * rng.uniform(count, 1, 1, 1) - 1)
    return Cuts(lines[0], lines[1], rng.is_true(count), gain, offset)


def whole_cuts(count: int, full: int, device: torch.device) -> Cuts:
    """Pictures as they are: for scores."""
    lines = torch.arange(full, device=device).expand(count, -1)
    none = torch.zeros(count, dtype=torch.bool, device=device)
    gain = torch.ones(count, 3, 1, 1, device=device)
    return Cuts(lines, lines, none, gain, torch.zeros_like(gain))


def colours_of(values: Tensor) -> Tensor:
    """uint8 as float in [-1, 1]."""
    return values.float() / 127.5 - 1


_REACH = 6  # lobes of the Lanczos kernel that moves the truth: nearly ideal


def moved(
    estimate: Tensor, picture: Tensor, truth: Tensor, rng: Rng, share: float
) -> tuple[Tensor, Tensor, Tensor]:
    """All moved by a random part of a pixel, another one for each sample.

    `estimate` and `picture` are interpolated as in frames (see `rendering`), `truth` almost without
    loss. `share`: of the samples that move at all. Tensors are (B, C, H, W); the results are
    smaller by 11 pixels each way, as nothing outside is used.
    """
    count = len(truth)
    right, down = (rng.uniform(count) * rng.is_true(count, share) for _ in range(2))
    shown = [_shifted(p, bicubic(right), bicubic(down)) for p in (estimate, picture)]
    return shown[0], shown[1], _shifted(truth, lanczos(right), lanczos(down))


def bicubic(parts: Tensor) -> Tensor:
    """Weights (B, 4) of the pixels at -1, 0, 1, 2 for the positions `parts` (B), 0 to 1."""
    a = -0.75  # OpenCV's coefficient
    x = (parts[:, None] - torch.arange(-1, 3, device=parts.device)).abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x < 1, near, far)


def lanczos(parts: Tensor) -> Tensor:
    """Weights (B, 12) of the pixels at -5 to 6 for the positions `parts` (B), 0 to 1."""
    distance = torch.arange(1 - _REACH, _REACH + 1, device=parts.device) - parts[:, None]
    weights = torch.sinc(distance) * torch.sinc(distance / _REACH)
    return weights / weights.sum(1, keepdim=True)


def _shifted(pictures: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Weighted sums of neighbours, wherever all pixels that `lanczos` needs exist. In single
    precision: truths rounded to half precision would be no truths."""
    count, channels, height, width = pictures.shape
    spare = _REACH - across.shape[1] // 2
    inner = pictures[..., spare : height - spare, spare : width - spare]
    flat = inner.float().reshape(1, count * channels, *inner.shape[2:])
    with torch.autocast(flat.device.type, enabled=False):
        for weights, form in ((across, (1, -1)), (down, (-1, 1))):
            kernel = weights.repeat_interleave(channels, 0).view(count * channels, 1, *form)
            flat = functional.conv2d(flat, kernel, groups=count * channels)
    return flat.view(count, channels, *flat.shape[2:])
