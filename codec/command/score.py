"""`gsvc score`: how near one video is to another."""

import logging
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.codec.api.reports import JsonLines
from gsvc.codec.bitstream.errors import ConfigError, OutputError
from gsvc.codec.command.arguments import begin, say, with_options, without_warnings
from gsvc.codec.command.main import complain

if TYPE_CHECKING:
    from gsvc.eval.bench.score import Measured, VideoPair

USAGE = """Score video B against video A by the metrics of gsvc bench. Both start together;
frames shown at the same time are compared. Most metrics need gsvc[eval], vmaf
and ms_ssim gsvc[bench], psnr_y neither.

source A                the original: a video, or a quoted glob of images
test B                  the decoded video, or a .gsv stream
--metric +NAME          metric of gsvc bench list metrics, or module:Class; may be repeated
--frames N              read at most N frames of each
--stride N              score every N-th frame (=1)
--scale                 scale B to the size of A
--offset S              begin B so many seconds after A (=0)
--per-frame             also show each frame
--plot FILE             plot the metrics over time to a .svg or .png file
-y --quiet
| --csv                 comma-separated values
| --json                one JSON object a line
"""

_MANY = 200  # frames that some metrics measure for minutes
_log = logging.getLogger(__name__)


def run(options: Namespace) -> int:
    """Measure, then show; fails when a metric that was named has no value."""
    from gsvc.eval.bench import score
    from gsvc.eval.metrics import DEFAULT_METRICS

    _check_plot(options)
    if options.stride < 1:
        raise ConfigError(f"stride {options.stride}: must be 1 or more")
    metrics = score.named_metrics(options.metric or DEFAULT_METRICS)
    begin(options, f"reading both videos, then {', '.join(metrics)}")
    with without_warnings(options.quiet):
        pair = with_options(score.read_pair, options, options.source, options.test)
        indices = range(0, len(pair.test), options.stride)
        if len(indices) > _MANY:
            step = options.stride * -(-len(indices) // _MANY)
            begin(options, f"{len(indices)} frames may take minutes: --stride {step} is quicker")
        found = score.measure(pair, metrics, indices, lambda line: say(options, line))
    say(options, "")
    _show(options, found, pair, indices)
    if options.plot:
        _plot(options, found, pair, indices)
    return _code(options, found, pair)


def _check_plot(options: Namespace) -> None:
    if options.plot is None:
        return
    if Path(options.plot).suffix.lower() not in (".svg", ".png"):
        raise ConfigError(f"{options.plot}: a plot's name ends in .svg or .png")
    if Path(options.plot).exists() and not options.overwrite:
        raise OutputError(f"{options.plot} exists: choose another name, or replace it with -y")


def _plot(
    options: Namespace, found: "Sequence[Measured]", pair: "VideoPair", indices: Sequence[int]
) -> None:
    from gsvc.eval.bench import score
    from gsvc.eval.layout import write_bytes
    from gsvc.eval.report.exhibits import image

    target = Path(options.plot)
    title = f"{Path(options.test).name} against {Path(options.source).name}"
    kind = target.suffix.lower().removeprefix(".")
    write_bytes(target, image(score.plotted(found, pair, indices, title), kind))


def _show(
    options: Namespace, found: "Sequence[Measured]", pair: "VideoPair", indices: Sequence[int]
) -> None:
    from gsvc.eval.bench import score
    from gsvc.eval.layout import csv_text, markdown

    if options.json:
        _put(options, found, pair, indices)
        return
    rows = score.frame_rows(found, pair, indices) if options.per_frame else score.mean_rows(found)
    if options.csv:
        print(csv_text(rows), end="")
    else:
        print(markdown(rows[0], rows[1:]))


def _put(
    options: Namespace, found: "Sequence[Measured]", pair: "VideoPair", indices: Sequence[int]
) -> None:
    from gsvc.eval.bench import score

    lines = JsonLines(sys.stdout)
    for row, index in enumerate(indices if options.per_frame else ()):
        values = {m.name: m.scores.values[row] for m in score.each_frame(found)}
        lines.put("frame", frame=index, time=pair.times[index], scores=values)
    put_scores(lines, found)
    lines.put("done", frames=len(pair.test), measured=len(indices), alone=pair.alone)


def put_scores(lines: JsonLines, found: "Sequence[Measured]") -> None:
    """A JSON object for each metric."""
    for m in found:
        told = {"value": m.scores.mean, "gap": m.scores.gap, "version": m.scores.version}
        lines.put("score", metric=m.name, unit=m.metric.unit, better=m.better, **told)


def _code(options: Namespace, found: "Sequence[Measured]", pair: "VideoPair") -> int:
    """Say what is missing; 1 when a metric that was named has no value, or none has."""
    missing = [m for m in found if m.scores.mean is None]
    has_failed = bool(missing) and (bool(options.metric) or len(missing) == len(found))
    tell = complain if has_failed else _log.warning
    with without_warnings(options.quiet):
        if any(pair.alone):
            count = "1 frame is" if len(pair.test) == 1 else f"{len(pair.test)} frames are"
            late = f"; by time stamps, B begins later: --offset {pair.later:.3f}"
            _log.warning(
                "%s shown at the same time; %d of %s and %d of %s have no partner%s",
                count,
                pair.alone[0],
                options.source,
                pair.alone[1],
                options.test,
                late * (pair.later > 0.5 / float(pair.source.frame_rate)),
            )
        for m in missing:
            tell(f"{m.name} has no value: {m.scores.gap}")
    return int(has_failed)
