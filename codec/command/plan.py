"""`gsvc plan`: the settings that reach the best quality within budgets."""

import re
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.codec.command.arguments import add_json, frame_rate
from gsvc.codec.command.judging import trial_judge
from gsvc.codec.command.progress import json_lines
from gsvc.codec.errors import ConfigError
from gsvc.codec.planning.budgets import JUDGES, Budgets, parse_budgets, read_budgets
from gsvc.codec.planning.kinds import CLASSES, Kind

if TYPE_CHECKING:
    from gsvc.codec.command.plan_pretrained import PretrainedChoice
    from gsvc.codec.planning.search import Planner

DESCRIPTION = """Find the settings for encoder and decoder that reach the best quality within
budgets, of a quick trial of the video and this machine's profile (gsvc profile). Of quality,
bandwidth, decoder's and encoder's time, the first that is no budget is optimised."""

_BUDGETS = {
    "bandwidth": ("RATE", "of the network: 12k bit/s"),
    "decoder-time": ("TIME", "to decode in: 1x of the video's time, 90s, 10min"),
    "decoder-flops": ("FLOPS", "of its networks, for a second of video: 20G"),
    "encoder-time": ("TIME", "to encode in: 5x, 90s, 10min"),
    "memory": ("BYTES", "of either process: 4G"),
    "vram": ("BYTES", "of a GPU: names the pretrained model to take on it, by counts"),
    "latency": ("TIME", "from capture to showing: 400ms; below 8s without look-ahead"),
    "energy": ("ENERGY", "of both ends: 500J, 1Wh"),
    "quality": ("JUDGE:N", "to reach: jod:6 at least, or texture:0.2 at most"),
}


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc plan`."""
    from gsvc.codec.planning.energy import RADIOS

    add = parser.add_argument
    add("source", metavar="IN", nargs="?", help="the video; none with --class")
    add_class(parser)
    for name, (metavar, text) in _BUDGETS.items():
        add(f"--{name}", metavar=metavar, help=text)
    add("--budgets", metavar="FILE", help='a TOML file of them: bandwidth = "12k"')
    add("--judge", choices=JUDGES, help=f"what quality is ({JUDGES[0]}, or that of --quality)")
    add("--receiver", metavar="FILE", help="profile of the machine that decodes (this one)")
    add("--watts", type=float, metavar="W", help="power while computing, where no counter tells")
    radio = "add what sending takes, by a stated model"
    add("--radio", choices=tuple(RADIOS), help=radio)
    told = "foretell JOD from SSIM, not by CVVDP in the trial: a third less time"
    add("--no-measure", dest="measure", action="store_false", help=told)
    add_json(parser)


def run(options: Namespace) -> int:
    """Plan, and show the plan."""
    budgets, kind = budgets_of(options), kind_of(options)
    planner = planner_of(options, kind or options.source, budgets)
    from gsvc.codec.planning.commands import as_json, as_lines

    plan = planner.plan(budgets, options.judge or JUDGES[0])
    source = options.source or f"{options.kind}.mp4"
    models = _pretrained(budgets, planner)
    if options.json:
        held = models.as_json(source) if models else {}
        json_lines(options).put("plan", **as_json(source, plan), **held)
        return 0
    lines = as_lines(source, plan)
    if kind is not None:
        from gsvc.codec.planning.classes import clips_of

        lines.insert(0, f"{kind.name}: by {clips_of(kind)} clips; a trial of a video is nearer")
    if models:
        lines += models.as_lines(source)
    print("\n".join(lines))
    return 0


def _pretrained(budgets: Budgets, planner: "Planner") -> "PretrainedChoice | None":
    """Of --vram, at the planned video's size."""
    from gsvc.codec.command.plan_pretrained import PretrainedChoice

    return PretrainedChoice(budgets, planner.size, planner.rate) if budgets.vram else None


def add_class(parser: ArgumentParser) -> None:
    """--class and what is known of such a video."""
    usual = Kind(CLASSES[0])
    add = parser.add_argument
    told = "no video yet, but what is usual for its kind"
    add("--class", dest="kind", choices=CLASSES, help=told)
    size = f"of a --class ({usual.width}x{usual.height})"
    add("--size", metavar="WxH", help=size)
    add("--fps", type=frame_rate, metavar="N", help=f"of a --class ({usual.rate:g})")
    add("--seconds", type=float, metavar="S", help=f"of a --class ({usual.seconds:g})")


def kind_of(options: Namespace) -> Kind | None:
    """The video of --class; None: there is one to try. Raises ConfigError for both or neither."""
    known = {"--size": options.size, "--fps": options.fps, "--seconds": options.seconds}
    if options.kind is None:
        if options.source is None:
            raise ConfigError("name the video, or its --class where there is none yet")
        if given := [name for name, value in known.items() if value is not None]:
            raise ConfigError(f"{given[0]} is of a --class: the video tells its own")
        return None
    if options.source is not None:
        raise ConfigError("--class is for a video that is not there yet: leave out one of them")
    usual = Kind(options.kind)
    match = re.fullmatch(r"(\d+)x(\d+)", options.size or f"{usual.width}x{usual.height}")
    if match is None:
        raise ConfigError(f"--size {options.size!r}: write 640x360")
    width, height = int(match[1]), int(match[2])
    return Kind(
        options.kind, width, height, options.fps or usual.rate,
        usual.seconds if options.seconds is None else options.seconds,
    )  # fmt: skip


def budgets_of(options: Namespace) -> Budgets:
    """Those of the command line, or of its file. Raises ConfigError."""
    texts = {name: getattr(options, name) for name in (n.replace("-", "_") for n in _BUDGETS)}
    given = parse_budgets(texts)
    if options.budgets is not None:
        if given.given:
            raise ConfigError("--budgets FILE and budgets beside it: write all in one place")
        given = read_budgets(options.budgets)
    if options.judge and given.quality and options.judge != given.quality[0]:
        raise ConfigError(f"--judge {options.judge} beside --quality {given.quality[0]}: take one")
    return given


def planner_of(options: Namespace, source: str | Kind, budgets: Budgets) -> "Planner":
    """The planner of a video, which is tried, or of a class; profiles are asked for first."""
    from gsvc.codec.planning.energy import RADIOS
    from gsvc.codec.planning.planners import planner_for
    from gsvc.codec.planning.profile import load_profile

    if options.watts is not None and not 0 < options.watts < float("inf"):
        raise ConfigError(f"--watts {options.watts:g}: a power is above 0")
    given = options.receiver
    with trial_judge(options.measure and isinstance(source, str)) as judge:
        return planner_for(
            source,
            budgets,
            receiver=load_profile(Path(given), foreign=True) if given else None,
            watts=options.watts,
            joules_per_bit=RADIOS[options.radio].joules_per_bit if options.radio else 0.0,
            judge=judge,
        )
