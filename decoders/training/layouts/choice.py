"""Layouts of processes: the memory that each takes, its cost, and what steps really took."""

import gc
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.training.layouts.memory import Needs, Trial, needs_of
from gsvc.decoders.training.sharded.parallel import group_of
from gsvc.decoders.training.standalone.workers import processes
from gsvc.encoders.coding.svt_av1 import malloc_trim
from gsvc.eval.compute import return_freed_memory

_STATES = 5
"""A parameter, its gradient, two moments and its average."""
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


@dataclass(frozen=True)
class Layout:
    """A way to spread a run, and what it takes for each device."""

    name: str
    options: str
    """Of `gsvc train shards`."""
    memory: int
    """Bytes."""
    exchanged: int
    """Bytes a step."""
    recomputed: int
    """Operations a step beyond the plain ones."""
    seconds: float
    """Of a step, exchange and computation one after the other."""

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
    made = []
    for again in (False, True):
        if batch % devices.count == 0:
            made += _by_samples(needs, batch // devices.count, devices, again)
        if needs.splitting.parameters:
            made += _by_tensors(needs, batch, devices, again)
    return made


def _by_samples(needs: Needs, batch: int, devices: Devices, again: bool) -> list[Layout]:
    """Replicas and FSDP2; `batch`: samples of a device."""
    count, share = devices.count, (devices.count - 1) / devices.count
    held = needs.fixed + needs.activations(batch, again)
    more = batch * (needs.recomputed_flops - needs.flops) if again else 0
    work = (batch * needs.flops + more) / devices.speed
    ways = [("one" if count == 1 else "replicas", needs.state, 2 * share * needs.gradients)]
    if count > 1:
        moved = share * (2 * needs.parameters + needs.gradients)
        ways.append(("fsdp", needs.state // count + 2 * needs.gathered, moved))
    made = []
    for name, state, moved in ways:
        seconds = work + moved / devices.bandwidth
        options = f"--layout {name}" if name != "one" else ""
        options = f"{options} {'--recompute' if again else ''}".strip()
        label = f"{name}, recomputing" if again else name
        made.append(Layout(label, options, state + held, int(moved), more, seconds))
    return made


def _by_tensors(needs: Needs, batch: int, devices: Devices, again: bool) -> Iterator[Layout]:
    """Tensor parallelism over all devices, which then have all samples, and over groups of them."""
    for group in range(2, devices.count + 1):
        if devices.count % group == 0 and batch % (devices.count // group) == 0:
            yield _on_mesh(needs, batch * group // devices.count, devices, group, again)


def _on_mesh(needs: Needs, own: int, devices: Devices, group: int, again: bool) -> Layout:
    """Blocks are in parts on `group` devices, all else on as many as there are such groups.

    `own`: samples of a group. What blocks compute again is in parts, too, and ends before the sum.
    """
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
    name = f"fsdp, tensor {group}" if groups > 1 else "tensor"
    options = f"--layout fsdp --tensor {group}" if groups > 1 else "--layout tensor"
    if again:
        name, options = f"{name}, recomputing", f"{options} --recompute"
    return Layout(name, options, memory, int(moved), more, seconds)


def layout_of(name: str) -> tuple[str, int, bool]:
    """What the name of a `Layout` says: the layout, `--tensor`, whether blocks compute again."""
    plain = name.removesuffix(", recomputing")
    layout, _, group = plain.partition(", tensor ")
    return layout, int(group or 1), plain != name


def chosen(found: list[Layout], devices: Devices) -> Layout | None:
    """The quickest that fits; None where none does."""
    fitting = [each for each in found if not each.missing(devices)]
    return min(fitting, key=lambda each: each.seconds, default=None)


def most_samples(needs: Needs, devices: Devices) -> int:
    """Samples of a step in the layout that takes least; 0 where not even one for each device
    fits."""
    count = 0
    while count < _MOST and chosen(layouts(needs, count + devices.count, devices), devices):
        count += devices.count
    return count


_STEPS = 3
_EVERY = 0.002
_MB = 1e6


class _Peak:
    """The most resident memory while it is open, looked at every two milliseconds."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self.begun = self.bytes = _resident()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.is_set():
            self.bytes = max(self.bytes, _resident())
            time.sleep(_EVERY)

    def close(self) -> int:
        self._over.set()
        self._thread.join()
        return self.bytes - self.begun


def _resident() -> int:
    """Bytes of this process in memory, on Linux."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def compare(trial: Trial, batch: int, name: str) -> dict[str, float]:
    """MB foretold and measured, of this process; measured is resident memory beyond what the
    process had before it made the networks.

    Raises ConfigError for a layout that there is not.
    """
    count = processes()
    wanted = "one" if count == 1 and name == "replicas" else name
    anything = Devices(count, 1 << 60, 1e9, 1e12)
    found = {each.name: each for each in layouts(needs_of(trial, wanted), batch * count, anything)}
    if wanted not in found:
        raise ConfigError(f"--check {name}: with {count} processes take {', '.join(found)}")
    foretold = found[wanted].memory
    layout, tensor, again = layout_of(wanted)
    group = group_of(layout, tensor)
    return_freed_memory()  # else what a step freed counts, too

    def steps(count: int, samples: int) -> None:
        learner = trial.learner(recomputes=again, layout=layout, tensor=tensor)
        for _ in range(count):
            trial.step(learner, samples)

    steps(1, group)  # what libraries load for the first step is no tensor
    gc.collect()
    malloc_trim()
    peak = _Peak()
    steps(_STEPS, batch * group)
    measured = peak.close()
    return {
        "foretold_mb": round(foretold / _MB, 1),
        "measured_mb": round(measured / _MB, 1),
        "ratio": round(foretold / measured, 3),
    }
