"""`gsvc train shards`: weights of a network from shards, on any number of processes."""

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.command.arguments import add_json, tell_event
from gsvc.codec.weights.extras import need

if TYPE_CHECKING:
    import torch

    from gsvc.decoders.training.feeds import ShardFeed, SourceFeed
    from gsvc.decoders.training.loop import Run

    Feed = ShardFeed | SourceFeed

_AHEAD, _JOBS_AHEAD = 8, 64
"""Batches, and clips with one lambda each, that wait at most."""
_STORE = 200_000_000
"""Bytes of the object store of a cluster that is started here."""

DESCRIPTION = """Train a network by a recipe on shards of gsvc data prepare, under torchrun in all
its processes. The same command continues from the last checkpoint, also in the middle of an epoch
and in more or fewer processes. Needs gsvc[data]."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc train shards`."""
    from gsvc.decoders.training.recipe import add_recipe

    add = parser.add_argument
    add("shards", metavar="SHARDS", help="the folder of gsvc data prepare")
    add("run", metavar="RUN", help="the folder of the run; an existing run is continued")
    add_recipe(parser)
    help = "number of steps in all (%(default)s)"
    add("--steps", type=int, default=10_000, metavar="N", help=help)
    add("--stop", type=int, metavar="N", help="save and stop at this step")
    add("--batch", type=int, metavar="N", help="samples of a step in all processes (the recipe's)")
    layouts = "how processes share the network (default: replicas)"
    add("--layout", choices=("replicas", "fsdp", "tensor"), default="replicas", help=layouts)
    inner = "with fsdp: processes that split the blocks of a network (%(default)s)"
    add("--tensor", type=int, default=1, metavar="N", help=inner)
    again = "recompute activations in the backward pass"
    add("--recompute", action=BooleanOptionalAction, default=False, help=again)
    quick = "use torch.compile (default: on a GPU)"
    add("--compiled", action=BooleanOptionalAction, default=None, help=quick)
    low = "compute layers in bfloat16 (default: on a GPU)"
    add("--bf16", action=BooleanOptionalAction, default=None, help=low)
    help = "steps between checkpoints (%(default)s)"
    add("--save-every", type=int, default=500, metavar="N", help=help)
    help = "processes that read ahead (%(default)s)"
    add("--workers", type=int, default=2, metavar="N", help=help)
    where = 'Ray cluster that makes the batches; "local:N" starts one with N cores'
    add("--producers", metavar="ADDRESS", help=where)
    fresh = "let producers make samples of the sources; SHARDS needs only the survey"
    add("--anew", action="store_true", help=fresh)
    add("--teacher", metavar="FILE", help="average.safetensors of the teacher's run")
    unseen = "clips that are not in the shards, for gsvc train adopt"
    add("--held-out", nargs="+", default=[], metavar="NAME", help=unseen)
    add("--device", metavar="NAME", help="cuda or cpu (cuda if available)")
    add("--seed", type=int, default=0, metavar="N", help="seed of all random choices (%(default)s)")
    add_json(parser)


def run(options: Namespace) -> int:
    """Train; the first process tells."""
    import torch

    from gsvc.decoders.training.parallel import ended, join, leave

    need("data", "gsvc train shards")
    _check(options)
    device = join(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    recipe = options.recipe
    options.batch = options.batch or (recipe.batch if device.type == "cuda" else recipe.cpu_batch)
    try:
        with _feed(options) as feed:
            sources = {Path(row["address"]).name for row in feed.about["sources"]}
            if seen := sources & set(options.held_out):
                raise ConfigError(f"held out, but in the shards: {' '.join(sorted(seen))}")
            _run(options, feed, device).train()
    finally:
        leave()
    return ended(0)


def _check(options: Namespace) -> None:
    """Refuse what makes no sense, and put what suits in place of what was not given."""
    from gsvc.decoders.training.recipe import read_recipe

    counts = dict.fromkeys(("steps", "stop", "batch", "tensor", "save_every"), 1)
    for name, least in {**counts, "workers": 0}.items():
        if getattr(options, name) is not None and getattr(options, name) < least:
            raise ConfigError(f"--{name.replace('_', '-')}: take {least} or more")
    if options.anew and not options.producers:
        raise ConfigError("--anew is for --producers")
    options.stop = min(options.steps, options.stop or options.steps)
    options.recipe = read_recipe(options.recipe)


def _run(options: Namespace, feed: "Feed", device: "torch.device") -> "Run":
    """This process's part of the run, gone on with."""
    import torch

    from gsvc.decoders.training import loop, parallel
    from gsvc.decoders.training.crops import KINDS
    from gsvc.decoders.training.draws import Dice
    from gsvc.decoders.training.frozen import frozen_networks
    from gsvc.decoders.training.packs import Pack

    recipe, on_gpu, kind = options.recipe, device.type == "cuda", feed.about["kind"]
    part, parts = parallel.data_part(options.layout, options.tensor)
    if options.batch % parts:
        raise ConfigError(
            f"--batch is {options.batch}: it is dealt out to {parts}, take a multiple"
        )
    pack = Pack.without_samples(kind, frozen_networks(KINDS[kind].networks))
    torch.manual_seed(options.seed)  # loading the frozen networks draws numbers, too
    learner = loop.make_learner(
        pack,
        recipe,
        Dice(device, options.seed, part, parts),
        Path(options.teacher) if options.teacher else None,
        layout=options.layout,
        tensor=options.tensor,
        recomputes=options.recompute,
        low=options.bf16,
    )
    learner.share()
    told = {name: feed.about[name] for name in ("kind", "samples", "settings")}

    def tell(event: str, **values: object) -> None:
        if parallel.rank() == 0:
            tell_event(options, event, **values)

    run = loop.Run(
        learner,
        recipe,
        Path(options.run),
        loop.Steps(recipe, options.steps, options.stop, options.save_every),
        tell,
        batch=options.batch // parts,
        about={"batch": options.batch, "seed": options.seed},
        pack={**told, "held_out": options.held_out},
        feed=feed,
        compiled=on_gpu if options.compiled is None else options.compiled,
    )
    run.go_on(run.folder)
    steps = range(learner.step, options.stop)
    learner.packs = feed.packs(steps, learner.dice, run.place)
    spread = {"processes": parallel.processes(), "layout": options.layout}
    tell("begun", epoch_samples=feed.epoch, from_step=learner.step, **spread)
    return run


@contextmanager
def _feed(options: Namespace) -> "Iterator[Feed]":
    """What was asked for."""
    from gsvc.decoders.training import feeds
    from gsvc.decoders.training.parallel import rank
    from gsvc.decoders.training.producers import Producers

    shards, out, batch = Path(options.shards).resolve(), Path(options.run), options.batch
    if options.anew:
        jobs = feeds.Jobs(shards)
        if rank():  # the first process asks for all
            yield feeds.SourceFeed(jobs, batch, out, None)
            return
        with _cluster(options) as ray:
            own = Producers(ray, partial(feeds.make_samples, jobs.settings), _JOBS_AHEAD)
            yield feeds.SourceFeed(jobs, batch, out, own)
        return
    samples = feeds.ShardSamples(shards)
    if not options.producers:
        yield feeds.ShardFeed(samples, batch, options.seed, options.workers, None)
        return
    with _cluster(options) as ray:
        readers = Producers(ray, partial(feeds.read_batch, shards), _AHEAD)
        yield feeds.ShardFeed(samples, batch, options.seed, 0, readers)


@contextmanager
def _cluster(options: Namespace) -> Iterator[Any]:
    """The Ray cluster of --producers."""
    from gsvc.eval.bench.workers import ray_cluster

    address, _, cores = options.producers.partition("local:")
    if cores and not (cores.isdecimal() and int(cores)):
        raise ConfigError(f"--producers is {options.producers}: write local:N, or an address")
    with ray_cluster("local" if cores else address, int(cores or 0), _STORE) as ray:
        yield ray
