"""Text in a stream: title, chapters and subtitles, as entries in TEXT packets.

Layout, every number a varint, text in UTF-8, times in milliseconds after the first frame:

    entry    kind, size of the rest in bytes, the rest
    TAG      size of the name in bytes, name, value
    CHAPTER  start, duration, title
    TRACK    size of the language in bytes, language, title: the cues that follow are of this track
    CUE      start after the start of the track's cue before, duration, text
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gsvc.codec.bitstream.container import Cutter, Packet, PacketType, read_varint, varint
from gsvc.codec.bitstream.errors import BitstreamError, LimitError
from gsvc.codec.bitstream.limits import HeldBytes

TAGS = ("title", "artist", "album", "date", "genre", "copyright", "comment", "description")
"""Names of the tags that encoders carry; decoders take any."""

_TAG, _CHAPTER, _TRACK, _CUE = range(4)
_PAYLOAD_BYTES = 1 << 16
_LATEST = 1 << 34  # milliseconds: 198 days
_ENTRY_BYTES = 400  # of memory


@dataclass(frozen=True)
class TimedText:
    """A text and when it holds: a chapter with its title, or a subtitle."""

    start: int
    """Milliseconds after the first frame."""
    duration: int
    """Milliseconds."""
    text: str


@dataclass(frozen=True)
class Subtitles:
    """One track of subtitles."""

    language: str
    """As containers name it: "eng"; "" where it is not known."""
    title: str
    """For people; often ""."""
    cues: tuple[TimedText, ...] = field(repr=False)
    """In the order of their starts; plain text, lines apart by newline characters."""


@dataclass(frozen=True)
class Texts:
    """What a video says about itself, and its subtitles; false when there is nothing."""

    tags: Mapping[str, str] = field(default_factory=dict)
    """Value by name: "title"."""
    chapters: tuple[TimedText, ...] = ()
    subtitles: tuple[Subtitles, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tags or self.chapters or self.subtitles)


NO_TEXTS = Texts()


def text_packets(texts: Texts) -> Iterator[Packet]:
    """The packets that carry the texts; none where there are none."""
    payload = b""
    for kind, content in _entries(texts):
        entry = varint(kind) + varint(len(content)) + content
        if payload and len(payload) + len(entry) > _PAYLOAD_BYTES:
            yield Packet(PacketType.TEXT, 0, payload)
            payload = b""
        payload += entry
    if payload:
        yield Packet(PacketType.TEXT, 0, payload)


def read_texts(packets: Iterable[Packet], held: HeldBytes) -> Texts:
    """The texts of packets, others than TEXT aside; entries of unknown kinds are skipped.

    Raises BitstreamError for what is no such packet, LimitError for more than may be held.
    """
    tags: dict[str, str] = {}
    chapters: list[TimedText] = []
    tracks: list[tuple[str, str, list[TimedText]]] = []
    for kind, rest in _cut(packets, held):
        if kind == _TAG:
            name = _text(rest.take(read_varint(rest.take)))
            tags[name] = _text(rest.rest())
        elif kind == _CHAPTER:
            chapters.append(_span(rest, 0))
        elif kind == _TRACK:
            tracks.append((_text(rest.take(read_varint(rest.take))), _text(rest.rest()), []))
        elif kind == _CUE and tracks:
            cues = tracks[-1][2]
            cues.append(_span(rest, cues[-1].start if cues else 0))
    subtitles = tuple(Subtitles(lang, title, tuple(cues)) for lang, title, cues in tracks)
    return Texts(tags, tuple(chapters), subtitles)


def moved(texts: Texts, start: int, duration: int) -> Texts:
    """The texts of a part of the video: `start` is its new time 0; both are in milliseconds."""
    tracks = (
        Subtitles(t.language, t.title, _part(t.cues, start, duration)) for t in texts.subtitles
    )
    kept = tuple(track for track in tracks if track.cues)
    return Texts(texts.tags, _part(texts.chapters, start, duration), kept)


def _part(spans: Iterable[TimedText], start: int, duration: int) -> tuple[TimedText, ...]:
    cut = (
        TimedText(begin, min(span.start - start + span.duration, duration) - begin, span.text)
        for span in spans
        for begin in (max(span.start - start, 0),)
    )
    return tuple(span for span in cut if span.duration > 0)


def _entries(texts: Texts) -> Iterator[tuple[int, bytes]]:
    for name, value in texts.tags.items():
        yield _TAG, _sized(name) + value.encode()
    for chapter in texts.chapters:
        yield _CHAPTER, _packed(chapter, 0)
    for track in texts.subtitles:
        yield _TRACK, _sized(track.language) + track.title.encode()
        last = 0
        for cue in track.cues:
            yield _CUE, _packed(cue, last)
            last = cue.start


def _sized(text: str) -> bytes:
    return varint(len(text.encode())) + text.encode()


def _packed(span: TimedText, last: int) -> bytes:
    return varint(span.start - last) + varint(span.duration) + span.text.encode()


def _cut(packets: Iterable[Packet], held: HeldBytes) -> Iterator[tuple[int, Cutter]]:
    for packet in packets:
        if packet.type != PacketType.TEXT:
            continue
        payload = Cutter(packet.payload)
        while not payload.is_empty:
            kind, size = read_varint(payload.take), read_varint(payload.take)
            held.add(_ENTRY_BYTES + size)
            yield kind, Cutter(payload.take(size))


def _span(rest: Cutter, last: int) -> TimedText:
    start, duration = last + read_varint(rest.take), read_varint(rest.take)
    if max(start, duration) > _LATEST:
        raise LimitError(
            f"a text at {start} ms, for {duration} ms: at most {_LATEST} are permitted"
        )
    return TimedText(start, duration, _text(rest.rest()))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BitstreamError("a text is not UTF-8: the stream is damaged") from error
