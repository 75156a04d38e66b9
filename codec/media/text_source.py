"""What a source has beside pictures and sound: the texts that a stream carries, and the rest."""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from av.stream import Disposition, Stream
from av.subtitles.stream import SubtitleStream
from av.subtitles.subtitle import AssSubtitle

from gsvc.codec.bitstream.texts import TAGS, Subtitles, Texts, TimedText, moved
from gsvc.codec.media.audio_source import coded_layout
from gsvc.codec.media.places import STANDARD_INPUT, is_glob
from gsvc.codec.media.source_clock import SourceClock, fraction
from gsvc.codec.media.video_source import open_media

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

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """What a user wants of a source beside its pictures."""

    sound: bool
    audio_bitrate: int | None
    """Bits per second; None for the usual one."""
    texts: bool


def read_beside(
    source: str | Path, origin: Fraction, seconds: Fraction | None, wanted: Wanted
) -> Texts:
    """The texts of a source, and a warning that names all that is wanted and not carried.

    `origin`, in seconds on the source's clock, becomes time 0; `seconds` is how long the video is,
    None where that is not known. Images and pipes have nothing.
    """
    if str(source) == STANDARD_INPUT or is_glob(source) or Path(source).is_fifo():
        return Texts()
    with open_media(source) as container:
        lost = [*_left_out(container, wanted)]
        texts = _texts(container, lost) if wanted.texts else Texts()
        if lost:
            _log.warning("%s: not carried: %s", source, "; ".join(lost))
    length = _FOREVER if seconds is None else round(1000 * seconds)
    return moved(texts, round(1000 * origin), length)


def _left_out(container: InputContainer, wanted: Wanted) -> Iterator[str]:
    streams = container.streams
    yield from _other_videos(container)
    best = streams.best("audio")
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
        tags = {name.lower() for name in container.metadata} - {*TAGS, *_TECHNICAL}
        yield from (f"tag {name}" for name in sorted(tags))
    yield from (f"attachment {stream.name}" for stream in streams.attachments)
    if not container.chapters():  # MP4 keeps chapters as a track of data
        yield from (_named("data track", stream) for stream in streams.data)


def _other_videos(container: InputContainer) -> Iterator[str]:
    best = container.streams.best("video")
    for number, stream in enumerate(container.streams.video, 1):
        if stream is not best:
            is_cover = stream.disposition & Disposition.attached_pic
            yield "cover picture" if is_cover else _named(f"video track {number}", stream)


def _named(what: str, stream: Stream) -> str:
    language = stream.metadata.get("language", "und")
    return what if language == "und" else f"{what} ({language})"


def _is_text(stream: SubtitleStream) -> bool:
    return stream.codec_context is not None and stream.codec_context.codec.text_sub


def _texts(container: InputContainer, lost: list[str]) -> Texts:
    """The texts, timed by the source's clock; what is in them beside text goes to `lost`."""
    tags = {name.lower(): _clean(value) for name, value in container.metadata.items()}
    chapters = [
        _span(chapter["start"] * base, chapter["end"] * base, chapter["metadata"].get("title", ""))
        for chapter in container.chapters()
        if (base := fraction(chapter["time_base"])) is not None
    ]
    return Texts(
        {name: tags[name] for name in TAGS if tags.get(name)},
        tuple(chapters),
        tuple(_subtitles(container, lost)),
    )


def _subtitles(container: InputContainer, lost: list[str]) -> Iterator[Subtitles]:
    streams = [stream for stream in container.streams.subtitles if _is_text(stream)]
    cues: dict[int, list[TimedText]] = {stream.index: [] for stream in streams}
    try:
        for packet in SourceClock(container, streams).packets() if streams else ():
            base = fraction(packet.time_base)
            if packet.pts is None or not packet.duration or base is None:
                continue
            ass = _ass(packet)
            if _DRAWING.search(ass) and "drawings in subtitles" not in lost:
                lost.append("drawings in subtitles")
            if text := _plain(ass):
                begin = packet.pts * base
                end = begin + packet.duration * base
                cues[packet.stream.index].append(_span(begin, end, text))
    except av.FFmpegError as error:
        _log.warning("the subtitles break off: %s", error.strerror)
    for stream in streams:
        language, title = (stream.metadata.get(name, "") for name in ("language", "title"))
        in_order = sorted(cues[stream.index], key=lambda cue: cue.start)
        language = "" if language == "und" else _clean(language)
        yield Subtitles(language, _clean(title), tuple(in_order))


def _ass(packet: "av.Packet[Stream]") -> str:
    """The text of a subtitle with its style, as FFmpeg makes it of all formats: that of ASS."""
    assert isinstance(packet.stream, SubtitleStream)
    parts = [part for part in packet.stream.decode(packet) or () if isinstance(part, AssSubtitle)]
    # Eight fields come before it: order, layer, style, name, three margins, effect.
    text = "\n".join(part.ass.decode(errors="replace").split(",", 8)[-1] for part in parts)
    is_ass = packet.stream.codec_context.name in ("ass", "ssa")
    return _COMMENT.sub("", text) if is_ass else text


def _plain(ass: str) -> str:
    """The text alone."""
    text = _STYLE.sub("", _DRAWING.sub("", ass))
    return _clean(text.replace("\\N", "\n").replace("\\h", " ")).strip()


def _clean(text: str) -> str:
    """Without what ends a text in FFmpeg, and without what no UTF-8 has."""
    return text.replace("\0", "").encode(errors="replace").decode()


def _span(begin: Fraction, end: Fraction, text: str) -> TimedText:
    start = round(1000 * begin)
    return TimedText(start, max(0, round(1000 * end) - start), _clean(text))
