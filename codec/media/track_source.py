"""What a source has beside its pictures: sound, as Opus chunks in step with them, and texts."""

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import NamedTuple, cast

import av
import numpy as np
from av.container import InputContainer
from av.filter import Graph
from av.stream import Disposition, Stream
from av.subtitles.stream import SubtitleStream
from av.subtitles.subtitle import AssSubtitle
from numpy.typing import NDArray

from gsvc.codec.bitstream import audio_and_text, errors
from gsvc.codec.bitstream.frames import AudioChunk
from gsvc.codec.media import muxer, places, source_clock, source_file, video_reader


class Sound:
    """Gives out a source's audio chunks in order; false when it has none."""

    def __init__(self, chunks: Iterator[AudioChunk | None]) -> None:
        """None among the chunks: the source is live, and no more has come so far."""
        self._chunks = chunks
        self._next: AudioChunk | None = None
        self._is_over = False
        self._pull()

    def __bool__(self) -> bool:
        return not self._is_over

    def __iter__(self) -> Iterator[AudioChunk | None]:
        return chain(() if self._is_over else (self._next,), self._chunks)

    def until(self, time: Fraction) -> Iterator[AudioChunk]:
        """The chunks that end by `time` seconds, of those that came."""
        latest = time * audio_and_text.SAMPLE_RATE
        while (chunk := self._next or self._pull()) is not None and chunk.end <= latest:
            self._next = None
            yield chunk

    def rest(self, end: Fraction | None) -> Iterator[AudioChunk]:
        """The chunks that are left, without packets that begin at `end` seconds or later."""
        while (chunk := self._next or self._pull()) is not None:
            self._next = None
            if end is not None:
                ticks = end * audio_and_text.SAMPLE_RATE - chunk.pts
                if ticks <= 0:
                    return
                kept = -int(-ticks // chunk.packet_samples)
                chunk = replace(chunk, packets=chunk.packets[:kept])
            yield chunk

    def _pull(self) -> AudioChunk | None:
        for chunk in self._chunks:
            self._next = chunk
            return chunk
        self._is_over, self._next = True, None
        return None


def read_audio(
    source: str | Path, *, start: float = 0.0, bitrate: int | None = None
) -> Iterator[AudioChunk]:
    """Code the best audio stream as Opus, in chunks of about a second, timed by the first frame.

    Stereo stays stereo, and more channels become stereo; of channels that FFmpeg cannot mix, as of
    ambisonic sound, the first becomes mono. `start` is as given to `open_video`;
    `bitrate` is 6000-510000 bit/s, mono below 18000; None takes 16000 for mono and 24000 for
    stereo. Images, pipes and silent files give nothing. Raises InputError when the source
    cannot be read, ConfigError for a bit rate out of range.
    """
    check_bitrate(bitrate)
    if places.is_read_once(source) or places.is_glob(source):
        return iter(())
    with video_reader.open_video(source, start=start, frames=1) as video:
        origin, has_sound = video.origin, video.has_sound
    chunks = encode_audio(source, origin, bitrate)
    first = next(chunks, None)
    if first is None and has_sound and not start:
        _log.warning("%s: none of its sound is of the time of the pictures: left out", source)
    return chain(() if first is None else (first,), chunks)


LIVE_SAMPLES = 8_640
"""Of a chunk sent live: 0.18 s, whole packets of 20 ms or of 60."""
Samples = NDArray[np.float32]
"""Planar audio, shape (channels, samples), nominally -1 to 1, 48000 samples a second."""
_MIN_BITRATE, _MAX_BITRATE = 6_000, 510_000
_MAX_MONO_BITRATE = 256_000
_LEAST_STEREO_BITRATE = 18_000  # below it, libopus by itself codes two channels as one
USUAL_STEREO = 24_000  # music that one can listen to
_USUAL_BITRATE = {"mono": 16_000, "stereo": USUAL_STEREO}  # mono: clear speech
_SPEECH_BITRATE = 8_000  # below it, only speech is worth its bits
_LONG_PACKET_BITRATE = 32_000  # below it, packets of 60 ms: headers cost more than their delay
_SILENT = 1e-4  # of full scale: quieter is not heard
_JITTER = audio_and_text.SAMPLE_RATE // 20
_PRE_ROLL = Fraction(1, 2)
_log = logging.getLogger(__name__)


def check_bitrate(bitrate: int | None) -> None:
    """Raise ConfigError when Opus cannot code at `bitrate` bit/s; None, the usual one, is right."""
    if bitrate is not None and not _MIN_BITRATE <= bitrate <= _MAX_BITRATE:
        why = f"audio bit rate {bitrate} bit/s: must be {_MIN_BITRATE} to {_MAX_BITRATE}"
        raise errors.ConfigError(why)


def coded_layout(layout: av.AudioLayout, bitrate: int | None) -> str:
    """How sound of this layout is coded at a bit rate: "mono" or "stereo"."""
    fits = bitrate is None or bitrate >= _LEAST_STEREO_BITRATE
    return "stereo" if layout.nb_channels >= 2 and fits and _can_mix(layout) else "mono"


def _can_mix(layout: av.AudioLayout) -> bool:
    """Whether FFmpeg knows what each channel adds to two: of spheres and odd pairs it does not."""
    silence = np.zeros((1, layout.nb_channels), np.float32)
    frame = av.AudioFrame.from_ndarray(silence, "flt", layout)
    frame.sample_rate = rate = audio_and_text.SAMPLE_RATE
    try:
        av.AudioResampler(format="fltp", layout="stereo", rate=rate).resample(frame)
    except av.FFmpegError:
        return False
    return True


class _Resampler:
    """Frames of one kind at 48000 Hz, in a layout; of channels that do not mix the first."""

    def __init__(self, first: av.AudioFrame, layout: str) -> None:
        self._graph: Graph | None = None
        rate = audio_and_text.SAMPLE_RATE
        self._resampler = av.AudioResampler(format="fltp", layout=layout, rate=rate)
        if not _can_mix(first.layout):  # of a sphere, the first is all directions
            self._graph = graph = Graph()
            source = graph.add_abuffer(
                format=first.format,
                sample_rate=first.sample_rate,
                layout=first.layout,
                time_base=first.time_base,
            )
            graph.link_nodes(source, graph.add("pan", "mono|c0=c0"), graph.add("abuffersink"))
            graph.configure()

    def push(self, frame: av.AudioFrame | None) -> list[av.AudioFrame]:
        """What comes out of a frame; None is the end."""
        if self._graph is not None and frame is not None:
            self._graph.push(frame)
            frame = cast(av.AudioFrame, self._graph.pull())
        return self._resampler.resample(frame)


def encode_audio(source: str | Path, origin: Fraction, bitrate: int | None) -> Iterator[AudioChunk]:
    """Opus chunks of about a second from the best audio stream; nothing without one.

    `origin` (seconds on the source's clock) becomes time 0; audio before it is dropped. Gaps are
    filled with silence; damaged packets are gaps. MissingDependencyError: FFmpeg lacks Opus.
    """
    with source_file.open_media(source) as container:
        stream = source_clock.best_audio(container)
        if stream is not None and _is_decodable(stream, source):
            packets = _sought(container, stream, origin)
            chunks = _coded(_decoded(packets, origin), stream.codec_context.layout, origin, bitrate)
            yield from (chunk for chunk in chunks if chunk is not None)


def encode_beside(
    beside: source_clock.Beside, name: str, origin: Fraction, bitrate: int | None, samples: int
) -> Iterator[AudioChunk | None]:
    """What `encode_audio` gives, of the sound that comes beside the pictures of a source with this
    name; None where no more has come so far. A chunk has about as many `samples`."""
    check_bitrate(bitrate)
    return _coded(_decoded(_arrived(beside, name), origin), None, origin, bitrate, samples)


def _arrived(
    beside: source_clock.Beside, name: str
) -> "Iterator[tuple[int, source_clock.AnyPacket] | None]":
    while True:
        if not beside:
            yield None
            continue
        jumps, packet = beside.popleft()
        if not _is_decodable(cast(av.AudioStream, packet.stream), name):
            return
        yield jumps, packet
        if not packet.size:  # the last
            return


def _coded(
    frames: Iterator[tuple[int, av.AudioFrame] | None],
    given: av.AudioLayout | None,
    origin: Fraction,
    bitrate: int | None,
    samples: int = audio_and_text.SAMPLE_RATE,
) -> Iterator[AudioChunk | None]:
    """`given`: the layout, if the container tells one; `samples`: of a chunk, at 48000 Hz."""
    coder: _Coder | None = None
    for one in frames:
        if one is None:
            yield None
            continue
        if coder is None:
            layout = given if given and given.nb_channels else one[1].layout  # it begins late
            coder = _Coder(origin, coded_layout(layout, bitrate), bitrate, samples)
        yield from coder.push(*one)
    yield from coder.flush() if coder else ()


def _is_decodable(stream: av.AudioStream, source: str | Path) -> bool:
    if stream.codec_context is None:
        _log.warning("%s: FFmpeg here has no decoder for its audio, which is left out", source)
    return stream.codec_context is not None


def _sought(
    container: InputContainer, stream: av.AudioStream, origin: Fraction
) -> "Iterator[tuple[int, source_clock.AnyPacket]]":
    """The packets from somewhat before `origin` on, where the container can seek."""
    clock = source_clock.SourceClock(container, [stream])
    earliest = _earliest(stream.time_base, origin)
    if earliest > (stream.start_time or 0) and not clock.may_jump:
        try:
            container.seek(earliest, stream=stream)
            clock = source_clock.SourceClock(container, [stream])
        except av.FFmpegError:
            _log.info("cannot seek in the audio: it is read from its beginning")
    for packet in clock.packets():
        yield clock.jumps(stream), packet


def _earliest(time_base: Fraction | None, origin: Fraction) -> int:
    """Ticks before which nothing is decoded."""
    base = source_clock.fraction(time_base) or Fraction(1, audio_and_text.SAMPLE_RATE)
    return int((origin - _PRE_ROLL) / base)


def _decoded(
    packets: "Iterator[tuple[int, source_clock.AnyPacket] | None]", origin: Fraction
) -> Iterator[tuple[int, av.AudioFrame] | None]:
    """Frames, each with the number of jumps of the clock before it; None where no packet came."""
    damaged, why = 0, ""
    try:
        for numbered in packets:
            if numbered is None:
                yield None
                continue
            jumps, packet = numbered
            earliest = _earliest(packet.time_base, origin)
            if packet.pts is not None and packet.pts + (packet.duration or 0) < earliest:
                continue
            try:
                for frame in cast(list[av.AudioFrame], packet.decode()):
                    yield jumps, frame
            except av.FFmpegError as error:
                damaged, why = damaged + 1, str(error.strerror)
    except av.FFmpegError as error:
        _log.warning("the audio breaks off: %s", error.strerror)
    finally:
        if damaged:
            _log.warning("damaged audio packets, replaced by silence: %d (%s)", damaged, why)


class _Aligner:
    """Trims and fills audio frames until they are contiguous from the first sample after time 0."""

    def __init__(self, origin: Fraction) -> None:
        self._origin = origin
        self._position: int | None = None

    def align(self, frame: av.AudioFrame, jitter: int) -> Iterator[tuple[int, Samples]]:
        """Pairs of a position, in 1/48000 s from `origin`, and the samples from there on;
        `jitter`: how far off that clock it may be."""
        samples = np.asarray(frame.to_ndarray(), np.float32)
        for position, piece in self._place(self._position_of(frame), samples, jitter):
            if piece.shape[1]:
                yield position, piece

    def _position_of(self, frame: av.AudioFrame) -> int:
        time_base = source_clock.fraction(frame.time_base)
        if frame.pts is None or time_base is None:
            return self._position or 0
        return round((frame.pts * time_base - self._origin) * audio_and_text.SAMPLE_RATE)

    def _place(self, position: int, samples: Samples, jitter: int) -> Iterator[tuple[int, Samples]]:
        if self._position is None:
            samples = samples[:, max(0, -position) :]
            if not samples.shape[1]:
                return
            self._position = position = max(0, position)
        gap = position - self._position
        if gap > jitter:
            yield from self._silence(gap, samples.shape[0])
        elif gap < -jitter:
            samples = samples[:, -gap:]
        yield self._position, samples
        self._position += samples.shape[1]

    def _silence(self, length: int, channels: int) -> Iterator[tuple[int, Samples]]:
        assert self._position is not None
        end = self._position + length
        while self._position < end:
            samples = min(audio_and_text.SAMPLE_RATE, end - self._position)
            piece = np.zeros((channels, samples), np.float32)
            yield self._position, piece
            self._position += piece.shape[1]


class _Coder:
    """Codes frames of sound as they come, in chunks of packets of equal duration."""

    def __init__(self, origin: Fraction, layout: str, bitrate: int | None, samples: int) -> None:
        self._layout, self._bitrate = layout, bitrate or _USUAL_BITRATE[layout]
        self._samples, self._aligner = samples, _Aligner(origin)
        self._kind: tuple[int, str, str, int] | None = None
        self._resampler: _Resampler | None = None
        self._encoder: av.AudioCodecContext | None = None
        self._begin = self._pts = self._pre_skip = self._duration = 0
        self._packets: list[bytes] = []
        self._is_first, self._loudest = True, 0.0

    def push(self, jumps: int, frame: av.AudioFrame) -> Iterator[AudioChunk]:
        """The chunks that a frame completes; `jumps`: of the clock before it."""
        # Each run of frames of one kind by itself: jumps of the clock before, format, layout, rate.
        kind = jumps, frame.format.name, frame.layout.name, frame.sample_rate
        if kind != self._kind:
            yield from self._code(None)
            self._resampler = _Resampler(frame, self._layout)
            self._kind, self._is_first = kind, True
        yield from self._code(frame)

    def flush(self) -> Iterator[AudioChunk]:
        """The last chunks."""
        yield from self._code(None)
        if self._encoder is not None:
            yield from self._gathered(self._encoder.encode(None))
            yield from self._chunk()
            if self._loudest < _SILENT:
                _log.warning("the sound is silent from beginning to end: leave it out")

    def _code(self, given: av.AudioFrame | None) -> Iterator[AudioChunk]:
        for frame in self._resampler.push(given) if self._resampler else ():
            jitter = 0 if self._is_first else _JITTER  # each kind begins exactly when it says
            for position, samples in self._aligner.align(frame, jitter):
                yield from self._gathered(self._encoded(position, samples))
            self._is_first = False

    def _encoded(self, position: int, samples: Samples) -> "list[av.Packet[av.AudioStream]]":
        if self._encoder is None:
            self._encoder = _open_encoder(self._layout, self._bitrate)
            # Bytes 10 and 11 of the identification header (RFC 7845, section 5.1).
            self._pre_skip = int.from_bytes((self._encoder.extradata or bytes(12))[10:12], "little")
            self._begin, self._pts = position, position - self._pre_skip
        self._loudest = max(self._loudest, float(np.abs(samples).max()))
        interleaved = np.ascontiguousarray(samples.T).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(interleaved, "flt", self._layout)
        frame.sample_rate = audio_and_text.SAMPLE_RATE
        frame.pts, frame.time_base = position - self._begin, Fraction(1, audio_and_text.SAMPLE_RATE)
        return self._encoder.encode(frame)

    def _gathered(self, packets: "Iterable[av.Packet[av.AudioStream]]") -> Iterator[AudioChunk]:
        for packet in map(bytes, packets):
            if (duration := audio_and_text.packet_samples(packet)) != self._duration:
                yield from self._chunk()
                self._duration = duration
            self._packets.append(packet)
            if len(self._packets) * duration >= self._samples:
                yield from self._chunk()

    def _chunk(self) -> Iterator[AudioChunk]:
        if self._packets and self._encoder is not None:
            packets, channels = tuple(self._packets), self._encoder.channels
            yield AudioChunk(self._pts, channels, self._duration, self._pre_skip, packets)
            self._pts += self._duration * len(packets)
            self._packets.clear()


def _open_encoder(layout: str, bitrate: int) -> av.AudioCodecContext:
    if muxer.OPUS_ENCODER not in av.codecs_available:
        raise errors.MissingDependencyError(
            "FFmpeg here is built without libopus, so sound cannot be coded: leave it out "
            '(audio="none") or install another PyAV: pip install --force-reinstall av'
        )
    encoder = av.CodecContext.create(muxer.OPUS_ENCODER, "w")
    assert isinstance(encoder, av.AudioCodecContext)
    encoder.sample_rate = audio_and_text.SAMPLE_RATE
    encoder.layout = layout
    encoder.format = "flt"
    encoder.time_base = Fraction(1, audio_and_text.SAMPLE_RATE)
    encoder.bit_rate = bitrate if layout == "stereo" else min(bitrate, _MAX_MONO_BITRATE)
    frame_ms = "60" if bitrate < _LONG_PACKET_BITRATE else "20"
    encoder.options = {"frame_duration": frame_ms, "vbr": "on"}
    if bitrate < _SPEECH_BITRATE:
        encoder.options |= {"application": "voip"}
    encoder.open()
    return encoder


_FOREVER = 1 << 34
_STYLE = re.compile(r"\{\\[^}]*\}")
_COMMENT = re.compile(r"\{[^\\}]*\}")
_DRAWING = re.compile(r"\{[^}]*\\p[1-9][^}]*\}.*?(?=\{[^}]*\\p0|$)", re.MULTILINE)
"""From the mark that turns what follows into lines and curves to the one that ends it."""
_TECHNICAL = {
    "compatible_brands", "creation_time", "duration", "encoded_by", "encoder", "handler_name",
    "major_brand", "minor_version", "software", "vendor_id",
}  # fmt: skip
"""Tags that say how the source was made, not what it is: nobody misses them."""


class Wanted(NamedTuple):
    """What a user wants of a source beside its pictures; None is the usual bit rate."""

    sound: bool
    audio_bitrate: int | None
    texts: bool


def read_beside(
    source: str | Path, origin: Fraction, seconds: Fraction | None, wanted: Wanted
) -> audio_and_text.Texts:
    """The texts of a source, and a warning that names all that is wanted and not carried.

    `origin`, in seconds on the source's clock, becomes time 0; `seconds` is how long the video is,
    None where that is not known. Images and pipes have nothing.
    """
    if places.is_read_once(source) or places.is_glob(source):
        return audio_and_text.Texts()
    with source_file.open_media(source) as container:
        lost = [*_left_out(container, wanted)]
        texts = _texts(container, lost) if wanted.texts else audio_and_text.Texts()
        if lost:
            _log.warning("%s: not carried: %s", source, "; ".join(lost))
    length = _FOREVER if seconds is None else round(1000 * seconds)
    return audio_and_text.moved(texts, round(1000 * origin), length)


def _left_out(container: InputContainer, wanted: Wanted) -> Iterator[str]:
    streams = container.streams
    shown, best = streams.best("video"), source_clock.best_audio(container)
    for number, video in enumerate(streams.video, 1):
        if video is not shown:
            is_cover = video.disposition & Disposition.attached_pic
            yield "cover picture" if is_cover else _named(f"video track {number}", video)
    for number, stream in enumerate(streams.audio if wanted.sound else (), 1):
        if stream is not best:
            yield _named(f"audio track {number}", stream)
        elif stream.codec_context is not None:
            layout = stream.codec_context.layout
            coded = coded_layout(layout, wanted.audio_bitrate)
            if layout.nb_channels > (2 if coded == "stereo" else 1):
                yield f"{layout.name} sound, which becomes {coded}"
    if wanted.texts:
        yield from (
            _named("subtitles as pictures", s) for s in streams.subtitles if not _is_text(s)
        )
        tags = {name.lower() for name in container.metadata} - {*audio_and_text.TAGS, *_TECHNICAL}
        yield from (f"tag {name}" for name in sorted(tags))
    yield from (f"attachment {stream.name}" for stream in streams.attachments)
    if not container.chapters():  # MP4 keeps chapters as a track of data
        yield from (_named("data track", stream) for stream in streams.data)


def _named(what: str, stream: Stream) -> str:
    language = stream.metadata.get("language", "und")
    return what if language == "und" else f"{what} ({language})"


def _is_text(stream: SubtitleStream) -> bool:
    return stream.codec_context is not None and stream.codec_context.codec.text_sub


def _texts(container: InputContainer, lost: list[str]) -> audio_and_text.Texts:
    """The texts, timed by the source's clock; what is in them beside text goes to `lost`."""
    tags = {name.lower(): _clean(value) for name, value in container.metadata.items()}
    chapters = [
        _span(chapter["start"] * base, chapter["end"] * base, chapter["metadata"].get("title", ""))
        for chapter in container.chapters()
        if (base := source_clock.fraction(chapter["time_base"])) is not None
    ]
    return audio_and_text.Texts(
        {name: tags[name] for name in audio_and_text.TAGS if tags.get(name)},
        tuple(chapters),
        tuple(_subtitles(container, lost)),
    )


def _subtitles(container: InputContainer, lost: list[str]) -> Iterator[audio_and_text.Subtitles]:
    streams = [stream for stream in container.streams.subtitles if _is_text(stream)]
    cues: dict[int, list[audio_and_text.TimedText]] = {stream.index: [] for stream in streams}
    try:
        for packet in source_clock.SourceClock(container, streams).packets() if streams else ():
            base = source_clock.fraction(packet.time_base)
            if packet.pts is None or not packet.duration or base is None:
                continue
            ass = _ass(packet)
            if _DRAWING.search(ass) and "drawings in subtitles" not in lost:
                lost.append("drawings in subtitles")
            text = _STYLE.sub("", _DRAWING.sub("", ass)).replace("\\N", "\n").replace("\\h", " ")
            if text := _clean(text).strip():
                begin = packet.pts * base
                cues[packet.stream.index].append(_span(begin, begin + packet.duration * base, text))
    except av.FFmpegError as error:
        _log.warning("the subtitles break off: %s", error.strerror)
    for stream in streams:
        language, title, in_mp4 = map(stream.metadata.get, ("language", "title", "name"), 3 * ("",))
        in_order = sorted(cues[stream.index], key=lambda cue: cue.start)
        language = "" if language == "und" else _clean(language)
        yield audio_and_text.Subtitles(language, _clean(title or in_mp4), tuple(in_order))


def _ass(packet: "av.Packet[Stream]") -> str:
    """The text of a subtitle with its style, as FFmpeg makes it of all formats: that of ASS."""
    assert isinstance(packet.stream, SubtitleStream)
    parts = [part for part in packet.stream.decode(packet) or () if isinstance(part, AssSubtitle)]
    # Eight fields come before it: order, layer, style, name, three margins, effect.
    text = "\n".join(part.ass.decode(errors="replace").split(",", 8)[-1] for part in parts)
    return _COMMENT.sub("", text) if packet.stream.codec_context.name in ("ass", "ssa") else text


def _clean(text: str) -> str:
    """Without what ends a text in FFmpeg, and without what no UTF-8 has."""
    return text.replace("\0", "").encode(errors="replace").decode()


def _span(begin: Fraction, end: Fraction, text: str) -> audio_and_text.TimedText:
    start = round(1000 * begin)
    return audio_and_text.TimedText(start, max(0, round(1000 * end) - start), _clean(text))
