"""What a training run asks of a task, and the tasks: pictures, frames, motion."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.interpolation.ifnet import IFNET_MULTIPLE, IFNet, moved_by
from gsvc.decoders.keyframes.compact.network import SIZES, CompactRefiner, noise_levels, walk
from gsvc.decoders.keyframes.priors.prior_networks import PRIORS, drawn_at
from gsvc.decoders.keyframes.windowed.window_network import WindowRestorer
from gsvc.decoders.training.draws import Cuts, Rng, drawn_cuts, moved, whole_cuts
from gsvc.decoders.training.losses import Seen, charbonnier
from gsvc.decoders.training.packs import Pack
from gsvc.decoders.training.recipe import Recipe, Stage
from gsvc.decoders.training.samples import CONFIDENCE_UNIT, GAIN_UNIT
from gsvc.decoders.training.tensors import on_device, read_average

Batch = dict[str, Tensor]
"""Samples on the device, by what they are."""


class Task(ABC):
    """Networks that learn, samples for them, and what they make of these."""

    kind: ClassVar[str]
    """Of the packs that it learns from: pictures or windows."""

    def __init__(
        self, pack: Pack, recipe: Recipe, device: torch.device, teacher: Path | None
    ) -> None:
        """`pack`: on the device. Raises ConfigError for bad settings or a pack without weights."""
        self._pack, self._recipe = pack, recipe
        try:
            made = self._made()
        except (KeyError, TypeError) as error:
            why = f"recipe {recipe.name}: no network has these settings ({error})"
            raise ConfigError(why) from error
        self.networks = on_device(nn.ModuleDict(made), device)
        """All that learn at some stage, by name; those of the result, in this order."""
        self.settings = {
            name: {"class": type(one).__name__, "settings": getattr(one, "settings", {})}
            for name, one in made.items()
        }
        """Class and settings of each, to build it again."""
        self.quick: dict[str, Callable[..., Any]] = dict(self.networks.items())
        """The same networks as training runs them: compiled, perhaps."""

    @abstractmethod
    def _made(self) -> dict[str, nn.Module]:
        """The networks as training begins with them."""

    @abstractmethod
    def draw(self, count: int, stage: Stage, rng: Rng) -> Batch:
        """Random samples to train on."""

    @abstractmethod
    def whole(self, pack: Pack, stage: Stage, rng: Rng) -> Batch:
        """All samples of another pack, each once, cut at random."""

    @abstractmethod
    def estimate(self, batch: Batch, stage: Stage, rng: Rng) -> Seen:
        """What the networks make of a batch, with gradients."""

    @abstractmethod
    def held(self, count: int) -> list[Batch]:
        """Samples that are never trained on, at most `count`, always the same."""

    @abstractmethod
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

    def draw(self, count: int, frames: int, rng: Rng) -> Batch:
        """Random runs: `truth` and `rendering` (B, T, 3, S, S), `confidence` (B, T, 1, S, S),
        `time` (B, T), `before` and `after` (B, 3, S, S)."""
        if frames not in self._rooms:
            fits = (self._frames >= frames) & ~self._is_held
            self._rooms[frames] = fits.nonzero()[:, 0]
        room = self._rooms[frames]
        return self._cut(room[rng.below(len(room), count)], frames, rng)

    def whole(self, frames: int, rng: Rng) -> Batch:
        """As `draw`, each window once; of fewer frames where one has fewer."""
        windows = torch.arange(len(self._frames), device=self._frames.device)
        return self._cut(windows, min(frames, int(self._frames.min())), rng)

    def _cut(self, windows: Tensor, frames: int, rng: Rng) -> Batch:
        count = len(windows)
        start = rng.below(self._frames[windows] - frames + 1, count)
        full = self._pack.stacks["truth"].shape[-1]
        cuts = drawn_cuts(rng, count, full, self._side)
        return self._taken(windows, start, frames, cuts, rng.is_true(count))

    def held(self, count: int, frames: int) -> list[Batch]:
        """As `draw`, whole crops of windows that are never trained on, always the same."""
        windows = ((self._frames >= frames) & self._is_held).nonzero()[:, 0]
        windows = spread_over(windows, count)
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


class OfWindows(Task):
    """Learns one network from a pack of windows; a window is a sample."""

    kind = "windows"
    held_frames = 1
    """Of a window that is never trained on."""

    @cached_property
    def _spans(self) -> Spans:
        return Spans(self._pack, self._recipe.side)

    def draw(self, count: int, stage: Stage, rng: Rng) -> Batch:
        return self._spans.draw(count, stage.frames, rng)

    def whole(self, pack: Pack, stage: Stage, rng: Rng) -> Batch:
        return Spans(pack, self._recipe.side).whole(stage.frames, rng)

    def held(self, count: int) -> list[Batch]:
        return self._spans.held(max(1, count // self.held_frames), self.held_frames)


_PUBLISHED = "rife"
_SOFT, _STEEP = 6.0, 20.0
"""Steepness of the side around its middle, in training and where it is shown: a steep one decides,
as `gsvc.decoders.interpolation.rife` does, but has no gradient where it decided wrongly."""


class Interpolate(OfWindows):
    """Learns from both key pictures the way to a frame between them."""

    def _made(self) -> dict[str, nn.Module]:
        recipe, networks = self._recipe, self._pack.networks
        if _PUBLISHED not in networks:
            raise ConfigError("the pack has no network rife: gsvc train pack makes one with it")
        if recipe.side % IFNET_MULTIPLE:
            raise ConfigError(f"recipe {recipe.name}: side must be a multiple of {IFNET_MULTIPLE}")
        network = IFNet(**recipe.network)
        network.load_state_dict(networks[_PUBLISHED])
        return {"ifnet": network}

    def estimate(self, batch: Batch, stage: Stage, rng: Rng) -> Seen:
        frame = _between(self.quick["ifnet"], batch, _SOFT)
        return Seen(frame, batch["rendering"][:, 0], batch["truth"][:, 0])

    @torch.no_grad()
    def shown(self, batch: Batch) -> Mapping[str, Tensor]:
        """`given` is the rendering with the decoder's own motion."""
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


class Window(OfWindows):
    """Restores the frames of windows."""

    held_frames = 3

    def _made(self) -> dict[str, nn.Module]:
        return {"restorer": WindowRestorer(**self._recipe.network)}

    def estimate(self, batch: Batch, stage: Stage, rng: Rng) -> Seen:
        """The term `steady` is the distance of changes from frame to frame."""
        frames, truth = _run(self.quick["restorer"], batch), batch["truth"]
        extra = {}
        if frames.shape[1] > 1:
            change, goal = (x[:, 1:] - x[:, :-1] for x in (frames, truth))
            extra["steady"] = charbonnier(change.flatten(0, 1), goal.flatten(0, 1))
        rendering = batch["rendering"].flatten(0, 1)
        return Seen(frames.flatten(0, 1), rendering, truth.flatten(0, 1), extra=extra)

    @torch.no_grad()
    def shown(self, batch: Batch) -> Mapping[str, Tensor]:
        frames = _run(self.networks["restorer"], batch)
        shown = {"truth": batch["truth"], "given": batch["rendering"], "restored": frames}
        return {name: pictures.flatten(0, 1) for name, pictures in shown.items()}


def _run(restorer: Callable[..., Any], batch: Batch) -> Tensor:
    memory, frames = None, []
    each = (batch[name].unbind(1) for name in ("rendering", "confidence", "time"))
    for rendering, confidence, time in zip(*each, strict=True):
        frame, memory = restorer(
            rendering, batch["before"], batch["after"], confidence, time, memory
        )
        frames.append(frame.float())
    return torch.stack(frames, 1)


_MOVED_SHARE = 0.5
_SHOWN_STEPS = (1, 2, 4)
_HELD_AT_ONCE = 16
_DRAWN_PRIOR, _DRAWINGS = "animevideov3", 2
"""The prior that draws when samples are made, and what it draws of a picture."""


class Restore(Task):
    """Learns from a pack of pictures."""

    kind = "pictures"

    def _made(self) -> dict[str, nn.Module]:
        own = self._recipe.network
        settings = {**SIZES[own["size"]], "noise": own.get("noise", 0.003)}
        self._noise, self._prior = float(settings["noise"]), settings.get("prior")
        networks: dict[str, nn.Module] = {"refiner": CompactRefiner(**settings)}
        if self._prior:
            networks["prior"] = prior_of(self._pack, self._prior)
        return networks

    @cached_property
    def _trained(self) -> Tensor:
        return (self._pack.arrays["held"] == 0).nonzero()[:, 0]

    def draw(self, count: int, stage: Stage, rng: Rng) -> Batch:
        numbers = self._trained[rng.below(len(self._trained), count)]
        return self._cut(self._pack, numbers, rng)

    def whole(self, pack: Pack, stage: Stage, rng: Rng) -> Batch:
        stack = pack.stacks["truth"]
        return self._cut(pack, torch.arange(len(stack), device=stack.device), rng)

    def _cut(self, pack: Pack, numbers: Tensor, rng: Rng) -> Batch:
        cuts = drawn_cuts(rng, len(numbers), pack.stacks["truth"].shape[-1], self._recipe.side)
        batch = cut_pictures(pack, numbers, cuts)
        if "drawn" in pack.stacks and self._prior == _DRAWN_PRIOR:
            each = torch.arange(_DRAWINGS, device=numbers.device)
            drawn = cuts.colours(pack.stacks["drawn"], _DRAWINGS * numbers[:, None] + each)
            batch["drawn"] = drawn.view(len(numbers), -1, *drawn.shape[2:])
        return batch

    def estimate(self, batch: Batch, stage: Stage, rng: Rng) -> Seen:
        picture, goal = batch["picture"], self._goal(batch, stage, rng)
        stages = self._recipe.stages
        learned = any("prior" in each.learns for each in stages[: stages.index(stage) + 1])
        given = given_to(
            batch,
            self.quick,
            with_gradient="prior" in stage.learns,
            drawn=None if learned else batch.get("drawn"),  # by the prior as it is published
        )
        noise = self._noise * rng.normal(*picture.shape)
        (steps,) = map(int, rng.random.choices(list(stage.steps), list(stage.steps.values())))
        done = rng.random.randrange(1, steps) if steps > 1 else 0
        sigmas = noise_levels(steps)
        denoise = _denoiser(self.quick["refiner"], given, batch["scalars"])
        with torch.no_grad():
            state = walk(denoise, picture + noise, sigmas[: done + 1])
        estimate = denoise(state, picture.new_full((len(picture),), sigmas[done]))
        boldness = 1 + (stage.bolder - 1) * (1 - sigmas[done])
        return Seen(*moved(estimate, picture, goal, rng, _MOVED_SHARE), boldness)

    def held(self, count: int) -> list[Batch]:
        numbers = self._pack.arrays["held"].nonzero()[:, 0]
        return held_pictures(self._pack, numbers, count)

    @torch.no_grad()
    def shown(self, batch: Batch) -> Mapping[str, Tensor]:
        """The results are named by their steps."""
        networks: Mapping[str, Any] = dict(self.networks.items())
        given = given_to(batch, networks, with_gradient=False)
        shown = {"truth": batch["truth"], "given": batch["picture"]}
        for steps in _SHOWN_STEPS:
            shown[str(steps)] = restored(networks["refiner"], given, batch["scalars"], steps)
        return shown

    def _goal(self, batch: Batch, stage: Stage, rng: Rng) -> Tensor:
        return batch["truth"]


def given_to(
    batch: Batch,
    networks: Mapping[str, Callable[..., Any]],
    with_gradient: bool,
    drawn: Tensor | None = None,
) -> Tensor:
    """A refiner's input: picture, gain and what the prior draws, with gradients or not.

    `drawn`: what it drew before, (B, 6, H, W); None to have it draw.
    """
    given = torch.cat([batch["picture"], batch["gain"]], 1)
    if "prior" not in networks:
        return given
    if drawn is not None:
        return torch.cat([given, drawn], 1)
    with torch.set_grad_enabled(with_gradient):
        prior: Any = networks["prior"]
        drawn = drawn_at(prior.shrunk, prior, batch["picture"])
    return torch.cat([given, drawn.float()], 1)


def prior_of(pack: Pack, name: str) -> nn.Module:
    """The prior, with its weights out of a pack. Raises ConfigError where they are not there."""
    if name not in PRIORS or name not in pack.networks:
        raise ConfigError(f"the pack has no prior {name}: gsvc train pack makes one with it")
    prior = PRIORS[name]()
    prior.load_state_dict(pack.networks[name])
    return prior


def cut_pictures(pack: Pack, numbers: Tensor, cuts: Cuts) -> Batch:
    """Samples of a pack of pictures, cut: `truth` and `picture` in [-1, 1], `gain`, `scalars`."""
    stacks = pack.stacks
    return {
        "truth": cuts.colours(stacks["truth"], numbers),
        "picture": cuts.colours(stacks["given"], numbers),
        "gain": cuts.of(stacks["gain"], numbers).float() / GAIN_UNIT,
        "scalars": pack.arrays["scalars"][numbers].float(),
    }


def held_pictures(pack: Pack, numbers: Tensor, count: int) -> list[Batch]:
    """Whole crops of a pack, spread evenly over `numbers`."""
    chosen, full = spread_over(numbers, count), pack.stacks["truth"].shape[-1]
    parts = torch.split(chosen, _HELD_AT_ONCE) if len(chosen) else ()
    return [cut_pictures(pack, x, whole_cuts(len(x), full, x.device)) for x in parts]


def spread_over(numbers: Tensor, count: int) -> Tensor:
    """At most so many of `numbers`, far apart."""
    return numbers[:: max(1, len(numbers) // count)][:count]


def restored(refiner: Any, given: Tensor, scalars: Tensor, steps: int) -> Tensor:
    """What the sampler shows after `steps`, without noise in the state."""
    return walk(_denoiser(refiner, given, scalars), given[:, :3], noise_levels(steps))


def _denoiser(refiner: Any, given: Tensor, scalars: Tensor) -> Callable[[Tensor, Tensor], Tensor]:

    def denoise(state: Tensor, sigma: Tensor) -> Tensor:
        made: Tensor = refiner(state, sigma, given, scalars)
        return made.float()

    return denoise


class Teach(Restore):
    """Learns from a pack of pictures and from a result of `restore`."""

    def __init__(
        self, pack: Pack, recipe: Recipe, device: torch.device, teacher: Path | None
    ) -> None:
        """Raises ConfigError without a teacher, InputError for a file that holds none."""
        super().__init__(pack, recipe, device, teacher)
        if teacher is None:
            raise ConfigError(
                f"recipe {recipe.name} needs --teacher FILE: average.safetensors of a run of medium"
            )
        weights, run = read_average(teacher)
        self._teachers = {
            name: on_device(network.requires_grad_(False).eval(), device)
            for name, network in _networks(teacher, weights, run, pack).items()
        }

    def _goal(self, batch: Batch, stage: Stage, rng: Rng) -> Tensor:
        """The teacher's picture, for as many samples as the stage says; the truth for others."""
        truth = batch["truth"]
        with torch.no_grad():
            given = given_to(batch, self._teachers, with_gradient=False)
            taught = restored(self._teachers["refiner"], given, batch["scalars"], 1)
        chosen = rng.is_true(len(truth), stage.taught).view(-1, 1, 1, 1)
        return torch.where(chosen, taught, truth)


def _networks(path: Path, weights: dict[str, Tensor], run: dict[str, Any], pack: Pack) -> Any:
    try:
        refiner = CompactRefiner(**run["networks"]["refiner"]["settings"])
        refiner.load_state_dict(_of(weights, "refiner"))
        networks: dict[str, nn.Module] = {"refiner": refiner}
        if prior := refiner.settings["prior"]:
            networks["prior"] = prior_of(pack, prior)
            if "prior" in run["networks"]:
                networks["prior"].load_state_dict(_of(weights, "prior"))
    except (KeyError, TypeError, RuntimeError) as error:
        raise ConfigError(f"{path} is not the result of a restorer's run") from error
    return networks


def _of(weights: dict[str, Tensor], network: str) -> dict[str, Tensor]:
    start = f"{network}."
    return {
        name.removeprefix(start): value for name, value in weights.items() if name.startswith(start)
    }


_TASKS: dict[str, type[Task]] = {
    "restore": Restore,
    "teach": Teach,
    "window": Window,
    "interpolate": Interpolate,
}


def task_of(pack: Pack, recipe: Recipe, device: torch.device, teacher: Path | None) -> Task:
    """A recipe's. Raises ConfigError for a task that is not known or a pack of another kind."""
    if recipe.task not in _TASKS:
        raise ConfigError(f"recipe {recipe.name}: task is one of {', '.join(_TASKS)}")
    kind = pack.manifest.get("kind")
    if kind != _TASKS[recipe.task].kind:
        why = f"recipe {recipe.name} learns from {_TASKS[recipe.task].kind}: this pack has {kind}"
        raise ConfigError(why)
    if "alex" not in pack.networks:
        raise ConfigError("the pack lacks the network alex: make it anew with gsvc train pack")
    return _TASKS[recipe.task](pack, recipe, device, teacher)
