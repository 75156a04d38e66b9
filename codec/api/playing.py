"""Playing a stream: it is decoded into a player that reads Matroska from a pipe."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gsvc.codec.api.decode_file import FileDecoding, find_time_range
from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings, mark_of
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, ConfigError, Limits, OutputError
from gsvc.codec.bitstream.frames import VideoFormat
from gsvc.codec.media import output, places, video_writer
from gsvc.codec.media.muxer import Beside, Muxer

_PLAYERS = {
    "ffplay": "-loglevel error -autoexit -window_title {title} -i -",
    "mpv": "--really-quiet --force-media-title={title} -",
    "vlc": "--play-and-exit --quiet -",
}
"""Players that gsvc looks for, the best first, and what they are told."""
_NAME = "video.mkv"
"""Its suffix names the container, Matroska: H.264, and the stream's own sound and texts."""
_SECONDS = 2.0  # seconds that a player gets to end by itself when it is told to


Player = tuple[str, ...]
"""A program and its arguments, with {title} in them; nothing for standard output."""


def find_player(command: str | None) -> Player:
    """The player that `command` names, "-" for standard output; None: one in a window.

    Raises ConfigError where there is no window or no such program.
    """
    if command == output.STANDARD_OUTPUT:
        return ()
    if command is not None:
        return _named(command)
    found = next(filter(shutil.which, _PLAYERS), None)
    if found is not None and _has_windows():
        return _named(found)
    lack = "no player: install mpv, ffplay or VLC" if _has_windows() else "there is no display"
    raise ConfigError(
        f"gsvc play cannot open a window here: {lack}. gsvc serve plays in a browser, --player "
        "'mpv --vo=tct -' in this terminal, and --player - writes Matroska to standard output"
    )


@contextmanager
def open_player(
    player: Player, form: VideoFormat, title: str, beside: Beside
) -> Iterator[video_writer.VideoWriter]:
    """What takes the frames to play; the block ends when the player does.

    A player that is closed early ends the block in good order. Raises OutputError for one that
    cannot be started or that fails.
    """
    if not player:
        with _muxed(sys.stdout.fileno(), form, beside) as writer:
            yield writer
        return
    command = [part.format(title=title) for part in player]
    with _started(command) as process:
        assert process.stdin is not None
        try:
            with _muxed(process.stdin.fileno(), form, beside) as writer:
                yield writer
        except (OutputError, BrokenPipeError) as error:
            if not isinstance(error.__cause__ or error, BrokenPipeError):
                raise
            # Else its window was closed, or it failed.
        process.stdin.close()
        if process.wait():
            raise OutputError(f"{command[0]} cannot play this (exit code {process.returncode})")


@contextmanager
def _muxed(handle: int, form: VideoFormat, beside: Beside) -> Iterator[video_writer.VideoWriter]:
    muxer = Muxer(Path(f"/dev/fd/{handle}"), _NAME, form, beside)
    try:
        yield video_writer.VideoWriter(muxer, "the player", form)
        muxer.finish()
    finally:
        muxer.close()


@contextmanager
def _started(command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that reads a pipe, and is ended with the block if it has not ended."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
    except OSError as error:
        raise OutputError(f"{command[0]} cannot be started: {error.strerror}") from error
    with process:
        try:
            yield process
        except BaseException:
            process.terminate()
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            raise


def _named(command: str) -> Player:
    """A command line; a name alone gets what gsvc tells the player of that name."""
    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--player {command!r}: {error}") from error
    if not parts or shutil.which(parts[0]) is None:
        raise ConfigError(f"--player {command!r}: there is no such program here")
    usual = _PLAYERS.get(Path(parts[0]).name) if len(parts) == 1 else None
    if usual is None:
        return tuple(part.replace("{", "{{").replace("}", "}}") for part in parts)
    return parts[0], *usual.split()


def _has_windows() -> bool:
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.platform in ("win32", "darwin") or bool(display)


def play_file(
    source: str | Path,
    *,
    player: str | None = None,
    settings: DecoderSettings,
    start: float = 0.0,
    frames: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> int:
    """Decode a stream into a player, with its sound and texts; returns the frames it took.

    Arguments and errors are those of `gsvc.decode`; `player` and its errors those of `find_player`.
    """
    scheme, is_address, _ = str(source).partition("://")
    if is_address and scheme in ("udp", "tcp", "ws", "wss"):
        why = f"{source}: receive and play with: gsvc recv {shlex.quote(str(source))} -o - | mpv -"
        raise ConfigError(why)
    if is_address:
        why = f"{source}: fetch the stream first: curl {shlex.quote(str(source))} | gsvc play -"
        raise ConfigError(why)
    with places.open_any(source) as file:
        time_range = find_time_range(
            file, start, frames, limits, is_container=True, conceals=settings.conceal
        )
        beside = Beside(time_range.sound, time_range.texts, mark_of(settings))
        title = time_range.texts.tags.get("title") or Path(places.display_name(source)).name
        with (
            Decoder(time_range.header, settings, limits) as decoder,
            open_player(find_player(player), time_range.header.format, title, beside) as writer,
        ):
            decoding = FileDecoding(decoder, writer, None)
            decoding.write(time_range)
        decoding.tell_damage(time_range.damage, source, "the player")
    return len(decoding.times)
