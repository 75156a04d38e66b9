"""Sound and text in a stream: the payloads of AUDIO and TEXT packets (docs/format.md, section 9).

AUDIO has a run of Opus packets (RFC 6716); TEXT has title, chapters and subtitles as entries, of
which the cues of a track follow it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from gsvc.codec.bitstream import errors
from gsvc.codec.bitstream.container import Cutter, Packet, PacketType, read_varint, varint
from gsvc.codec.bitstream.frames import AudioChunk

AUDIO_CODINGS = ("opus", "none")
"""How a stream may carry sound."""
SAMPLE_RATE = 48_000
"""Unit of Opus times, 1/48000 s, at every sample rate of the source."""

_SHORTEST = 120  # 2.5 ms, the unit of all Opus packet durations
_LONGEST = 5760  # 120 ms
_MAX_PACKETS = 4096
_MAX_PACKET_BYTES = 1275 * 48
_MAX_PRE_SKIP = 65_535
_MAX_PTS = (1 << 34) - 1  # 99 hours: the largest whose zigzag value fits a varint


def packet_samples(packet: bytes) -> int:
    """Duration of an Opus packet in 1/48000 s (RFC 6716, section 3.1).

    Raises BitstreamError where its first bytes are missing.
    """
    if not packet:
        raise errors.BitstreamError("an audio packet is empty: the stream is damaged")
    config, code = packet[0] >> 3, packet[0] & 3
    if config < 12:
        frame = (480, 960, 1920, 2880)[config & 3]
    elif config < 16:
        frame = (480, 960)[config & 1]
    else:
        frame = (120, 240, 480, 960)[config & 3]
    if code == 3 and len(packet) < 2:
        raise errors.BitstreamError("an audio packet is cut short: the stream is damaged")
    return frame * (packet[1] & 63 if code == 3 else (1, 2, 2)[code])


def pack_audio(chunk: AudioChunk) -> bytes:
    """Serialise a chunk. Raises ConfigError for one that `unpack_audio` would refuse."""
    try:
        _check(chunk)
    except errors.BitstreamError as error:
        raise errors.ConfigError(str(error)) from error
    numbers = [
        chunk.channels,
        chunk.packet_samples // _SHORTEST,
        chunk.pre_skip,
        chunk.pts << 1 if chunk.pts >= 0 else (-chunk.pts << 1) - 1,
        len(chunk.packets),
        *map(len, chunk.packets),
    ]
    return b"".join(map(varint, numbers)) + b"".join(chunk.packets)


def unpack_audio(data: bytes) -> AudioChunk:
    """Parse what `pack_audio` wrote. Raises BitstreamError."""
    rest = Cutter(data, "an audio packet")
    channels, units, pre_skip, zigzag, count = (read_varint(rest.take) for _ in range(5))
    if count > _MAX_PACKETS:
        why = f"{count} Opus packets in one chunk: at most {_MAX_PACKETS} are permitted"
        raise errors.LimitError(why)
    lengths = [read_varint(rest.take) for _ in range(count)]
    packets = tuple(rest.take(length) for length in lengths)
    if rest.left:
        raise errors.BitstreamError("an audio packet is longer than it says: the stream is damaged")
    pts = zigzag >> 1 if zigzag & 1 == 0 else -((zigzag + 1) >> 1)
    chunk = AudioChunk(pts, channels, units * _SHORTEST, pre_skip, packets)
    _check(chunk)
    return chunk


def _check(chunk: AudioChunk) -> None:
    if chunk.channels not in (1, 2):
        raise errors.LimitError(f"audio with {chunk.channels} channels: 1 or 2 are permitted")
    if not _SHORTEST <= chunk.packet_samples <= _LONGEST or chunk.packet_samples % _SHORTEST:
        raise errors.LimitError(
            f"audio packets of {chunk.packet_samples} samples: "
            f"multiples of {_SHORTEST} up to {_LONGEST} are permitted"
        )
    if not 0 <= chunk.pre_skip <= _MAX_PRE_SKIP or abs(chunk.pts) > _MAX_PTS:
        why = f"audio time {chunk.pts} or pre-skip {chunk.pre_skip} is out of range"
        raise errors.LimitError(why)
    if len(chunk.packets) > _MAX_PACKETS or any(len(p) > _MAX_PACKET_BYTES for p in chunk.packets):
        why = f"audio chunk beyond {_MAX_PACKETS} packets of {_MAX_PACKET_BYTES} bytes"
        raise errors.LimitError(why)
    if any(packet_samples(packet) != chunk.packet_samples for packet in chunk.packets):
        raise errors.BitstreamError("an audio packet lasts longer or shorter than its chunk says")


_PREROLL = 3840
"""Samples that an Opus decoder needs to converge: 80 ms (RFC 7845, section 4.6)."""


def cut(chunks: Iterable[AudioChunk], start: Fraction, end: Fraction) -> Iterator[AudioChunk]:
    """The audio from `start`, then time 0, to `end` seconds; 80 ms before it are pre-skip."""
    begin, over = start * SAMPLE_RATE, end * SAMPLE_RATE
    is_first = True
    for chunk in chunks:
        samples = chunk.packet_samples
        skipped = max(0, int((begin - _PREROLL - chunk.pts) // samples))
        kept = chunk.packets[skipped : max(0, -int(-(over - chunk.pts) // samples))]
        if not kept:
            continue
        pts = round(chunk.pts + skipped * samples - begin)
        pre_skip = max(0, -pts) if is_first else chunk.pre_skip
        yield replace(chunk, pts=pts, pre_skip=pre_skip, packets=kept)
        is_first = False


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
    """Language code, as in containers: "eng"; "" if it is not known."""
    title: str
    """Title shown to people; often ""."""
    cues: tuple[TimedText, ...] = field(repr=False)
    """Texts in the order of their starts; plain, lines separated by newline characters."""


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


def read_texts(packets: Iterable[Packet], held: errors.HeldBytes) -> Texts:
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


def _cut(packets: Iterable[Packet], held: errors.HeldBytes) -> Iterator[tuple[int, Cutter]]:
    for packet in packets:
        if packet.type != PacketType.TEXT:
            continue
        payload = Cutter(packet.payload)
        while payload.left:
            kind, size = read_varint(payload.take), read_varint(payload.take)
            held.add(_ENTRY_BYTES + size)
            yield kind, Cutter(payload.take(size))


def _span(rest: Cutter, last: int) -> TimedText:
    start, duration = last + read_varint(rest.take), read_varint(rest.take)
    if max(start, duration) > _LATEST:
        why = f"a text at {start} ms, for {duration} ms: at most {_LATEST} are permitted"
        raise errors.LimitError(why)
    return TimedText(start, duration, _text(rest.rest()))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise errors.BitstreamError("a text is not UTF-8: the stream is damaged") from error
