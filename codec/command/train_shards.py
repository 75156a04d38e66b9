"""`gsvc train shards`: weights of a network from shards, on any number of processes."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.command.arguments import tell_event
from gsvc.codec.weights.extras import need
from gsvc.decoders.training.recipe import RECIPES, read_recipe

if TYPE_CHECKING:
    import torch

    from gsvc.decoders.training import feeds, loop

    Feed = feeds.ShardFeed | feeds.SourceFeed

_AHEAD, _JOBS_AHEAD = 8, 64  # batches, and clips with one lambda each, that wait at most
_STORE = 200_000_000  # bytes of the object store of a cluster that is started here

USAGE = f"""Train a network by a recipe on shards of gsvc data prepare, under torchrun in all
its processes. The same command continues from the last checkpoint, also in the middle of an epoch
and in more or fewer processes. Needs gsvc[data].

shards SHARDS           the folder of gsvc data prepare
run RUN                 the folder of the run; an existing run is continued
--recipe NAME!          {RECIPES}
--steps N               number of steps in all (=10000)
--stop N                save and stop at this step
--batch N               samples of a step in all processes (the recipe's)
--layout {{replicas,fsdp,tensor}}  how processes share the network (=replicas)
--tensor N              with fsdp: processes that split the blocks of a network (=1)
--[no-]recompute        recompute activations in the backward pass
--[no-]compiled         use torch.compile (default: on a GPU)
--[no-]bf16             compute layers in bfloat16 (default: on a GPU)
--save-every N          steps between checkpoints (=500)
--workers N             processes that read ahead (=2)
--producers ADDRESS     Ray cluster that makes the batches; "local:N" starts one with N cores
--anew                  let producers make samples of the sources; SHARDS needs only the survey
--teacher FILE          average.safetensors of the teacher's run
--held-out NAME...      clips that are not in the shards, for gsvc train adopt
--device NAME           cuda or cpu (cuda if available)
--seed N                seed of all random choices (=0)
--json
"""
DEFAULTS = (Namespace(recompute=False),)


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
    counts = dict.fromkeys(("steps", "stop", "batch", "tensor", "save_every"), 1)
    for name, least in {**counts, "workers": 0}.items():
        if getattr(options, name) is not None and getattr(options, name) < least:
            raise ConfigError(f"--{name.replace('_', '-')}: take {least} or more")
    if options.anew and not options.producers:
        raise ConfigError("--anew is for --producers")
    options.stop = min(options.steps, options.stop or options.steps)
    options.recipe = read_recipe(options.recipe)


def _run(options: Namespace, feed: "Feed", device: "torch.device") -> "loop.Run":
    import torch

    from gsvc.decoders.training import loop, parallel
    from gsvc.decoders.training.crops import KINDS
    from gsvc.decoders.training.draws import Rng
    from gsvc.decoders.training.frozen import frozen_networks
    from gsvc.decoders.training.packs import Pack

    recipe, on_gpu, kind = options.recipe, device.type == "cuda", feed.about["kind"]
    part, parts = parallel.data_part(options.layout, options.tensor)
    if options.batch % parts:
        why = f"--batch is {options.batch}: it is dealt out to {parts}, take a multiple"
        raise ConfigError(why)
    pack = Pack.without_samples(kind, frozen_networks(KINDS[kind].networks))
    torch.manual_seed(options.seed)  # loading the frozen networks draws numbers, too
    learner = loop.make_learner(
        pack,
        recipe,
        Rng(device, options.seed, part, parts),
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
    learner.packs = feed.packs(range(learner.step, options.stop), learner.rng, run.place)
    spread = {"processes": parallel.processes(), "layout": options.layout}
    tell("begun", epoch_samples=feed.epoch, from_step=learner.step, **spread)
    return run


@contextmanager
def _feed(options: Namespace) -> "Iterator[Feed]":
    from gsvc.decoders.training import feeds, parallel

    shards, out, batch = Path(options.shards).resolve(), Path(options.run), options.batch
    if options.anew:
        jobs = feeds.Jobs(shards)
        if parallel.rank():  # the first process asks for all
            yield feeds.SourceFeed(jobs, batch, out, None)
            return
        with _cluster(options) as ray:
            own = feeds.Producers(ray, partial(feeds.make_samples, jobs.settings), _JOBS_AHEAD)
            yield feeds.SourceFeed(jobs, batch, out, own)
        return
    samples = feeds.ShardSamples(shards)
    if not options.producers:
        yield feeds.ShardFeed(samples, batch, options.seed, options.workers, None)
        return
    with _cluster(options) as ray:
        readers = feeds.Producers(ray, partial(feeds.read_batch, shards), _AHEAD)
        yield feeds.ShardFeed(samples, batch, options.seed, 0, readers)


@contextmanager
def _cluster(options: Namespace) -> Iterator[Any]:
    from gsvc.eval.bench.workers import ray_cluster

    address, _, cores = options.producers.partition("local:")
    if cores and not (cores.isdecimal() and int(cores)):
        raise ConfigError(f"--producers is {options.producers}: write local:N, or an address")
    with ray_cluster("local" if cores else address, int(cores or 0), _STORE) as ray:
        yield ray
