"""Encoding more than once: --dry-run by samples, a --quality that is measured, --out FOLDER.

Of many videos each has a process of its own; one may fail.
"""

import hashlib
import io
import json
import logging
import multiprocessing
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import log
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from gsvc import __version__
from gsvc.codec.api.encode_job import EncodeJob, suited
from gsvc.codec.api.reports import EncodeReport, JsonLines, Report, shown_rate, shown_time
from gsvc.codec.api.target_size import size_at, sized
from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError, one_line
from gsvc.codec.command import encode, main
from gsvc.codec.command.arguments import say, shown_size, with_options, without_warnings
from gsvc.codec.media.output import make_folder
from gsvc.codec.media.places import STANDARD_INPUT, create_stream, refuse_same, shown
from gsvc.codec.media.video_source import VIDEO_SUFFIXES
from gsvc.codec.planning import video_trial
from gsvc.codec.weights.model_files import cache_dir

if TYPE_CHECKING:
    from gsvc.eval.bench.score import Measured


def dry_run(options: Namespace, sources: Sequence[str]) -> int:
    """Foretell each source, and their sum; 1 when one of several cannot be read."""
    made: list[video_trial.EncodeForecast] = []
    for source in sources:
        try:
            with without_warnings(options.quiet):
                one, scores = foretold(options, source)
        except InputError as error:
            if len(sources) == 1:
                raise
            main.complain(str(error))
            continue
        made.append(one)
        _show(options, source, one)
        encode.show_scores(options, scores)
    size, elapsed = sum(one.size for one in made), sum(one.elapsed for one in made)
    if options.json and len(made) > 1:
        JsonLines(sys.stdout).put("total", size=size, elapsed=elapsed)
    elif len(made) > 1:
        print(f"{len(made)} videos: about {shown_size(size)}, {shown_time(elapsed)} to encode")
    return int(len(made) < len(sources))


def job_from(options: Namespace, source: str) -> EncodeJob:
    """What the options say to encode. Raises ConfigError."""
    return with_options(
        EncodeJob,
        options,
        source,
        **encode.shared(options),
        sound=options.audio != "none",
        texts=not options.no_texts,
        sound_may_go=options.audio is None,
    )


def foretold(
    options: Namespace, source: str
) -> "tuple[video_trial.EncodeForecast, list[Measured]]":
    """The forecast of a source, and the metrics of --score over its samples."""
    metrics, job = encode.metrics_of(options), job_from(options, source)
    size = options.target_size
    if options.total_bitrate is not None:
        size = size_at(job, options.total_bitrate)
    if size is not None:
        job, rate, _ = sized(job, size)
        job = replace(job, settings=replace(job.settings, bitrate=rate))
    else:
        job = suited(job, job.settings.bitrate)
    spans = video_trial.spans_of(job, whole=size is None)
    samples = []
    for number, sample in enumerate(video_trial.take_samples(job, spans), 1):
        say(options, f"{source}: sample {number} of {len(spans.starts)}")
        samples.append(sample)
    scores = encode.score_samples(options, samples, metrics) if metrics else []
    made = video_trial.forecast(spans, samples)
    say(options, "")
    if spans.length == spans.frames and size is None:
        _keep(job, samples[0].report, samples[0].data)
    return made, scores


def _show(options: Namespace, source: str, made: video_trial.EncodeForecast) -> None:
    if options.json:
        told = {**asdict(made), "total_bitrate": made.total_bitrate}
        JsonLines(sys.stdout).put("forecast", source=source, **told)
        return
    known = "all of it was tried"
    if options.target_size is None and options.total_bitrate is None:
        known += ", and is kept for gsvc encode with these options"
    if made.sampled < made.duration - 0.5 / made.frames * made.duration:
        spread = f"give or take {made.spread:.0%}, " if made.samples > 1 else ""
        several = "samples" if made.samples > 1 else "sample"
        tried = f"{made.sampled:.0f} of {made.duration:.0f} s"
        known = f"{spread}from {made.samples} {several}, {tried}"
    rate = shown_rate(made.total_bitrate, made.bitrate, made.bpp, made.frames)
    what = "a still" if made.frames == 1 else f"{made.frames} frames"
    print(
        f"{one_line(source)}: {what}, about {shown_size(made.size)} ({known}), {rate}, "
        f"{shown_time(made.elapsed)} to encode, SSIM {made.ssim:.3f}"
    )


def _kept_at(job: EncodeJob) -> Path:
    """Where the stream of a dry run is kept: by all that it depends on."""
    seen, kept = Path(job.source).stat(), cache_dir() / "dry-run" / Path(job.source).name
    job = replace(job, source=str(Path(job.source).resolve()), progress=None)
    told = job, seen.st_size, seen.st_mtime_ns, __version__
    return kept / hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _keep(job: EncodeJob, report: EncodeReport, data: bytes) -> None:
    """Keep the stream for `taken`, and no other one; not where there is no room."""
    with suppress(OSError):
        path = _kept_at(job)
        shutil.rmtree(path.parent.parent, ignore_errors=True)
        path.parent.mkdir(parents=True)
        path.write_bytes(json.dumps(asdict(report)).encode() + b"\n" + data)


def fetch_dry_run(options: Namespace, source: str, target: str) -> EncodeReport | None:
    """Write the stream that a dry run with these options kept, if any, and return its report."""
    is_sized = options.target_size is not None or options.total_bitrate is not None
    if is_sized or not os.path.isfile(source):
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
"""Of the distance asked for: no other pass within the first, a warning beyond the second."""
_LEAST, _MOST = 0.002, 0.9  # distances that the encoder may be told to aim at
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
                wanted,
                best.measured,
            )
    return replace(best.report, measured_quality=best.measured, elapsed=monotonic() - began)


def _try(
    options: Namespace, source: str, target: str, aim: float, progress: Report | None
) -> _Pass:
    from gsvc.eval.bench.score import measured_parts, named_metrics, stream_pairs

    job = replace(job_from(options, source), progress=progress)
    data, report = job.encoded(replace(job.settings, quality=aim), target)
    pairs = with_options(stream_pairs, options, source, io.BytesIO(data))
    (found,) = measured_parts(pairs, named_metrics([_METRIC]), lambda line: say(options, line))
    assert found.scores.mean is not None  # it has a value for pictures of any size
    return _Pass(aim, found.scores.mean, report, data)


def _next_aim(tried: list[_Pass], wanted: float) -> float:
    """By the secant of the logarithms of the last two passes."""
    last, slope = tried[-1], _USUAL
    if len(tried) > 1:
        before = tried[-2]
        slope = max(_FLATTEST, log(last.measured / before.measured) / log(last.aim / before.aim))
    aim: float = last.aim * (wanted / last.measured) ** (1 / slope)
    return min(max(aim, _LEAST), _MOST)


def _miss(one: _Pass, wanted: float) -> float:
    return abs(one.measured / wanted - 1)


def encode_many(options: Namespace) -> int:
    """Encode every source, --jobs at a time, a line for each; 1 when one failed."""
    encode.settings_from(options)  # what is wrong with the settings is said once
    if options.output is not None:
        raise ConfigError(f"two outputs: {options.out} and {options.output}: give one of them")
    if options.jobs < 1:
        raise ConfigError(f"jobs {options.jobs}: must be 1 or more")
    targets = targets_of(options)
    sizes = _shares(options, list(targets.values())).items()
    sized = {s: Namespace(**{**vars(options), "target_size": size}) for s, size in sizes}
    make_folder(Path(options.out))
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            works = {
                pool.submit(_encode_apart, sized.get(s, options), s, t): s
                for t, s in targets.items()
            }
            for number, work in enumerate(as_completed(works), 1):
                failed += _tell(options, works[work], work.result(), f"{number}/{len(works)}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    if failed:
        main.complain(f"{failed} of {len(targets)} videos failed: see above")
    return int(failed > 0)


def _shares(options: Namespace, sources: Sequence[str]) -> dict[str, int]:
    """The bytes of each source's stream, so that all take --total-size together. Shares are as the
    sizes at one level, so that quality is alike. Sound and texts are not shared. Sources that
    cannot be read have none: they fail when it is their turn."""
    if options.total_size is None:
        return {}
    made = {}
    for source in sources:
        with suppress(InputError), without_warnings(True):
            made[source] = foretold(options, source)[0]
    beside = sum(one.size - one.video_size for one in made.values())
    if beside >= options.total_size:
        raise ConfigError(
            f"sound takes about {shown_size(beside)} of {shown_size(options.total_size)}: raise "
            "--total-size, lower --audio-bitrate, or leave the sound out with --audio none"
        )
    share = (options.total_size - beside) / max(1.0, sum(one.video_size for one in made.values()))
    return {s: int(m.size + (share - 1) * m.video_size) for s, m in made.items()}


def targets_of(options: Namespace) -> dict[str, str]:
    """Target → source. Raises ConfigError when two sources have one target."""
    targets: dict[str, str] = {}
    for name in filter(None, [options.source, options.target, *options.others]):
        for source in _videos(name):
            target = str(Path(options.out) / f"{Path(source).stem}.gsv")
            if targets.get(target, source) != source:
                raise ConfigError(
                    f"{targets[target]} and {source} would both become {target}: "
                    "encode them into two folders"
                )
            targets[target] = source
    return targets


def _videos(name: str) -> Iterator[str]:
    if name == STANDARD_INPUT:
        raise ConfigError("standard input is no file for --out: use -o")
    if not Path(name).is_dir():
        yield name
        return
    listed = (path for path in sorted(Path(name).iterdir()) if not path.name.startswith("."))
    found = [path for path in listed if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file()]
    if not found:
        raise ConfigError(
            f"{name} holds no video: give another folder, or quote a pattern of images "
            f"('{Path(name) / '*.png'}') and write to -o"
        )
    yield from map(str, found)


def _encode_apart(options: Namespace, source: str, target: str) -> EncodeReport | str:
    """What came out, or what went wrong; a process of its own cannot take others down."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(there, options, source, target))
    process.start()
    there.close()
    try:
        result: EncodeReport | str = here.recv()
    except EOFError:
        process.join()
        return f"{source}: the encoder ended with code {process.exitcode}"
    process.join()
    return result


def _work(pipe: Connection, options: Namespace, source: str, target: str) -> None:
    main.prepare_process()
    try:
        with without_warnings(options.quiet):
            pipe.send(encode.encode_one(options, source, target))
    except KeyboardInterrupt:
        pass  # the parent says so
    except GsvcError as error:
        pipe.send(str(error))
    except Exception as error:  # noqa: BLE001 - the others go on
        pipe.send(f"internal error: {type(error).__name__}: {error}")


def _tell(options: Namespace, source: str, result: EncodeReport | str, place: str) -> bool:
    """A line about one video; whether it failed."""
    failed = isinstance(result, str)
    if options.json:
        values = {"error": result} if isinstance(result, str) else encode.as_json(result)
        JsonLines(sys.stdout).put("failed" if failed else "done", source=source, **values)
    elif isinstance(result, str):
        main.complain(f"{place} {result if source in result else f'{source}: {result}'}")
    elif not options.quiet:
        print(f"{place} {encode.as_line(result)}", flush=True)
    return failed
