"""Runs of frames out of a pack of windows, with the key pictures around them."""

import torch
from torch import Tensor

from gsvc.decoders.training.standalone.cuts import Cuts, drawn_cuts, whole_cuts
from gsvc.decoders.training.standalone.dice import Dice
from gsvc.decoders.training.standalone.pack import Pack
from gsvc.decoders.training.standalone.samples import CONFIDENCE_UNIT
from gsvc.decoders.training.standalone.tasks import Batch

_WINDOWS_AT_ONCE = 8


class Spans:
    """Draws runs of so many frames; also backwards in time."""

    def __init__(self, pack: Pack, side: int) -> None:
        """`pack`: of windows, on the device. `side`: of the cuts."""
        self._pack, self._side = pack, side
        self._first, self._frames = pack.arrays["window"].long().unbind(1)
        self._is_held = pack.arrays["held"].bool()
        self._rooms: dict[int, Tensor] = {}

    def draw(self, count: int, frames: int, dice: Dice) -> Batch:
        """Random runs: `truth` and `rendering` (B, T, 3, S, S), `confidence` (B, T, 1, S, S),
        `time` (B, T), `before` and `after` (B, 3, S, S)."""
        if frames not in self._rooms:
            fits = (self._frames >= frames) & ~self._is_held
            self._rooms[frames] = fits.nonzero()[:, 0]
        room = self._rooms[frames]
        return self._cut(room[dice.below(len(room), count)], frames, dice)

    def whole(self, frames: int, dice: Dice) -> Batch:
        """As `draw`, each window once; of fewer frames where one has fewer."""
        windows = torch.arange(len(self._frames), device=self._frames.device)
        return self._cut(windows, min(frames, int(self._frames.min())), dice)

    def _cut(self, windows: Tensor, frames: int, dice: Dice) -> Batch:
        count = len(windows)
        start = dice.below(self._frames[windows] - frames + 1, count)
        full = self._pack.stacks["truth"].shape[-1]
        cuts = drawn_cuts(dice, count, full, self._side)
        return self._taken(windows, start, frames, cuts, dice.is_true(count))

    def held(self, count: int, frames: int) -> list[Batch]:
        """As `draw`, whole crops of windows that are never trained on, always the same."""
        windows = ((self._frames >= frames) & self._is_held).nonzero()[:, 0]
        windows = windows[:: max(1, len(windows) // count)][:count]
        batches = []
        for part in torch.split(windows, _WINDOWS_AT_ONCE) if len(windows) else ():
            cuts = whole_cuts(len(part), self._pack.stacks["truth"].shape[-1], part.device)
            start = (self._frames[part] - frames) // 2
            forwards = torch.zeros_like(part, dtype=torch.bool)
            batches.append(self._taken(part, start, frames, cuts, forwards))
        return batches

    def _taken(
        self, windows: Tensor, start: Tensor, frames: int, cuts: Cuts, backwards: Tensor
    ) -> Batch:
        stacks, arrays = self._pack.stacks, self._pack.arrays
        rows = (self._first[windows] + start)[:, None]
        rows = rows + torch.arange(frames, device=rows.device)
        rows = torch.where(backwards[:, None], rows.flip(1), rows)
        time = arrays["time"][rows].float()
        keys = 2 * windows[:, None] + torch.arange(2, device=rows.device)
        keys = torch.where(backwards[:, None], keys.flip(1), keys)
        before, after = (cuts.colours(stacks["keys"], key) for key in keys.unbind(1))

        def by_window(pictures: Tensor) -> Tensor:
            return pictures.view(len(windows), frames, *pictures.shape[1:])

        confidence = cuts.of(stacks["confidence"], rows).float() / CONFIDENCE_UNIT
        return {
            "truth": by_window(cuts.colours(stacks["truth"], rows)),
            "rendering": by_window(cuts.colours(stacks["rendering"], rows)),
            "confidence": by_window(confidence),
            "time": torch.where(backwards[:, None], 1 - time, time),
            "before": before,
            "after": after,
        }
