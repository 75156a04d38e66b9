"""The part of a stream to decode: all of it, or some frames and the sound that goes with them."""

from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from math import inf
from typing import BinaryIO, TypeVar

from gsvc.codec.bitstream.audio import unpack_audio
from gsvc.codec.bitstream.container import Salvage, StreamReader
from gsvc.codec.bitstream.errors import BitstreamError, ConfigError, InputError, LimitError
from gsvc.codec.bitstream.frames import AudioChunk, VideoFormat
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.index import StreamIndex
from gsvc.codec.bitstream.limits import HeldBytes, Limits
from gsvc.codec.bitstream.packet import Packet, PacketType
from gsvc.codec.bitstream.texts import Texts, moved, read_texts
from gsvc.codec.media.audio_source import cut

_T = TypeVar("_T")
_ALWAYS = range(-(1 << 62), 1 << 62)
_PACKET_BYTES, _OPUS_BYTES = 300, 64
"""Memory that a packet takes beside its bytes, and a packet of Opus in it."""


@dataclass(frozen=True)
class TimeRange:
    """What to decode of a stream."""

    header: Header
    """The stream's."""
    packets: Iterable[tuple[Packet, bool]]
    """Packets in order, each with whether any of its frames is to be shown."""
    sound: list[AudioChunk]
    """The sound, from time 0 on."""
    texts: Texts
    """Title, chapters and subtitles, from time 0 on."""
    frames: int | None
    """Number of frames; None where only decoding will tell."""
    times: range = _ALWAYS
    """In ticks, the pts of frames to show."""
    origin: int = 0
    """The pts that becomes 0."""
    damage: BitstreamError | None = None
    """What is wrong with the stream, where a decoder conceals it."""


def find_time_range(
    file: BinaryIO,
    start: float,
    frames: int | None,
    limits: Limits,
    *,
    is_container: bool,
    conceals: bool = False,
) -> TimeRange:
    """`frames` frames (None: all) from `start` seconds on; the file is read to its end.

    Args:
        file: A stream. Only all of it can be had of one that cannot be sought.
        start: Second to begin at.
        frames: Most frames.
        limits: What the stream may ask for.
        is_container: Whether sound is wanted.
        conceals: Whether to go on after damage.

    Raises:
        ConfigError: No such part can be had.
        InputError: The stream ends before `start`.
        BitstreamError: The header is damaged or beyond `limits`. Iterating over the packets raises
            it where the stream is damaged later.
    """
    is_all = start == 0 and frames is None
    if conceals:
        salvage = Salvage(file, limits)
        if is_all and (salvage.damage is not None or not file.seekable()):
            return _salvaged(salvage, limits, is_container=is_container)
        if salvage.damage is not None:
            raise ConfigError(
                "no part of a damaged stream can be concealed: leave out start= and frames="
            ) from salvage.damage
        file.seek(0)
    if is_all:
        return _all(file, limits, is_container=is_container)
    if not 0 <= start < inf or (frames is not None and frames < 1):
        raise ConfigError(f"start {start} s, {frames} frames: from 0 s on, at least 1 frame")
    if not file.seekable():
        raise ConfigError("a part can only be decoded of a file: save the stream first")
    return _part(file, start, frames, limits, is_container=is_container)


def duration(times: "array[int]", form: VideoFormat) -> Fraction:
    """Seconds from the first frame to the end of the last, of their pts."""
    return (times[-1] - times[0]) * form.time_base + 1 / form.frame_rate


def _all(file: BinaryIO, limits: Limits, *, is_container: bool) -> TimeRange:
    """All of a stream.

    A writer wants the sound before the pictures. A file is read twice for it; from a pipe, the
    packets of a stream with sound are kept (a stream is small).
    """
    reader, held = StreamReader(file, limits), HeldBytes(limits)
    header, packets = reader.header, iter(reader)
    sound: list[AudioChunk] = []
    frames: int | None = None
    if file.seekable():
        texts, packets = _texts_before(_whole(packets), held)
        sound, frames = _survey(packets, held)
        file.seek(0)
        packets = iter(StreamReader(file, limits))
    else:
        texts, packets = _texts_before(packets, held)
        if is_container and header.audio:
            kept, damage = _kept(packets, held)
            sound, frames = _survey(kept, held)
            packets = _and_damage(kept, damage)
    every = ((packet, True) for packet in packets)
    if not is_container:
        sound = []
    return TimeRange(header, every, sound, texts, frames or None)


def _salvaged(salvage: Salvage, limits: Limits, *, is_container: bool) -> TimeRange:
    """All that is left of a stream."""
    texts, packets = _texts_before(iter(salvage), held := HeldBytes(limits))
    sound, frames = _survey(packets, held)
    every = ((packet, True) for packet in salvage)
    if not is_container:
        sound = []
    return TimeRange(salvage.header, every, sound, texts, frames, damage=salvage.damage)


def _part(
    file: BinaryIO, start: float, frames: int | None, limits: Limits, *, is_container: bool
) -> TimeRange:
    """A part of a file; arguments as of `find_time_range`."""
    index = StreamIndex(file, limits, partial=True)
    first = index.frame_at(start)
    times = index.times[first:][:frames]
    if not times:
        if index.damage is not None:
            raise index.damage
        if not index.times:
            raise InputError("the stream has no pictures to seek: decode it from start to end")
        raise InputError(f"the stream ends before {start:g} s: choose an earlier start")
    sound: list[AudioChunk] = []
    file.seek(0)
    texts, whole = _texts_before(_whole(StreamReader(file, limits)), held := HeldBytes(limits))
    form, length = index.header.format, duration(times, index.header.format)
    begin = (times[0] - index.times[0]) * form.time_base
    texts = moved(texts, round(1000 * begin), round(1000 * length))
    if is_container and index.header.audio:
        sound = list(cut(_survey(whole, held)[0], begin, begin + length))
    shown, origin = range(times[0], times[-1] + 1), times[0]
    is_cut = frames is None or len(times) < frames
    packets = _and_damage(index.packets(first, len(times)), index.damage if is_cut else None)
    return TimeRange(index.header, packets, sound, texts, len(times), shown, origin)


def _texts_before(packets: Iterator[Packet], held: HeldBytes) -> tuple[Texts, Iterator[Packet]]:
    """The texts, which precede the first picture packet, and all packets again."""
    kept = []
    for packet in packets:
        kept.append(packet)
        if packet.is_picture:
            break
        held.add(_PACKET_BYTES + len(packet.payload))
    return read_texts(kept, held), chain(kept, packets)


def _whole(packets: Iterable[Packet]) -> Iterator[Packet]:
    """The packets up to damage, of which whoever decodes them is told."""
    with suppress(BitstreamError):
        yield from packets


def _kept(packets: Iterable[Packet], held: HeldBytes) -> tuple[list[Packet], BitstreamError | None]:
    """All packets up to damage, and the damage."""
    kept = []
    try:
        for packet in packets:
            held.add(_PACKET_BYTES + len(packet.payload))
            kept.append(packet)
    except LimitError:
        raise
    except BitstreamError as error:
        return kept, error
    return kept, None


def _and_damage(things: Iterable[_T], damage: BitstreamError | None) -> Iterator[_T]:
    """The same, with the damage behind it raised."""
    yield from things
    if damage is not None:
        raise damage


def _survey(packets: Iterable[Packet], held: HeldBytes) -> tuple[list[AudioChunk], int]:
    """The sound of all packets, and the number of their frames."""
    sound, frames = [], 0
    for packet in packets:
        if packet.type == PacketType.AUDIO:
            chunk = unpack_audio(packet.payload)
            held.add(_PACKET_BYTES + len(packet.payload) + _OPUS_BYTES * len(chunk.packets))
            sound.append(chunk)
        frames += packet.frames
    return sound, frames
