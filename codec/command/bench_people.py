"""`gsvc bench people`: what is left of people, with and without the layer of faces."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsvc.eval.bench.named import RunSettings

DESCRIPTION = """Code clips of people who speak with and without the layer of faces, and with
SVT-AV1, and print what is left of their faces at equal bits: landmarks' normalised mean error, the
correlation of the mouth's opening, CVVDP and ST-LPIPS VGG inside the face's box; and of their
bodies: OKS of key points, error of motion. RUN is a run as of gsvc bench run and keeps each rate
as soon as it is measured: the same command resumes."""

_RATES = "0.0015+0.003+0.006"
_STRIDE = 3
_KEPT = 2
"""Decodes kept together: a rate without the layer and with it."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench people`."""
    add = parser.add_argument
    add("clips", nargs="+", metavar="CLIP", help="a set, SET/CLIP, a video or a folder")
    add("--out", "-o", required=True, type=Path, metavar="RUN", help="the folder of the run")
    other = "what it is compared with: SVT-AV1, all its points or some (%(default)s)"
    add("--codec", default="svtav1", metavar="svtav1[:KEY=VALUE,...]", help=other)
    rates = "bits per pixel, joined by + (%(default)s)"
    add("--bpp", default=_RATES, metavar="R+R", help=rates)
    count = "from the start, 0 for all (%(default)s)"
    add("--frames", type=int, default=97, metavar="N", help=count)
    every = "score every N-th frame (%(default)s)"
    add("--stride", type=int, default=_STRIDE, metavar="N", help=every)
    jobs = "processes, 0 for one a core (%(default)s)"
    add("--jobs", "-j", type=int, default=0, metavar="N", help=jobs)
    strips = "also draw RUN/strips: eight successive frames of each mouth that speaks"
    add("--strips", action="store_true", help=strips)


def run(options: Namespace) -> int:
    """Run what is left, then print the table; 1 when something failed."""
    from gsvc.eval.bench.named import RunSettings, codec_spec
    from gsvc.eval.layout import markdown
    from gsvc.eval.summary import write_summary
    from gsvc.eval.summary.rate_tables import METRICS, people_table

    ours = codec_spec(f"gsvc:bpp={options.bpp},steps=0,faces=0+1")
    settings = RunSettings(
        clips=tuple(options.clips),
        codecs=(ours, codec_spec(options.codec)),
        metrics=METRICS,
        frames=options.frames or None,
        stride=options.stride,
        kept_together=_KEPT,
    )
    failed = _carried_out(settings, options.out, options.jobs)
    table = people_table(write_summary(options.out))
    print(f"{table.title}\n\n{markdown(table.header, table.rows)}\n\n{table.note}")
    if options.strips:
        from gsvc.eval.report.sheets import write_people_strips

        for path in write_people_strips(options.out):
            print(path)
    return int(failed)


def _carried_out(settings: "RunSettings", out: Path, jobs: int) -> bool:
    """Run what is left; whether something failed."""
    from gsvc.codec.bitstream.errors import GsvcError
    from gsvc.eval.bench.run import carry_out, make_plan
    from gsvc.eval.bench.show import TextReporter
    from gsvc.eval.bench.store import BenchFolder
    from gsvc.eval.bench.workers import local_pool

    folder, reporter = BenchFolder(out), TextReporter()
    try:
        with folder.locked(), local_pool(jobs) as workers:
            folder.make()
            plan = make_plan(settings, folder, workers, reporter)
            if not plan.cells:
                raise GsvcError("nothing can be run: see the gaps above")
            return bool(carry_out(plan, folder, workers, reporter)) or bool(plan.gaps)
    finally:
        reporter.close()
