"""`gsvc encode`: video to stream."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, replace

from gsvc.codec.command.arguments import (
    BITRATE,
    add_json,
    add_level,
    add_overwrite,
    add_part,
    add_paths,
    bitrate,
    frame_rate,
    settings_of,
    target_of,
)
from gsvc.codec.command.progress import json_lines, shown_progress
from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.reports import EncodeReport
from gsvc.codec.scaffold.tools import TOOLS
from gsvc.codec.stream.audio import AUDIO_CODINGS
from gsvc.codec.times import shown_time

DESCRIPTION = """Encode a video to a .gsv stream. Input: anything FFmpeg reads, images
('in/*.png', quoted, or in/%05d.png), or - for y4m on standard input."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc encode`."""
    defaults = EncoderSettings()
    add_paths(parser, "the video", "the stream (default: IN with .gsv)")
    add = parser.add_argument
    add_level(parser, defaults)
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("--bpp", type=float, help="meet this many bits per pixel")
    rate.add_argument("--bitrate", type=bitrate, metavar="RATE", help=BITRATE)
    near = "come near this ST-LPIPS: 0.05 good, 0.3 bad"
    rate.add_argument("--quality", type=float, metavar="D", help=near)
    cap = "never more than this in any second"
    add("--max-bitrate", type=bitrate, metavar="RATE", help=cap)
    add(
        "--low-delay",
        action="store_true",
        help="no look-ahead: less waiting, but 1.2 to 4.5 times the bits",
    )
    seen = "how much more faces weigh than the rest (%(default)g)"
    add("--people", type=float, default=defaults.people, metavar="1..8", help=seen)
    pay = "send people and regions even if they do not pay"
    add("--semantics", action="store_true", help=pay)
    add_part(parser, "encode")
    add("--fps", type=frame_rate, metavar="N", help="of images: how many a second (25)")
    sound = "carry the sound, or drop it"
    add("--audio", choices=AUDIO_CODINGS, default=AUDIO_CODINGS[0], help=sound)
    for layer in TOOLS:
        add(f"--no-{layer}", action="store_true", help=f"send no {layer}")
    own = "for the decoder's refiner"
    add("--seed", type=int, default=defaults.seed, metavar="0..65535", help=own)
    add_overwrite(parser)
    add_json(parser, "progress and result as ")


def run(options: Namespace) -> int:
    """Encode a file, then tell what came out."""
    from gsvc.codec.files import encode_file  # late: --help and usage errors do not wait for FFmpeg

    target = target_of(options, ".gsv")
    with shown_progress(options, "encoded") as progress:
        report = encode_file(
            options.source,
            target,
            settings=_settings(options),
            start=options.start,
            frames=options.frames,
            fps=options.fps,
            audio=options.audio,
            overwrite=options.overwrite,
            progress=progress,
        )
    if options.json:
        rates = {"bpp": report.bpp, "bitrate": report.bitrate}
        json_lines(options).put("done", **asdict(report), **rates)
    elif sys.stderr.isatty():
        print(_line(report), file=sys.stderr)
    return 0


def _settings(options: Namespace) -> EncoderSettings:
    settings = settings_of(EncoderSettings, options)
    off = [layer for layer in TOOLS if getattr(options, f"no_{layer}")]
    return replace(settings, tools=settings.chosen_tools().without(*off))


def _line(report: EncodeReport) -> str:
    sound = f" + {report.audio_size} bytes of sound" if report.audio_size else ""
    return (
        f"{report.target}: {report.frames} frames, level {report.level}, "
        f"{report.size - report.audio_size} bytes{sound}, {report.bpp:.5f} bpp, "
        f"{report.bitrate / 1000:.2f} kbit/s, in {shown_time(report.elapsed)}"
    )
