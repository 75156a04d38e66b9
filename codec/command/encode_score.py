"""`gsvc encode --score`: how near the stream is to its source, by the benchmark's metrics."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from gsvc.codec.command.progress import JsonLines, has_watcher, without_warnings
from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.errors import ConfigError
from gsvc.codec.extras import need
from gsvc.codec.input import STANDARD_INPUT
from gsvc.codec.output import STANDARD_OUTPUT

if TYPE_CHECKING:
    from gsvc.codec.planning.forecast import Sample
    from gsvc.eval.metrics.base import Metric
    from gsvc.eval.score.measure import Measured
    from gsvc.eval.score.pair import Pair

JUDGES = "cvvdp", "st_lpips_vgg"
"""What --score measures: the judges of the headline."""


def add_score(parser: ArgumentParser) -> None:
    """--score and --metric."""
    help = "measure the stream beside its source (gsvc[eval]); of a long one, parts"
    parser.add_argument("--score", action="store_true", help=help)
    usual = f"of --score, repeatable ({', '.join(JUDGES)})"
    parser.add_argument("--metric", action="append", metavar="NAME", help=usual)


def metrics_of(options: Namespace, target: str | None = None) -> "dict[str, Metric]":
    """The metrics of --score; none without it. Raises ConfigError for names that are none."""
    if not options.score:
        if options.metric:
            raise ConfigError("--metric says what --score measures: add --score")
        return {}
    if options.task is not None:
        raise ConfigError("--task sends no pictures, and --score compares pictures: leave one out")
    if options.source == STANDARD_INPUT:
        raise ConfigError("--score reads the source again: give a file")
    if target == STANDARD_OUTPUT:
        raise ConfigError("--score reads the stream again: write it to a file")
    need("eval", "--score")
    from gsvc.eval.score.measure import named_metrics

    return named_metrics(options.metric or JUDGES)


def score_stream(
    options: Namespace, source: str, target: str, metrics: "Mapping[str, Metric]"
) -> int:
    """Measure a stream as `gsvc decode` shows it, and tell; 1 when a metric has no value."""
    from gsvc.eval.score.stream import measured_parts, stream_pairs

    pairs = stream_pairs(source, target, start=options.start, fps=options.fps)
    with without_warnings(options.quiet):
        found = measured_parts(pairs, metrics, lambda line: say(options, line))
    say(options, "")
    show_scores(options, found)
    return int(any(m.scores.mean is None for m in found))


def score_samples(
    options: Namespace, samples: "Sequence[Sample]", metrics: "Mapping[str, Metric]"
) -> "list[Measured]":
    """The metrics over samples of a video, as `gsvc decode` would show them."""
    from gsvc.eval.score.stream import measured_parts

    return measured_parts(_sampled(samples), metrics, lambda line: say(options, line))


def _sampled(samples: "Sequence[Sample]") -> "Iterator[Pair]":
    from gsvc.eval.score.stream import pair_from, part_frames

    for sample in samples:
        with sample.job.open() as video:
            form = video.format
        frames = list(islice(sample.pairs(DecoderSettings()), part_frames(form)))
        yield pair_from(str(sample.job.source), form, frames)


def show_scores(options: Namespace, found: "Sequence[Measured]") -> None:
    """A table, or a JSON object for each."""
    from gsvc.codec.command.score import put_scores
    from gsvc.eval.layout import markdown
    from gsvc.eval.score.tables import mean_rows

    if options.json:
        put_scores(JsonLines(sys.stdout), found)
    elif found:
        rows = mean_rows(found)
        print(markdown(rows[0], rows[1:]))
        for m in found:
            if m.scores.mean is None:
                print(f"{m.name} has no value: {m.scores.gap}")


def say(options: Namespace, line: str) -> None:
    """Write over the line on a terminal."""
    if has_watcher(options):
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
