"""What a source has beside its pictures: sound, as Opus chunks in step with them, and texts."""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import chain, groupby, islice
from math import ceil
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

READ_ONCE = "a pipe can be read but once, its sound is not carried: give a file for it"
"""What to tell of a pipe with sound."""


class Sound:
    """Gives out a source's audio chunks in order; false when none is left."""

    def __init__(self, chunks: Iterator[AudioChunk]) -> None:
        self._chunks = chunks
        self._next = next(chunks, None)

    def __bool__(self) -> bool:
        return self._next is not None

    def until(self, time: Fraction) -> Iterator[AudioChunk]:
        """The chunks that end by `time` seconds."""
        while self._next is not None and self._next.end <= time * audio_and_text.SAMPLE_RATE:
            chunk, self._next = self._next, next(self._chunks, None)
            yield chunk

    def rest(self, end: Fraction | None) -> Iterator[AudioChunk]:
        """The chunks that are left, without packets that begin at `end` seconds or later."""
        while self._next is not None:
            chunk, self._next = self._next, next(self._chunks, None)
            if end is not None:
                ticks = end * audio_and_text.SAMPLE_RATE - chunk.pts
                if ticks <= 0:
                    return
                kept = -int(-ticks // chunk.packet_samples)
                chunk = replace(chunk, packets=chunk.packets[:kept])
            yield chunk


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


def _mixable(frames: Iterator[av.AudioFrame], layout: av.AudioLayout) -> Iterator[av.AudioFrame]:
    """The frames, or their first channel where there is no mixing: of a sphere, all directions."""
    if _can_mix(layout):
        yield from frames
        return
    graph: Graph | None = None
    for frame in frames:
        if graph is None:
            graph = Graph()
            source = graph.add_abuffer(
                format=frame.format,
                sample_rate=frame.sample_rate,
                layout=frame.layout,
                time_base=frame.time_base,
            )
            graph.link_nodes(source, graph.add("pan", "mono|c0=c0"), graph.add("abuffersink"))
            graph.configure()
        graph.push(frame)
        yield cast(av.AudioFrame, graph.pull())


def encode_audio(source: str | Path, origin: Fraction, bitrate: int | None) -> Iterator[AudioChunk]:
    """Opus chunks of about a second from the best audio stream; nothing without one.

    `origin` (seconds on the source's clock) becomes time 0; audio before it is dropped. Gaps are
    filled with silence; damaged packets are gaps. MissingDependencyError: FFmpeg lacks Opus.
    """
    with source_file.open_media(source) as container:
        stream = source_clock.best_audio(container)
        if stream is None:
            return
        if stream.codec_context is None:
            _log.warning("%s: FFmpeg here has no decoder for its audio, which is left out", source)
            return
        given, frames = stream.codec_context.layout, _decoded(container, stream, origin)
        for first in islice(frames, 0 if given.nb_channels else 1):  # it begins late
            given, frames = first[1].layout, chain((first,), frames)
        layout = coded_layout(given, bitrate)
        # Each run of frames of one kind by itself: jumps of the clock before, format, layout, rate.
        kinds = groupby(
            frames, lambda one: (one[0], one[1].format.name, one[1].layout.name, one[1].sample_rate)
        )
        runs = (_resampled((frame for _, frame in alike), layout) for _, alike in kinds)
        yield from _encode(_Aligner(origin).align(runs), layout, bitrate or _USUAL_BITRATE[layout])


def _resampled(frames: Iterator[av.AudioFrame], layout: str) -> Iterator[av.AudioFrame]:
    first = next(frames)
    resampler = av.AudioResampler(format="fltp", layout=layout, rate=audio_and_text.SAMPLE_RATE)
    for frame in chain(_mixable(chain((first,), frames), first.layout), (None,)):
        yield from resampler.resample(frame)


def _decoded(
    container: InputContainer, stream: av.AudioStream, origin: Fraction
) -> Iterator[tuple[int, av.AudioFrame]]:
    """Frames, each with the number of jumps of the clock before it."""
    time_base = source_clock.fraction(stream.time_base) or Fraction(1, audio_and_text.SAMPLE_RATE)
    earliest = int((origin - _PRE_ROLL) / time_base)
    clock = source_clock.SourceClock(container, [stream])
    if earliest > (stream.start_time or 0) and not clock.may_jump:
        try:
            container.seek(earliest, stream=stream)
            clock = source_clock.SourceClock(container, [stream])
        except av.FFmpegError:
            _log.info("cannot seek in the audio: it is read from its beginning")
    damaged, why = 0, ""
    try:
        for packet in clock.packets():
            if packet.pts is not None and packet.pts + (packet.duration or 0) < earliest:
                continue
            try:
                for frame in cast(list[av.AudioFrame], packet.decode()):
                    yield clock.jumps(stream), frame
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

    def align(self, runs: Iterator[Iterator[av.AudioFrame]]) -> Iterator[tuple[int, Samples]]:
        """Pairs of a position, in 1/48000 s from `origin`, and the samples from there on."""
        for run in runs:
            jitter = 0  # each begins exactly when it says
            for frame in run:
                samples = np.asarray(frame.to_ndarray(), np.float32)
                for position, piece in self._place(self._position_of(frame), samples, jitter):
                    if piece.shape[1]:
                        yield position, piece
                jitter = _JITTER

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


def _encode(
    pieces: Iterator[tuple[int, Samples]], layout: str, bitrate: int
) -> Iterator[AudioChunk]:
    """Packets of equal duration, in chunks of about a second."""
    first = next(pieces, None)
    if first is None:
        return
    encoder = _open_encoder(layout, bitrate)
    # Bytes 10 and 11 of the identification header (RFC 7845, section 5.1).
    pre_skip = int.from_bytes((encoder.extradata or bytes(12))[10:12], "little")
    pts = first[0] - pre_skip
    coded = _coded(encoder, chain((first,), pieces), layout, first[0])
    for duration, alike in groupby(coded, audio_and_text.packet_samples):
        while packets := tuple(islice(alike, ceil(audio_and_text.SAMPLE_RATE / duration))):
            yield AudioChunk(pts, encoder.channels, duration, pre_skip, packets)
            pts += duration * len(packets)


def _coded(
    encoder: av.AudioCodecContext, pieces: Iterator[tuple[int, Samples]], layout: str, begin: int
) -> Iterator[bytes]:
    loudest = 0.0
    for position, samples in pieces:
        loudest = max(loudest, float(np.abs(samples).max()))
        interleaved = np.ascontiguousarray(samples.T).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(interleaved, "flt", layout)
        frame.sample_rate = audio_and_text.SAMPLE_RATE
        frame.pts, frame.time_base = position - begin, Fraction(1, audio_and_text.SAMPLE_RATE)
        yield from map(bytes, encoder.encode(frame))
    yield from map(bytes, encoder.encode(None))
    if loudest < _SILENT:
        _log.warning("the sound is silent from beginning to end: leave it out")


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
