"""Playing a stream: decoded as fast as the player takes it."""

from pathlib import Path

from gsvc.codec.decoder import Decoder
from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.errors import ConfigError
from gsvc.codec.file_work import FileDecoding
from gsvc.codec.input import display_name
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.marks import mark_of
from gsvc.codec.media.mapped_reader import open_any
from gsvc.codec.media.muxer import Beside
from gsvc.codec.media.player import Player, open_player
from gsvc.codec.portion import find_portion


def play_file(
    source: str | Path,
    player: Player,
    *,
    settings: DecoderSettings,
    start: float = 0.0,
    frames: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> int:
    """Decode a stream into a player, with its sound and texts; returns the frames it took.

    Arguments and errors are those of `gsvc.decode`; OutputError for a player that fails.
    """
    scheme, is_address, _ = str(source).partition("://")
    if is_address and scheme in ("udp", "tcp", "ws", "wss"):
        raise ConfigError(f"{source}: receive and play with: gsvc recv {source} -o - | mpv -")
    if is_address:
        raise ConfigError(f"{source}: fetch the stream first: curl {source} | gsvc play -")
    conceals = settings.conceal
    with open_any(source) as file:
        portion = find_portion(file, start, frames, limits, is_container=True, conceals=conceals)
        form, beside = (
            portion.header.format,
            Beside(portion.sound, portion.texts, mark_of(settings)),
        )
        title = portion.texts.tags.get("title") or Path(display_name(source)).name
        with (
            Decoder(portion.header, settings, limits) as decoder,
            open_player(player, form, title, beside) as writer,
        ):
            decoding = FileDecoding(decoder, writer, None)
            decoding.write(portion)
        decoding.tell_damage(portion.damage, source, "the player")
    return len(decoding.times)
