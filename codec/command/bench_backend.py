"""`gsvc bench backend`: a pretrained model measured on a machine that has its weights."""

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.command.arguments import integers

DESCRIPTION = """Measure a pretrained back end where its weights are: seconds and memory of windows
at 288, 480 and 720 lines, then the packaged clips at levels 0 to 3 with the headline's metrics,
beside steps 0. OUT is a run like any other, to be sent back: compare it by gsvc bench compare. The
same command resumes."""
METRICS = "cvvdp", "st_lpips_vgg", "ms_ssim", "motion_error", "jumps"


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench backend`."""
    from gsvc.decoders.keyframes.backends import PRETRAINED

    add = parser.add_argument
    add("name", choices=tuple(PRETRAINED), metavar="NAME", help=", ".join(PRETRAINED))
    add("--out", "-o", required=True, type=Path, metavar="OUT", help="the folder of the results")
    add("--steps", type=integers, metavar="N,N", help="as many as are usual, if not given")
    add("--seeds", type=integers, default=[0, 1], metavar="N,N", help="of the noise (0,1)")
    add("--frames", type=int, default=97, metavar="N", help="of each clip (%(default)s)")
    add("--clip", action="append", metavar="CLIP", help="in place of all packaged ones, repeat")
    add("--size", default="288", metavar="288|480|native", help="short side of clips (%(default)s)")
    add("--dry-run", "-n", action="store_true", help="only list what would run")


def run(options: Namespace) -> int:
    """Time windows, then make the run."""
    from gsvc.codec.command import main
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
