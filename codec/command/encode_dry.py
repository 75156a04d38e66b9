"""`gsvc encode --dry-run`: what would come out, from samples; nothing is written."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from gsvc.codec.command.arguments import shown_size
from gsvc.codec.command.encode_one import settings_from
from gsvc.codec.command.encode_score import metrics_of, say, score_samples, show_scores
from gsvc.codec.command.parser import complain
from gsvc.codec.command.progress import JsonLines, without_warnings
from gsvc.codec.encode_job import EncodeJob
from gsvc.codec.errors import InputError
from gsvc.codec.planning.forecast import Forecast, forecast, spans_of, ssim, take_samples
from gsvc.codec.target_size import rate_for
from gsvc.codec.times import shown_time

if TYPE_CHECKING:
    from gsvc.eval.score.measure import Measured


def dry_run(options: Namespace, sources: Sequence[str]) -> int:
    """Foretell each source, and their sum; 1 when one of several cannot be read."""
    made: list[Forecast] = []
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
        options.audio == "opus",
        options.audio_bitrate and round(options.audio_bitrate),
        not options.no_texts,
    )


def foretold(options: Namespace, source: str) -> "tuple[Forecast, list[Measured]]":
    """The forecast of a source, and the metrics of --score over its samples."""
    metrics, job = metrics_of(options), job_from(options, source)
    if options.target_size is not None:
        rate = rate_for(job, options.target_size)
        job = replace(job, settings=replace(job.settings, bitrate=rate))
    spans = spans_of(job)
    reports, ssims, samples = [], [], []
    for number, sample in enumerate(take_samples(job, spans), 1):
        say(options, f"{source}: sample {number} of {len(spans.starts)}")
        reports.append(sample.report)
        ssims.append(ssim(sample))
        samples.append(sample)
    scores = score_samples(options, samples, metrics) if metrics else []
    say(options, "")
    return forecast(spans, reports, ssims), scores


def _show(options: Namespace, source: str, made: Forecast) -> None:
    if options.json:
        JsonLines(sys.stdout).put("forecast", source=source, **asdict(made))
        return
    known = (
        "all of it was tried"
        if made.samples == 1
        else f"give or take {made.spread:.0%}, from {made.samples} samples, "
        f"{made.sampled:.0f} of {made.duration:.0f} s"
    )
    print(
        f"{source}: {made.frames} frames, about {shown_size(made.size)} ({known}), "
        f"{made.bitrate / 1000:.2f} kbit/s without sound, {shown_time(made.elapsed)} to encode, "
        f"SSIM {made.ssim:.3f}"
    )
