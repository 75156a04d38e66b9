"""`gsvc bench speed`, `flops`, `cache` and `backend`: what back ends take, and what they give."""

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.command import main
from gsvc.codec.weights.extras import need
from gsvc.decoders.keyframes.backends import PRETRAINED, gpu_or_cpu, load_refiner

_SPEED = """Time refiners, one picture at a time and several at once, and rendering by motion on the
CPU, with synthetic pictures of 16:9. Needs gsvc[refine].

--device
--size N,N              shorter sides of pictures (=288,720,1080)
--backend +NAME         motion, rife, or a back end of gsvc decode; may be repeated (all that ship)
--json                  machine and speeds as one JSON object a line
"""


def _speed(options: Namespace) -> int:
    need("refine", "gsvc bench speed")
    from gsvc.eval.bench import speed

    subjects, sizes = dict.fromkeys(options.backend or speed.SUBJECTS), dict.fromkeys(options.size)
    speeds = speed.measure(tuple(subjects), tuple(sizes), options.device)
    told = speed.description(options.device)
    if options.json:
        lines = JsonLines(sys.stdout)
        lines.put("machine", **told)
        for one in speeds:
            lines.put("speed", **asdict(one), share=one.share)
    else:
        print(speed.table(list(speeds), told))
    return 0


SPEED = main.Verb(_SPEED, _speed)


_FLOPS = """Count the operations of back ends for a window of frames or a coded picture of 16:9,
from their published settings, without weights. A multiply-add is two operations.

names [NAME...]         back ends (all)
--size N,N              shorter sides of pictures (288,480,720)
--window 8k+1           frames of a window (=33)
--steps N               steps of the model (its usual number)
--saved 0..1            share of steps that a cache saves (=0.0)
--json                  rows as one JSON object a line
"""


def _flops(options: Namespace) -> int:
    need("pretrained", "gsvc bench flops")
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


FLOPS = main.Verb(_FLOPS, _flops)


_CAPACITIES = "0,2,5,10,20,50,100"
_CACHE = f"""Decode streams, one after another, with latent caches of several capacities. Show the
hit rate, the steps saved, and how far frames differ from those without it.

streams STREAM...       streams, in the order of decoding
--capacity MB,MB        capacities in megabytes (={_CAPACITIES})
--backend NAME          back end that keeps latents (=compact:nano)
--steps N               steps of a run (=8)
--device
--json                  rows as one JSON object a line
"""


def _cache(options: Namespace) -> int:
    from gsvc.eval.bench.cache_replay import replay, table

    missing = [path for path in options.streams if not path.is_file()]
    if missing:
        raise InputError(f"{missing[0]}: no such stream")
    dials = options.backend, options.steps, options.device
    rows = list(replay(options.streams, _capacities(options.capacity), *dials))
    if options.json:
        lines = JsonLines(sys.stdout)
        for row in rows:
            lines.put("replay", **asdict(row))
    else:
        print(table(rows))
    return 0


def _capacities(text: str) -> list[int]:
    try:
        return [round(1e6 * float(part)) for part in text.split(",")]
    except (ValueError, OverflowError):
        raise ConfigError(f"capacity {text!r}: write megabytes as {_CAPACITIES}") from None


CACHE = main.Verb(_CACHE, _cache, TYPES={"STREAM": Path})


_BACKEND = f"""Measure a pretrained back end on a machine that has its weights: seconds and memory
of windows at 288, 480 and 720 lines, then the packaged clips at levels 0 to 3 with the headline's
metrics, and at steps 0. OUT is a run like any other, for gsvc bench compare. To resume, repeat it.

name NAME               {", ".join(PRETRAINED)}
--out -o OUT!           the folder of the results
--steps N,N             steps of the model (its usual number)
--seeds N,N             seeds of the noise (=0,1)
--frames N              frames of each clip (=97)
--clip +CLIP            instead of the packaged clips; may be repeated
--size 288|480|native   shorter side (=288)
--dry-run -n            only list what would run
"""
METRICS = "cvvdp", "st_lpips_vgg", "ms_ssim", "motion_error", "jumps"


def _backend(options: Namespace) -> int:
    if options.name not in PRETRAINED:
        raise ConfigError(f"no pretrained model {options.name!r}: take {', '.join(PRETRAINED)}")
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


BACKEND = main.Verb(_BACKEND, _backend, TYPES={"OUT": Path})
