"""`gsvc encode --quality D --score`: the distance is measured, and met by encoding again."""

import io
import logging
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import log
from time import monotonic

from gsvc.codec.command.encode_dry import job_from
from gsvc.codec.command.encode_score import say
from gsvc.codec.command.progress import without_warnings
from gsvc.codec.reports import EncodeReport, Report
from gsvc.codec.stream.file import create_stream

_METRIC = "st_lpips_alex"
_PASSES = 4
_NEAR, _MISSED = 0.05, 0.1
"""In proportion to the distance asked for: no other pass is made within the first; a warning tells
of more than the second."""
_LEAST, _MOST = 0.002, 0.9
"""Distances that the encoder may be told to aim at."""
_USUAL, _FLATTEST = 1.6, 0.2
"""Slope of measured over aimed distances, in logarithms: where none is known (four development
clips had 1.3 to 1.8), and the least that a step believes."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Pass:
    aim: float
    """Distance that the encoder aimed at, by its estimate."""
    measured: float
    report: EncodeReport
    data: bytes


def encode_measured(
    options: Namespace, source: str, target: str, progress: Report | None
) -> EncodeReport:
    """Encode until the measured ST-LPIPS AlexNet of what `gsvc decode` shows is that of --quality.

    At most four times; the nearest stream is kept. A warning tells of a miss beyond 10 %.
    """
    began, wanted = monotonic(), options.quality
    tried: list[_Pass] = []
    with create_stream(target, options.overwrite) as file:
        aim = wanted
        while len(tried) < _PASSES:
            tried.append(_try(options, source, target, aim, progress))
            say(options, f"pass {len(tried)}: distance {tried[-1].measured:.3f}\n")
            aim = _next_aim(tried, wanted)
            if _miss(tried[-1], wanted) <= _NEAR or any(one.aim == aim for one in tried):
                break
        best = min(tried, key=lambda one: _miss(one, wanted))
        file.write(best.data)
    with without_warnings(options.quiet):
        if _miss(best, wanted) > _MISSED:
            _log.warning(
                "asked for a distance of %.3g, measured %.3f: about the nearest that it comes to",
                wanted, best.measured,
            )  # fmt: skip
    return replace(best.report, measured_quality=best.measured, elapsed=monotonic() - began)


def _try(
    options: Namespace, source: str, target: str, aim: float, progress: Report | None
) -> _Pass:
    from gsvc.eval.score.measure import named_metrics
    from gsvc.eval.score.stream import measured_parts, stream_pairs

    job, file = replace(job_from(options, source), progress=progress), io.BytesIO()
    report = job.encode(nullcontext(file), target, replace(job.settings, quality=aim))
    data = file.getvalue()
    pairs = stream_pairs(source, io.BytesIO(data), start=options.start, fps=options.fps)
    (found,) = measured_parts(pairs, named_metrics([_METRIC]), lambda line: say(options, line))
    assert found.scores.mean is not None  # it has a value for pictures of any size
    return _Pass(aim, found.scores.mean, report, data)


def _next_aim(tried: list[_Pass], wanted: float) -> float:
    """By the secant of the logarithms of the last two passes."""
    last, slope = tried[-1], _USUAL
    if len(tried) > 1:
        before = tried[-2]
        rise = log(last.measured / before.measured)
        slope = max(_FLATTEST, rise / log(last.aim / before.aim))
    aim: float = last.aim * (wanted / last.measured) ** (1 / slope)
    return min(max(aim, _LEAST), _MOST)


def _miss(one: _Pass, wanted: float) -> float:
    return abs(one.measured / wanted - 1)
