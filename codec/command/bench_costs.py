"""`gsvc bench speed`, `flops`, `cache` and `backend`: what back ends take, and what they give."""

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.command import main
from gsvc.codec.command.arguments import add_device, add_json, integers
from gsvc.codec.weights.extras import need

_SPEED = """Time refiners, one picture at a time and several at once, and rendering by motion on the
CPU, with synthetic pictures of 16:9. On a CPU a second table shows our own networks by precision,
memory layout and number of threads. Needs gsvc[refine]."""


def _add_speed(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_device(parser, "cpu")
    lines = "shorter sides of pictures (288,720,1080)"
    add("--size", type=integers, default=[288, 720, 1080], metavar="N,N", help=lines)
    names = "motion, rife, or a back end of gsvc decode; may be repeated (all that ship)"
    add("--backend", action="append", metavar="NAME", help=names)
    add_json(parser, "machine and speeds as ")


def _speed(options: Namespace) -> int:
    """Time what is asked for, then show it."""
    need("refine", "gsvc bench speed")
    from gsvc.eval.bench import cpu_paths, speed

    subjects, sizes = dict.fromkeys(options.backend or speed.SUBJECTS), dict.fromkeys(options.size)
    speeds = speed.measure(tuple(subjects), tuple(sizes), options.device)
    told = speed.description(options.device)
    shows_paths = options.device == "cpu" and any("compact" in x for x in subjects)
    paths = list(cpu_paths.measure_paths()) if shows_paths else []
    if options.json:
        lines = JsonLines(sys.stdout)
        lines.put("machine", **told)
        for one in speeds:
            lines.put("speed", **asdict(one), share=one.share)
        for path in paths:
            lines.put("path", **asdict(path))
    else:
        print(speed.table(list(speeds), told))
        if paths:
            print(f"\n{cpu_paths.paths_table(paths)}")
    return 0


SPEED = main.Verb(_SPEED, _add_speed, _speed)


_FLOPS = """Count the operations of back ends for a window of frames or a coded picture of 16:9,
from their published settings, without weights. A multiply-add is two operations."""


def _add_flops(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="back ends (all)")
    add("--size", type=integers, metavar="N,N", help="shorter sides of pictures (288,480,720)")
    add("--window", type=int, default=33, metavar="8k+1", help="frames of a window (%(default)s)")
    add("--steps", type=int, metavar="N", help="steps of the model (its usual number)")
    saved = "share of steps that a cache saves (%(default)s)"
    add("--saved", type=float, default=0.0, metavar="0..1", help=saved)
    add_json(parser, "rows as ")


def _flops(options: Namespace) -> int:
    """Count, then show a table."""
    need("refine", "gsvc bench flops")
    from gsvc.eval.bench.flops import NAMES, SIZES, computes, table

    names, sizes = options.names or NAMES, options.size or SIZES
    dials = {"window": options.window, "steps": options.steps, "saved": options.saved}
    rows = list(computes(list(dict.fromkeys(names)), sizes, **dials))
    if options.json:
        lines = JsonLines(sys.stdout)
        for row in rows:
            lines.put("compute", **asdict(row), total=row.total, per_pixel=row.per_pixel)
    else:
        print(table(rows))
    return 0


FLOPS = main.Verb(_FLOPS, _add_flops, _flops)


_CACHE = """Decode streams, one after another, with latent caches of several capacities. Show the
hit rate, the steps saved, how far frames differ from those without a cache, and two fitted families
of hit rates."""
_CAPACITIES = "0,2,5,10,20,50,100"


def _add_cache(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("streams", nargs="+", type=Path, metavar="STREAM", help="streams, in the order of decoding")
    megabytes = "capacities in megabytes (%(default)s)"
    add("--capacity", default=_CAPACITIES, metavar="MB,MB", help=megabytes)
    keeps = "back end that keeps latents (%(default)s)"
    add("--backend", default="compact:nano", metavar="NAME", help=keeps)
    add("--steps", type=int, default=8, metavar="N", help="steps of a run (%(default)s)")
    add_device(parser, "cpu")
    add("--plot", type=Path, metavar="IMAGE", help="also plot to a .svg or .png file")
    add_json(parser, "rows and fits as ")


def _cache(options: Namespace) -> int:
    """Replay, then show table and fits."""
    need("eval", "gsvc bench cache")
    from gsvc.eval.bench.cache_replay import fits, plot, replay, table

    missing = [path for path in options.streams if not path.is_file()]
    if missing:
        raise InputError(f"{missing[0]}: no such stream")
    if options.plot and options.plot.suffix not in (".png", ".svg"):
        raise ConfigError(f"--plot {options.plot}: draws .svg or .png")
    dials = options.backend, options.steps, options.device
    rows = list(replay(options.streams, _capacities(options.capacity), *dials))
    found = fits(rows)
    if options.json:
        lines = JsonLines(sys.stdout)
        for row in rows:
            lines.put("replay", **asdict(row))
        for fit in found:
            lines.put("fit", **asdict(fit))
    else:
        print(table(rows))
        print(*("", *found), sep="\n")
    if options.plot:
        plot(rows, options.plot)
    return 0


def _capacities(text: str) -> list[int]:
    try:
        return [round(1e6 * float(part)) for part in text.split(",")]
    except (ValueError, OverflowError):
        raise ConfigError(f"capacity {text!r}: write megabytes as {_CAPACITIES}") from None


CACHE = main.Verb(_CACHE, _add_cache, _cache)


_BACKEND = """Measure a pretrained back end on a machine that has its weights: seconds and memory of
windows at 288, 480 and 720 lines, then the packaged clips at levels 0 to 3 with the headline's
metrics, with steps 0 for comparison. OUT is a run like any other, for gsvc bench compare. The same
command resumes."""
METRICS = "cvvdp", "st_lpips_vgg", "ms_ssim", "motion_error", "jumps"


def _add_backend(parser: ArgumentParser) -> None:
    from gsvc.decoders.keyframes.backends import PRETRAINED

    add = parser.add_argument
    add("name", choices=tuple(PRETRAINED), metavar="NAME", help=", ".join(PRETRAINED))
    add("--out", "-o", required=True, type=Path, metavar="OUT", help="the folder of the results")
    add("--steps", type=integers, metavar="N,N", help="steps of the model (its usual number)")
    add("--seeds", type=integers, default=[0, 1], metavar="N,N", help="seeds of the noise (0,1)")
    add("--frames", type=int, default=97, metavar="N", help="frames of each clip (%(default)s)")
    help = "instead of the packaged clips; may be repeated"
    add("--clip", action="append", metavar="CLIP", help=help)
    add("--size", default="288", metavar="288|480|native", help="shorter side (%(default)s)")
    add("--dry-run", "-n", action="store_true", help="only list what would run")


def _backend(options: Namespace) -> int:
    """Time windows, then make the run."""
    from gsvc.decoders.keyframes.backends import gpu_or_cpu, load_refiner
    from gsvc.decoders.keyframes.pretrained.architectures import ARCHITECTURES

    device, usual = gpu_or_cpu(), ARCHITECTURES.get(options.name)
    steps = options.steps or [usual.steps if usual else 1]
    load_refiner(options.name, device)  # raises here, if the weights are not
    if not options.dry_run:
        _time_windows(options, device, max(steps))
    codec = f"gsvc:model={options.name},steps=0+{'+'.join(map(str, steps))}"
    codec += f",seed={'+'.join(map(str, options.seeds))}"
    metrics = [word for metric in METRICS for word in ("--metric", metric)]
    command = ["bench", "run", *(options.clip or ["packaged"]), "--out", str(options.out)]
    command += ["--codec", codec, *metrics, "--frames", str(options.frames), "--jobs", "1"]
    command += ["--size", options.size]
    return main.main([*command, *(["--dry-run"] if options.dry_run else [])])


def _time_windows(options: Namespace, device: str, steps: int) -> None:
    """Into backend.json, which stays if it is there."""
    path = options.out / "backend.json"
    if path.exists():
        return
    from gsvc.codec.media.output import make_folder
    from gsvc.eval.bench.speed import window_speeds

    make_folder(options.out)
    told = window_speeds(options.name, device, steps)
    path.write_text(json.dumps(told, indent=1))
    print(json.dumps(told, indent=1), file=sys.stderr)


BACKEND = main.Verb(_BACKEND, _add_backend, _backend)
