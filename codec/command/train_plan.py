"""`gsvc train plan`: memory of a run, and the layout of processes that fits."""

import re
from argparse import Namespace
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.codec.command.arguments import tell_event
from gsvc.decoders.training.recipe import RECIPES, Recipe, read_recipe

if TYPE_CHECKING:
    from gsvc.decoders.training.layouts import Devices, Layout, Trial

USAGE = f"""Predict the memory of a training step in each layout of processes, what a device
lacks and what is exchanged, and recommend a layout. --check runs a layout and measures it.

--recipe NAME!          {RECIPES}
--size NAME             size of the refiner: nano, base ... (the recipe's)
--batch N               samples of a step on all devices (the recipe's)
--devices N             number of devices (=1)
--memory GB             memory of each device (=80)
--bandwidth GB          rate between devices, in 1000000000 bytes a second (=50)
--tflops T              speed of each device in training, in 10^12 operations a second (=50)
--check LAYOUT          layout to measure, here or under torchrun: replicas, fsdp, tensor ...
--json
"""

_LAYOUTS = re.compile(r"(one|replicas|fsdp(, tensor [1-9]\d*)?|tensor)(, recomputing)?")
_MB, _GB, _TERA = 1_000_000, 1e9, 1e12


def run(options: Namespace) -> int:
    """Measure small batches, extend, choose; exits with 1 where nothing fits."""
    recipe = _recipe(options)  # before torch is imported, which takes seconds
    import torch

    from gsvc.decoders.training import layouts, parallel

    if options.check:
        parallel.join("cpu")
    trial = layouts.Trial(recipe, torch.device("cpu"))
    batch = recipe.batch if options.batch is None else options.batch
    if batch < 1 or (options.check and batch % parallel.processes()):
        raise ConfigError(f"--batch is {batch}: take a multiple of {parallel.processes()}")
    if options.check:
        return _check(options, trial, batch)
    needs = layouts.needs_of(trial)
    sizes = options.memory * _GB, options.bandwidth * _GB, options.tflops * _TERA
    devices = layouts.Devices(options.devices, int(sizes[0]), *sizes[1:])
    parts = ("parameters", "gradients", "optimizer", "average", "fixed", "sample")
    tell_event(options, "takes", unit="MB", **{n: _mb(getattr(needs, n)) for n in parts})
    found = layouts.layouts(needs, batch, devices)
    for each in found:
        tell_event(
            options,
            "layout",
            name=each.name,
            memory_mb=_mb(each.memory),
            missing_mb=_mb(each.missing(devices)),
            exchanged_mb=_mb(each.exchanged),
            recomputed_gflop=round(each.recomputed / 1e9, 1),
            step_ms=round(1e3 * each.seconds, 2),
        )
    best = layouts.chosen(found, devices)
    if best is None:
        most = layouts.most_samples(needs, devices)
        few = f"take --batch {most} or less, a multiple of {devices.count}, or more memory"
        one = "not even a sample fits: take devices with more memory"
        raise GsvcError(f"nothing fits: {few}" if most else one)
    why = _why(best, found, devices, batch)
    tell_event(options, "chosen", layout=best.name, with_options=best.options, why=why)
    return 0


def _why(best: "Layout", found: "list[Layout]", devices: "Devices", batch: int) -> str:
    if batch % devices.count:
        return f"a batch of {batch} cannot be dealt out to {devices.count} devices; blocks can"
    least = min(found, key=lambda each: each.seconds)
    if best is least:
        return "it is the quickest"
    return f"{least.name} would be quicker but lacks {_mb(least.missing(devices))} MB"


def _recipe(options: Namespace) -> Recipe:
    for name in ("devices", "memory", "bandwidth", "tflops"):
        if not 0 < getattr(options, name) < inf:
            raise ConfigError(f"--{name}: take a number above 0")
    recipe = read_recipe(options.recipe)
    if options.check is not None and not _LAYOUTS.fullmatch(options.check):
        raise ConfigError(
            f"--check {options.check}: take one; replicas; fsdp; fsdp, tensor N; tensor; with "
            "', recomputing' behind it perhaps"
        )
    if options.size:
        return replace(recipe, network={**recipe.network, "size": options.size})
    return recipe


def _check(options: Namespace, trial: "Trial", batch: int) -> int:
    """Foretell, then measure the resident memory that the same steps take."""
    from gsvc.decoders.training import layouts, parallel

    is_first = parallel.rank() == 0
    try:
        told = layouts.compare(trial, batch // parallel.processes(), options.check)
    finally:
        parallel.leave()
    if is_first:
        tell_event(options, "checked", layout=options.check, batch=batch, **told)
    return parallel.ended(0)


def _mb(count: float) -> float:
    return round(count / _MB, 1)
