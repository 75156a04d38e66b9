"""Layouts of processes: what a step of training takes of memory, what each costs, which fits.

The state is counted exactly. Activations are measured on small batches of made-up samples and
extended. What tensor parallelism splits and exchanges is measured in a step of training.
"""

import dataclasses
import gc
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.keyframes.compact.network import SIZES
from gsvc.decoders.training import crops, draws, loop, packs, parallel
from gsvc.decoders.training.frozen import frozen_networks
from gsvc.decoders.training.learner import Learner
from gsvc.decoders.training.recipe import Recipe, Stage
from gsvc.encoders.frame_buffer import return_freed_memory
from gsvc.eval.compute import PeakMemory


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """In it, counts the storage of all that operations give, until it is freed.

    What an operation needs within itself, and what allocators round up, is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._live: dict[int, int] = {}
        self.now = self.peak = 0
        """Bytes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        for each in tree_leaves(given):
            storage = each.untyped_storage() if isinstance(each, Tensor) else None
            if storage is None or storage._cdata in self._live or not storage.nbytes():
                continue
            self._live[storage._cdata] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._freed, storage._cdata)
        return given

    def _freed(self, key: int) -> None:
        self.now -= self._live.pop(key, 0)


_FRAMES = 9
_CHANNELS = {"gain": 1, "confidence": 1}


class Trial:
    """Steps of a recipe's last stage, where all learns that ever does."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        """Raises ConfigError for a recipe that needs a teacher."""
        if recipe.task == "teach":
            raise ConfigError("a recipe with a teacher is not measured: ask for that of its task")
        self.kind = "pictures" if recipe.task == "restore" else "windows"
        self.recipe, self.device = _steady(recipe), device
        self.stage: Stage = self.recipe.stages[-1]
        prior = SIZES.get(recipe.network.get("size", ""), {}).get("prior")
        names = {*crops.KINDS[self.kind].networks, *([str(prior)] if prior else [])}
        self.frozen = frozen_networks(sorted(names))

    def learner(self, *, recomputes: bool = False, layout: str = "one", tensor: int = 1) -> Learner:
        """One with new weights, spread over processes as `parallel.spread` does."""
        pack = packs.Pack.without_samples(self.kind, self.frozen)
        rng = draws.Rng(self.device, 0, *parallel.data_part(layout, tensor))
        learner = loop.make_learner(
            pack, self.recipe, rng, layout=layout, tensor=tensor, recomputes=recomputes
        )
        learner.begin_stage(self.stage)
        return learner

    def step(self, learner: Learner, batch: int) -> None:
        """One step of training with so many samples, of this process."""
        learner.rng.begin(0)  # always as many steps of the sampler
        learner.packs = self._packs(batch)
        learner.learn(self.stage, batch, self.recipe.rate)

    def _packs(self, batch: int) -> Iterator[packs.Pack]:
        kind = crops.KINDS[self.kind]
        counts = {"keys": 2} if self.kind == "windows" else {}
        each = _FRAMES if self.kind == "windows" else 1
        stacks = {}
        for name in kind.channels:
            shape = batch * counts.get(name, each), _CHANNELS.get(name, 3), kind.side, kind.side
            stacks[name] = torch.randint(0, 255, shape, dtype=torch.uint8)
        rows = torch.arange(batch, dtype=torch.int32)
        arrays = {
            "held": torch.zeros(batch, dtype=torch.uint8),
            "scalars": torch.full((batch, 2), 0.5),
            "time": torch.linspace(0, 1, batch * each),
            "window": torch.stack([rows * each, torch.full_like(rows, each)], 1),
        }
        yield packs.Pack({}, stacks, arrays, {})


def _steady(recipe: Recipe) -> Recipe:
    """The same with the most steps of the sampler in every batch, and all terms of the loss."""
    stage = recipe.stages[-1]
    most = max(stage.steps, key=int)
    return dataclasses.replace(recipe, stages=(dataclasses.replace(stage, steps={most: 1.0}),))


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def largest_block(networks: nn.ModuleDict) -> int:
    """Bytes of the parameters that FSDP2 gathers at a time, at most."""
    sizes = []
    for network in networks.values():
        blocks = [bytes_of(block.parameters()) for block in parallel.blocks_of(network)]
        sizes += [*blocks, bytes_of(network.parameters()) - sum(blocks)]
    return max(sizes)


_PASSES = 3  # forwards, and backwards for inputs and weights


class Splitting(NamedTuple):
    """Bytes and operations that processes share out between them, and bytes that they sum."""

    parameters: int = 0
    """Bytes."""
    sample: int = 0
    """Bytes of activations that are kept for the way back, for each sample."""
    flops: int = 0
    """Operations of a sample's step."""
    summed: int = 0
    """Bytes of a sample that are summed over all processes in a step: results of blocks
    forwards, gradients of their inputs backwards."""


class _Counts:
    def __init__(self) -> None:
        self.sample = self.flops = self.summed = 0
        self._inner: saved_tensors_hooks | None = None
        self._seen: set[int] = set()

    def enter(self, layer: nn.Conv2d, given: Any, made: Tensor) -> None:
        """From here on, up to the second convolution, channels are in parts."""
        self._count(layer, made)
        if torch.is_grad_enabled():
            self._inner = saved_tensors_hooks(self._note, lambda kept: kept)
            self._inner.__enter__()

    def leave(self, layer: nn.Conv2d, given: Any, made: Tensor) -> None:
        self._count(layer, made)
        if self._inner is not None:
            self._inner.__exit__(None, None, None)
            self._inner = None
        self.summed += (1 + made.requires_grad) * made.nbytes

    def _count(self, layer: nn.Conv2d, made: Tensor) -> None:
        passes = _PASSES if made.requires_grad else 1
        self.flops += 2 * passes * made.numel() * layer.weight[0].numel()

    def _note(self, kept: Tensor) -> Tensor:
        key = kept.untyped_storage()._cdata
        if kept.ndim == 4 and key not in self._seen and not isinstance(kept, nn.Parameter):
            self._seen.add(key)
            self.sample += kept.nbytes
        return kept


def splitting_of(trial: Trial) -> Splitting:
    """Of a step with one sample."""
    learner, counts = trial.learner(), _Counts()
    networks = learner.task.networks.values()
    blocks = [block for network in networks for block in parallel.pairs_of(network)]
    with ExitStack() as stack:
        for block in blocks:
            for layer, hook in ((block.first, counts.enter), (block.second, counts.leave)):
                stack.callback(layer.register_forward_hook(hook).remove)
        trial.step(learner, 1)
    layers = [layer for block in blocks for layer in (block.first, block.second)]
    parameters = bytes_of(layer.weight for layer in layers)
    return Splitting(parameters, counts.sample, counts.flops, counts.summed)


_BATCHES = 1, 2  # activations grow by the sample: two sizes tell how fast, and from where


class Needs(NamedTuple):
    """Bytes, and operations."""

    parameters: int
    gradients: int
    optimizer: int
    average: int
    fixed: int
    """Frozen networks, and the critic with its optimiser: in every process."""
    gathered: int
    """The largest block of parameters, whole."""
    base: int
    """Of activations whatever the batch."""
    sample: int
    """Of activations, for each sample."""
    recomputed_base: int
    recomputed_sample: int
    """The same where blocks compute them again."""
    flops: int
    """Of a sample's step."""
    recomputed_flops: int
    splitting: Splitting

    @property
    def state(self) -> int:
        """What FSDP2 shares out."""
        return self.parameters + self.gradients + self.optimizer + self.average

    def activations(self, batch: int, recomputes: bool) -> int:
        """Of a step with so many samples."""
        if recomputes:
            return self.recomputed_base + batch * self.recomputed_sample
        return self.base + batch * self.sample


def needs_of(trial: Trial, layout: str = "") -> Needs:
    """Measured on the trial's device, with a few samples.

    `layout`: measure the memory of this one only, not what others or operations take.
    """
    plain = _activations(trial, recomputes=False)
    redone = _activations(trial, recomputes=True) if not layout or "recomp" in layout else (0, 0)
    learner = trial.learner()
    trial.step(learner, 1)
    learned = [x for x in learner.task.networks.parameters() if x.grad is not None]
    state = tree_leaves(list(learner.optimizer.state.values()))
    adversary = learner.adversary
    critic = list(adversary.critic.parameters()) if adversary is not None else []
    flops, more = (
        0 if layout else loop.flops_of(partial(trial.step, trial.learner(recomputes=again), 1))
        for again in (False, True)
    )
    frozen = [value.float() for net in trial.frozen.values() for value in net.values()]
    return Needs(
        parameters=bytes_of(learner.task.networks.parameters()),
        gradients=bytes_of(learned),
        optimizer=bytes_of(state),
        average=bytes_of(learner.average),
        fixed=bytes_of(frozen) + 4 * bytes_of(critic),
        gathered=largest_block(learner.task.networks),
        base=plain[0],
        sample=plain[1],
        recomputed_base=redone[0],
        recomputed_sample=redone[1],
        flops=flops,
        recomputed_flops=more,
        splitting=splitting_of(trial) if not layout or "tensor" in layout else Splitting(),
    )


def _activations(trial: Trial, recomputes: bool) -> tuple[int, int]:
    """Bytes whatever the batch, and for each sample, beyond state and gradients."""
    small, large = (_peak(trial, recomputes, batch) for batch in _BATCHES)
    sample = (large - small) // (_BATCHES[1] - _BATCHES[0])
    return max(0, small - _BATCHES[0] * sample), sample


def _peak(trial: Trial, recomputes: bool, batch: int) -> int:
    """The most that a step holds beside what was there when it began, and gradients."""
    learner = trial.learner(recomputes=recomputes)
    trial.step(learner, 1)  # after it the optimisers have their state
    learner.optimizer.zero_grad(set_to_none=True)
    gc.collect()
    with LiveBytes() as live:
        trial.step(learner, batch)
    parameters = learner.task.networks.parameters()
    return int(live.peak) - bytes_of(x.grad for x in parameters if x.grad is not None)


_STATES = 5  # a parameter, its gradient, two moments and its average
_MOST = 1 << 20


@dataclass(frozen=True)
class Devices:
    """What there is."""

    count: int
    memory: int
    """Bytes of each."""
    bandwidth: float
    """Bytes a second between two of them."""
    speed: float
    """Operations a second of each, as training reaches them."""


class Layout(NamedTuple):
    """A way to spread a run, and what it takes for each device."""

    kind: str
    """Of `gsvc train shards --layout`; one: a device alone."""
    tensor: int
    """Devices that together have a block in parts."""
    recomputes: bool
    memory: int
    """Bytes."""
    exchanged: int
    """Bytes a step."""
    recomputed: int
    """Operations a step beyond the plain ones."""
    seconds: float
    """Of a step, exchange and computation one after the other."""

    @property
    def name(self) -> str:
        """As of `gsvc train plan --check`."""
        group = f", tensor {self.tensor}" * self._is_mesh
        return self.kind + group + ", recomputing" * self.recomputes

    @property
    def options(self) -> str:
        """Of `gsvc train shards`."""
        layout = [f"--layout {self.kind}"] * (self.kind != "one")
        group = [f"--tensor {self.tensor}"] * self._is_mesh
        return " ".join([*layout, *group, *["--recompute"] * self.recomputes])

    @property
    def _is_mesh(self) -> bool:
        return self.kind == "fsdp" and self.tensor > 1

    def missing(self, devices: Devices) -> int:
        """Bytes that a device lacks; 0 where it fits."""
        return max(0, self.memory - devices.memory)


def layouts(needs: Needs, batch: int, devices: Devices) -> list[Layout]:
    """All that there are for `batch` samples a step, of all devices.

    What is exchanged, C = T (P + G + O) + k M_miss, is by layout: replicas all-reduce gradients,
    2 (N - 1) / N of G; FSDP2 gathers parameters forwards and backwards and scatters gradients, (N -
    1) / N of 2 P + G; tensor parallelism all-reduces activations, so that it is the only one for
    fewer samples than devices. On a mesh groups of t devices have blocks in parts, and FSDP2 shares
    out over the N / t groups what each device has. O never moves. What recomputing saves, M_miss,
    costs no bytes but a forward pass: its k is operations.
    """
    made: list[Layout] = []
    for again in (False, True):
        if batch % devices.count == 0:
            made += _by_samples(needs, batch // devices.count, devices, again)
        # Tensor parallelism over all devices, which then have all samples, and over groups.
        for group in range(2, devices.count + 1) if needs.splitting.parameters else ():
            if devices.count % group == 0 and batch % (devices.count // group) == 0:
                own = batch * group // devices.count
                made.append(_on_mesh(needs, own, devices, group, again))
    return made


def _by_samples(needs: Needs, batch: int, devices: Devices, again: bool) -> Iterator[Layout]:
    count, share = devices.count, (devices.count - 1) / devices.count
    held = needs.fixed + needs.activations(batch, again)
    more = batch * (needs.recomputed_flops - needs.flops) if again else 0
    work = (batch * needs.flops + more) / devices.speed
    ways = {"one" if count == 1 else "replicas": (needs.state, 2 * share * needs.gradients)}
    if count > 1:
        moved = share * (2 * needs.parameters + needs.gradients)
        ways["fsdp"] = needs.state // count + 2 * needs.gathered, moved
    for kind, (state, moved) in ways.items():
        seconds = work + moved / devices.bandwidth
        yield Layout(kind, 1, again, state + held, int(moved), more, seconds)


def _on_mesh(needs: Needs, own: int, devices: Devices, group: int, again: bool) -> Layout:
    """Blocks are in parts on `group` devices, all else on as many as there are such groups. `own`:
    samples of a group. What blocks compute again is in parts, too, and ends before the sum."""
    groups, parts = devices.count // group, needs.splitting
    inner, outer = (group - 1) / group, (groups - 1) / groups
    split = inner * parts.parameters
    state = (needs.state - int(_STATES * split)) // groups + (2 * needs.gathered) * (groups > 1)
    kept = 0 if again else int(inner * parts.sample)
    memory = state + needs.fixed + needs.activations(own, again) - own * kept
    more = own * (needs.recomputed_flops - needs.flops) // group if again else 0
    work = own * (needs.flops - inner * parts.flops) + more
    gathered = 2 * needs.parameters + needs.gradients - 3 * split
    moved = 2 * inner * own * parts.summed + outer * gathered
    seconds = work / devices.speed + moved / devices.bandwidth
    kind = "fsdp" if groups > 1 else "tensor"
    return Layout(kind, group, again, memory, int(moved), more, seconds)


def chosen(found: list[Layout], devices: Devices) -> Layout | None:
    """The quickest that fits; None where none does."""
    fitting = [each for each in found if not each.missing(devices)]
    return min(fitting, key=lambda each: each.seconds, default=None)


def most_samples(needs: Needs, devices: Devices) -> int:
    """Samples of a step in the layout that takes least; 0 where not one for each device fits."""
    count = 0
    while count < _MOST and chosen(layouts(needs, count + devices.count, devices), devices):
        count += devices.count
    return count


_CHECKED_STEPS = 3
_MB = 1e6


def compare(trial: Trial, batch: int, name: str) -> dict[str, float]:
    """MB foretold and measured, of this process; measured is resident memory beyond what the
    process had before it made the networks.

    Raises ConfigError for a layout that there is not.
    """
    count = parallel.processes()
    wanted = "one" if count == 1 and name == "replicas" else name
    anything = Devices(count, 1 << 60, 1e9, 1e12)
    found = {each.name: each for each in layouts(needs_of(trial, wanted), batch * count, anything)}
    if wanted not in found:
        raise ConfigError(f"--check {name}: with {count} processes take {', '.join(found)}")
    asked = found[wanted]
    group = parallel.group_of(asked.kind, asked.tensor)
    return_freed_memory(1 << 16)  # else what a step freed counts, too

    def steps(count: int, samples: int) -> None:
        learner = trial.learner(recomputes=asked.recomputes, layout=asked.kind, tensor=asked.tensor)
        for _ in range(count):
            trial.step(learner, samples)

    steps(1, group)  # what libraries load for the first step is no tensor
    gc.collect()
    with PeakMemory() as memory:
        steps(_CHECKED_STEPS, batch * group)
    measured = memory.peak or 0
    return {
        "foretold_mb": round(asked.memory / _MB, 1),
        "measured_mb": round(measured / _MB, 1),
        "ratio": round(asked.memory / measured, 3),
    }
