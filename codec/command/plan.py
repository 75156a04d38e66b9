"""`gsvc plan`: the settings that reach the best quality within budgets."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.codec.command.arguments import add_json
from gsvc.codec.command.judging import trial_judge
from gsvc.codec.command.progress import json_lines
from gsvc.codec.errors import ConfigError
from gsvc.codec.planning.budgets import JUDGES, Budgets, parse_budgets, read_budgets

if TYPE_CHECKING:
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
    "latency": ("TIME", "from capture to showing: 400ms; below 8s without look-ahead"),
    "energy": ("ENERGY", "of both ends: 500J, 1Wh"),
    "quality": ("JUDGE:N", "to reach: jod:6 at least, or texture:0.2 at most"),
}


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc plan`."""
    from gsvc.codec.planning.energy import RADIOS

    add = parser.add_argument
    add("source", metavar="IN", help="the video")
    for name, (metavar, text) in _BUDGETS.items():
        add(f"--{name}", metavar=metavar, help=text)
    add("--budgets", metavar="FILE", help='a TOML file of them: bandwidth = "12k"')
    add("--judge", choices=JUDGES, default=JUDGES[0], help="what quality is (%(default)s)")
    add("--receiver", metavar="FILE", help="profile of the machine that decodes (this one)")
    add("--watts", type=float, metavar="W", help="power while computing, where no counter tells")
    radio = "add what sending takes, by a stated model"
    add("--radio", choices=tuple(RADIOS), help=radio)
    told = "foretell JOD from SSIM, not by CVVDP in the trial: a third less time"
    add("--no-measure", dest="measure", action="store_false", help=told)
    add_json(parser)


def run(options: Namespace) -> int:
    """Plan, and show the plan."""
    budgets = budgets_of(options)
    planner = planner_of(options, budgets)
    from gsvc.codec.planning.commands import as_json, as_lines

    plan = planner.plan(budgets, options.judge)
    if options.json:
        json_lines(options).put("plan", **as_json(options.source, plan))
    else:
        print("\n".join(as_lines(options.source, plan)))
    return 0


def budgets_of(options: Namespace) -> Budgets:
    """Those of the command line, or of its file. Raises ConfigError."""
    texts = {name: getattr(options, name) for name in (n.replace("-", "_") for n in _BUDGETS)}
    given = parse_budgets(texts)
    if options.budgets is None:
        return given
    if given.given:
        raise ConfigError("--budgets FILE and budgets beside it: write all in one place")
    return read_budgets(options.budgets)


def planner_of(options: Namespace, budgets: Budgets) -> "Planner":
    """The planner of the options' video, which is tried; profiles are asked for first."""
    from gsvc.codec.planning.energy import RADIOS
    from gsvc.codec.planning.planners import planner_for
    from gsvc.codec.planning.profile import load_profile

    if options.watts is not None and not 0 < options.watts < float("inf"):
        raise ConfigError(f"--watts {options.watts:g}: a power is above 0")
    given = options.receiver
    with trial_judge(options.measure) as judge:
        return planner_for(
            options.source,
            budgets,
            receiver=load_profile(Path(given), foreign=True) if given else None,
            watts=options.watts,
            joules_per_bit=RADIOS[options.radio].joules_per_bit if options.radio else 0.0,
            judge=judge,
        )
