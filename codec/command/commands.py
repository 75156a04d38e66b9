"""What each command of `gsvc` does with its parsed options; returns the exit code."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

from gsvc.codec.command.doctor import examine
from gsvc.codec.command.progress import JsonLines, terminal_progress
from gsvc.codec.decoder import DecoderSettings
from gsvc.codec.encoder import EncoderSettings
from gsvc.codec.errors import ConfigError, MissingDependencyError
from gsvc.codec.files import DecodeReport, EncodeReport, Report, decode_file, encode_file
from gsvc.codec.input import STANDARD_INPUT
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.media.image_source import is_glob
from gsvc.codec.output import STANDARD_OUTPUT
from gsvc.codec.scaffold.tools import TOOLS
from gsvc.codec.stream.info import PacketInfo, StreamInfo, info_lines, stream_info

_BENCH_EXTRA = "gsvc bench needs more packages: pip install 'gsvc[eval]'"


def encode(options: Namespace) -> int:
    """Encode a file, then tell what came out."""
    settings = EncoderSettings(
        level=options.level,
        bpp=options.bpp,
        bitrate=options.bitrate,
        quality=options.quality,
        max_bitrate=options.max_bitrate,
        preset=options.preset,
        low_delay=options.low_delay,
        semantics=options.semantics,
        seed=options.seed,
    )
    off = [name for name in TOOLS if getattr(options, f"no_{name}")]
    settings = replace(settings, tools=settings.chosen_tools().without(*off))
    target = _target(options, ".gsv")
    with _progress(options, "encoded") as progress:
        report = encode_file(
            options.source,
            target,
            settings=settings,
            start=options.start,
            frames=options.frames,
            audio=options.audio,
            overwrite=options.overwrite,
            progress=progress,
        )
    if options.json:
        rates = {"bpp": report.bpp, "bitrate": report.bitrate}
        json_lines(options).put("done", **asdict(report), **rates)
    elif sys.stderr.isatty():
        print(_encoded_line(report), file=sys.stderr)
    return 0


def decode(options: Namespace) -> int:
    """Decode a file, then tell what came out."""
    settings = DecoderSettings(
        steps=options.steps, backend=options.backend, device=options.device, seed=options.seed
    )
    target = _target(options, ".decoded.mp4")
    with _progress(options, "decoded") as progress:
        report = decode_file(
            options.source,
            target,
            settings=settings,
            start=options.start,
            frames=options.frames,
            limits=_limits(options),
            overwrite=options.overwrite,
            progress=progress,
        )
    if options.json:
        json_lines(options).put("done", **asdict(report))
    elif sys.stderr.isatty():
        print(_decoded_line(report), file=sys.stderr)
    return 0


def info(options: Namespace) -> int:
    """Show what is in a stream."""
    found = stream_info(options.source, elements=options.verbose, limits=_limits(options))
    packets = options.packets or options.verbose
    if not options.json:
        for line in info_lines(found, packets=packets):
            print(line)
        return 0
    lines = json_lines(options)
    lines.put("stream", **_stream_object(found))
    for packet in found.packets if packets else ():
        lines.put("packet", **_packet_object(packet, elements=options.verbose))
    return 0


def _limits(options: Namespace) -> Limits:
    return Limits.restrictive() if options.untrusted else DEFAULT_LIMITS


def models(options: Namespace) -> int:
    """List, pull or verify models."""
    from gsvc.datasets.models import pull, status

    if options.action != "pull" and (options.source is not None or options.names):
        raise ConfigError("names and --source go with gsvc models pull")
    if options.action == "pull":
        pull(options.names or None, progress=_tell, source=options.source)
    found = status()
    for model in found:
        state = "ok" if model.intact else "damaged" if model.present else "missing"
        if options.json:
            values = {**asdict(model), "path": str(model.path), "state": state}
            json_lines(options).put("model", **values)
        else:
            print(f"{state:<8} {model.name:<30} {model.size:>9}  {model.licence}  {model.task}")
    return int(options.action == "verify" and not all(model.intact for model in found))


def doctor(options: Namespace) -> int:
    """Check the machine."""
    failed = False
    for check in examine():
        failed |= check.needed and not check.ok
        if options.json:
            json_lines(options).put("check", **asdict(check))
            continue
        mark = "ok" if check.ok else "MISSING" if check.needed else "-"
        advice = f": {check.advice}" if check.advice and not check.ok else ""
        print(f"{mark:<8}{check.name:<36}{check.detail}{advice}", flush=True)
    return int(failed)


def bench(options: Namespace) -> int:
    """Run a benchmark, or show one."""
    # Late: torch and the metrics are heavy, and optional.
    if find_spec("stlpips_pytorch") is None:
        raise MissingDependencyError(_BENCH_EXTRA)
    try:
        from gsvc.eval.bench.commands import ACTIONS
    except ModuleNotFoundError as error:
        raise MissingDependencyError(f"{_BENCH_EXTRA} ({error.name} is missing)") from error
    return ACTIONS[options.action](options)


def train(options: Namespace) -> int:
    """Train a refiner."""
    from gsvc.decoders.training import commands  # late: it takes torch and the perceptual loss

    return commands.train(options)


def send(options: Namespace) -> int:
    """Send a video over a network."""
    from gsvc.codec.network import commands  # late: nothing else needs a network

    return commands.send(options)


def recv(options: Namespace) -> int:
    """Receive a video from a network."""
    from gsvc.codec.network import commands

    return commands.recv(options)


COMMANDS: dict[str, Callable[[Namespace], int]] = {
    "encode": encode,
    "decode": decode,
    "info": info,
    "send": send,
    "recv": recv,
    "models": models,
    "doctor": doctor,
    "bench": bench,
    "train": train,
}


def json_lines(options: Namespace) -> JsonLines:
    """Where JSON goes: standard output, or standard error where that carries the stream or video."""
    carries_data = options.command in ("encode", "decode") and _given_target(options) == "-"
    return JsonLines(sys.stderr if carries_data else sys.stdout)


@contextmanager
def _progress(options: Namespace, verb: str) -> Iterator[Report | None]:
    if options.json:
        yield json_lines(options)
        return
    line = terminal_progress(verb)
    try:
        yield line
    finally:
        if line:
            line.clear()


def _target(options: Namespace, suffix: str) -> str:
    """The output: as given, else - for -, else beside the source."""
    if options.target is not None and options.output is not None:
        raise ConfigError(f"two outputs: {options.target} and {options.output}: give one of them")
    given = _given_target(options)
    if given is not None:
        return given
    if is_glob(options.source) or "://" in options.source:
        raise ConfigError(f"{options.source}: say where to write to with -o")
    return str(Path(options.source).with_suffix(suffix))


def _given_target(options: Namespace) -> str | None:
    given = options.target or options.output
    return STANDARD_OUTPUT if given is None and options.source == STANDARD_INPUT else given


def _encoded_line(report: EncodeReport) -> str:
    sound = f" + {report.audio_size} bytes of sound" if report.audio_size else ""
    return (
        f"{report.target}: {report.frames} frames, level {report.level}, "
        f"{report.size - report.audio_size} bytes{sound}, {report.bpp:.5f} bpp, "
        f"{report.bitrate / 1000:.2f} kbit/s, in {report.elapsed:.1f} s"
    )


def _decoded_line(report: DecodeReport) -> str:
    return (
        f"{report.target}: {report.frames} frames of {report.width}x{report.height}, "
        f"{report.duration:.2f} s, steps {report.steps}, in {report.elapsed:.1f} s"
    )


def _stream_object(found: StreamInfo) -> dict[str, object]:
    return {
        "header": found.header.fields(),
        "size": found.size,
        "packets": len(found.packets),
        "frames": found.frames,
        "duration": found.duration,
        "bpp": found.bpp,
        "bitrate": found.bitrate,
        "ledger": found.bits,
        "scaffold_hash": found.scaffold_hash,
    }


def _packet_object(packet: PacketInfo, *, elements: bool) -> dict[str, object]:
    values: dict[str, object] = {
        "name": packet.name,
        "frame": packet.time,
        "size": packet.size,
        "bits": packet.bits,
        "crf": packet.crf,
        "eighths": packet.scale,
    }
    return {**values, "elements": packet.elements} if elements else values


def _tell(line: str) -> None:
    if sys.stderr.isatty():
        print(line, file=sys.stderr)
