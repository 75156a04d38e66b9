"""Tracks of an output file beside its pictures: sound, and title, chapters and subtitles.

Opus packets are copied where the container takes Opus, else transcoded.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from heapq import merge
from itertools import chain, groupby
from typing import TYPE_CHECKING

import av
from av.audio.codeccontext import AudioCodecContext
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream
from av.subtitles.stream import SubtitleStream

from gsvc.codec.bitstream.audio import SAMPLE_RATE
from gsvc.codec.bitstream.frames import AudioChunk
from gsvc.codec.bitstream.texts import Subtitles, Texts, TimedText

if TYPE_CHECKING:
    from av.container.core import Chapter

OPUS_ENCODER = "libopus"
_TAKES_OPUS = {"mp4", "matroska", "webm", "nut"}
_TICK = Fraction(1, SAMPLE_RATE)
_BITRATE_PER_CHANNEL = 96_000

_log = logging.getLogger(__name__)


def has_opus_encoder() -> bool:
    """Whether this FFmpeg has libopus (PyAV's wheels do)."""
    return OPUS_ENCODER in av.codecs_available


class AudioTrack:
    """The audio track of an output file, muxed piece by piece between the pictures."""

    def __init__(
        self, container: OutputContainer, chunks: Sequence[AudioChunk], *, live: bool = False
    ) -> None:
        """`live`: more chunks come by `add`, and the first ones later."""
        self._container = container
        self._chunks = chunks
        self._waiting: Packet[Stream] | None = None
        self._live = _opened_live(container) if live else None
        self._packets = iter(()) if live else self._open()

    def add(self, chunk: AudioChunk) -> None:
        """Take the next chunk of a live track; what lies before time 0 is left out."""
        if self._live is not None and chunk.pts + chunk.packet_samples * len(chunk.packets) > 0:
            skipped = max(0, -chunk.pts // chunk.packet_samples)
            pts = chunk.pts + skipped * chunk.packet_samples
            rest = replace(chunk, pts=pts, packets=chunk.packets[skipped:])
            self._packets = chain(self._packets, _copied(self._live, [rest]))

    def write_until(self, time: Fraction | None) -> None:
        """Mux the packets that begin at `time` seconds or before; None muxes all that are left."""
        while packet := self._waiting or next(self._packets, None):
            if time is not None and (packet.pts or 0) * packet.time_base > time:
                self._waiting = packet
                return
            self._waiting = None
            self._container.mux(packet)

    def _open(self) -> "Iterator[Packet[Stream]]":
        if not self._chunks:
            return iter(())
        if self._container.format.name in _TAKES_OPUS and has_opus_encoder():
            return _copied(_opus_stream(self._container, self._chunks[0]), self._chunks)
        stream = _coded_stream(self._container, self._chunks[0])
        if stream is None:
            _log.warning("%s cannot carry audio, which is left out", self._container.format.name)
            return iter(())
        # AVI has no start times: a packet before time 0 would push back the pictures.
        earliest = 0 if self._container.format.name == "avi" else None
        return _recoded(stream, self._chunks, earliest)


def _opened_live(container: OutputContainer) -> AudioStream | None:
    """A stream for sound that nothing is known of yet: Opus decoders make two channels of one."""
    if container.format.name in _TAKES_OPUS and has_opus_encoder():
        return _opus_stream(container, AudioChunk(0, 2, 960, 0, ()))
    _log.warning("%s cannot carry live sound, which is left out", container.format.name)
    return None


def _opus_stream(container: OutputContainer, chunk: AudioChunk) -> AudioStream:
    """A stream to mux to; its encoder is opened only to set the container's parameters."""
    stream = container.add_stream(OPUS_ENCODER, rate=SAMPLE_RATE)
    assert isinstance(stream, AudioStream)
    stream.codec_context.layout = _layout(chunk)
    stream.codec_context.open()
    stream.codec_context.extradata = _opus_head(chunk)
    return stream


def _copied(stream: AudioStream, chunks: Sequence[AudioChunk]) -> "Iterator[Packet[Stream]]":
    for pts, samples, data in _timed(chunks):
        packet = Packet(data)
        packet.stream = stream
        packet.time_base = _TICK
        packet.pts = packet.dts = pts
        packet.duration = samples
        packet.is_keyframe = True
        yield packet


def _coded_stream(container: OutputContainer, chunk: AudioChunk) -> AudioStream | None:
    try:
        codec = av.Codec(container.default_audio_codec, "w")
        rates = codec.audio_rates
        rate = SAMPLE_RATE if not rates or SAMPLE_RATE in rates else max(rates)
        stream = container.add_stream(codec.name, rate=rate)
    except ValueError:
        return None
    assert isinstance(stream, AudioStream)
    stream.codec_context.layout = _layout(chunk)
    stream.codec_context.bit_rate = _BITRATE_PER_CHANNEL * chunk.channels
    return stream


def _recoded(
    stream: AudioStream, chunks: Sequence[AudioChunk], earliest: int | None
) -> "Iterator[Packet[Stream]]":
    for frame in chain(_decoded(chunks), (None,)):
        for packet in stream.encode(frame):
            if earliest is None or packet.pts is None or packet.pts >= earliest:
                yield packet


def _decoded(chunks: Sequence[AudioChunk]) -> Iterator[av.AudioFrame]:
    decoder = av.CodecContext.create("opus", "r")
    assert isinstance(decoder, AudioCodecContext)
    decoder.sample_rate = SAMPLE_RATE
    decoder.layout = _layout(chunks[0])
    decoder.extradata = _opus_head(chunks[0])
    for pts, samples, data in _timed(chunks):
        for frame in decoder.decode(Packet(data)):
            # The decoder drops the pre-skip, so the first packets keep only their end.
            frame.pts, frame.time_base = pts + samples - frame.samples, _TICK
            yield frame


def _timed(chunks: Sequence[AudioChunk]) -> Iterator[tuple[int, int, bytes]]:
    for chunk in chunks:
        for index, data in enumerate(chunk.packets):
            yield chunk.pts + index * chunk.packet_samples, chunk.packet_samples, data


def _layout(chunk: AudioChunk) -> str:
    return "stereo" if chunk.channels == 2 else "mono"


def _opus_head(chunk: AudioChunk) -> bytes:
    """The identification header of Opus in a container (RFC 7845, section 5.1)."""
    rate = SAMPLE_RATE.to_bytes(4, "little")
    pre_skip = chunk.pre_skip.to_bytes(2, "little")
    return b"OpusHead\x01" + bytes([chunk.channels]) + pre_skip + rate + bytes(3)


_MILLISECOND = Fraction(1, 1000)
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
        while self._packets and (self._packets[-1].pts or 0) * _MILLISECOND <= time:
            self._container.mux(self._packets.pop())


def _warn_of_loss(name: str, texts: Texts) -> None:
    parts = ("chapters", texts.chapters), ("subtitles", texts.subtitles)
    if lost := [part for part, there in parts if there]:
        _log.warning(
            "%s cannot carry %s, which are left out: use .mkv or .mp4", name, " and ".join(lost)
        )


def _chapter(number: int, span: TimedText) -> "Chapter":
    return {
        "id": number,
        "start": span.start,
        "end": span.start + span.duration,
        "time_base": _MILLISECOND,
        "metadata": {"title": span.text} if span.text else {},
    }


def _stream(container: OutputContainer, codec: str, track: Subtitles) -> SubtitleStream:
    stream = container.add_stream(codec)
    assert isinstance(stream, SubtitleStream)
    stream.codec_context.subtitle_header = _HEADER
    stream.time_base = stream.codec_context.time_base = _MILLISECOND
    named = {"language": track.language, "title": track.title}
    stream.metadata.update({name: value for name, value in named.items() if value})
    return stream


def _packets(stream: SubtitleStream, cues: Sequence[TimedText]) -> "list[Packet[Stream]]":
    if stream.codec_context.name == "mov_text" and cues:
        cues = _apart(cues)
    return [_packet(stream, cue) for cue in cues]


def _apart(cues: Sequence[TimedText]) -> list[TimedText]:
    """MP4 shows one cue after another and delays what overlaps: there one ends where the next
    begins, and those that begin together are one."""
    together = [list(those) for _, those in groupby(cues, lambda cue: cue.start)]
    ends = [those[0].start for those in together[1:]] + [
        cues[-1].start + max(cue.duration for cue in cues)
    ]
    return [
        TimedText(
            those[0].start,
            min(max(cue.duration for cue in those), end - those[0].start),
            "\n".join(cue.text for cue in those),
        )
        for those, end in zip(together, ends, strict=True)
    ]


def _packet(stream: SubtitleStream, cue: TimedText) -> "Packet[Stream]":
    data = cue.text.encode()
    if stream.codec_context.name == "mov_text":
        data = data[: (1 << 16) - 1]
        data = len(data).to_bytes(2, "big") + data
    packet: Packet[Stream] = Packet(data)
    packet.stream = stream
    packet.time_base = _MILLISECOND
    packet.pts = packet.dts = cue.start
    packet.duration = cue.duration
    packet.is_keyframe = True
    return packet
