"""What a training run asks of a task, and the tasks of frames between key pictures.

Their samples are runs of frames out of a pack of windows. `Interpolate` trains the motion between
decoded pictures: RIFE's network, from its published weights. `Window` trains the window restorer,
frame after frame.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.interpolation.ifnet import IFNET_MULTIPLE, IFNet, moved_by
from gsvc.decoders.keyframes.windowed.window_network import WindowRestorer
from gsvc.decoders.training.standalone.draws import Cuts, Dice, drawn_cuts, whole_cuts
from gsvc.decoders.training.standalone.losses import Seen, charbonnier
from gsvc.decoders.training.standalone.pack import Pack
from gsvc.decoders.training.standalone.recipe import Recipe, Stage
from gsvc.decoders.training.standalone.samples import CONFIDENCE_UNIT
from gsvc.decoders.training.standalone.tensors import on_device

Batch = dict[str, Tensor]
"""Samples on the device, by what they are."""


class Task(Protocol):
    """Networks that learn, samples for them, and what they make of these."""

    kind: str
    """Of the packs that it learns from: pictures or windows."""
    networks: nn.ModuleDict
    """All that learn at some stage, by name; those of the result, in this order."""
    settings: dict[str, dict[str, Any]]
    """Class and settings of each, to build it again."""
    quick: dict[str, Callable[..., Any]]
    """The same networks as training runs them: compiled, perhaps."""

    def draw(self, count: int, stage: Stage, dice: Dice) -> Batch:
        """Random samples to train on."""

    def whole(self, pack: Pack, stage: Stage, dice: Dice) -> Batch:
        """All samples of another pack, each once, cut at random."""

    def estimate(self, batch: Batch, stage: Stage, dice: Dice) -> Seen:
        """What the networks make of a batch, with gradients."""

    def held(self, count: int) -> list[Batch]:
        """Samples that are never trained on, at most `count`, always the same."""

    def shown(self, batch: Batch) -> Mapping[str, Tensor]:
        """For scores and the sheet: `truth`, `given` and each result by name, (B, 3, H, W)."""


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


_PUBLISHED = "rife"
_SOFT, _STEEP = 6.0, 20.0
"""Steepness of the side around its middle, in training and where it is shown: a steep one decides,
as `gsvc.decoders.interpolation.rife` does, but has no gradient where it decided wrongly."""


class Interpolate:
    """Learns from a pack of windows: from both key pictures to a frame between them."""

    kind = "windows"

    def __init__(
        self, pack: Pack, recipe: Recipe, device: torch.device, teacher: Path | None
    ) -> None:
        """`pack`: on the device. Raises ConfigError where it lacks the published weights."""
        if _PUBLISHED not in pack.networks:
            raise ConfigError("the pack has no network rife: gsvc train pack makes one with it")
        if recipe.side % IFNET_MULTIPLE:
            raise ConfigError(f"recipe {recipe.name}: side must be a multiple of {IFNET_MULTIPLE}")
        network = IFNet(**recipe.network)
        network.load_state_dict(pack.networks[_PUBLISHED])
        self.networks = on_device(nn.ModuleDict({"ifnet": network}), device)
        self.settings = {"ifnet": {"class": "IFNet", "settings": dict(recipe.network)}}
        self.quick: dict[str, Callable[..., Any]] = dict(self.networks.items())
        self._spans, self._side = Spans(pack, recipe.side), recipe.side

    def draw(self, count: int, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        return self._spans.draw(count, 1, dice)

    def whole(self, pack: Pack, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        return Spans(pack, self._side).whole(1, dice)

    def estimate(self, batch: Batch, stage: Stage, dice: Dice) -> Seen:
        """See `Task`."""
        frame = _between(self.quick["ifnet"], batch, _SOFT)
        return Seen(frame, batch["rendering"][:, 0], batch["truth"][:, 0])

    def held(self, count: int) -> list[Batch]:
        """See `Task`."""
        return self._spans.held(count, 1)

    @torch.no_grad()
    def shown(self, batch: Batch) -> Mapping[str, Tensor]:
        """See `Task`; `given` is the rendering with the decoder's own motion."""
        frame = _between(self.networks["ifnet"], batch, _STEEP)
        return {"truth": batch["truth"][:, 0], "given": batch["rendering"][:, 0], "drawn": frame}


def _between(network: Callable[..., Any], batch: Batch, steepness: float) -> Tensor:
    """The frames, looked up in the key pictures bicubically, as the decoder does."""
    before, after = batch["before"], batch["after"]
    motion, mask = network(before / 2 + 0.5, after / 2 + 0.5, batch["time"][:, 0])
    motion, mask = motion.float(), mask.float()
    side = (steepness * (mask.sigmoid() - 0.5)).sigmoid()
    left = moved_by(before, motion[:, :2], "bicubic")
    right = moved_by(after, motion[:, 2:], "bicubic")
    frames: Tensor = side * left + (1 - side) * right
    return frames


_HELD_FRAMES = 3


class Window:
    """Learns from a pack of windows."""

    kind = "windows"

    def __init__(
        self, pack: Pack, recipe: Recipe, device: torch.device, teacher: Path | None
    ) -> None:
        """`pack`: on the device. Raises ConfigError for settings that no network has."""
        try:
            restorer: Any = WindowRestorer(**recipe.network)
        except TypeError as error:
            raise ConfigError(f"recipe {recipe.name}: {error}") from error
        self.networks = on_device(nn.ModuleDict({"restorer": restorer}), device)
        kept = {name: value for name, value in restorer.config.items() if not name.startswith("_")}
        self.settings = {"restorer": {"class": "WindowRestorer", "settings": kept}}
        self.quick: dict[str, Callable[..., Any]] = dict(self.networks.items())
        self._spans, self._side = Spans(pack, recipe.side), recipe.side

    def draw(self, count: int, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        return self._spans.draw(count, stage.frames, dice)

    def whole(self, pack: Pack, stage: Stage, dice: Dice) -> Batch:
        """See `Task`."""
        return Spans(pack, self._side).whole(stage.frames, dice)

    def estimate(self, batch: Batch, stage: Stage, dice: Dice) -> Seen:
        """See `Task`; the term `steady` is the distance of changes from frame to frame."""
        frames, truth = _run(self.quick["restorer"], batch), batch["truth"]
        extra = {}
        if frames.shape[1] > 1:
            change, goal = (x[:, 1:] - x[:, :-1] for x in (frames, truth))
            extra["steady"] = charbonnier(change.flatten(0, 1), goal.flatten(0, 1))
        rendering = batch["rendering"].flatten(0, 1)
        return Seen(frames.flatten(0, 1), rendering, truth.flatten(0, 1), extra=extra)

    def held(self, count: int) -> list[Batch]:
        """See `Task`; a window is a sample."""
        return self._spans.held(max(1, count // _HELD_FRAMES), _HELD_FRAMES)

    @torch.no_grad()
    def shown(self, batch: Batch) -> Mapping[str, Tensor]:
        """See `Task`."""
        frames = _run(self.networks["restorer"], batch)
        shown = {"truth": batch["truth"], "given": batch["rendering"], "restored": frames}
        return {name: pictures.flatten(0, 1) for name, pictures in shown.items()}


def _run(restorer: Callable[..., Any], batch: Batch) -> Tensor:
    """All frames of a batch, (B, T, 3, S, S)."""
    memory, frames = None, []
    each = (batch[name].unbind(1) for name in ("rendering", "confidence", "time"))
    for rendering, confidence, time in zip(*each, strict=True):
        frame, memory = restorer(
            rendering, batch["before"], batch["after"], confidence, time, memory
        )
        frames.append(frame.float())
    return torch.stack(frames, 1)
