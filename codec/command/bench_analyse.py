"""`gsvc bench analyse`: how well a detector sees in what each codec leaves, over rate."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.command.analyse import rules_of
from gsvc.codec.command.arguments import add_json
from gsvc.codec.weights.extras import need

if TYPE_CHECKING:
    from gsvc.eval.bench.analysis.analysis_run import AnalysisRunSettings

DESCRIPTION = """Run one detector on the decoded frames of each codec and on the source, and compare
what it finds with the truth. A clip is a sequence of MOT or VisDrone, a synthetic set, Wildtrack, a
COCO file, VATIC's boxes beside videos (EPFL), or any video; without truth the detector's boxes in
the source stand for it, and the tables say so. Needs gsvc[analysis]."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench analyse`."""
    add = parser.add_argument
    add("clips", nargs="+", metavar="CLIP", help="a folder or file with truth, or a video")
    add("--out", "-o", required=True, metavar="RUN", help="the folder for tables and plots")
    codec = "repeat for several (jpeg, webp, x264, x265, svtav1, gsvc:steps=0)"
    add("--codec", action="append", metavar="NAME[:KEY=VALUE,...]", help=codec)
    add("--detector", default="motion", metavar="NAME", help="motion, people, coco or module:Class")
    analyser = "module:function, from bytes of gsvc's streams to boxes (gsvc.analyse, if it can)"
    add("--analyser", metavar="NAME", help=analyser)
    add("--size", default="native", metavar="288|480|native", help="short side (%(default)s)")
    count = "from the start, 0 for all (%(default)s)"
    add("--frames", type=int, default=97, metavar="N", help=count)
    ground = "CLIPs are synthetic sets: all their cameras together, and MODA on the ground"
    add("--ground", action="store_true", help=ground)
    rules = "lines, zones and rules, as of gsvc analyse: their events are judged too (event F1)"
    add("--rules", metavar="FILE", help=rules)
    add_json(parser, "points as ")


def run(options: Namespace) -> int:
    """Measure, then show the tables. Returns 1 when a clip or a codec failed."""
    need("analysis", "gsvc bench analyse")
    from gsvc.eval.bench.analysis.analysis_run import run_analysis

    done = run_analysis(_settings(options), options.out, lambda line: print(line, file=sys.stderr))
    if options.json:
        lines = JsonLines(sys.stdout)
        for point in done.points:
            lines.put("point", **asdict(point))
        lines.put("done", path=str(options.out), failed=done.failed)
    else:
        print(done.report, end="")
    return int(done.failed > 0)


def _settings(options: Namespace) -> "AnalysisRunSettings":
    from gsvc.eval.bench.analysis.analysis_run import AnalysisRunSettings

    return AnalysisRunSettings(
        clips=tuple(options.clips),
        codecs=tuple(options.codec or AnalysisRunSettings.codecs),
        detector=options.detector,
        analyser=options.analyser,
        size=options.size,
        frames=options.frames or None,
        ground=options.ground,
        rules=None if options.rules is None else rules_of(options.rules),
    )
