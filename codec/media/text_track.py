"""Title, chapters and subtitles into a container that takes them."""

import logging
from collections.abc import Iterable
from fractions import Fraction
from heapq import merge
from typing import TYPE_CHECKING

from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream
from av.subtitles.stream import SubtitleStream

from gsvc.codec.stream.texts import Span, Subtitles, Texts

if TYPE_CHECKING:
    from av.container.core import Chapter

_TICK = Fraction(1, 1000)
_CODECS = {"matroska": "subrip", "webm": "webvtt", "mp4": "mov_text", "mov": "mov_text"}
"""Of subtitles, by container; each of them takes chapters too."""
_HEADER = b"""[Script Info]
PlayResX: 384
PlayResY: 288

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, \
Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, \
Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,1

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""
"""The plain style that FFmpeg's encoders of subtitles want to be told."""

_log = logging.getLogger(__name__)


class TextTrack:
    """The subtitles of an output file, muxed cue by cue between the pictures."""

    def __init__(self, container: OutputContainer, texts: Texts) -> None:
        """Give the container its tags and chapters, and a stream for each track of subtitles."""
        self._container = container
        container.metadata.update(texts.tags)
        codec = _CODECS.get(container.format.name)
        if codec is None:
            _warn_of_loss(container.format.name, texts)
            self._packets: list[Packet[Stream]] = []
            return
        container.set_chapters([_chapter(*each) for each in enumerate(texts.chapters, 1)])
        tracks = [_packets(_stream(container, codec, one), one.cues) for one in texts.subtitles]
        self._packets = list(merge(*tracks, key=lambda packet: packet.pts or 0))[::-1]

    def write_until(self, time: Fraction) -> None:
        """Mux the cues that begin at `time` seconds or before; later ones wait."""
        while self._packets and (self._packets[-1].pts or 0) * _TICK <= time:
            self._container.mux(self._packets.pop())


def _warn_of_loss(name: str, texts: Texts) -> None:
    parts = ("chapters", texts.chapters), ("subtitles", texts.subtitles)
    if lost := [part for part, there in parts if there]:
        _log.warning(
            "%s cannot carry %s, which are left out: use .mkv or .mp4", name, " and ".join(lost)
        )


def _chapter(number: int, span: Span) -> "Chapter":
    return {
        "id": number,
        "start": span.start,
        "end": span.start + span.duration,
        "time_base": _TICK,
        "metadata": {"title": span.text} if span.text else {},
    }


def _stream(container: OutputContainer, codec: str, track: Subtitles) -> SubtitleStream:
    stream = container.add_stream(codec)
    assert isinstance(stream, SubtitleStream)
    stream.codec_context.subtitle_header = _HEADER
    stream.time_base = stream.codec_context.time_base = _TICK
    named = {"language": track.language, "title": track.title}
    stream.metadata.update({name: value for name, value in named.items() if value})
    return stream


def _packets(stream: SubtitleStream, cues: Iterable[Span]) -> "list[Packet[Stream]]":
    return [_packet(stream, cue) for cue in cues]


def _packet(stream: SubtitleStream, cue: Span) -> "Packet[Stream]":
    data = cue.text.encode()
    if stream.codec_context.name == "mov_text":
        data = data[: (1 << 16) - 1]
        data = len(data).to_bytes(2, "big") + data
    packet: Packet[Stream] = Packet(data)
    packet.stream = stream
    packet.time_base = _TICK
    packet.pts = packet.dts = cue.start
    packet.duration = cue.duration
    packet.is_keyframe = True
    return packet
