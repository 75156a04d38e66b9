"""Opus packets into a container: copied if it takes Opus, else transcoded."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import av
from av.audio.codeccontext import AudioCodecContext
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream

from gsvc.codec.frames import AudioChunk
from gsvc.codec.media.opus_encoder import OPUS_ENCODER, has_opus_encoder
from gsvc.codec.stream.audio import SAMPLE_RATE

_TAKES_OPUS = {"mp4", "matroska", "webm", "nut"}
_TICK = Fraction(1, SAMPLE_RATE)
_BITRATE_PER_CHANNEL = 96_000

_log = logging.getLogger(__name__)


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
