"""`gsvc decode` and `gsvc play`: stream to video, in a file or in a player."""

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.reports import shown_time
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.command import arguments, main
from gsvc.codec.media.places import piece_paths
from gsvc.codec.planning.process import peak_memory, process_seconds

if TYPE_CHECKING:
    from gsvc.codec.command.planned import Foretold
    from gsvc.codec.planning.realtime import DeadlinePace

USAGE = """Decode a stream to a video. OUT is a container such as video.mp4 or video.mkv, images
('out/%05d.png'; photo.png for a still), or y4m (video.y4m, or - for standard output). IN may also
be the pieces of gsvc encode --packets, as a folder or as several files.

source IN               the stream
target [OUT]            the video (default: IN with .decoded.mp4)
others
-o --steps --backend --look --motion --device --seed
| --time-budget TIME    decode as well as fits safely into this time, by gsvc profile: 1x, 90s
| --deadline TIME       decode all frames, then restore what gains most until this time: 10min
--judge {jod,texture}   quality that --time-budget maximises (=texture)
--start
--frames N              decode at most N frames
--conceal --untrusted -y --quiet
--json                  progress and result as one JSON object a line
[pretrained models]
--cache NAME[:N]        reuse work between steps: first-block, mag, faster or taylorseer
--latent-cache FOLDER[:SIZE]  folder of latents to reuse for similar windows, of at most SIZE (2G)
--vram 8G               limit of GPU memory, or a mode: whole, offload, groups, fp8 (all free
                        memory)
--quantize {int8}       8-bit weights: half the memory, changes pictures
--paste-keys            show coded pictures as decoded
--resume FOLDER         folder of finished windows, to continue after an interruption
"""
DEFAULTS = (DecoderSettings(),)


def run(options: Namespace) -> int:
    """Decode a file, then tell what came out."""
    from gsvc.codec.api.decode_file import decode

    source, target = _places(options)
    settings, pace, foretold = _spending(options)
    with arguments.shown_progress(options, "decoded") as progress:
        told = {"settings": settings, "limits": arguments.limits_of(options), "pace": pace}
        report = arguments.with_options(decode, options, source, target, progress=progress, **told)
    if foretold is not None:
        foretold.note({"decode_seconds": process_seconds(), "decode_memory": peak_memory()})
    more = {} if pace is None else {"restored": pace.restored}
    line = f"{report.target}: {report.frames} frames of {report.width}x{report.height}, "
    line += f"{shown_time(report.duration)}, steps {report.steps}, in {shown_time(report.elapsed)}"
    line += "" if pace is None else f", {pace.restored} pictures restored"
    arguments.tell_done(options, line, **asdict(report), **more)
    return 0


def _places(options: Namespace) -> tuple[str | list[str], str]:
    """The stream, or all names but the last where the first of several is a piece; the video."""
    if not (options.others and piece_paths(options.source)):
        return options.source, arguments.target_of(options, ".decoded.mp4")
    names = [options.source, options.target, *options.others]
    return names, options.output or names.pop()


def _spending(options: Namespace) -> "tuple[DecoderSettings, DeadlinePace | None, Foretold | None]":
    """As chosen by hand, or by what there is time for."""
    if options.deadline is None and options.time_budget is None:
        return settings_of(options), None, None
    from gsvc.codec.command import planned

    if options.deadline is not None:
        return *planned.deadline_decoding(options), None
    settings, foretold = planned.budgeted_decoding(options)
    return settings, None, foretold


def settings_of(options: Namespace) -> DecoderSettings:
    """As chosen; a back end or a look that is named takes a step where none is chosen."""
    steps, backend, look = options.steps, options.backend, options.look
    if steps is None:
        steps = int(bool(backend) or look != DecoderSettings.look)
    backend = backend or DecoderSettings.backend
    if not steps and (backend, look) != (DecoderSettings.backend, DecoderSettings.look):
        raise ConfigError("a back end or a look does nothing with steps=0: leave one of them out")
    return arguments.with_options(DecoderSettings, options, backend=backend, steps=steps)


_PLAY = """Play a stream in a window of mpv, ffplay or VLC. With --player -, gsvc writes the video
to standard output as Matroska, for another player.

source IN               the stream, or a file of gsvc mux
--player COMMAND        program with arguments that reads Matroska from standard input
--steps N               steps of the refiner (0, or 1 with --backend or --look)
--backend --look --motion --device --seed --start
--frames N              play at most N frames
--conceal --untrusted --quiet
"""


def _play(options: Namespace) -> int:
    from gsvc.codec.api.playing import play_file

    arguments.with_options(
        play_file,
        options,
        options.source,
        settings=settings_of(options),
        limits=arguments.limits_of(options),
    )
    return 0


PLAY = main.Verb(_PLAY, _play, (Namespace(backend="", steps=None), DecoderSettings()))
