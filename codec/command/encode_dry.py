"""Encoding by samples: `gsvc encode --dry-run`, and a --quality that is measured."""

import hashlib
import io
import json
import logging
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from math import log
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from gsvc import __version__
from gsvc.codec.api.encode_file import EncodeJob, size_at, sized, suited
from gsvc.codec.api.reports import EncodeReport, JsonLines, Report, shown_rate, shown_time
from gsvc.codec.bitstream.errors import InputError
from gsvc.codec.command.arguments import say, shown_size, without_warnings
from gsvc.codec.command.encode import metrics_of, score_samples, settings_from, show_scores
from gsvc.codec.command.main import complain
from gsvc.codec.media.places import create_stream, refuse_same, shown
from gsvc.codec.planning.encode_forecast import (
    EncodeForecast,
    forecast,
    spans_of,
    ssim,
    take_samples,
)
from gsvc.codec.weights.model_files import cache_dir

if TYPE_CHECKING:
    from gsvc.eval.bench.score import Measured


def dry_run(options: Namespace, sources: Sequence[str]) -> int:
    """Foretell each source, and their sum; 1 when one of several cannot be read."""
    made: list[EncodeForecast] = []
    for source in sources:
        try:
            with without_warnings(options.quiet):
                one, scores = foretold(options, source)
        except InputError as error:
            if len(sources) == 1:
                raise
            complain(" ".join(str(error).split()))
            continue
        made.append(one)
        _show(options, source, one)
        show_scores(options, scores)
    size, elapsed = sum(one.size for one in made), sum(one.elapsed for one in made)
    if options.json and len(made) > 1:
        JsonLines(sys.stdout).put("total", size=size, elapsed=elapsed)
    elif len(made) > 1:
        print(f"{len(made)} videos: about {shown_size(size)}, {shown_time(elapsed)} to encode")
    return int(len(made) < len(sources))


def job_from(options: Namespace, source: str) -> EncodeJob:
    """What the options say to encode. Raises ConfigError."""
    return EncodeJob(
        source,
        settings_from(options),
        options.start,
        options.frames,
        options.fps,
        options.audio != "none",
        options.audio_bitrate and round(options.audio_bitrate),
        not options.no_texts,
        deinterlace=options.deinterlace,
        size=options.size,
        sound_may_go=options.audio is None,
    )


def foretold(options: Namespace, source: str) -> "tuple[EncodeForecast, list[Measured]]":
    """The forecast of a source, and the metrics of --score over its samples."""
    metrics, job = metrics_of(options), job_from(options, source)
    size = options.target_size
    if options.total_bitrate is not None:
        size = size_at(job, options.total_bitrate)
    if size is not None:
        job, rate, _ = sized(job, size)
        job = replace(job, settings=replace(job.settings, bitrate=rate))
    else:
        job = suited(job, job.settings.bitrate)
    spans = spans_of(job, whole=size is None)
    ssims, samples = [], []
    for number, sample in enumerate(take_samples(job, spans), 1):
        say(options, f"{source}: sample {number} of {len(spans.starts)}")
        ssims.append(ssim(sample))
        samples.append(sample)
    scores = score_samples(options, samples, metrics) if metrics else []
    say(options, "")
    if spans.length == spans.frames:
        _keep(job, samples[0].report, samples[0].data)
    return forecast(spans, samples, ssims), scores


def _show(options: Namespace, source: str, made: EncodeForecast) -> None:
    if options.json:
        told = {**asdict(made), "total_bitrate": made.total_bitrate}
        JsonLines(sys.stdout).put("forecast", source=source, **told)
        return
    known = "all of it was tried, and is kept for gsvc encode with these options"
    if made.sampled < made.duration - 0.5 / made.frames * made.duration:
        spread = f"give or take {made.spread:.0%}, " if made.samples > 1 else ""
        several = "samples" if made.samples > 1 else "sample"
        tried = f"{made.sampled:.0f} of {made.duration:.0f} s"
        known = f"{spread}from {made.samples} {several}, {tried}"
    rate = shown_rate(made.total_bitrate, made.bitrate, made.bpp)
    print(
        f"{source}: {made.frames} frames, about {shown_size(made.size)} ({known}), {rate}, "
        f"{shown_time(made.elapsed)} to encode, SSIM {made.ssim:.3f}"
    )


def _kept_at(job: EncodeJob) -> Path:
    """Where the stream of a dry run is kept: by all that it depends on."""
    seen = Path(job.source).stat()
    told = (
        str(Path(job.source).resolve()), seen.st_size, seen.st_mtime_ns, __version__, job.settings,
        job.start, job.frames, job.fps, job.sound, job.audio_bitrate, job.texts, job.deinterlace,
        job.size,
    )  # fmt: skip
    return cache_dir() / "dry-run" / hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _keep(job: EncodeJob, report: EncodeReport, data: bytes) -> None:
    """Keep the stream for `taken`, and no other one; not where there is no room."""
    with suppress(OSError):
        path = _kept_at(job)
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir(parents=True)
        path.write_bytes(json.dumps(asdict(report)).encode() + b"\n" + data)


def taken(options: Namespace, source: str, target: str) -> EncodeReport | None:
    """The report of a stream that a dry run with these options kept, now at the target; or None."""
    is_sized = options.target_size is not None or options.total_bitrate is not None
    if is_sized or not (cache_dir() / "dry-run").is_dir() or not os.path.isfile(source):
        return None
    job = job_from(options, source)
    path = _kept_at(suited(job, job.settings.bitrate))
    if not path.is_file():
        return None
    refuse_same(source, target)
    told, _, data = path.read_bytes().partition(b"\n")
    with create_stream(target, options.overwrite) as file:
        file.write(data)
    return EncodeReport(**{**json.loads(told), "target": shown(target)})


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
    from gsvc.eval.bench.score import measured_parts, named_metrics, stream_pairs

    job, file = replace(job_from(options, source), progress=progress), io.BytesIO()
    report = job.encode(nullcontext(file), target, replace(job.settings, quality=aim))
    data = file.getvalue()
    pairs = stream_pairs(
        source,
        io.BytesIO(data),
        start=options.start,
        fps=options.fps,
        deinterlace=options.deinterlace,
    )
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
