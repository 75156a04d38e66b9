"""`gsvc encode`: video to stream; its report, and with --score what it measures."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsvc.codec.api import reports
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream.audio_and_text import AUDIO_CODINGS
from gsvc.codec.bitstream.erasure import failure_chance
from gsvc.codec.bitstream.errors import ConfigError, one_line
from gsvc.codec.bitstream.header import TOOLS
from gsvc.codec.command import arguments
from gsvc.codec.media.output import STANDARD_OUTPUT
from gsvc.codec.media.places import is_read_once
from gsvc.codec.network.stats import IP_UDP_BYTES
from gsvc.codec.weights.extras import need
from gsvc.codec.weights.model_files import cache_dir
from gsvc.decoders.detection.findings import AUTO, OWN, Detector
from gsvc.encoders.tuning import TASKS

if TYPE_CHECKING:
    from gsvc.codec.planning.video_trial import EncodedSample
    from gsvc.eval.bench.score import Measured, VideoPair
    from gsvc.eval.metrics.base import Metric


def encode_one(
    options: Namespace, source: str, target: str, progress: reports.Report | None = None
) -> reports.EncodeReport:
    """Encode a file as the options say."""
    # Late: --help and usage errors do not wait for FFmpeg.
    from gsvc.codec.api.encode_file import encode

    if options.packets is not None:
        from gsvc.codec.api.encode_pieces import encode_pieces

        given = {"audio": options.audio not in (None, "none"), "loss": options.loss or 0.0}
        given |= shared(options) | {"progress": progress}
        return arguments.with_options(encode_pieces, options, source, target, **given)
    if Path(source).name in (kept.name for kept in (cache_dir() / "dry-run").glob("*")):
        from gsvc.codec.command.encode_runs import fetch_dry_run

        if kept := fetch_dry_run(options, source, target):
            return kept
    more = shared(options) | {"texts": not options.no_texts, "progress": progress}
    return arguments.with_options(encode, options, source, target, **more)


def shared(options: Namespace) -> dict[str, Any]:
    """The settings and the rate of the sound, for `encode` and its like. Raises ConfigError."""
    sound = options.audio_bitrate and round(options.audio_bitrate)
    return {"settings": settings_from(options), "audio_bitrate": sound}


def settings_from(options: Namespace) -> EncoderSettings:
    """The settings of a command line. Raises ConfigError."""
    settings = arguments.with_options(EncoderSettings, options, detector=_detector(options))
    off = [layer for layer in TOOLS if getattr(options, f"no_{layer}")]
    return replace(settings, tools=settings.chosen_tools().without(*off)) if off else settings


def _detector(options: Namespace) -> str | Detector:
    """The name of one that gsvc brings, or one of others."""
    name: str | None = options.detector
    if name is not None and not options.objects and options.task is None:
        raise ConfigError("--detector looks for what --objects and --task send: add one of them")
    if name is None or name in OWN:
        return name or AUTO
    from gsvc.decoders.detection.detectors import named_detector

    return named_detector(name)


def as_json(report: reports.EncodeReport) -> dict[str, object]:
    """The report's values by name."""
    rates = {name: getattr(report, name) for name in ("bpp", "bitrate", "total_bitrate")}
    return {**asdict(report), **rates}


def as_line(report: reports.EncodeReport) -> str:
    """The report for people."""
    beside = {"sound": report.audio_size, "texts": report.text_size}
    also = "".join(f" + {count} bytes of {what}" for what, count in beside.items() if count)
    if 2 * report.audio_size > report.size:
        also += f" ({100 * report.audio_size // report.size} %, --audio none drops it)"
    reached = ""
    if report.measured_quality is not None:
        reached = f"distance {report.measured_quality:.3f} (measured), "
    elif report.estimated_quality is not None:
        reached = f"distance {report.estimated_quality:.3f} by estimate, --score measures it, "
    if isinstance(report, reports.PiecesReport):
        return _pieces_line(report)
    rate = reports.shown_rate(report.total_bitrate, report.bitrate, report.bpp, report.frames)
    size = f"{report.width}x{report.height}"
    what = f"a still of {size}" if report.frames == 1 else f"{report.frames} frames of {size}"
    return (
        f"{one_line(report.target)}: {what}, level {report.level}, {reached}"
        f"{report.video_size} bytes{also}, {rate}, in {reports.shown_time(report.elapsed)}"
    )


def _pieces_line(report: reports.PiecesReport) -> str:
    what = "a still" if report.frames == 1 else f"{report.frames} pictures, {report.duration:.1f} s"
    first = "no preview"
    if report.preview is not None:
        first = "piece 0 a preview of {}x{}".format(*report.preview)
    loss, parity, total = report.loss, report.parity, report.pieces + report.parity
    lost = f" + {parity} of parity, {total} to send, of which any {parity} may be lost"
    lost *= bool(parity)
    if loss:
        failure = failure_chance(report.pieces, parity, loss)
        lost += f", at {100 * loss:g} % loss {100 * failure:.2g} % of transfers fail"
    return (
        f"{one_line(report.target)}: {what} of {report.width}x{report.height}, {report.size} bytes "
        f"({report.size + IP_UDP_BYTES * total} over UDP) in {report.pieces} pieces{lost}, {first},"
        f" in {reports.shown_time(report.elapsed)}"
    )


JUDGES = "cvvdp", "st_lpips_vgg"
"""What --score measures: the judges of the headline."""


def metrics_of(options: Namespace, target: str | None = None) -> "dict[str, Metric]":
    """The metrics of --score; none without it. Raises ConfigError for names that are none."""
    if not options.score:
        if options.metric:
            raise ConfigError("--metric says what --score measures: add --score")
        return {}
    if options.task is not None:
        raise ConfigError("--task sends no pictures, and --score compares pictures: leave one out")
    if is_read_once(options.source):
        raise ConfigError("--score reads the source again: give a file")
    if target == STANDARD_OUTPUT:
        raise ConfigError("--score reads the stream again: write it to a file")
    need("eval", "--score")
    from gsvc.eval.bench.score import named_metrics

    return named_metrics(options.metric or JUDGES)


def score_stream(
    options: Namespace, source: str, target: str, metrics: "Mapping[str, Metric]"
) -> int:
    """Measure a stream as `gsvc decode` shows it, and tell; 1 when a metric has no value."""
    from gsvc.eval.bench.score import measured_parts, stream_pairs

    pairs = arguments.with_options(stream_pairs, options, source, target)
    with arguments.without_warnings(options.quiet):
        found = measured_parts(pairs, metrics, lambda line: arguments.say(options, line))
    arguments.say(options, "")
    show_scores(options, found)
    return int(any(m.scores.mean is None for m in found))


def score_samples(
    options: Namespace, samples: "Sequence[EncodedSample]", metrics: "Mapping[str, Metric]"
) -> "list[Measured]":
    """The metrics over samples of a video, as `gsvc decode` would show them."""
    from gsvc.eval.bench.score import measured_parts, pair_from, part_frames

    def pairs() -> "Iterator[VideoPair]":
        for sample in samples:
            with sample.job.open() as video:
                form = video.format
            frames = list(islice(sample.pairs(DecoderSettings()), part_frames(form)))
            yield pair_from(str(sample.job.source), form, frames)

    return measured_parts(pairs(), metrics, lambda line: arguments.say(options, line))


def show_scores(options: Namespace, found: "Sequence[Measured]") -> None:
    """A table, or a JSON object for each."""
    from gsvc.codec.command.score import put_scores
    from gsvc.eval.bench.score import mean_rows
    from gsvc.eval.layout import markdown

    if options.json:
        put_scores(reports.JsonLines(sys.stdout), found)
    elif found:
        rows = mean_rows(found)
        print(markdown(rows[0], rows[1:]))
        for m in found:
            if m.scores.mean is None:
                print(f"{m.name} has no value: {m.scores.gap}")


_LAYERS = "".join(f"--no-{layer:<18}disable the layer {layer}\n" for layer in TOOLS)
USAGE = f"""Encode a video to a .gsv stream. The input is anything that FFmpeg reads, images
('in/*.png' in quotes, or in/%05d.png), or - for y4m on standard input. With --out, it may be
several videos or folders.

source IN               the video
target [OUT]            the stream (default: IN with .gsv)
others
-o
--out FOLDER            encode all inputs, videos or folders, into FOLDER
--jobs -j N             with --out: videos at a time (=1)
--level --preset --tune
| --bpp BPP             target rate of the pictures in bits per pixel
| --bitrate RATE        target rate of the pictures in bit/s: 8000, 8k, 0.5M
| --quality D           target ST-LPIPS AlexNet, 0.05 good, 0.3 bad; estimated without --score
| --target-size SIZE    largest size of the file, sound included: 500kB
| --total-bitrate RATE  highest rate of the file, sound included: 16k
| --total-size SIZE     with --out: largest size of all streams together: 20MB
| --packets N           write at most N pieces of --packet-bytes to folder OUT, for LoRa or mesh
                        radio; parity comes on top, and the rate follows from N
--packet-bytes N        with --packets: largest piece in bytes, without 28 of IP and UDP: 237
--parity N              with --packets: N more pieces, so that any N may be lost
--loss SHARE            with --packets: share of pieces that the link loses: 10%%; chooses --parity
                        so that at most 1 transfer in 100 fails
--plan FILE             TOML file of budgets, as in gsvc plan; chooses the settings that keep them
--max-bitrate RATE      highest rate in any second
--max-packet-bytes N    largest coded picture in bytes; costs quality: for small packets, --packets
--low-delay             no lookahead: 1.1 to 1.5 times the bits at equal quality, 10 on fast pans
--gop
--lookahead S           longest time that a frame may wait for lookahead
--returning-shots       code shots that come back as one sequence: fewer bits, slower seeks
--low-memory            make the same stream in about half the memory and more time
--target-backend NAME   place coded pictures for a pretrained model, such as ltx (gsvc models list)
--face-weight 1..8      weight of faces against the rest (%(default)g)
--semantics             always send people and regions, even if this saves no bits
--[no-]faces            send how faces move if this improves frames (default)
--objects               detect objects and send them, for gsvc analyse
--task {{{",".join(TASKS)}}}  send no pictures, only what gsvc analyse needs for this task
--detector NAME|FILE|CLASS  detector of --objects and --task: auto (default), coco, people, moving,
                        or one that gsvc analyse takes
--events-only
--pre-roll S            with --events-only: seconds to send before an event (%(default)g)
--start
--frames N              encode at most N frames; where the size follows from a rate, as long as N of
                        the source last
--fps N                 at most N frames a second; for images, their frame rate (25)
--size --deinterlace
--audio {{{",".join(AUDIO_CODINGS)}}}     send the sound or not (if the rate allows; pieces: none)
--audio-bitrate RATE    rate of the sound; mono below 18k (mono 16k, stereo 24k, or by the size)
--no-texts              drop title, chapters and subtitles
{_LAYERS}--seed 0..65535         seed of the decoder's refiner (%(default)s)
--dry-run -n            only predict size, time and quality from samples
--score                 score the stream against the source, a long one in parts (needs gsvc[eval])
--metric +NAME          metric of --score; may be repeated ({", ".join(JUDGES)})
-y --quiet
--json                  progress and result as one JSON object a line
"""
DEFAULTS = Namespace(detector=None), EncoderSettings()


def run(options: Namespace) -> int:
    """Encode a file or many, then tell what came out."""
    if options.out is not None:
        return _run_many(options)
    _check_single(options)
    _check_pieces(options)
    if options.dry_run:
        return _run_dry(options, [options.source])
    target = arguments.target_of(options, ".gsv" if options.packets is None else ".pieces")
    log_predictions = options.plan and _planned(options)
    metrics = metrics_of(options, target)
    with arguments.shown_progress(options, "encoded") as progress:
        if metrics and options.quality is not None:
            from gsvc.codec.command.encode_runs import encode_measured

            report = encode_measured(options, options.source, target, progress)
        else:
            report = encode_one(options, options.source, target, progress)
    if options.json:
        arguments.json_lines(options).put("done", **as_json(report))
    elif sys.stderr is not None and not options.quiet:  # into a log too: it was asked for
        wait = _startup(options, report, target) if report.frames > 1 else ""
        print(as_line(report) + wait, file=sys.stderr)
    if log_predictions:
        log_predictions(report)
    return score_stream(options, options.source, target, metrics) if metrics else 0


def _planned(options: Namespace) -> Callable[[reports.EncodeReport], None]:
    """Have the options say what was planned; what to do with the report."""
    from gsvc.codec.command import planned

    return partial(planned.log_predictions, options, *planned.planned_encoding(options))


def _startup(options: Namespace, report: reports.EncodeReport, target: str) -> str:
    """How long sending takes, where a rate was asked for and a file was made."""
    pictures = options.bitrate and options.bitrate + report.total_bitrate - report.bitrate
    rate = options.max_bitrate or options.total_bitrate or pictures  # these leave out sound
    if rate is None or target == STANDARD_OUTPUT or options.task is not None:
        return ""
    from gsvc.codec.api.inspection import info

    found = info(target)
    sent = f"{reports.shown_time(8 * found.size / rate)} to send at {rate / 1000:.4g} kbit/s"
    return f", {sent} (start-up delay {found.startup_delay(rate):.1f} s)"


def _check_single(options: Namespace) -> None:
    if Path(options.source).is_dir():
        why = f"{options.source} is a folder: say where its streams go with --out FOLDER"
        raise ConfigError(why)
    if options.total_size is not None:
        why = "--total-size is for several files: add --out FOLDER, or use --target-size"
        raise ConfigError(why)
    if options.jobs != 1:
        raise ConfigError("--jobs is for several files: add --out FOLDER")
    if options.dry_run and options.plan is not None:
        raise ConfigError("--plan predicts what it chooses: leave out --dry-run")


def _check_pieces(options: Namespace) -> None:
    if (options.packets is None) != (options.packet_bytes is None):
        why = "--packets and --packet-bytes go together: --packets 12 --packet-bytes 237"
        raise ConfigError(why)
    if options.packets is None:
        for name in ("parity", "loss"):
            if getattr(options, name) is not None:
                raise ConfigError(f"--{name} is for pieces: add --packets 12 --packet-bytes 237")
        return
    for name in ("dry_run", "plan", "score", "max_bitrate", "max_packet_bytes"):
        if getattr(options, name) not in (None, False):
            raise ConfigError(f"--packets has no --{name.replace('_', '-')}: leave one out")
    if arguments.target_of(options, ".pieces") == STANDARD_OUTPUT:
        raise ConfigError("--packets makes several files: name a folder for them with -o")


def _run_many(options: Namespace) -> int:
    from gsvc.codec.command.encode_runs import encode_many, targets_of

    for name in ("plan", "packets", "packet_bytes"):
        if getattr(options, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')} is for one video: leave out --out")
    if options.dry_run and options.total_size is not None:
        raise ConfigError("--dry-run tells what a level or a rate takes: leave --total-size out")
    if options.dry_run:
        return _run_dry(options, list(targets_of(options).values()))
    if options.score or options.metric:
        raise ConfigError("--score is for one video: with --out, use gsvc score on each")
    return encode_many(options)


def _run_dry(options: Namespace, sources: Sequence[str]) -> int:
    from gsvc.codec.command.encode_runs import dry_run

    return dry_run(options, sources)
