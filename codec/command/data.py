"""`gsvc data`: video made ready for training, and what that takes."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.command.arguments import tell_event, with_options
from gsvc.codec.command.main import Verb, find_verb
from gsvc.codec.weights.extras import need

if TYPE_CHECKING:
    from gsvc.decoders.training.engine import Engine
    from gsvc.decoders.training.sources import Settings

USAGE = """Prepare video for training, on one machine or many. Needs gsvc[data]."""

ACTIONS = {
    "plan": ("predict the cost of preparing many clips", "data:PLAN"),
    "prepare": ("make shards of samples from any amount of video", "data:PREPARE"),
}


def run(options: Namespace) -> int:
    """Carry out the action."""
    need("data", "gsvc data")
    return find_verb(ACTIONS[options.action][1]).run(options)


_PLAN = """Predict, from what gsvc data prepare measured for OUT, the cost of any number of clips on
any number of machines: core hours of each stage, hours, samples, bytes, shards and memory.

out OUT                 the folder of a few prepared clips
--clips N               clips to prepare (=1000000)
--nodes N               machines (=8)
--cores N               cores of each machine (=32)
--json
"""


def _plan(options: Namespace) -> int:
    from gsvc.decoders.training.prepare import forecast

    for name in ("clips", "nodes", "cores"):
        if getattr(options, name) < 1:
            raise ConfigError(f"--{name} is {getattr(options, name)}: take 1 or more")
    stages, whole = forecast(Path(options.out), options.clips, options.nodes, options.cores)
    for stage in stages:
        tell_event(options, "stage", **stage)
    tell_event(options, "plan", **whole)
    return 0


PLAN = Verb(_PLAN, _plan)


_PREPARE = """Find videos, split them at cuts, reject duplicate and useless clips, encode each
clip with every lambda, extract masks, poses, faces and flow, and write WebDataset shards with a
manifest. The same command continues after a stop.

sources SOURCE...       folders, videos, tar files or lists (.txt), as paths or URLs of fsspec
out OUT                 the folder for shards
--kind {pictures,windows}  kind of samples (=pictures)
--lines N               shorter side (=288)
--frames N              frames of a clip (=33)
--most-clips N          most clips of a source (=64)
--lambdas L...          lambdas to encode with (those of levels 0 to 3)
--preset {fast,medium,slow}  preset to encode with (=fast)
--extract [{masks,pose,faces,flow,drawings}...]  what to extract; drawings use a GPU if available
                        (=masks pose faces flow)
--limits NAME=LEAST:MOST...  reject clips outside these limits, such as motion=.1:20 (docs/data.md)
--shard-clips N         clips in a shard (=64)
--seed N                seed of all random choices (=0)
--survey-only           stop when clips are chosen; gsvc train shards --producers makes samples
--ray ADDRESS           Ray cluster to use; local starts one here, none uses no Ray (=local)
--jobs -j N             cores of a local cluster (all)
--store N               object store of a local cluster, in megabytes (Ray's default)
--gpu-memory N          memory of each GPU that networks may share, in megabytes (all)
--time-limit S          reject a clip that takes an operator longer, and a source after six times
                        this (=600)
--json
"""
_MEGABYTE = 1_000_000
_USUAL_LIMIT = 600.0


def _prepare(options: Namespace) -> int:
    from gsvc.decoders.training.pipeline import Folder, cpu_seconds, report
    from gsvc.decoders.training.prepare import Preparation
    from gsvc.decoders.training.sources import find_sources

    settings, out = _settings(options), Path(options.out)
    sources, folder = find_sources(options.sources), Folder(out)
    begun, spent, told = monotonic(), cpu_seconds(folder), dict[str, Any]()
    with _engine(options) as (engine, cores):
        job = Preparation(sources, folder, settings, engine, partial(tell_event, options))
        if options.survey_only:
            job.look_through()
        else:
            made = job.prepare()
            told = {name: made[name] for name in ("clips", "samples", "set_aside")}
            told["poison"] = len(made["poison"])
    wall = monotonic() - begun
    for row in report(folder):
        tell_event(options, "operator", **row)
    busy = (cpu_seconds(folder) - spent) / wall
    work = {"seconds": round(wall, 1), "cores": cores, "cores_busy": round(busy, 2)}
    tell_event(options, "done", out=str(out), **work, **told)
    return 0


def _settings(options: Namespace) -> "Settings":
    from gsvc.decoders.training.crops import KINDS
    from gsvc.decoders.training.sources import Settings, read_limits

    least = {"lines": KINDS[options.kind].side, "frames": 9, "most_clips": 1, "shard_clips": 1}
    for name, value in least.items():
        if getattr(options, name) < value:
            option = name.replace("_", "-")
            raise ConfigError(f"--{option} is {getattr(options, name)}: take {value} or more")
    if options.time_limit <= 0:
        raise ConfigError(f"--time-limit is {options.time_limit:g}: take more than 0")
    if any(each <= 0 for each in options.lambdas):
        raise ConfigError("--lambdas: take numbers above 0")
    own = tuple(options.extract), read_limits(options.limits), tuple(options.lambdas)
    told = {"extract": own[0], "limits": own[1], "lambdas": own[2] or Settings.lambdas}
    return with_options(Settings, options, **told)


@contextmanager
def _engine(options: Namespace) -> Iterator[tuple["Engine", float]]:
    """The engine, and the cores that it has."""
    from gsvc.decoders.training.engine import OnRay, cards_of, in_turn
    from gsvc.decoders.training.pipeline import Folder, costs_so_far
    from gsvc.eval.bench.workers import ray_cluster

    patience = options.time_limit / _USUAL_LIMIT
    if options.ray == "none":
        yield partial(in_turn, patience=patience), 1.0
        return
    store = options.store * _MEGABYTE if options.store else None
    each = options.gpu_memory * _MEGABYTE if options.gpu_memory else None
    with ray_cluster(options.ray, options.jobs, store) as ray:
        cores = ray.cluster_resources().get("CPU", 0.0)
        cards = cards_of(ray, each)
        if cards is not None:
            tell_event(options, "gpus", count=cards.count, memory_mb=cards.bytes // _MEGABYTE)
        costs = partial(costs_so_far, Folder(Path(options.out)))
        yield OnRay(cards, costs, patience), cores


PREPARE = Verb(_PREPARE, _prepare, (Namespace(jobs=0),))
