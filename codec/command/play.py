"""`gsvc play`: a stream in a window, or in any player that reads a pipe."""

from argparse import ArgumentParser, Namespace

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.command.arguments import (
    add_part,
    add_quiet,
    add_refiner,
    add_untrusted,
    limits_of,
    settings_of,
)

DESCRIPTION = """Play a stream with mpv, ffplay or VLC in a window. Without a display, or with
--player -, the video goes to standard output as Matroska, for a player there."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc play`."""
    parser.add_argument("source", metavar="IN", help="the stream, or what gsvc mux wrote")
    player = "a program that reads Matroska from standard input, with its arguments"
    parser.add_argument("--player", metavar="COMMAND", help=player)
    add_refiner(parser, DecoderSettings(steps=0))
    add_part(parser, "play")
    conceal = "go on after damage; make up the frames that are missing"
    parser.add_argument("--conceal", action="store_true", help=conceal)
    add_untrusted(parser)
    add_quiet(parser)


def run(options: Namespace) -> int:
    """Play a stream to its end."""
    from gsvc.codec.api.playing import (
        find_player,  # late: --help does not wait for FFmpeg
        play_file,
    )

    play_file(
        options.source,
        find_player(options.player),
        settings=settings_of(DecoderSettings, options),
        start=options.start,
        frames=options.frames,
        limits=limits_of(options),
    )
    return 0
