"""`gsvc encode`: video to stream."""

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from pathlib import Path

from gsvc.codec.command.arguments import (
    BITRATE,
    add_json,
    add_level,
    add_overwrite,
    add_part,
    add_paths,
    add_quiet,
    bitrate,
    frame_rate,
    size,
    target_of,
)
from gsvc.codec.command.encode_one import as_json, as_line, encode_one
from gsvc.codec.command.encode_score import add_score, metrics_of, score_stream
from gsvc.codec.command.planned import encoded, planned_encoding
from gsvc.codec.command.progress import has_watcher, json_lines, shown_progress
from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.errors import ConfigError
from gsvc.codec.scaffold.tools import TOOLS
from gsvc.codec.stream.audio import AUDIO_CODINGS
from gsvc.encoders.objects.tasks import TASKS

DESCRIPTION = """Encode a video to a .gsv stream. Input: anything FFmpeg reads, images
('in/*.png', quoted, or in/%05d.png), or - for y4m on standard input. With --out: several videos, or
folders."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc encode`."""
    defaults = EncoderSettings()
    add_paths(parser, "the video", "the stream (default: IN with .gsv)")
    add = parser.add_argument
    add("--out", metavar="FOLDER", help="encode every IN, folders too, into FOLDER")
    add("--jobs", "-j", type=int, default=1, metavar="N", help="files at once, with --out (1)")
    add_level(parser, defaults)
    _add_rate(parser)
    _add_look_ahead(parser)
    seen = "how much more faces weigh than the rest (%(default)g)"
    hint = "place pictures for a pretrained model: ltx ... (gsvc models list)"
    add("--for", dest="made_for", metavar="NAME", help=hint)
    add("--people", type=float, default=defaults.people, metavar="1..8", help=seen)
    pay = "send people and regions even if they do not pay"
    add("--semantics", action="store_true", help=pay)
    speak = "send how faces move where it pays (the default)"
    add("--faces", action=BooleanOptionalAction, default=defaults.faces, help=speak)
    add("--objects", action="store_true", help="find objects and send them, for gsvc analyse")
    only = "send no pictures, only what gsvc analyse needs for this"
    add("--task", choices=TASKS, help=only)
    found = "of --objects and --task: auto (default), coco, people, moving, or as of gsvc analyse"
    add("--detector", metavar="NAME|FILE|CLASS", help=found)
    add("--events-only", action="store_true", help="send pictures only while something happens")
    lead = "seconds before an event, with --events-only (%(default)g)"
    add("--pre-roll", type=float, default=defaults.pre_roll, metavar="S", help=lead)
    add_part(parser, "encode")
    fewer = "at most N frames a second; of images their rate (25)"
    add("--fps", type=frame_rate, metavar="N", help=fewer)
    sound = "carry the sound, or drop it"
    add("--audio", choices=AUDIO_CODINGS, default=AUDIO_CODINGS[0], help=sound)
    usual = "of the sound (16k, stereo 24k); mono below 18k"
    add("--audio-bitrate", type=bitrate, metavar="RATE", help=usual)
    add("--no-texts", action="store_true", help="leave out title, chapters and subtitles")
    for layer in TOOLS:
        add(f"--no-{layer}", action="store_true", help=f"send no {layer}")
    own = "for the decoder's refiner"
    add("--seed", type=int, default=defaults.seed, metavar="0..65535", help=own)
    tell = "write nothing, foretell size, time and quality from samples"
    add("--dry-run", "-n", action="store_true", help=tell)
    add_score(parser)
    add_overwrite(parser)
    add_quiet(parser)
    add_json(parser, "progress and result as ")


def _add_look_ahead(parser: ArgumentParser) -> None:
    """How many frames wait, and in how much memory."""
    slow = "less waiting, 1.1 to 1.5 times the bits at equal quality, ten on fast pans"
    parser.add_argument("--low-delay", action="store_true", help=f"no look-ahead: {slow}")
    held = "with look-ahead: hold about half the memory, take longer; the same stream"
    parser.add_argument("--lean", action="store_true", help=held)


def _add_rate(parser: ArgumentParser) -> None:
    """What rate or quality to meet."""
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("--bpp", type=float, help="meet this many bits per pixel")
    rate.add_argument("--bitrate", type=bitrate, metavar="RATE", help=f"{BITRATE}, without sound")
    near = "come near this ST-LPIPS: 0.05 good, 0.3 bad; by an estimate, with --score measured"
    rate.add_argument("--quality", type=float, metavar="D", help=near)
    whole = "make a file of at most this many bytes: 500kB; sound included"
    rate.add_argument("--target-size", type=size, metavar="SIZE", help=whole)
    all = "share this many bytes among all videos of --out: 20MB"
    rate.add_argument("--budget", type=size, metavar="SIZE", help=all)
    told = "settings that keep the budgets of this TOML file, as gsvc plan finds them"
    parser.add_argument("--plan", metavar="FILE", help=told)
    cap = "never more than this in any second"
    parser.add_argument("--max-bitrate", type=bitrate, metavar="RATE", help=cap)
    small = "no packet of pictures larger than this: 240 for LoRa"
    parser.add_argument("--max-packet-bytes", type=int, metavar="N", help=small)


def run(options: Namespace) -> int:
    """Encode a file or many, then tell what came out."""
    if options.out is not None:
        return _run_many(options)
    _check_single(options)
    if options.dry_run:
        return _run_dry(options, [options.source])
    target = target_of(options, ".gsv")
    planned = planned_encoding(options) if options.plan is not None else None
    metrics = metrics_of(options, target)
    with shown_progress(options, "encoded") as progress:
        if metrics and options.quality is not None:
            from gsvc.codec.command.encode_quality import encode_measured

            report = encode_measured(options, options.source, target, progress)
        else:
            report = encode_one(options, options.source, target, progress)
    if options.json:
        json_lines(options).put("done", **as_json(report))
    elif has_watcher(options):
        print(as_line(report), file=sys.stderr)
    if planned is not None:
        encoded(options, *planned, report)
    return score_stream(options, options.source, target, metrics) if metrics else 0


def _check_single(options: Namespace) -> None:
    """Refuse what a single video does not have."""
    if Path(options.source).is_dir():
        raise ConfigError(
            f"{options.source} is a folder: say where its streams go with --out FOLDER"
        )
    if options.budget is not None:
        raise ConfigError("--budget is for several files: add --out FOLDER, or use --target-size")
    if options.jobs != 1:
        raise ConfigError("--jobs is for several files: add --out FOLDER")
    if options.dry_run and options.plan is not None:
        raise ConfigError("--plan foretells what it chooses: leave out --dry-run")


def _run_many(options: Namespace) -> int:
    from gsvc.codec.command.encode_many import encode_many, targets_of

    if options.plan is not None:
        raise ConfigError("--plan is for one video: leave out --out")
    if options.dry_run and options.budget is not None:
        raise ConfigError("--dry-run tells what a level or a rate takes: leave --budget out")
    if options.dry_run:
        return _run_dry(options, list(targets_of(options).values()))
    if options.score or options.metric:
        raise ConfigError("--score is for one video: with --out, use gsvc score on each")
    return encode_many(options)


def _run_dry(options: Namespace, sources: Sequence[str]) -> int:
    from gsvc.codec.command.encode_dry import dry_run

    return dry_run(options, sources)
