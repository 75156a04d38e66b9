"""`gsvc bench analyse` and `people`: what detectors, and people, still see of what was coded."""

import sys
from argparse import Namespace
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.command import arguments, main
from gsvc.codec.weights.extras import need

_ANALYSE = """Run one detector on the source and on each codec's decoded frames, and compare its
findings with the truth. A clip is a sequence of MOT or VisDrone, a synthetic set, Wildtrack, a COCO
file, VATIC's boxes beside videos (EPFL), or any video. Without truth, the boxes found in the source
take its place, and the tables say so. Needs gsvc[analysis].

clips CLIP...           a folder or file with truth, or a video
--out -o RUN!           the folder for tables and plots
--codec +NAME[:KEY=VALUE,...]  may be repeated (jpeg, webp, x264, x265, svtav1, gsvc:steps=0)
--detector NAME         people, coco, module:Class or motion (=motion)
--analyser NAME         module:function from the bytes of a stream to boxes (gsvc.analyse if
                        possible)
--size 288|480|native   shorter side (=native)
--frames N              frames of each clip, 0 for all (=97)
--ground                join all cameras of synthetic sets, and measure MODA on the ground
--rules FILE            file of lines, zones and rules of gsvc analyse, to score their events (F1)
--json                  points as one JSON object a line
"""


def _analyse(options: Namespace) -> int:
    need("analysis", "gsvc bench analyse")
    from gsvc.codec.command.analyse import rules_of
    from gsvc.eval.bench.analysis.analysis_run import AnalysisRunSettings, run_analysis

    settings = arguments.with_options(
        AnalysisRunSettings,
        options,
        clips=tuple(options.clips),
        codecs=tuple(options.codec or AnalysisRunSettings.codecs),
        frames=options.frames or None,
        rules=None if options.rules is None else rules_of(options.rules),
    )
    done = run_analysis(settings, options.out, lambda line: print(line, file=sys.stderr))
    if options.json:
        lines = JsonLines(sys.stdout)
        for point in done.points:
            lines.put("point", **asdict(point))
        lines.put("done", path=str(options.out), failed=done.failed)
    else:
        print(done.report, end="")
    return int(done.failed > 0)


ANALYSE = main.Verb(_ANALYSE, _analyse)


_PEOPLE = """Code clips of talking heads with and without the layer of faces, and with SVT-AV1.
Print, at equal bits, the error of landmarks, the correlation of the mouth's opening, CVVDP and
ST-LPIPS VGG in the face's box, OKS of key points and motion error. RUN is a run as of gsvc bench
run; the same command resumes.

clips CLIP...           a set, SET/CLIP, a video or a folder
--out -o RUN!           the folder of the run
--codec svtav1[:KEY=VALUE,...]  points of SVT-AV1 to compare with (=svtav1)
--bpp R+R               bits per pixel, joined by + (=0.0015+0.003+0.006)
--frames N              frames of each clip, 0 for all (=97)
--stride N              score every N-th frame (=3)
--jobs -j N             processes; 0: one for each core (=0)
--strips                also draw RUN/strips: eight successive frames of each talking mouth
"""


def _people(options: Namespace) -> int:
    from gsvc.eval.bench.cells import RunSettings, codec_spec
    from gsvc.eval.bench.progress import TextReporter
    from gsvc.eval.bench.run import make_run
    from gsvc.eval.bench.store import BenchFolder
    from gsvc.eval.bench.workers import Pool
    from gsvc.eval.layout import markdown
    from gsvc.eval.report.sheets import write_people_strips
    from gsvc.eval.summary.rate_tables import METRICS, people_table
    from gsvc.eval.summary.write import write_summary

    ours = codec_spec(f"gsvc:bpp={options.bpp},steps=0,faces=0+1")
    settings = RunSettings(
        clips=tuple(options.clips),
        codecs=(ours, codec_spec(options.codec)),
        metrics=METRICS,
        frames=options.frames or None,
        stride=options.stride,
    )
    with closing(TextReporter()) as reporter:
        folder, pool = BenchFolder(options.out), closing(Pool(options.jobs))
        plan, errors = make_run(settings, folder, pool, reporter)
    table = people_table(write_summary(options.out))
    print(f"{table.title}\n\n{markdown(table.header, table.rows)}\n\n{table.note}")
    if options.strips:
        for path in write_people_strips(options.out):
            print(path)
    return int(bool(errors or plan.gaps))


PEOPLE = main.Verb(_PEOPLE, _people, TYPES={"RUN": Path, "--bpp": str})
